#!/usr/bin/env python3
"""machine_code_test.py ROOT NVCC ARCH [KERNEL GATE ...]: the machine code of cuda modules with
tracing off is the code of the same kernels with their trace calls deleted.

Every kernel in every gate is compiled twice to a cubin, from ROOT and from a copy whose
`trace(...)` statements are gone, and the sections that the GPU runs are compared byte by byte.
A third build, with tracing on, must differ: else the comparison could not fail.
"""

import concurrent.futures
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile

TRACE_CALL = re.compile(r"^[^\n/]*\btrace\(site::[^;]*\);[^\n]*\n", re.MULTILINE)
KERNELS = {"scalar": ("Scalar", ["f16", "bf16"], [4, 64, 128], [(64, 64), (32, 32)]),
           "mma": ("Mma", ["f16", "bf16"], [64, 128], [(64, 64), (64, 32), (128, 64), (128, 128, 64)]),
           "wmma": ("Wmma", ["f16", "bf16"], [64, 128], [(32, 32)]),
           "wmma_registers": ("WmmaRegisters", ["f16", "bf16", "e4m3"], [64, 128], [(32, 32)]),
           "splitk": ("Splitk", ["f16", "bf16"], [64, 128], [(16, 32), (64, 64)])}
GATES = ["qk_only", "softmax_only", "pv_only", "fused"]
COMBINE = {"splitk": ["combine_only"]}  # gates of kernels in two passes


def code_sections(cubin):
    """The .text sections of an ELF file, by name (System V ABI, chapter 4)."""
    data = cubin.read_bytes()
    offset, = struct.unpack_from("<Q", data, 40)
    size, count, names = struct.unpack_from("<HHH", data, 58)
    headers = [struct.unpack_from("<IIQQQQ", data, offset + i * size) for i in range(count)]
    strings = headers[names][4]
    sections = {}
    for name, _, _, _, start, length in headers:
        end = data.index(b"\0", strings + name)
        text = data[strings + name:end].decode()
        if text.startswith(".text"):
            sections[text] = data[start:start + length]
    return sections


def compile_cubin(root, nvcc, arch, folder, kernel, gate, dtype, d, tile, trace):
    template = KERNELS[kernel][0]
    cubin = folder / f"{kernel}.{gate}.{dtype}.d{d}.{tile[0]}x{tile[1]}.{trace}.cubin"
    subprocess.run(
        [nvcc, "-std=c++20", "-O3", "-fmad=false", f"-arch={arch}", "--expt-relaxed-constexpr", "-cubin",
         f"-I{root}", f"-I{folder}", f'-DLANESCOPE_KERNEL_FILE="kernels/{kernel}.h"',
         '-DLANESCOPE_SOURCE_HASH_FILE="source_hash.h"', f"-DLANESCOPE_KERNEL={kernel}",
         f"-DLANESCOPE_TEMPLATE={template}", f"-DLANESCOPE_GATE={gate}", f"-DLANESCOPE_TYPE={dtype}",
         f"-DLANESCOPE_D={d}", f"-DLANESCOPE_BR={tile[0]}", f"-DLANESCOPE_BC={tile[1]}",
         "-DLANESCOPE_BACKEND=cuda", '-DLANESCOPE_COMPILE_FLAGS=""', "-DLANESCOPE_CHECKED=0", f"-DLANESCOPE_TRACE={trace}",
         "-o", str(cubin), str(root / "gates" / "module_cuda.cu")], check=True)
    return code_sections(cubin)


def without_traces(root, folder):
    """A copy of the sources whose kernels have no trace call left."""
    copy = folder / "without_traces"
    for part in ["kernels", "gates", "debug"]:
        shutil.copytree(root / part, copy / part)
    deleted = 0
    for kernel in KERNELS:
        path = copy / "kernels" / f"{kernel}.h"
        text, count = TRACE_CALL.subn("", path.read_text())
        assert "trace(site::" not in text, f"{path}: a trace call is not a statement of its own line"
        path.write_text(text)
        deleted += count
    assert deleted > 0, "no trace call found"
    return copy


def main():
    root, nvcc, arch = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2], sys.argv[3]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "source_hash.h").write_text('#define LANESCOPE_SOURCE_HASH ""\n')
        (folder / "compile_flags.h").write_text("")
        bare = without_traces(root, folder)
        bare_folder = folder / "bare"
        bare_folder.mkdir()
        for header in ["source_hash.h", "compile_flags.h"]:
            shutil.copy(folder / header, bare_folder)
        modules = [(kernel, gate, dtype, d, tile) for kernel, (_, dtypes, dims, tiles) in KERNELS.items()
                   for gate in GATES + COMBINE.get(kernel, []) for dtype in dtypes for d in dims for tile in tiles
                   if d in (tile[2:] or dims)]

        def differs(module):
            off = compile_cubin(root, nvcc, arch, folder, *module, 0)
            deleted = compile_cubin(bare, nvcc, arch, bare_folder, *module, 0)
            assert off, f"{module}: no machine code"
            return off != deleted

        with concurrent.futures.ThreadPoolExecutor() as pool:
            wrong = [m for m, d in zip(modules, pool.map(differs, modules)) if d]
        control = modules[0]
        traced = compile_cubin(root, nvcc, arch, folder, *control, 1)
        off = compile_cubin(root, nvcc, arch, folder, *control, 0)
        assert traced != off, "tracing on gives the same machine code as off"
    for module in wrong:
        print("machine code differs:", *module)
    print(f"{len(modules) - len(wrong)} of {len(modules)} modules: tracing off is no code at all")
    return 1 if wrong else 0


sys.exit(main())
