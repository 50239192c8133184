"""marked_triton.py FOLDER ARCH: a fused attention kernel in Triton with markers at its values, compiled to
FOLDER/attention.ptx for GPUs of that architecture (80: sm_80), with what Triton says of it and how it is launched
beside it. No GPU is needed."""

import pathlib
import sys

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "kernels" / "trace"))
import lanescope_triton as lanescope

TILE = {"BR": 16, "BC": 16, "D": 64}  # queries, keys, head dimension


@triton.jit
def attention(q, k, v, o, lse, len_q, len_kv, heads, group, scale, BR: tl.constexpr, BC: tl.constexpr, D: tl.constexpr):
    head = tl.program_id(1)
    lanescope.row_tile(head // heads, head % heads, tl.program_id(0))
    row, col, d = tl.arange(0, BR), tl.arange(0, BC), tl.arange(0, D)
    query = tl.program_id(0) * BR + row
    at = (head * len_q + query)[:, None] * D + d[None, :]
    q_tile = tl.load(q + at, mask=query[:, None] < len_q, other=0.0)
    m = tl.full([BR], float("-inf"), tl.float32)
    l = tl.zeros([BR], tl.float32)
    acc = tl.zeros([BR, D], tl.float32)
    for tile in range(0, tl.cdiv(len_kv, BC)):
        lanescope.phase("load")
        key = tile * BC + col
        from_key = (head // group * len_kv + key)[:, None] * D + d[None, :]
        k_tile = tl.load(k + from_key, mask=key[:, None] < len_kv, other=0.0)
        v_tile = tl.load(v + from_key, mask=key[:, None] < len_kv, other=0.0)
        lanescope.phase("qk")
        s = tl.dot(q_tile, tl.trans(k_tile)) * (scale * 1.44269504)
        s = tl.where(key[None, :] < len_kv, s, float("-inf"))
        s = lanescope.inject("s", tile, row[:, None], col[None, :], s)
        lanescope.trace("s", tile, row[:, None], col[None, :], s)
        lanescope.phase("softmax")
        m_new = tl.maximum(m, tl.max(s, 1))
        alpha = lanescope.inject("alpha", tile, row, 0, tl.exp2(m - m_new))
        p = tl.exp2(s - m_new[:, None])
        l = l * alpha + tl.sum(p, 1)
        m = m_new
        p_half = lanescope.inject("p", tile, row[:, None], col[None, :], p.to(tl.float16))
        lanescope.trace("m", tile, row, 0, m)
        lanescope.trace("alpha", tile, row, 0, alpha)
        lanescope.trace("p", tile, row[:, None], col[None, :], p_half)
        lanescope.trace("l", tile, row, 0, l)
        lanescope.phase("pv")
        acc = tl.dot(p_half, v_tile, acc * alpha[:, None])
        lanescope.trace("o", tile, row[:, None], d[None, :], acc)
    lanescope.phase("epilogue")
    tl.store(o + at, (acc / l[:, None]).to(tl.float16), mask=query[:, None] < len_q)
    tl.store(lse + head * len_q + query, (m + tl.log2(l)) * 0.693147181, mask=query < len_q)


def compile_to(folder, arch):
    types = {**dict.fromkeys(["q", "k", "v", "o"], "*fp16"), "lse": "*fp32",
             **dict.fromkeys(["len_q", "len_kv", "heads", "group"], "i32"), "scale": "fp32"}
    source = ASTSource(fn=attention, signature={**types, **dict.fromkeys(TILE, "constexpr")}, constexprs=TILE)
    kernel = triton.compile(source, target=GPUTarget("cuda", arch, 32), options={"num_warps": 1})
    words = {name: name for name in types}
    lanescope.leave(kernel, folder / "attention.ptx", [f"cdiv(len_q, {TILE['BR']})", "batch * heads"],
                    {**words, "group": "heads / heads_kv"}, br=TILE["BR"], bc=TILE["BC"], causal=False)


if __name__ == "__main__":
    compile_to(pathlib.Path(sys.argv[1]), int(sys.argv[2]))
