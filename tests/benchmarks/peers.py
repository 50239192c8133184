#!/usr/bin/env python3
"""peers.py [--fa3 FOLDER] PROGRAM [ROW ...]: kernels against the backends of PyTorch's scaled_dot_product_attention
and, where FOLDER holds it, FlashAttention-3, on the same shapes, in the same run, on the same GPU.

ROW is KERNEL:SHAPE[:causal][:bf16], e.g. mma:b=4,h=16,s=4096,d=128:causal; without rows, those of ROWS.
PROGRAM is lanescope: `bench` judges each tile of the kernel and times it, the fastest stands in the table.
Peers are timed as `bench` does: random normal inputs, a CUDA graph of about 2 ms of launches, replayed
without a pause; medians. Where Q, K, V and O fit into L2, they stay there, for both sides alike.

  floor    the share of the floor: operations over the unit's rate or bytes over the bandwidth (see `bench`)
  / best   time of the fastest peer over the kernel's: above 1, the kernel is faster; / FA3, / cuDNN likewise

FOLDER has a library per type, head dimension and mask, fa3_{half_t,bfloat16_t}_{64,128,256}_{true,false}.so (true:
causal), whose function `fa3` takes q, k, v, o, lse, a counter that is 0 (one word), batch, heads, heads_kv, len_q,
len_kv, the scale as a float, the number of multiprocessors, and the stream; 0: it was launched. A problem for which
there is none goes without it.

Exit code 1 where a kernel is not right, 77 where PyTorch or a GPU is missing."""

import argparse
import ctypes
import functools
import json
import math
import pathlib
import statistics
import subprocess
import sys

SAMPLES = 30
SAMPLE_MICROSECONDS, WARMING_MICROSECONDS, MOST_LAUNCHES = 2000, 50000, 256
TOLERANCE = 1e-2  # between peers, in f16; bf16 has three bits less
BACKENDS = {"FA2": "FLASH_ATTENTION", "cuDNN": "CUDNN_ATTENTION", "efficient": "EFFICIENT_ATTENTION"}
PEERS = [*BACKENDS, "FA3"]
SQUARE = [f"mma:b={16384 // s},h={2048 // d},s={s},d={d}{causal}"
          for d in (128, 64) for causal in ("", ":causal") for s in (1024, 4096, 16384)]
HOPPER = [f"wgmma:b={16384 // s},h={2048 // d},s={s},d={d}{causal}"
          for d in (128, 64, 256) for causal in ("", ":causal") for s in (1024, 4096, 16384)]
HOPPER += [f"wgmma:b=1,h=64,hkv=8,s=16384,d=128{causal}:bf16" for causal in ("", ":causal")]
MISSION = [f"{kernel}:b=1,h=8,s=512,d=64" for kernel in ("wgmma", "mma", "splitk", "wmma", "wmma_registers", "scalar")]
DECODE = [f"splitk:b={b},h=32,s=1,skv={skv},d=128" for b, skv in ((1, 65536), (8, 16384), (1, 8192))]
ROWS = HOPPER + SQUARE + MISSION + DECODE


class Row:
    def __init__(self, text):
        self.kernel, self.shape, *words = text.split(":") + [""] * (":" not in text)
        if not self.shape or set(words) - {"causal", "bf16"}:
            sys.exit(f"peers.py: {text} is not KERNEL:SHAPE[:causal][:bf16]")
        self.causal, self.dtype = "causal" in words, "bf16" if "bf16" in words else "f16"

    def title(self):
        return f"{self.shape}{' causal' if self.causal else ''}{' bf16' if self.dtype == 'bf16' else ''}"


def bench(row):
    """The results of the kernel's tiles on the row's shape, or None where one is not right."""
    command = [program, "bench", row.kernel, "--shape", row.shape, "--dtype", row.dtype, "--repeats", str(SAMPLES),
               "--format", "json", *(["--causal"] if row.causal else [])]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode not in (0, 1):
        sys.exit(done.returncode)
    results = json.loads(done.stdout)["results"]
    for result in results:
        if result["verdict"] != "match":
            print(f"{result['module']}: {result['fault']}", file=sys.stderr)
    return results if done.returncode == 0 else None


def elapsed(launch, count, stream):
    """Microseconds of each of `count` launches without a pause."""
    events = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
    events[0].record(stream)
    for event in events[1:]:
        launch()
        event.record(stream)
    events[-1].synchronize()
    return [1000 * begin.elapsed_time(end) for begin, end in zip(events, events[1:])]


def median_time(launch):
    """Median microseconds of a launch."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            least = max(elapsed(launch, 1, stream)[0], 1)
        launches = min(max(int(SAMPLE_MICROSECONDS / least), 1), MOST_LAUNCHES)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for _ in range(launches):
                launch()
        for _ in range(max(1, int(WARMING_MICROSECONDS / (least * launches)))):
            graph.replay()
        return statistics.median(elapsed(graph.replay, SAMPLES, stream)) / launches


@functools.cache
def fa3_function(dtype, d, causal):
    """FlashAttention-3's forward, or None where its folder has none for these."""
    kind = {"f16": "half_t", "bf16": "bfloat16_t"}[dtype]
    library = fa3_folder and fa3_folder / f"fa3_{kind}_{d}_{'true' if causal else 'false'}.so"
    return ctypes.CDLL(str(library.resolve())).fa3 if library and library.exists() else None


def attend_by_fa3(function, q, k, v, counter):
    batch, heads, len_q, d = q.shape
    out, lse = torch.empty_like(q), torch.empty(batch, heads, len_q, device="cuda")
    tensors = (ctypes.c_void_p(tensor.data_ptr()) for tensor in (q, k, v, out, lse, counter))
    error = function(*tensors, batch, heads, k.shape[1], len_q, k.shape[2], ctypes.c_float(1 / math.sqrt(d)),
                     torch.cuda.get_device_properties(0).multi_processor_count,
                     ctypes.c_void_p(torch.cuda.current_stream().cuda_stream))
    if error:
        raise RuntimeError(f"it says {error}")
    return out


def attend_by_torch(backend, q, k, v, causal):
    with torch.nn.attention.sdpa_kernel(getattr(torch.nn.attention.SDPBackend, backend)):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal,
                                                                enable_gqa=q.shape[1] != k.shape[1])


@functools.cache
def time_peers(batch, heads, heads_kv, len_q, len_kv, d, causal, dtype):
    """Microseconds of each peer that takes such a problem."""
    # PyTorch's mask starts in the upper left corner, that of the lab ends in the lower right one.
    if causal and len_q != len_kv:
        return {}
    torch.manual_seed(0)
    kind = {"f16": torch.float16, "bf16": torch.bfloat16}[dtype]
    q = torch.randn(batch, heads, len_q, d, dtype=kind, device="cuda")
    k, v = (torch.randn(batch, heads_kv, len_kv, d, dtype=kind, device="cuda") for _ in "kv")
    peers = {name: functools.partial(attend_by_torch, backend, q, k, v, causal) for name, backend in BACKENDS.items()}
    if function := fa3_function(dtype, d, causal):
        counter = torch.zeros(1, dtype=torch.int32, device="cuda")
        peers["FA3"] = functools.partial(attend_by_fa3, function, q, k, v, counter)
    times, first = {}, None
    for name, attend in peers.items():
        try:
            out = attend()
            torch.cuda.synchronize()
        except RuntimeError as error:
            print(f"{name} does not take it: {str(error).splitlines()[0]}", file=sys.stderr)
            continue
        first = out if first is None else first
        worst = (out - first).abs().max().item()
        if not worst <= TOLERANCE * (8 if dtype == "bf16" else 1):
            sys.exit(f"{name} is {worst} away from the peer before it: they do not compute the same")
        times[name] = median_time(attend)
    return times


def ratio(peer, own):
    return f"{peer / own:.2f}" if math.isfinite(peer) else "-"


def cells(row, results):
    """The line of the table."""
    best = min(results, key=lambda result: result["microseconds"]["median"])
    shape = best["shape"]
    times = time_peers(*(shape[side] for side in ("batch", "heads", "heads_kv", "len_q", "len_kv", "d")), row.causal,
                       row.dtype)
    own, floor = best["microseconds"]["median"], best["floor"]
    memory = floor is not None and floor["bound"] == "memory"
    rate = f"{best['bytes_per_second'] / 1e9:.0f} GB/s" if memory else f"{best['flops_per_second'] / 1e12:.0f} TFLOP/s"
    share = "-" if floor is None else f"{100 * best['share_of_floor']:.0f} %"
    peers = [f"{times[name]:.2f}" if name in times else "-" for name in PEERS]
    return [row.title(), row.kernel, best["tile"], f"{own:.2f}", rate, share, *peers,
            ratio(min(times.values(), default=math.inf), own),
            *(ratio(times.get(name, math.inf), own) for name in ("FA3", "cuDNN"))]


def print_line(line):
    print("  ".join(word.ljust(width) if i < 3 else word.rjust(width)
                    for i, (word, width) in enumerate(zip(line, WIDTHS))).rstrip(), flush=True)


def main(texts):
    rows = [Row(text) for text in texts]
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}; "
          "medians in µs\n")
    print_line(["shape", "kernel", "tile", "lanescope", "rate", "floor", *PEERS, "/ best", "/ FA3", "/ cuDNN"])
    all_right = True
    for row in rows:
        results = bench(row)
        torch.cuda.empty_cache()
        if results is None:
            all_right = False
            print_line([row.title(), row.kernel, "is not right"])
        else:
            print_line(cells(row, results))
    return 0 if all_right else 1


WIDTHS = [34, 14, 7, 10, 12, 6, *[10 for _ in PEERS], 6, 6, 7]

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fa3", type=pathlib.Path, metavar="FOLDER")
    parser.add_argument("program")
    parser.add_argument("rows", nargs="*", metavar="ROW")
    options = parser.parse_args()
    program, fa3_folder = options.program, options.fa3
    if fa3_folder and not any(fa3_folder.glob("fa3_*.so")):
        sys.exit(f"peers.py: {fa3_folder} has no fa3_*.so: name the folder that the libraries lie in")
    try:
        import torch
        import torch.nn.attention
    except ImportError:
        print("SKIPPED: PyTorch is not installed", file=sys.stderr)
        sys.exit(77)
    if not torch.cuda.is_available():
        print("SKIPPED: no GPU that PyTorch can use", file=sys.stderr)
        sys.exit(77)
    sys.exit(main(options.rows or ROWS))
