"""Attention and its tiled recurrence by NumPy, in long double, as cases for reference_test.

usage: make_reference_cases.py FOLDER

Writes FOLDER/reference_cases.json, which lists each case's shape and the offset (bytes), type and
dimensions of its arrays in FOLDER/reference_cases.bin (little endian, row-major):
  q k v     float16, [batch, heads or heads_kv, length, d]
  o lse     float64, the whole softmax: [batch, heads, len_q, d] and [batch, heads, len_q]
  m alpha p l o_tile   float64, the recurrence of one block of queries, base 2, after each tile:
            [tile, row], [tile, row], [tile, row, key], [tile, row], [tile, row, d]
"""

import json
import pathlib
import sys

import numpy as np

LONG = np.longdouble
INF = LONG(np.inf)

# name, batch, heads, heads_kv, len_q, len_kv, d, causal, deviation of q and k, br, bc, q_tile
CASES = [
    ("plain", 1, 2, 2, 20, 20, 8, False, 1.0, 8, 8, 2),
    ("wide", 1, 1, 1, 16, 48, 64, False, 1.0, 16, 16, 0),
    ("causal, ragged", 2, 1, 1, 33, 33, 16, True, 1.0, 16, 16, 1),
    ("grouped queries, few of them, causal", 1, 4, 2, 7, 40, 8, True, 1.0, 16, 16, 0),
    ("rows without keys", 1, 1, 1, 24, 10, 8, True, 1.0, 8, 4, 1),
    ("large scores", 1, 1, 1, 17, 50, 16, False, 12.0, 8, 16, 1),
    ("one element", 1, 1, 1, 1, 1, 4, False, 1.0, 32, 32, 0),
]


def scaled_scores(q, k, causal):
    """[len_q, len_kv], natural units, -inf where a query does not see a key."""
    len_q, len_kv = len(q), len(k)
    s = (q[:, None, :] * k[None, :, :]).sum(-1) / np.sqrt(LONG(q.shape[1]))
    if causal:
        i, j = np.arange(len_q)[:, None], np.arange(len_kv)[None, :]
        s = np.where(j <= i + len_kv - len_q, s, -INF)
    return s


def attention(s, v):
    m = s.max(1)
    p = np.exp(s - np.where(np.isinf(m), 0, m)[:, None])
    l = p.sum(1)
    seen = l > 0
    o = np.where(seen[:, None], (p[:, :, None] * v[None]).sum(1) / np.where(seen, l, 1)[:, None], 0)
    lse = np.where(seen, m + np.log(np.where(seen, l, 1)), -INF)
    return o, lse


def recurrence(s, v, bc):
    """FlashAttention-2, algorithm 1, with scores in base 2; s [rows, len_kv]."""
    s = s / np.log(LONG(2))
    rows = len(s)
    m, l, o = np.full(rows, -INF), np.zeros(rows, LONG), np.zeros((rows, v.shape[1]), LONG)
    states = {"m": [], "alpha": [], "p": [], "l": [], "o_tile": []}
    for first in range(0, s.shape[1], bc):
        tile = np.full((rows, bc), -INF)
        values = np.zeros((bc, v.shape[1]), LONG)
        keys = min(bc, s.shape[1] - first)
        tile[:, :keys] = s[:, first:first + keys]
        values[:keys] = v[first:first + keys]
        m_next = np.maximum(m, tile.max(1))
        safe = np.where(np.isinf(m_next), 0, m_next)
        alpha = np.exp2(m - safe)
        p = np.exp2(tile - safe[:, None])
        l = alpha * l + p.sum(1)
        o = alpha[:, None] * o + (p[:, :, None] * values[None]).sum(1)
        m = m_next
        for name, value in zip(states, (m, alpha, p, l, o)):
            states[name].append(value)
    return {name: np.stack(values) for name, values in states.items()}


def main(folder):
    random = np.random.default_rng(0)
    data, index = bytearray(), []
    for name, batch, heads, heads_kv, len_q, len_kv, d, causal, deviation, br, bc, q_tile in CASES:
        q = (deviation * random.standard_normal((batch, heads, len_q, d))).astype(np.float16)
        k = (deviation * random.standard_normal((batch, heads_kv, len_kv, d))).astype(np.float16)
        v = random.standard_normal((batch, heads_kv, len_kv, d)).astype(np.float16)
        o = np.zeros((batch, heads, len_q, d), LONG)
        lse = np.zeros((batch, heads, len_q), LONG)
        for b in range(batch):
            for h in range(heads):
                kv = h // (heads // heads_kv)
                s = scaled_scores(q[b, h].astype(LONG), k[b, kv].astype(LONG), causal)
                values = v[b, kv].astype(LONG)
                o[b, h], lse[b, h] = attention(s, values)
        # The block of the last batch and head, whose scores are at hand.
        arrays = {"q": q, "k": k, "v": v, "o": o, "lse": lse}
        arrays |= recurrence(s[q_tile * br:(q_tile + 1) * br], values, bc)
        entry = {"name": name, "batch": batch, "heads": heads, "heads_kv": heads_kv, "len_q": len_q,
                 "len_kv": len_kv, "d": d, "causal": causal, "br": br, "bc": bc, "q_tile": q_tile,
                 "arrays": {}}
        for array_name, array in arrays.items():
            kind = "float16" if array.dtype == np.float16 else "float64"
            entry["arrays"][array_name] = {"type": kind, "dims": array.shape, "offset": len(data)}
            data += array.astype("<f2" if kind == "float16" else "<f8").tobytes()
        index.append(entry)
    (folder / "reference_cases.bin").write_bytes(data)
    (folder / "reference_cases.json").write_text(json.dumps(index, indent=1) + "\n")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
