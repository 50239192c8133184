#!/usr/bin/env python3
"""bench.py FOLDER: checks what build.sh left in FOLDER against attention in float64, then times the rows of rows.py beside
cuDNN and, where FOLDER/fa3 holds its libraries, FlashAttention-3: CUDA graphs of about 3 ms, contenders in an order that
is shuffled each round, two warm replays to one timed, medians. Exit code 1 where a result is wrong."""

import ctypes
import math
import os
import random
import statistics
import sys
import time

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend as B, sdpa_kernel

from rows import ROWS

folder = os.path.abspath(sys.argv[1])
torch.backends.cuda.matmul.allow_tf32 = False
torch.zeros(1, device="cuda")
host = ctypes.CDLL(f"{folder}/liblaunch.so")
P = ctypes.c_void_p
sms = torch.cuda.get_device_properties(0).multi_processor_count
clocks = torch.zeros(2, device="cuda", dtype=torch.int64)
configs = {}
GHZ = {}


def config(name):
    if name not in configs:
        c = (ctypes.c_int * 12)()
        h = host.load(f"{folder}/{name}.cubin".encode(), c)
        if h < 0:
            raise RuntimeError("load " + name)
        configs[name] = (h, list(c), torch.zeros(1, device="cuda", dtype=torch.int32))
    return configs[name]


def ours(name, q, k, v, o, lse, section=0, pair=0, sm=None):
    h, c, counter = config(name)
    b, hq, sq, d = q.shape
    hk, sk = k.shape[1:3]
    assert d == c[0], (name, d, c)
    r = host.launch(
        h,
        P(q.data_ptr()),
        P(k.data_ptr()),
        P(v.data_ptr()),
        P(o.data_ptr()),
        P(lse.data_ptr()),
        P(counter.data_ptr()),
        b,
        hq,
        hk,
        sq,
        sk,
        ctypes.c_float(1 / math.sqrt(d)),
        int(q.dtype == torch.bfloat16),
        section,
        pair,
        sm or sms,
        P(torch.cuda.current_stream().cuda_stream),
        P(clocks.data_ptr() if q.shape[2] > 600 else 0),
    )
    assert r == 0


fa3s = {}


def fa3(q, k, v, o, lse, sem, causal):
    t = {torch.float16: "half_t", torch.bfloat16: "bfloat16_t"}[q.dtype]
    d = q.shape[-1]
    key = (t, d, causal)
    if key not in fa3s:
        fa3s[key] = ctypes.CDLL(f"{folder}/fa3/fa3_{t}_{d}_{'true' if causal else 'false'}.so").fa3
    b, hq, sq, _ = q.shape
    hk, sk = k.shape[1:3]
    r = fa3s[key](
        P(q.data_ptr()),
        P(k.data_ptr()),
        P(v.data_ptr()),
        P(o.data_ptr()),
        P(lse.data_ptr()),
        P(sem.data_ptr()),
        b,
        hq,
        hk,
        sq,
        sk,
        ctypes.c_float(1 / math.sqrt(d)),
        sms,
        P(torch.cuda.current_stream().cuda_stream),
    )
    assert r == 0, r


def reference(q, k, v, causal):
    g = q.shape[1] // k.shape[1]
    k = k.repeat_interleave(g, 1)
    v = v.repeat_interleave(g, 1)
    s = (q.double() @ k.double().transpose(-1, -2)) / math.sqrt(q.shape[-1])
    if causal:
        sq, sk = s.shape[-2:]
        s.masked_fill_(~torch.ones(sq, sk, dtype=torch.bool, device="cuda").tril(sk - sq), -math.inf)
    lse = torch.logsumexp(s, -1)
    p = torch.exp(s - torch.where(lse == -math.inf, 0.0, lse)[..., None])
    return p @ v.double(), lse


shapes = [
    (1, 2, 1, 128, 128),
    (2, 3, 3, 1, 1),
    (1, 4, 2, 77, 200),
    (2, 8, 2, 300, 130),
    (1, 6, 3, 517, 1031),
    (3, 16, 4, 640, 640),
    (1, 4, 4, 200, 77),
    (2, 24, 24, 1000, 999),
    (1, 2, 2, 63, 2111),
    (4, 20, 10, 257, 256),
]


def check(names):
    bad = 0
    t0 = time.time()
    last = None
    refs = {}
    for name in names:
        try:
            h, c, _ = config(name)
        except Exception as e:
            print(e)
            continue
        d = c[0]
        causal = bool(c[6])
        worst = [0, 0]
        note = ""
        dt = torch.bfloat16 if name.endswith("b") else torch.float16
        if (d, causal, dt) != last:
            refs = {}
            last = (d, causal, dt)
        for i, (b, hq, hk, sq, sk) in enumerate(shapes):
            if i not in refs:
                torch.manual_seed(i + 7)
                x = [
                    torch.randn(b, n, s, d, device="cuda", dtype=dt) * f
                    for n, s, f in ((hq, sq, 20.0 if i % 2 else 2.0), (hk, sk, 1.0), (hk, sk, 1.0))
                ]
                refs[i] = x + list(reference(*x, causal))
            q, k, v, ro, rl = refs[i]
            for pair in ((0, 1) if c[5] == 2 and hq // hk % 2 == 0 else (0,)):
                outs = []
                for rep in range(2):
                    o = torch.full_like(q, math.nan)
                    lse = torch.full(q.shape[:3], math.nan, device="cuda")
                    ours(name, q, k, v, o, lse, pair=pair)
                    torch.cuda.synchronize()
                    outs.append((o, lse))
                same = torch.equal(outs[0][0], outs[1][0]) and torch.equal(outs[0][1], outs[1][1])
                eo = (o.double() - ro).abs().max().item()
                inf = torch.isinf(rl)
                el = (lse.double() - rl)[~inf].abs().max().item() if (~inf).any() else 0
                ok = (
                    eo < (4e-3 if dt == torch.float16 else 3.2e-2)
                    and el < 2e-4
                    and same
                    and torch.equal(torch.isneginf(lse), inf)
                )
                worst = [max(worst[0], eo if eo == eo else 9), max(worst[1], el)]
                if not ok:
                    bad += 1
                    note += (
                        f" {(b,hq,hk,sq,sk)} pair{pair} o {eo:.1e} lse {el:.1e}{'' if same else ' DIFFERS'}"
                    )
        print(
            f"check {name:14} o {worst[0]:.1e} lse {worst[1]:.1e} {'ok' if not note else 'WRONG' + note[:150]}",
            flush=True,
        )
    print(f"checked in {time.time()-t0:.1f} s, wrong {bad}", flush=True)
    return bad


def special(name):
    """A NaN in one row of q, +inf in one key, values near the top of the type: what they touch and what they do not."""
    h, c, _ = config(name)
    d = c[0]
    causal = bool(c[6])
    dt = torch.bfloat16 if name.endswith("b") else torch.float16
    torch.manual_seed(3)
    for what in ("nan q", "inf k", "nan v", "rising"):
        q, k, v = (torch.randn(1, 2, 700, d, device="cuda", dtype=dt) for _ in range(3))
        if what == "nan q":
            q[0, 0, 333, 3] = math.nan
        if what == "inf k":
            k[0, 1, 500, 7] = math.inf
        if what == "nan v":
            v[0, 1, 650, 9] = math.nan
        if what == "rising":
            k *= torch.linspace(0, 12, 700, device="cuda")[:, None].to(
                dt
            )  # the maximum rises from tile to tile
        ro, rl = reference(q, k, v, causal)
        o = torch.full_like(q, 7.0)
        lse = torch.full(q.shape[:3], 7.0, device="cuda")
        ours(name, q, k, v, o, lse)
        torch.cuda.synchronize()
        fin = torch.isfinite(ro)
        same = (
            torch.equal(torch.isfinite(o), fin) and torch.equal(torch.isnan(lse), torch.isnan(rl))
            if what != "nan v"
            else torch.equal(torch.isnan(o) & fin, torch.zeros_like(fin))
        )
        err = (o.double() - ro)[fin].abs().max().item()
        if not same or not err < 2e-2:
            print(
                f"special {name} {what}: finite where expected {same}, err {err:.1e}, o nan {int(torch.isnan(o).sum())} ref {int(torch.isnan(ro).sum())}, lse nan {int(torch.isnan(lse).sum())} ref {int(torch.isnan(rl).sum())}"
            )


def graph(f, ms):
    s = torch.cuda.Stream()
    with torch.cuda.stream(s):
        f()
        e0, e1 = torch.cuda.Event(True), torch.cuda.Event(True)
        e0.record(s)
        f()
        e1.record(s)
        s.synchronize()
        one = e0.elapsed_time(e1)
        n = max(1, min(200, int(ms / max(one, 1e-3))))
        g = torch.cuda.CUDAGraph()
        with torch.cuda.graph(g, stream=s):
            for _ in range(n):
                f()
    return g, n, s


def times(contenders, rounds=9, ms=3.0):
    gs = {}
    for n, f in contenders.items():
        try:
            gs[n] = graph(f, ms)
        except Exception as e:
            print("  ", n, repr(e)[:150], flush=True)
    out = {n: [] for n in gs}
    for r in range(rounds + 1):
        order = list(gs.items())
        random.Random(r).shuffle(order)
        for n, (g, c, s) in order:
            with torch.cuda.stream(s):
                e0, e1 = torch.cuda.Event(True), torch.cuda.Event(True)
                g.replay()
                g.replay()
                e0.record(s)
                g.replay()
                e1.record(s)
                s.synchronize()
                if r:
                    out[n].append(e0.elapsed_time(e1) / c)
                    x = clocks.tolist()
                    GHZ[n] = x[0] / max(1, x[1]) if n not in ("fa3", "cudnn") else 0
    return {n: statistics.median(x) for n, x in out.items()}


def row(dt, d, causal, b, h, hk, s, names, peers=("fa3",), rounds=9, ms=3.0):
    torch.manual_seed(1)
    q = torch.randn(b, h, s, d, device="cuda", dtype=dt)
    k = torch.randn(b, hk, s, d, device="cuda", dtype=dt)
    v = torch.randn(b, hk, s, d, device="cuda", dtype=dt)
    o = torch.empty_like(q)
    lse = torch.empty(b, h, s, device="cuda")
    sem = torch.zeros(1, device="cuda", dtype=torch.int32)
    flop = 4 * b * h * s * s * d / (2 if causal else 1)
    cs = {}
    if "fa3" in peers:
        cs["fa3"] = lambda: fa3(q, k, v, o, lse, sem, causal)
    if "cudnn" in peers:

        def f():
            with sdpa_kernel(B.CUDNN_ATTENTION):
                F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=h != hk)

        cs["cudnn"] = f
    for n in names:
        n, kw = (n, {}) if isinstance(n, str) else n
        label = n + "".join(f":{a}{x}" for a, x in kw.items())
        try:
            config(n)
            cs[label] = (lambda n, kw: lambda: ours(n, q, k, v, o, lse, **kw))(n, kw)
        except Exception as e:
            print(n, e)
    t = times(cs, rounds, ms)
    base = t.get("fa3")
    print(f"{str(dt)[6:]} d{d} {'causal' if causal else 'full'} b{b} h{h}/{hk} s{s}", flush=True)
    for n, x in sorted(t.items(), key=lambda y: y[1]):
        print(
            f"   {n:24} {flop/x/1e9:6.1f} TF {x*1e3:9.2f} us"
            + (f"  {base/x:.3f}" if base else "")
            + f"  {GHZ.get(n, 0):.2f} GHz",
            flush=True,
        )


TYPES = {"f16": torch.float16, "bf16": torch.bfloat16}
names = list(dict.fromkeys(name for own in ROWS for name in own[-1]))
wrong = check(names)
for name in names:
    special(name)
peers = (["fa3"] if os.path.isdir(f"{folder}/fa3") else []) + ["cudnn"]
for dtype, *shape, own in ROWS:
    row(TYPES[dtype], *shape, own, peers, 11)
sys.exit(wrong > 0)
