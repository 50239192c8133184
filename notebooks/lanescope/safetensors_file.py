"""Safetensors files, mapped into memory: 8 bytes with the length of a header, the header as JSON, the
data. What breaks the format is refused, as the program refuses it (debug/dump/safetensors_header.cc).
"""

import json
import os
import stat
import struct

import ml_dtypes
import numpy as np

BYTES = {"BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1, "U16": 2, "I16": 2, "F16": 2, "BF16": 2,
         "U32": 4, "I32": 4, "F32": 4, "U64": 8, "I64": 8, "F64": 8}
DTYPES = {"F32": np.dtype("<f4"), "F16": np.dtype("<f2"), "BF16": np.dtype(ml_dtypes.bfloat16),
          "F8_E4M3": np.dtype(ml_dtypes.float8_e4m3fn), "I16": np.dtype("<i2")}
MAX_HEADER, MAX_INTEGER = 100_000_000, 2**63 - 1


class FileError(ValueError):
    """What is wrong with a file, and where."""


def need(holds, what):
    if not holds:
        raise FileError(what)


def _object(pairs):
    """A JSON object of `pairs`; Python's own would keep the last of two values of a key."""
    made = {}
    for key, value in pairs:
        need(key not in made, f"its JSON has {ascii(key)[:80]} twice")
        made[key] = value
    return made


def _integer(text):
    return -0.0 if text == "-0" else int(text)  # which is no whole number from 0 on


def parse(text, where):
    """`text` as JSON, in which no key comes twice, no number is NaN and all text is Unicode."""
    def refuse(word):
        raise ValueError(f"{word} is no number of JSON")
    try:
        made = json.loads(text, object_pairs_hook=_object, parse_int=_integer, parse_constant=refuse)
        json.dumps(made, ensure_ascii=False).encode()
        return made
    except FileError:
        raise
    except (ValueError, RecursionError) as error:
        raise FileError(f"{where} is no valid JSON: {ascii(str(error))[1:100]}") from None


def integer(value, what, least=0, most=MAX_INTEGER):
    """`value`, a whole number of that range."""
    need(type(value) is int and least <= value <= most, f"{what} is {value!r}, no whole number from {least} to {most}")
    return value


def _entry(name, entry):
    """(dtype, shape, begin, end) of a tensor of the header."""
    need(type(entry) is dict and set(entry) == {"dtype", "shape", "data_offsets"},
         f"tensor {ascii(name)} does not have dtype, shape and data_offsets, and nothing else")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    need(type(dtype) is str, f"the dtype of tensor {ascii(name)} is no string")
    need(type(shape) is list and len(shape) <= 32, f"the shape of tensor {ascii(name)} is no list of at most 32 numbers")
    need(type(offsets) is list and len(offsets) == 2, f"the data_offsets of tensor {ascii(name)} are not two")
    for number in shape + offsets:
        integer(number, f"a number of tensor {ascii(name)}")
    return dtype, tuple(shape), *offsets


def _check_data(entries, size):
    """The tensors lie behind each other, and are all of the data."""
    for name, (dtype, shape, begin, end) in entries.items():
        need(begin <= end, f"tensor {ascii(name)} ends before it begins")
        need(end <= size, f"tensor {ascii(name)} ends at byte {end} of the data, but the file has only {size} bytes of data; it may be truncated")
        length = BYTES.get(dtype, 1)
        for side in shape:
            length *= side
            need(length <= MAX_INTEGER, f"tensor {ascii(name)} has a shape whose size overflows 64 bits")
        need(dtype not in BYTES or length == end - begin,
             f"tensor {ascii(name)} has {end - begin} bytes where its shape and dtype {ascii(dtype)} need {length}")
    last = 0
    for begin, end, name in sorted((begin, end, name) for name, (_, _, begin, end) in entries.items()):
        need(begin >= last, f"tensor {ascii(name)} overlaps another one")
        need(begin == last, f"a hole of {begin - last} bytes lies before tensor {ascii(name)}")
        last = end
    need(last == size, f"the last {size - last} bytes belong to no tensor")


def read_tensors(path):
    """The tensors of a safetensors file, mapped into memory, and its metadata."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            status = os.fstat(file.fileno())
            need(stat.S_ISREG(status.st_mode), "it is not a regular file")
            size = status.st_size - 8
            need(size >= 0, f"it is no safetensors file: it has only {status.st_size} bytes; it may be truncated")
            length, = struct.unpack("<Q", file.read(8))
            need(length <= min(size, MAX_HEADER), f"it is no safetensors file: its header would have {length} bytes, more than "
                 + ("the file; it may be truncated" if length > size else "the format allows"))
            text = file.read(length)
    except OSError as error:
        raise FileError(f"it cannot be read: {error.strerror}") from None
    need(text.startswith(b"{"), "it is no safetensors file: its header does not begin with '{'")
    try:
        header = parse(text.decode(), "its safetensors header")
    except UnicodeDecodeError:
        raise FileError("its safetensors header is no UTF-8") from None
    metadata = header.pop("__metadata__", {})
    need(type(metadata) is dict and all(type(value) is str for value in metadata.values()), "its __metadata__ is no object of strings")
    entries = {name: _entry(name, entry) for name, entry in header.items()}
    _check_data(entries, size - length)
    data = np.memmap(path, mode="r")[8 + length:]
    tensors = {}
    for name, (dtype, shape, begin, end) in entries.items():
        need(dtype in DTYPES, f"tensor {ascii(name)} has dtype {ascii(dtype)}, where {', '.join(DTYPES)} is needed")
        try:
            tensors[name] = data[begin:end].view(DTYPES[dtype]).reshape(shape)
        except ValueError:
            raise FileError(f"tensor {ascii(name)} has a shape that no array has") from None
    return tensors, metadata
