"""Writes wgmma.gen.h: one struct per N with the SS (A, B K-major) and RS (B MN-major) forms."""

import sys


def regs(n, first):
    return ", ".join(f"%{first + i}" for i in range(n))


out = ["#pragma once", "#include <cstdint>", "namespace sm90a {", "template <class T, int N> struct Wgmma;"]
for t, name in (("__half", "f16"), ("__nv_bfloat16", "bf16")):
    for n in sorted({64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240, 256}):
        c = n // 2
        d = "{" + regs(c, 0) + "}"
        outs = ", ".join(f'"+f"(d[{i}])' for i in range(c))
        op = f"wgmma.mma_async.sync.aligned.m64n{n}k16.f32.{name}.{name}"
        out.append(f"template <> struct Wgmma<{t}, {n}> {{")
        out.append(f"  /// d (+)= A·B, both from shared memory, K-major.")
        out.append(
            f"  static __device__ __forceinline__ void ss(float (&d)[{c}], uint64_t a, uint64_t b, int accumulate) {{"
        )
        out.append(
            f'    asm volatile("{{\\n.reg .pred p;\\nsetp.ne.b32 p, %{c + 2}, 0;\\n{op} {d}, %{c}, %{c + 1}, p, 1, 1, 0, 0;\\n}}\\n" : {outs} : "l"(a), "l"(b), "r"(accumulate));'
        )
        out.append("  }")
        if n in (64, 128, 256):
            out.append(f"  /// d += A·B, both from shared memory, A K-major, B MN-major.")
            out.append(
                f"  static __device__ __forceinline__ void ss_mn(float (&d)[{c}], uint64_t a, uint64_t b) {{"
            )
            out.append(
                f'    asm volatile("{op} {d}, %{c}, %{c+1}, 1, 1, 1, 0, 1;\\n" : {outs} : "l"(a), "l"(b));'
            )
            out.append("  }")
            out.append(f"  /// d += A·B, A from registers, B from shared memory, MN-major.")
            out.append(
                f"  static __device__ __forceinline__ void rs(float (&d)[{c}], const uint32_t* a, uint64_t b) {{"
            )
            out.append(
                f'    asm volatile("{op} {d}, {{%{c}, %{c+1}, %{c+2}, %{c+3}}}, %{c+4}, 1, 1, 1, 1;\\n" : {outs} : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));'
            )
            out.append("  }")
        out.append("};")
out.append("}")
open(sys.argv[1], "w").write("\n".join(out) + "\n")
