"""The rows of the benchmark: type, d, causal, batch, heads, kv heads, length, and the configurations that are tried."""

FULL = {
    64: ["64f-n128-w3-z3-e1-s3"],
    128: ["128f-n128-z2-e1", "128f-n192-z3-e2"],
    256: ["256f-n80-z1-o1-e2"],
}
CAUSAL = {
    64: ["64c-n128-w3-y1-z3-e1-s3", "64c-n128-w2-y1-z3-e1-s4-h1"],
    128: ["128c-n128-y1-z3-e2-s3-h1", "128c-n128-y1-z2-e1"],
    256: ["256c-n64-y1-z1-o1-e2"],
}
HEADS = {64: 32, 128: 16, 256: 8}
ROWS = [
    ("f16", d, causal, batch, HEADS[d], HEADS[d], length, (CAUSAL if causal else FULL)[d])
    for d in HEADS
    for causal in (False, True)
    for batch, length in ((16, 1024), (4, 4096), (1, 16384))
]
ROWS += [("bf16", 128, False, 1, 64, 8, length, ["128f-n192-z3-e2b"]) for length in (8192, 16384, 32768)]
ROWS += [
    ("bf16", 128, True, 1, 64, 8, length, ["128c-n128-y1-z3-e2-s3-h1b"]) for length in (8192, 16384, 32768)
]
ROWS += [("f16", 64, False, 1, 8, 8, 512, ["64f-n128-w1-o0-e2-s4-z2"])]

if __name__ == "__main__":  # for build.sh
    print(*dict.fromkeys(name for row in ROWS for name in row[-1]))
