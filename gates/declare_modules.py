#!/usr/bin/env python3
"""declare_modules.py CHOICES KERNELS GATES BACKENDS TRACE SPECIMENS [NAME=TEMPLATE=FILE | FILE.json ...]: the
kernels and the modules of a build, for gates/meson.build.

CHOICES is kernel_choices of kernels/meson.build; KERNELS, GATES and BACKENDS, each with commas, and TRACE are
what the build has of them; SPECIMENS is the file tests/specimens/list.txt; then come the kernels outside the
tree. A row per kernel goes to stdout, behind an empty line a row per module, behind another a row per
specimen; their fields, separated by tabs, are those of the classes below.
"""

import dataclasses
import itertools
import json
import pathlib
import re
import sys

TRACE = {"off": 0, "on": 1, "printf": 2}
MEMORY_CAUSES = ("race", "wrong_phase", "missing_wait", "written_twice", "out_of_bounds", "uninitialised_read",
                 "missing_proxy_fence", "operand_overwritten", "register_in_flight", "missing_register_fence",
                 "layout_disagrees", "wrong_expect_tx", "unfenced_barrier", "barrier_overwritten", "unfinished_copy",
                 "double_arrival")


@dataclasses.dataclass
class Kernel:
    name: str
    template: str
    file: str
    patch: str  # "-": none
    arch: str  # of its cuda modules; "-": that of all
    flags: str  # what else they are compiled with, separated by blanks; "-": nothing


@dataclasses.dataclass
class Module:
    name: str
    kernel: str
    backend: str
    variant: str  # traced, untraced, checked
    kind: str  # kernel, specimen
    suite: str  # tested: the test suite needs it; else untested
    defines: str  # separated by blanks


@dataclasses.dataclass
class Specimen:
    kernel: str  # KERNEL+NAME
    command: str  # that finds it, diff or check; "-": it is no bug
    options: str  # with which it shows


def shape_options(options):
    """What list.txt has as "s=64,d=64,causal,small" as the program takes it."""
    inputs = [part.split("=")[1] for part in options.split(",") if part.startswith("input=")]
    parts = options.split(",")
    shape = ",".join(part for part in parts if "=" in part and part.split("=")[0] in ("b", "h", "hkv", "s", "skv", "d"))
    return f"--shape {shape}" + (" --causal" if "causal" in parts else "") + "".join(f" --input {kind}" for kind in inputs)


def is_list_of(values, holds):
    return isinstance(values, list) and len(values) > 0 and all(holds(value) for value in values)


def is_size(value):
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def is_word(value):
    """What passes through Meson, ninja and a shell as it is."""
    return isinstance(value, str) and re.fullmatch(r"[-\w./=+:,@%]+", value) is not None


# What the file of a kernel outside the tree may say: whether a value is right, and what it should be.
MEMBERS = {
    "name": (lambda x: is_word(x) and re.fullmatch(r"\w+", x), "a name of letters, digits and _"),
    "template": (lambda x: is_word(x) and re.fullmatch(r"[\w:]+", x), "the name of a class template"),
    "file": (is_word, "the path of a header, without blanks"),
    "dtypes": (lambda x: is_list_of(x, lambda y: y in ("f16", "bf16", "e4m3")), 'some of "f16", "bf16", "e4m3"'),
    "head_dims": (lambda x: is_list_of(x, is_size), "numbers"),
    "tiles": (lambda x: is_list_of(x, lambda y: is_list_of(y, is_size) and len(y) in (2, 3)), "pairs of numbers, [[64, 32]]"),
    "combines": (lambda x: isinstance(x, bool), "true or false"),
    "gpu_arch": (lambda x: is_word(x) and x.startswith("sm_"), '"sm_90a" or the like'),
    "include": (lambda x: is_list_of(x, is_word), "paths of folders, without blanks"),
    "flags": (lambda x: is_list_of(x, is_word), "flags of the compiler, without blanks"),
}


def described(path, usual):
    """The kernel that the JSON file at `path` describes; what it does not say is `usual`."""
    def fail(words):
        sys.exit(f"extra_kernels: {path}: {words}")
    try:
        said = json.loads(pathlib.Path(path).read_text())
    except (OSError, ValueError) as error:
        fail(error)
    if not isinstance(said, dict):
        fail("it holds no object")
    for member, value in said.items():
        if member not in MEMBERS:
            fail(f'there is no member "{member}"; members: {", ".join(MEMBERS)}')
        holds, should_be = MEMBERS[member]
        if not holds(value):
            fail(f'"{member}" is {json.dumps(value)}, not {should_be}')
    for member in ("name", "template", "file"):
        if member not in said:
            fail(f'"{member}" is missing: {MEMBERS[member][1]}')
    folder = pathlib.Path(path).resolve().parent
    flags = [f"-I{folder / name}" for name in said.pop("include", [])] + said.pop("flags", [])
    return said.pop("name"), {**usual, **said, "file": str(folder / said["file"]), "flags": flags}


def kernels_of(choices, names, extras, specimens):
    """Name, and what its modules are built for."""
    kernels = {name: {"patch": "-", "file": f"kernels/{name}.h", **choices[name]} for name in names}
    for extra in extras:
        if extra.endswith(".json"):
            name, choice = described(extra, choices["mma"])
        elif extra.count("=") == 2:
            name, template, file = extra.split("=")
            choice = {**choices["mma"], "template": template, "file": file}
        else:
            sys.exit(f'extra_kernels: "{extra}" is neither NAME=TEMPLATE=/path/to/kernel.h nor a file .json')
        if name in kernels:
            sys.exit(f'extra_kernels: "{extra}": there is a kernel {name} already')
        if not pathlib.Path(choice["file"]).is_file():
            sys.exit(f'extra_kernels: "{extra}": there is no file {choice["file"]}')
        kernels[name] = {"patch": "-", **choice}
    for line in specimens.splitlines():
        if line.startswith("#") or not line.strip():
            continue
        specimen, name, stage, _, cause, options = line.split()
        if name not in names:
            continue
        kernels[f"{name}+{specimen}"] = {
            **kernels[name],
            "dtypes": [dtype := "e4m3" if ",dtype=e4m3" in options else "f16"],
            "tiles": tiles_of(kernels[name], dtype)[:1],
            "tiles_of": {},
            "patch": f"tests/specimens/{specimen}.patch",
            "seen_by_diff": cause not in MEMORY_CAUSES,
            "shown": Specimen(f"{name}+{specimen}", "-" if stage == "clean" else "check" if cause in MEMORY_CAUSES else "diff",
                              shape_options(options)),
        }
    return kernels


def tiles_of(choice, dtype):
    """The tiles of one type: its own, where it has some, else those of all."""
    return choice.get("tiles_of", {}).get(dtype, choice["tiles"])


def is_tested(choice, gate, dtype, d, tile, backend, variant):
    """Whether a test runs it: every tile at d = 64, and what is chosen where no tile is named; of bugs `fused` as
    locate and check run it, and the gates that diff is asked for."""
    first = next(one for one in tiles_of(choice, dtype) if one[2:] in ([], [d])) == tile
    if backend != "sim" or d > 128:
        return False
    if choice["patch"] != "-":
        return d == 64 and (gate == "fused" or variant == "traced" and choice["seen_by_diff"])
    return {"traced": d == 64 or first,
            "untraced": d == 64 and dtype == "f16" and first,
            "checked": d == 64 and first}[variant]


def modules_of(kernel, choice, gates, backends, trace):
    is_specimen = choice["patch"] != "-"
    tiles = [(dtype, tile) for dtype in choice["dtypes"] for tile in tiles_of(choice, dtype)]
    for (dtype, tile), d, gate, backend, variant in itertools.product(
            tiles, choice["head_dims"], gates, backends, ("traced", "untraced", "checked")):
        br, bc, only_d = (*tile, d)[:3]
        if (only_d != d or (gate == "combine_only" and not choice.get("combines"))
                or (variant == "untraced" and is_specimen) or (variant == "checked" and backend != "sim")):
            continue
        name = f"{kernel}.{gate}.{dtype}.d{d}.{br}x{bc}.{backend}"
        defines = {
            "GATE": gate, "TYPE": dtype, "D": d, "BR": br, "BC": bc, "BACKEND": backend,
            "COMPILE_FLAGS": f"LANESCOPE_{backend.upper()}_FLAGS",
            "CHECKED": int(variant == "checked"),
            "TRACE": TRACE[trace if variant == "traced" else "off"],
        }
        yield Module(
            name=name if variant == "traced" else f"{name}.{variant}",
            kernel=kernel, backend=backend, variant=variant,
            kind="specimen" if is_specimen else "kernel",
            suite="tested" if is_tested(choice, gate, dtype, d, tile, backend, variant) else "untested",
            defines=" ".join(f"-DLANESCOPE_{key}={value}" for key, value in defines.items()))


def main():
    choices, kernels, gates, backends, trace, specimens, *extras = sys.argv[1:]
    choices = json.loads(choices.replace("'", '"'))  # Meson writes a dictionary as JSON, but for the quotes
    kernels = kernels_of(choices, kernels.split(","), extras, pathlib.Path(specimens).read_text())
    rows = [Kernel(name, choice["template"], choice["file"], choice["patch"], choice.get("gpu_arch", "-"),
                   " ".join(choice.get("flags", [])) or "-") for name, choice in kernels.items()]
    gates, backends = ([name for name in names.split(",") if name] for names in (gates, backends))
    modules = [module for name, choice in kernels.items()
               for module in modules_of(name, choice, gates, backends, trace)]
    specimens = [choice["shown"] for choice in kernels.values() if "shown" in choice]
    for group in (rows, modules, specimens):
        print(*("\t".join(vars(row).values()) for row in group), sep="\n", end="\n\n")


if __name__ == "__main__":
    main()
