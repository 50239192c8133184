#!/usr/bin/env python3
"""machine_code_test.py ROOT BUILD NVCC NINJA: the machine code of every cuda module without tracing is the
code of the same kernel without anything to trace.

Those of a kernel and gate are compiled to one cubin, as a module each takes six times as long: from ROOT, and
from a copy of ROOT for the gate, in which a `seam(...)` statement keeps the sites that the gate takes or leaves
and what completes them, where it keeps none it is gone; and a seam does not trace. The sections that the GPU
runs are compared byte by byte. Of one module of BUILD the code must be that of its cubin; and that with tracing
on must differ, else the comparison could not fail.
"""

import collections
import concurrent.futures
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile

SEAM = re.compile(r"^ *(?:if \(tile == 0\) )?seam\((?P<tile>\w+)(?P<sites>(?:,\s*site::\w+\([^()]*\))+)"
                  r"(?:,\s*\[&?\] \{(?P<complete>.*?)\n *\})?\);\n", re.MULTILINE | re.DOTALL)
SITE = re.compile(r",\s*(site::(\w+)\([^()]*\))")
KEPT = {  # by a gate: what it takes, and what it leaves (reference/gate.h)
    "qk_only": {"s"}, "softmax_only": {"s", "m", "alpha", "p", "l"}, "pv_only": {"p", "alpha", "o"},
    "fused": set(), "combine_only": {"o_partial", "m_partial", "l_partial"},
}
SCALED = {"e4m3"}  # types whose kernels take arguments of their own
TRACE = "    trace(tile, at);\n"  # in kernels/trace/seam.h
MODULE = re.compile(r"^gates/((\w+)\.(\w+)\.(\w+)\.d(\d+)\.(\d+)x(\d+)\.cuda)\.untraced\.so:", re.MULTILINE)
# In the command of a module: of which its machine code is.
ARCH = re.compile(r" '?-(?:arch=|gencode=arch=\w+,code=\[?)(sm_\w+)\S* .* -o gates/(\S+)\.untraced\.so ")
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


def compile_code(root, nvcc, flags, folder, modules, trace=0):
    """The code sections of modules of one kernel and gate, by name. One source, whose own module is the first,
    instantiates the others' kernels as well: headers would take more than half of the time."""
    name, kernel, gate, dtype, d, br, bc = modules[0]
    template = kernel.title().replace("_", "")
    source = folder / f"{name}.cu"
    launches = "".join(f"  launch_passes<kernels::{template}<gate, device::{', '.join(m[3:])}>>(run, {{}}, stream);\n"
                       for m in modules)
    source.write_text('#include "gates/module/module_cuda.cu"\nvoid lanescope_launch_all(const lanescope::ModuleRun& run, '
                      "cudaStream_t stream) {\n  using namespace lanescope;\n"
                      + launches + "}\n")
    cubin = folder / f"{name}.{trace}.cubin"
    subprocess.run(
        [nvcc, "-std=c++20", *flags, "--expt-relaxed-constexpr", "-cubin", f"-I{root}",
         f'-DLANESCOPE_KERNEL_FILE="kernels/{kernel}.h"', '-DLANESCOPE_SOURCE_HASH_FILE="source_hash.h"',
         f"-DLANESCOPE_KERNEL={kernel}", f"-DLANESCOPE_TEMPLATE={template}", f"-DLANESCOPE_GATE={gate}",
         f"-DLANESCOPE_TYPE={dtype}", f"-DLANESCOPE_D={d}", f"-DLANESCOPE_BR={br}", f"-DLANESCOPE_BC={bc}",
         "-DLANESCOPE_BACKEND=cuda", '-DLANESCOPE_COMPILE_FLAGS=""', "-DLANESCOPE_CHECKED=0", f"-DLANESCOPE_TRACE={trace}",
         "-o", str(cubin), str(source)], check=True)
    return code_sections(cubin.read_bytes())


def own_sections(sections, module):
    """Those of the kernels of one module, by the template arguments in their names; it has some."""
    dtype, d, br, bc = module[3:]
    own = {name: code for name, code in sections.items() if f"{len(dtype)}{dtype}ELi{d}ELi{br}ELi{bc}E" in name}
    assert own, f"{module[0]}: no machine code"
    return own


def without_traces(root, copy, gate):
    """A copy of the sources with the seams that `gate` needs."""
    for part in ["debug", "gates", "kernels", "reference"]:
        shutil.copytree(root / part, copy / part)
    seam = copy / "kernels" / "trace" / "seam.h"
    text = seam.read_text()
    assert text.count(TRACE) == 1, f"{seam}: no trace call"
    seam.write_text(text.replace(TRACE, ""))

    def bare(match):
        kept = "".join(", " + words for words, site in SITE.findall(match["sites"]) if site in KEPT[gate])
        complete = (match["complete"] or "") + "\n"
        return f"seam({match['tile']}{kept}, [&] {{{complete}}});\n" if kept else complete

    for path in [*(copy / "kernels").glob("*.h"), *(copy / "kernels" / "parts").glob("*.h")]:
        text = path.read_text()
        seams = len(re.findall(r"\bseam\(\w+,", text))
        text, count = SEAM.subn(bare, text)
        assert count == seams, f"{path}: a seam is not a statement of its own"
        path.write_text(text)
    return copy


def main():
    root, build, nvcc, ninja = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]), *sys.argv[3:]
    targets = subprocess.run([ninja, "-C", build, "-t", "targets", "all"], check=True, stdout=subprocess.PIPE, text=True)
    modules = [match.groups() for match in MODULE.finditer(targets.stdout)]
    assert modules, "no cuda module is declared"
    commands = subprocess.run([ninja, "-C", build, "-t", "commands", *(f"gates/{m[0]}.untraced.so" for m in modules)],
                              check=True, stdout=subprocess.PIPE, text=True).stdout
    arch_of = {name: arch for arch, name in ARCH.findall(commands)}
    control = f"gates/{modules[0][0]}.untraced.so"
    subprocess.run([ninja, "-C", build, control], check=True, stdout=subprocess.DEVNULL)
    flags = re.search(r'"nvcc \S+ (.*)"', (build / "gates" / "compile_flags.h").read_text())[1].split()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "source_hash.h").write_text('#define LANESCOPE_SOURCE_HASH ""\n')
        (folder / "compile_flags.h").write_text("")
        bare = {gate: without_traces(root, folder / gate, gate) for gate in {gate for _, _, gate, *_ in modules}}

        def code(sources, modules, **more):
            place = folder / sources.name / "cubins"
            place.mkdir(exist_ok=True, parents=True)
            return compile_code(sources, nvcc, [*flags, f"-arch={arch_of[modules[0][0]]}", f"-I{folder}", f"-I{build / 'gates'}"], place, modules, **more)

        def compare(modules):
            """The code with seams, and the modules whose code is another without."""
            off, bare_code = code(root, modules), code(bare[modules[0][2]], modules)
            own, bare_own = ({m: own_sections(sections, m) for m in modules} for sections in (off, bare_code))
            wrong = [m for m in modules if own[m] != bare_own[m]]
            return off, wrong if wrong or off == bare_code else modules  # what they share

        groups = collections.defaultdict(list)
        for module in modules:
            groups[(*module[1:3], module[3] in SCALED)].append(module)
        with concurrent.futures.ThreadPoolExecutor() as pool:
            compared = list(pool.map(compare, groups.values()))
        wrong = [module for _, some in compared for module in some]
        first = own_sections(compared[0][0], modules[0])
        assert first == code_of_module(build / control), f"{control}: the code of its cubin is another"
        assert first != code(root, modules[:1], trace=1), "tracing on gives the same machine code as off"
    for module in wrong:
        print("machine code differs:", module[0])
    print(f"{len(modules) - len(wrong)} of {len(modules)} modules: tracing off is no code at all")
    return 1 if wrong else 0


sys.exit(main())
