"""Makes e4m3.safetensors, which tests/e4m3_test.cc reads, with the real packages:

    pip install numpy safetensors ml_dtypes
    python tests/data/make_e4m3_table.py

values [256]: what each code stands for, as F32. x: numbers in F32, rounded: their F8_E4M3 after a clip
to ±448, which makes the conversion saturate. Among x are all numbers of the type, the middles between
neighbours, and what lies next to both in F32.
"""

import pathlib

import ml_dtypes
import numpy
from safetensors.numpy import save_file

codes = numpy.arange(256, dtype=numpy.uint8)
values = codes.view(ml_dtypes.float8_e4m3fn).astype(numpy.float32)

magnitudes = numpy.sort(values[:127])  # 0 to 448
middles = ((magnitudes[:-1].astype(numpy.float64) + magnitudes[1:]) / 2).astype(numpy.float32)
near = numpy.concatenate([magnitudes, middles])
infinity = numpy.float32(numpy.inf)
random = numpy.random.default_rng(0).normal(size=512).astype(numpy.float32) * 100
x = numpy.concatenate([
    near, numpy.nextafter(near, infinity), numpy.nextafter(near, -infinity), random,
    numpy.float32([449, 463.9, 464, 465, 1e9, 3e38, infinity, 1e-45, 1e-9]),
])
x = numpy.concatenate([x, -x, numpy.float32([numpy.nan])])
rounded = numpy.clip(x, -448, 448).astype(ml_dtypes.float8_e4m3fn)

folder = pathlib.Path(__file__).parent
save_file({"values": values, "x": x, "rounded": rounded}, folder / "e4m3.safetensors")
