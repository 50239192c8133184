#!/usr/bin/env python3
"""machine_code_test.py ROOT BUILD NVCC NINJA [--compile]: the machine code of a cuda module without tracing is the code
of the same kernel without anything to trace: in one tile, head dimension and type, and in each type that is scaled: types
differ in their conversions alone, which no seam holds, the rest in how often loops go round. With --compile: that all
cuda modules compile, with tracing and without.

Those of a gate, of all kernels, are compiled to one PTX, of which ptxas makes machine code, function by function, and
as a module each takes ten times as long: from ROOT, and from a copy of ROOT for the gate, in which a `seam(...)` statement
keeps the sites that the gate takes or leaves and what completes them, where it keeps none it is gone; and a seam does
not trace. The functions are compared as text. Of one module of BUILD the PTX must be that of its function; and that
with tracing on must differ, else the comparison could not fail.
"""

import collections
import concurrent.futures
import os
import pathlib
import re
import shutil
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
TYPES = ["f16", "bf16", "e4m3"]
SCALED = {"e4m3"}  # types whose kernels take arguments of their own
TRACE = "    trace(tile, at);\n"  # in kernels/trace/seam.h
MODULE = re.compile(r"^gates/((\w+)\.(\w+)\.(\w+)\.d(\d+)\.(\d+)x(\d+)\.cuda)\.untraced\.so:", re.MULTILINE)
# In the command of a module: of which its machine code is.
ARCH = re.compile(r" '?-(?:arch=|gencode=arch=\w+,code=\[?)(sm_\w+)\S* .* -o gates/(\S+)\.untraced\.so ")


def functions(ptx):
    """The kernels of a PTX by their mangled names, without comments and what a module leaves out of white space. Labels
    are numbered by where their function stands."""
    lines = (" ".join(line.split("//")[0].split()) for line in re.sub(r"(\$L__BB|__local_depot)\d+", r"\1", ptx).splitlines())
    bare = "\n".join(filter(None, lines))
    parts = re.split(r"(?m)^(?=\.(?:visible|weak|entry|func|global|const|extern)\b)", bare)
    heads = [(re.match(r"[^(]*\.entry (\w+)", part), part) for part in parts]
    return {head[1]: part.strip() for head, part in heads if head}


def functions_of_module(module):
    """Those of the PTX that a module carries, which -no-compress leaves as it is."""
    data = module.read_bytes()
    begin = data.index(b".version ")
    return functions(data[begin:data.index(b"\0", begin)].decode())


def template_of(kernel):
    return kernel.title().replace("_", "")


def compile_code(root, nvcc, flags, folder, modules, trace=0):
    """The functions of modules of one gate, by name. One source, whose own module is the first, instantiates the
    others' kernels as well: headers would take more than half of the time."""
    name, kernel, gate, dtype, d, br, bc = modules[0]
    source = folder / f"{name}.{trace}.cu"
    headers = "".join(f'#include "kernels/{other}.h"\n' for other in sorted({m[1] for m in modules}))
    launches = "".join(f"  launch_passes<kernels::{template_of(m[1])}<gate, device::{', '.join(m[3:])}>>(run, {{}}, stream);\n"
                       for m in modules)
    source.write_text(headers + '#include "gates/module/module_cuda.cu"\nvoid lanescope_launch_all(const lanescope::ModuleRun& run, '
                      "cudaStream_t stream) {\n  using namespace lanescope;\n"
                      + launches + "}\n")
    ptx = folder / f"{name}.{trace}.ptx"
    subprocess.run(
        [nvcc, "-std=c++20", *flags, "--expt-relaxed-constexpr", "-ptx", f"-I{root}",
         f'-DLANESCOPE_KERNEL_FILE="kernels/{kernel}.h"', '-DLANESCOPE_SOURCE_HASH_FILE="source_hash.h"',
         f"-DLANESCOPE_KERNEL={kernel}", f"-DLANESCOPE_TEMPLATE={template_of(kernel)}", f"-DLANESCOPE_GATE={gate}",
         f"-DLANESCOPE_TYPE={dtype}", f"-DLANESCOPE_D={d}", f"-DLANESCOPE_BR={br}", f"-DLANESCOPE_BC={bc}",
         "-DLANESCOPE_BACKEND=cuda", '-DLANESCOPE_COMPILE_FLAGS=""', "-DLANESCOPE_CHECKED=0", f"-DLANESCOPE_TRACE={trace}",
         "-o", str(ptx), str(source)], check=True)
    return functions(ptx.read_text())


def own_functions(all_functions, module):
    """Those of one module, by the template arguments in their names; it has some."""
    template, dtype, d, br, bc = template_of(module[1]), *module[3:]
    mangled = re.compile(rf"{len(template)}{template}I\w*{len(dtype)}{dtype}ELi{d}ELi{br}ELi{bc}E")
    own = {name: code for name, code in all_functions.items() if mangled.search(name)}
    assert own, f"{module[0]}: no kernel"
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


def of_one_tile(modules):
    """Those of each kernel and gate in its first tile and type, and in each type that is scaled."""
    first = {}
    for module in sorted(modules, key=lambda m: TYPES.index(m[3])):
        first.setdefault((*module[1:3], module[3] in SCALED), module)
    return list(first.values())


def main():
    root, build, nvcc, ninja = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]), *sys.argv[3:5]
    targets = subprocess.run([ninja, "-C", build, "-t", "targets", "all"], check=True, stdout=subprocess.PIPE, text=True)
    modules = [match.groups() for match in MODULE.finditer(targets.stdout)]
    assert modules, "no cuda module is declared"
    compile_alone = sys.argv[5:] == ["--compile"]
    if not compile_alone:
        modules = of_one_tile(modules)
    commands = subprocess.run([ninja, "-C", build, "-t", "commands", *(f"gates/{m[0]}.untraced.so" for m in modules)],
                              check=True, stdout=subprocess.PIPE, text=True).stdout
    arch_of = {name: arch for arch, name in ARCH.findall(commands)}
    control = f"gates/{modules[0][0]}.untraced.so"
    # The launcher's ninja, where it runs this: it waits for other builds.
    subprocess.run([os.environ.get("LANESCOPE_NINJA", ninja), "-C", build, control], check=True, stdout=subprocess.DEVNULL)
    flags = re.search(r'"nvcc \S+ (.*)"', (build / "gates" / "compile_flags.h").read_text())[1].split()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "source_hash.h").write_text('#define LANESCOPE_SOURCE_HASH ""\n')
        (folder / "compile_flags.h").write_text("")
        bare = {gate: without_traces(root, folder / gate, gate) for gate in {gate for _, _, gate, *_ in modules}}

        def code(sources, modules, **more):
            place = folder / sources.name / "ptx"
            place.mkdir(exist_ok=True, parents=True)
            return compile_code(sources, nvcc, [*flags, f"-arch={arch_of[modules[0][0]]}", f"-I{folder}", f"-I{build / 'gates'}"],
                                place, modules, **more)

        def compare(modules):
            """The code with seams, and the modules whose code is another without."""
            off, bare_code = code(root, modules), code(bare[modules[0][2]], modules)
            return off, [m for m in modules if own_functions(off, m) != own_functions(bare_code, m)]

        groups = collections.defaultdict(list)
        for module in modules:
            groups[(module[2], module[3] in SCALED, arch_of[module[0]])].append(module)
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            if compile_alone:
                works = [pool.submit(code, root, some, trace=trace) for some in groups.values() for trace in (0, 1)]
                kernels = sum(len(work.result()) for work in works)
                print(f"{kernels} kernels of {len(modules)} modules compile, half of them with tracing")
                return 0
            compared = list(pool.map(compare, groups.values()))
        wrong = [module for _, some in compared for module in some]
        first = own_functions(compared[0][0], modules[0])
        assert first == functions_of_module(build / control), f"{control}: its PTX is another"
        assert first != code(root, modules[:1], trace=1), "tracing on gives the same code as off"
    for module in wrong:
        print("code differs:", module[0])
    print(f"{len(modules) - len(wrong)} of {len(modules)} modules: tracing off is no code at all")
    return 1 if wrong else 0


sys.exit(main())
