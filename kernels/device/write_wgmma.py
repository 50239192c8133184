#!/usr/bin/env python3
"""write_wgmma.py: the PTX of wgmma.mma_async with fp32 accumulation, m64nNk16 of 16-bit elements and m64nNk32
of e4m3, as C++ on stdout, for every N that is a multiple of 16 (PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions: wgmma.mma_async"). An
instruction names each of its N / 2 accumulators."""

HEADER = """#pragma once

// Written by kernels/device/write_wgmma.py.

#include <cstdint>

#include "kernels/device/portable.h"

namespace lanescope::device {
"""

FUNCTION = """
template <bool Bf16, int TransA, int TransB>
LANESCOPE_DEVICE void wgmma_ptx(float (&d)[{count}], {parameters}, std::uint64_t b, int accumulates) {{
  if constexpr (Bf16) {{
    {bf16}
  }} else {{
    {f16}
  }}
}}
LANESCOPE_DEVICE void wgmma_ptx_e4m3(float (&d)[{count}], {parameters}, std::uint64_t b, int accumulates) {{
  {e4m3}
}}
"""


def instruction(n, element, in_registers):
    count = n // 2
    accumulators = ", ".join(f"%{i}" for i in range(count))
    at = count
    if in_registers:
        a = "{" + ", ".join(f"%{at + i}" for i in range(4)) + "}"
        at += 4
    else:
        a = f"%{at}"
        at += 1
    b, predicate, rest = f"%{at}", f"%{at + 1}", [f"%{at + 2}", f"%{at + 3}"]
    if in_registers:
        rest = rest[:1]
    narrow = element == "e4m3"
    if narrow:
        rest = []
    text = (f'"{{\\n.reg .pred p;\\nsetp.ne.b32 p, {predicate}, 0;\\n"\n'
            f'"wgmma.mma_async.sync.aligned.m64n{n}k{32 if narrow else 16}.f32.{element}.{element} "\n'
            f'"{{{accumulators}}}, {a}, {b}, p, {", ".join(["1", "1", *rest])};\\n}}\\n"')
    outputs = ", ".join(f'"+f"(d[{i}])' for i in range(count))
    left = ", ".join(f'"r"(a[{i}])' for i in range(4)) if in_registers else '"l"(a)'
    transposed = '"n"(TransB)' if in_registers else '"n"(TransA), "n"(TransB)'
    inputs = ", ".join([left, '"l"(b)', '"r"(accumulates)', *([] if narrow else [transposed])])
    return f"asm volatile({text}\n: {outputs}\n: {inputs});"


def main():
    print(HEADER, end="")
    for n in range(16, 257, 16):
        for in_registers in (False, True):
            parameters = "const std::uint32_t (&a)[4]" if in_registers else "std::uint64_t a"
            print(FUNCTION.format(count=n // 2, parameters=parameters, bf16=instruction(n, "bf16", in_registers),
                                  f16=instruction(n, "f16", in_registers),
                                  e4m3=instruction(n, "e4m3", in_registers)), end="")
    print("\n}  // namespace lanescope::device")


if __name__ == "__main__":
    main()
