"""Markers for a Triton kernel: what lanescope.h is for CUDA C++ (kernels/trace/lanescope.h says what the words mean).

    import lanescope_triton as lanescope

    lanescope.row_tile(batch, head, tl.program_id(0))       # which queries the program computes
    lanescope.phase("softmax")                              # this stage begins here
    s = lanescope.inject("s", tile, row, col, s)            # here it may come from the reference
    lanescope.trace("s", tile, row, col, s)                 # these values are S[row][col] of that tile

row and col are numbers or tensors that broadcast to the values' shape, e.g. tl.arange(0, BR)[:, None]; of m_prev, m,
alpha and l col is 0. Values are float32, or float16 or bfloat16. A marker is a PTX comment, which ptxas never sees.
"""

import json
import pathlib

import triton
import triton.language as tl


def leave(kernel, ptx, grid, arguments, **description):
    """Leaves a compiled kernel as the file `ptx`, and beside it what Triton says of it and how it is launched, which make
    it a KERNEL of the lab. `kernel`: what kernel[grid](...) or triton.compile returns. `grid`, `arguments`, `description`:
    the members of a launch description (README.md, "As PTX"), but that arguments stand by the names of the parameters;
    those that are constexpr, or were 1, the compiled kernel takes no more."""
    launch = _leave_code(kernel, pathlib.Path(ptx), grid, arguments)
    _describe(ptx, {**launch, **description})


def leave_launches(launches, ptx, **description):
    """The same of several kernels that are launched one after the other, as splits of the keys and what merges them: of
    each (kernel, grid, arguments). The second one's PTX is left as NAME.1.ptx beside `ptx`, and so on."""
    files = [pathlib.Path(ptx).with_suffix(f".{i}.ptx" if i else ".ptx") for i in range(len(launches))]
    members = [{"ptx": file.name, **_leave_code(kernel, file, grid, arguments)}
               for (kernel, grid, arguments), file in zip(launches, files)]
    _describe(ptx, {"launches": members, **description})


def _leave_code(kernel, path, grid, arguments):
    taken = [name for name, kind in kernel.src.signature.items() if kind != "constexpr"]
    missing = [name for name in taken if name not in arguments]
    if missing:
        raise ValueError(f"no argument for {', '.join(missing)}: the kernel takes {', '.join(taken)}")
    path.write_text(kernel.asm["ptx"])
    path.with_suffix(".json").write_text(json.dumps(kernel.metadata._asdict(), default=str))
    return {"grid": grid, "arguments": [arguments[name] for name in taken]}


def _describe(ptx, description):
    pathlib.Path(ptx).with_suffix(".launch.json").write_text(json.dumps(description, indent=1))


@triton.jit
def row_tile(batch, head, index):
    tl.inline_asm_elementwise("// lanescope row_tile $1, $2, $3", "=r,r,r,r", [batch, head, index], tl.int32, False, 1)


@triton.jit
def phase(stage: tl.constexpr):
    tl.inline_asm_elementwise("// lanescope phase " + stage, "=r,r", [0], tl.int32, False, 1)


@triton.jit
def trace(site: tl.constexpr, tile, row, col, value):
    if value.dtype == tl.float32:
        tl.inline_asm_elementwise("// lanescope trace " + site + " f32 $1, $2, $3, $4", "=r,r,r,r,f",
                                  [tile, row, col, value], tl.int32, False, 1)
    else:
        tl.inline_asm_elementwise("// lanescope trace " + site + " b16 $1, $2, $3, $4", "=r,r,r,r,h",
                                  [tile, row, col, value], tl.int32, False, 1)


@triton.jit
def inject(site: tl.constexpr, tile, row, col, value):
    if value.dtype == tl.float32:
        return tl.inline_asm_elementwise("mov.b32 $0, $4;\n// lanescope inject " + site + " f32 $1, $2, $3, $0",
                                         "=f,r,r,r,f", [tile, row, col, value], tl.float32, False, 1)
    else:
        return tl.inline_asm_elementwise("mov.b16 $0, $4;\n// lanescope inject " + site + " b16 $1, $2, $3, $0",
                                         "=h,r,r,r,h", [tile, row, col, value], value.dtype, False, 1)
