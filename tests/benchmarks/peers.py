#!/usr/bin/env python3
"""peers.py [--fa3 FOLDER] PROGRAM [ROW ...]: kernels against the backends of PyTorch's scaled_dot_product_attention
and, where FOLDER holds it, FlashAttention-3, on the same shapes, in the same run, on the same GPU.

ROW is KERNEL:SHAPE[:causal][:bf16|:e4m3], e.g. mma:b=4,h=16,s=4096,d=128:causal; without rows, those of ROWS.
PROGRAM is lanescope: `bench` judges each tile of the kernel; the fastest stands in the table. All are timed by turns on
the same random normal inputs: of each a CUDA graph of about 2 ms of launches, replayed without a pause between them in
an order drawn anew each round, since the device's power is shared and who comes behind a hungry one finds the clocks
low; medians. Where Q, K, V and O fit into L2, they stay there, for both sides alike. What a kernel of two passes takes
is what `bench` says, by itself.

  floor    the share of the floor: operations over the unit's rate or bytes over the bandwidth (see `bench`)
  / best   time of the fastest peer over the kernel's: above 1, the kernel is faster; / FA3, / cuDNN likewise

FOLDER has a library per type, head dimension and mask, fa3_{half_t,bfloat16_t,float_e4m3_t}_{64,128,256}_{true,false}.so
(true: causal), whose function `fa3` takes q, k, v, o, lse, a counter that is 0 (one word), batch, heads, heads_kv, len_q,
len_kv, the scale as a float, the number of multiprocessors, and the stream; 0: it was launched. A problem for which
there is none goes without it. PyTorch's backends take no e4m3; FlashAttention-3's output is bf16 then, no scales are
given to it, and what the kernel takes is what `bench` says.

Exit code 1 where a kernel is not right, 77 where PyTorch or a GPU is missing."""

import argparse
import ctypes
import functools
import json
import math
import os
import pathlib
import random
import statistics
import subprocess
import sys

SAMPLES, UNCOUNTED = 60, 3
SAMPLE_MICROSECONDS, MOST_LAUNCHES = 2000, 256
TOLERANCE = 1e-2  # between peers, in f16; bf16 has three bits less, e4m3 too: FA3's output is bf16
BACKENDS = {"FA2": "FLASH_ATTENTION", "cuDNN": "CUDNN_ATTENTION", "efficient": "EFFICIENT_ATTENTION"}
PEERS = [*BACKENDS, "FA3"]
SQUARE = [f"mma:b={16384 // s},h={2048 // d},s={s},d={d}{causal}"
          for d in (128, 64) for causal in ("", ":causal") for s in (1024, 4096, 16384)]
HOPPER = [f"wgmma:b={16384 // s},h={2048 // d},s={s},d={d}{causal}"
          for d in (128, 64, 256) for causal in ("", ":causal") for s in (1024, 4096, 16384)]
HOPPER += [f"wgmma:b=1,h=64,hkv=8,s=16384,d=128{causal}:bf16" for causal in ("", ":causal")]
HOPPER += [f"wgmma:b=1,h={2048 // d},s=16384,d={d}{causal}:e4m3" for d in (128, 64, 256) for causal in ("", ":causal")]
MISSION = [f"{kernel}:b=1,h=8,s=512,d=64" for kernel in ("wgmma", "mma", "splitk", "wmma", "wmma_registers", "scalar")]
DECODE = [f"splitk:b={b},h=32,s=1,skv={skv},d=128" for b, skv in ((1, 65536), (8, 16384), (1, 8192))]
ROWS = HOPPER + SQUARE + MISSION + DECODE


class Row:
    def __init__(self, text):
        self.kernel, self.shape, *words = text.split(":") + [""] * (":" not in text)
        if not self.shape or set(words) - {"causal", "bf16", "e4m3"}:
            sys.exit(f"peers.py: {text} is not KERNEL:SHAPE[:causal][:bf16|:e4m3]")
        self.causal, self.dtype = "causal" in words, next((word for word in words if word in ("bf16", "e4m3")), "f16")

    def title(self):
        return f"{self.shape}{' causal' if self.causal else ''}{'' if self.dtype == 'f16' else ' ' + self.dtype}"


def bench(row):
    """The results of the kernel's tiles on the row's shape, or None where one is not right."""
    command = [program, "bench", row.kernel, "--shape", row.shape, "--dtype", row.dtype, "--repeats", "30",
               "--format", "json", *(["--causal"] if row.causal else [])]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode not in (0, 1):
        sys.exit(done.returncode)
    results = json.loads(done.stdout)["results"]
    for result in results:
        if result["verdict"] != "match":
            print(f"{result['module']}: {result['fault']}", file=sys.stderr)
    return results if done.returncode == 0 else None


def elapsed(launches, stream):
    """Microseconds of each of `launches`, one behind the other without a pause."""
    events = [torch.cuda.Event(enable_timing=True) for _ in range(len(launches) + 1)]
    events[0].record(stream)
    for launch, event in zip(launches, events[1:]):
        launch()
        event.record(stream)
    events[-1].synchronize()
    return [1000 * begin.elapsed_time(end) for begin, end in zip(events, events[1:])]


def times_by_turns(launches):
    """Median microseconds of each of `launches`, by name."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    graphs, counts = {}, {}
    with torch.cuda.stream(stream):
        for name, launch in launches.items():
            least = max(min(elapsed([launch] * 3, stream)), 1)
            counts[name] = min(max(int(SAMPLE_MICROSECONDS / least), 1), MOST_LAUNCHES)
            graphs[name] = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graphs[name], stream=stream, capture_error_mode="relaxed"):
                for _ in range(counts[name]):
                    launch()
        draw = random.Random(0)
        turns = [name for _ in range(UNCOUNTED + SAMPLES) for name in draw.sample(list(graphs), len(graphs))]
        times = elapsed([graphs[name].replay for name in turns], stream)
    samples = {name: [] for name in graphs}
    for name, time in zip(turns[UNCOUNTED * len(graphs):], times[UNCOUNTED * len(graphs):]):
        samples[name].append(time / counts[name])
    return {name: statistics.median(samples[name]) for name in samples}


def own_function(result):
    """The entry of a module that launches its kernel on tensors of ours, or None: it wants more, or other rows."""
    if f".d{result['shape']['d']}." not in result["module"]:
        return None
    folders = [os.environ.get("LANESCOPE_MODULES"), *program.resolve().parents[:2]]
    for folder in filter(None, folders):
        path = pathlib.Path(folder) / f"{result['module']}.so"
        if path.exists():
            return getattr(ctypes.CDLL(str(path.resolve())), "lanescope_attend", None)
    sys.exit(f"peers.py: {result['module']}.so lies neither beside {program} nor above it: set LANESCOPE_MODULES")


@functools.cache
def ones(batch, heads):
    return torch.ones(batch, heads, device="cuda")


def attend_by_lanescope(function, q, k, v, causal):
    batch, heads, len_q, _ = q.shape
    is_e4m3 = q.element_size() == 1
    out = torch.empty_like(q, dtype=torch.float16 if is_e4m3 else q.dtype)
    lse = torch.empty(batch, heads, len_q, device="cuda")
    scales = (ones(batch, tensor.shape[1]) if is_e4m3 else lse for tensor in (q, k, v))
    tensors = (ctypes.c_void_p(tensor.data_ptr()) for tensor in (q, k, v, *scales, out, lse))
    if function(*tensors, batch, heads, k.shape[1], len_q, k.shape[2], int(causal),
                ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)):
        raise RuntimeError("the module refuses the problem")
    return out


@functools.cache
def fa3_function(dtype, d, causal):
    """FlashAttention-3's forward, or None where its folder has none for these."""
    kind = {"f16": "half_t", "bf16": "bfloat16_t", "e4m3": "float_e4m3_t"}[dtype]
    library = fa3_folder and fa3_folder / f"fa3_{kind}_{d}_{'true' if causal else 'false'}.so"
    return ctypes.CDLL(str(library.resolve())).fa3 if library and library.exists() else None


def attend_by_fa3(function, q, k, v, counter):
    batch, heads, len_q, d = q.shape
    out = torch.empty_like(q, dtype=torch.bfloat16 if q.element_size() == 1 else q.dtype)
    lse = torch.empty(batch, heads, len_q, device="cuda")
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


def time_all(row, results):
    """Microseconds of each peer that takes the problem, and of each result's module."""
    shape = results[0]["shape"]
    batch, heads, heads_kv, len_q, len_kv, d = (shape[side] for side in
                                                ("batch", "heads", "heads_kv", "len_q", "len_kv", "d"))
    torch.manual_seed(0)
    is_e4m3 = row.dtype == "e4m3"
    kind = {"f16": torch.float16, "bf16": torch.bfloat16, "e4m3": torch.float8_e4m3fn}[row.dtype]

    def normal(heads, length):
        numbers = torch.randn(batch, heads, length, d, dtype=torch.float32 if is_e4m3 else kind, device="cuda")
        return numbers.to(kind)

    q, k, v = normal(heads, len_q), normal(heads_kv, len_kv), normal(heads_kv, len_kv)
    attends = {}
    # PyTorch's mask starts in the upper left corner, that of the lab ends in the lower right one.
    if not is_e4m3 and (not row.causal or len_q == len_kv):
        for name, backend in BACKENDS.items():
            attends[name] = functools.partial(attend_by_torch, backend, q, k, v, row.causal)
    if function := fa3_function(row.dtype, d, row.causal):
        counter = torch.zeros(1, dtype=torch.int32, device="cuda")
        attends["FA3"] = functools.partial(attend_by_fa3, function, q, k, v, counter)
    for result in results:
        if function := own_function(result):
            attends[result["module"]] = functools.partial(attend_by_lanescope, function, q, k, v, row.causal)
    taking, first = {}, None
    for name, attend in attends.items():
        try:
            out = attend()
            torch.cuda.synchronize()
        except RuntimeError as error:
            print(f"{name} does not take it: {str(error).splitlines()[0]}", file=sys.stderr)
            continue
        first = out if first is None else first
        worst = (out.float() - first.float()).abs().max().item()
        if not worst <= TOLERANCE * (1 if row.dtype == "f16" else 8):
            sys.exit(f"{name} is {worst} away from the one before it: they do not compute the same")
        taking[name] = attend
    return times_by_turns(taking) if taking else {}


def ratio(peer, own):
    return f"{peer / own:.3f}" if math.isfinite(peer) else "-"


def cells(row, results):
    """The line of the table."""
    times = time_all(row, results)
    alone = {result["module"]: result["microseconds"]["median"] for result in results}
    own_times = {module: times.get(module, alone[module]) for module in alone}
    best = min(results, key=lambda result: own_times[result["module"]])
    own, floor = own_times[best["module"]], best["floor"]
    faster = alone[best["module"]] / own  # than `bench` saw it, which its rates are of
    memory = floor is not None and floor["bound"] == "memory"
    rate = (f"{faster * best['bytes_per_second'] / 1e9:.0f} GB/s" if memory else
            f"{faster * best['flops_per_second'] / 1e12:.0f} TFLOP/s")
    share = "-" if floor is None else f"{100 * faster * best['share_of_floor']:.0f} %"
    peers = {name: times[name] for name in PEERS if name in times}
    return [row.title(), row.kernel, best["tile"], f"{own:.2f}", rate, share,
            *(f"{peers[name]:.2f}" if name in peers else "-" for name in PEERS),
            ratio(min(peers.values(), default=math.inf), own),
            *(ratio(peers.get(name, math.inf), own) for name in ("FA3", "cuDNN"))]


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
    parser.add_argument("program", type=pathlib.Path)
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
