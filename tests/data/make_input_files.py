"""Makes the input files that tests/input_file_test.cc reads, with the real packages:

    pip install numpy safetensors ml_dtypes
    python tests/data/make_input_files.py

The values are integers over powers of two, the same on every machine, so that the test can say
which one it expects where: element i of a tensor in [batch, heads, length, d] order is
((i * 37 + seed * 11) % 251 - 125) / 16, with seed 1 for q, 2 for k, 3 for v.
"""

import pathlib

import ml_dtypes
import numpy
from safetensors.numpy import save_file

folder = pathlib.Path(__file__).parent
query_shape = (2, 4, 5, 8)  # batch, heads, length, d
key_shape = (2, 2, 7, 8)


def values(shape, seed):
    index = numpy.arange(numpy.prod(shape), dtype=numpy.int64)
    return (((index * 37 + seed * 11) % 251 - 125) / 16).reshape(shape)


def tensors(dtype):
    shapes = {"q": query_shape, "k": key_shape, "v": key_shape}
    return {
        name: numpy.ascontiguousarray(values(shape, seed).astype(dtype))
        for seed, (name, shape) in enumerate(shapes.items(), start=1)
    }


def length_first(named):
    return {
        name: numpy.ascontiguousarray(tensor.transpose(0, 2, 1, 3))
        for name, tensor in named.items()
    }


half = tensors(numpy.float16)
save_file(half, folder / "inputs_f16_bhsd.safetensors", metadata={"made_by": "numpy"})
save_file(length_first(half), folder / "inputs_f16_bshd.safetensors")
save_file(tensors(ml_dtypes.bfloat16), folder / "inputs_bf16_bhsd.safetensors")

single = tensors(numpy.float32)
single["q"].flat[:6] = [1.0002, 1e6, -1e6, numpy.nan, numpy.inf, 1e-9]
single["mask"] = numpy.ones((3,), dtype=bool)
save_file(single, folder / "inputs_f32_bhsd.safetensors")

save_file({**half, "q": half["q"].astype(numpy.float64)}, folder / "inputs_f64.safetensors")
