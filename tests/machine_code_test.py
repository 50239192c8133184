#!/usr/bin/env python3
"""machine_code_test.py ROOT BUILD NVCC NINJA: the machine code of every cuda module without tracing is the
code of the same kernel with its trace calls deleted.

The modules of BUILD that are not traced are brought up to date. Beside each a cubin is compiled from a copy
of ROOT whose `trace(...)` statements are gone, and the sections that the GPU runs are compared byte by byte.
A module with tracing on must differ: else the comparison could not fail.
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
MODULE = re.compile(r"^gates/((\w+)\.(\w+)\.(\w+)\.d(\d+)\.(\d+)x(\d+)\.cuda)\.untraced\.so:", re.MULTILINE)
EM_CUDA = 190


def code_sections(data):
    """The .text sections of an ELF file, by name (System V ABI, chapter 4)."""
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


def code_of_module(module):
    """Those of the device code that a module carries, which -no-compress leaves as it is."""
    data, at, sections = module.read_bytes(), 0, {}
    while (at := data.find(b"\x7fELF", at + 1)) > 0:
        if struct.unpack_from("<H", data, at + 18) == (EM_CUDA,):
            sections.update(code_sections(data[at:]))
    return sections


def compile_without_traces(root, nvcc, flags, folder, name, kernel, gate, dtype, d, br, bc):
    template = kernel.title().replace("_", "")
    cubin = folder / f"{name}.cubin"
    subprocess.run(
        [nvcc, "-std=c++20", *flags, "--expt-relaxed-constexpr", "-cubin", f"-I{root}", f"-I{folder}",
         f'-DLANESCOPE_KERNEL_FILE="kernels/{kernel}.h"', '-DLANESCOPE_SOURCE_HASH_FILE="source_hash.h"',
         f"-DLANESCOPE_KERNEL={kernel}", f"-DLANESCOPE_TEMPLATE={template}", f"-DLANESCOPE_GATE={gate}",
         f"-DLANESCOPE_TYPE={dtype}", f"-DLANESCOPE_D={d}", f"-DLANESCOPE_BR={br}", f"-DLANESCOPE_BC={bc}",
         "-DLANESCOPE_BACKEND=cuda", '-DLANESCOPE_COMPILE_FLAGS=""', "-DLANESCOPE_CHECKED=0", "-DLANESCOPE_TRACE=0",
         "-o", str(cubin), str(root / "gates" / "module_cuda.cu")], check=True)
    return code_sections(cubin.read_bytes())


def without_traces(root, folder, kernels):
    """A copy of the sources whose kernels have no trace call left."""
    copy = folder / "without_traces"
    for part in ["kernels", "gates", "debug"]:
        shutil.copytree(root / part, copy / part)
    deleted = 0
    for kernel in kernels:
        path = copy / "kernels" / f"{kernel}.h"
        text, count = TRACE_CALL.subn("", path.read_text())
        assert "trace(site::" not in text, f"{path}: a trace call is not a statement of its own line"
        path.write_text(text)
        deleted += count
    assert deleted > 0, "no trace call found"
    return copy


def main():
    root, build, nvcc, ninja = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]), *sys.argv[3:]
    targets = subprocess.run([ninja, "-C", build, "-t", "targets", "all"], check=True, stdout=subprocess.PIPE, text=True)
    modules = [match.groups() for match in MODULE.finditer(targets.stdout)]
    assert modules, "no cuda module is declared"
    kernels = {kernel for _, kernel, *_ in modules}
    control = modules[0][0]
    files = [f"gates/{name}.untraced.so" for name, *_ in modules]
    subprocess.run([ninja, "-C", build, *files, f"gates/{control}.so"], check=True, stdout=subprocess.DEVNULL)
    flags = re.search(r'"nvcc \S+ (.*)"', (build / "gates" / "compile_flags.h").read_text())[1].split()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "source_hash.h").write_text('#define LANESCOPE_SOURCE_HASH ""\n')
        (folder / "compile_flags.h").write_text("")
        bare = without_traces(root, folder, kernels)

        def differs(module):
            off = code_of_module(build / "gates" / f"{module[0]}.untraced.so")
            assert off, f"{module}: no machine code"
            return off != compile_without_traces(bare, nvcc, flags, folder, *module)

        with concurrent.futures.ThreadPoolExecutor() as pool:
            wrong = [m for m, d in zip(modules, pool.map(differs, modules)) if d]
        traced, off = (code_of_module(build / "gates" / f"{control}{variant}.so") for variant in ["", ".untraced"])
        assert traced != off, "tracing on gives the same machine code as off"
    for module in wrong:
        print("machine code differs:", module[0])
    print(f"{len(modules) - len(wrong)} of {len(modules)} modules: tracing off is no code at all")
    return 1 if wrong else 0


sys.exit(main())
