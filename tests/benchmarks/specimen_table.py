#!/usr/bin/env python3
"""specimen_table.py PROGRAM NINJA [NAME ...]: the table of the planted bugs (tests/specimens/list.txt): who
finds them, and whether `locate` says what the list says, in how many seconds with the modules built.

  output     is the final output beyond rtol = atol = 1e-2 of textbook attention? In memory that held zeros
  sanitizer  which of compute-sanitizer's tools report something; a dash where there is no GPU or no tool
  locate     its verdict on sim, then whether stage, site and cause are the list's

Exit code 1 where locate does not say what the list says, or takes longer than 10 s."""

import concurrent.futures
import json
import math
import operator
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time

TOLERANCE = 1e-2
LIMIT = 10  # seconds
TOOLS = ["memcheck", "racecheck", "synccheck", "initcheck"]
SAID = 99  # exit code of compute-sanitizer where its tool reports something
UNWRITTEN = 0xffb1  # what an f16 that was never written holds in a dump
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


class Specimen:
    def __init__(self, words):
        self.name, self.kernel, self.stage, self.site, self.cause, options = words
        flags = options.split(",")
        self.causal, self.small = "causal" in flags, "small" in flags
        self.shape = ",".join(flag for flag in flags if re.fullmatch(r"\w+=\d+", flag))
        self.is_control = self.stage == "clean"

    def options(self):
        return ["--specimen", self.name, "--shape", self.shape, *(["--causal"] if self.causal else [])]


def read_specimens():
    lines = (ROOT / "tests" / "specimens" / "list.txt").read_text().splitlines()
    return [Specimen(line.split()) for line in lines if line and not line.startswith("#")]


def e4m3_value(code):
    """The number of an 8-bit code: sign, 4 bits of exponent (bias 7), 3 of mantissa (OCP OFP8)."""
    exponent, mantissa = code >> 3 & 15, code & 7
    size = (8 + mantissa) * 2.0 ** (exponent - 10) if exponent else mantissa * 2.0 ** -9
    return math.nan if code & 127 == 127 else -size if code & 128 else size


def read_dump(path):
    """Tensors as (dims, numbers), inputs of 8 bits times their scales; what was never written is zero."""
    data = path.read_bytes()
    length, = struct.unpack_from("<Q", data)
    tensors = {}
    for name, entry in json.loads(data[8:8 + length]).items():
        if name not in ("q", "k", "v", "q_scale", "k_scale", "v_scale", "o_final"):
            continue
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        raw = bytearray(data[begin:end])
        if entry["dtype"] == "F8_E4M3":
            numbers = [e4m3_value(code) for code in raw]
        elif entry["dtype"] == "F32":
            numbers = struct.unpack(f"<{len(raw) // 4}f", raw)
        else:
            for i in range(0, len(raw), 2):
                if raw[i] | raw[i + 1] << 8 == UNWRITTEN:
                    raw[i:i + 2] = b"\0\0"
            numbers = struct.unpack(f"<{len(raw) // 2}e", raw)
        tensors[name] = entry["shape"], numbers
    for name in "qkv":
        if name + "_scale" in tensors:
            (dims, numbers), scales = tensors[name], tensors[name + "_scale"][1]
            of_head = dims[2] * dims[3]
            tensors[name] = dims, [x * scales[i // of_head] for i, x in enumerate(numbers)]
    return tensors


def write_inputs(path, tensors, factor):
    header, data = {}, b""
    for name in "qkv":
        dims, numbers = tensors[name]
        packed = struct.pack(f"<{len(numbers)}e", *(factor * x for x in numbers))
        header[name] = {"dtype": "F16", "shape": dims, "data_offsets": [len(data), len(data) + len(packed)]}
        data += packed
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def is_close(tensors, causal):
    """Whether o_final is what textbook attention gives of q, k and v, within the tolerance."""
    (batch, heads, len_q, d), q = tensors["q"]
    (_, heads_kv, len_kv, _), k = tensors["k"]
    v, o = tensors["v"][1], tensors["o_final"][1]
    of_q, of_kv = len_q * d, len_kv * d

    def of_head(i):
        kv = i * heads_kv // heads * of_kv
        return is_close_head(q[i * of_q:(i + 1) * of_q], k[kv:kv + of_kv], v[kv:kv + of_kv],
                             o[i * of_q:(i + 1) * of_q], len_q, len_kv, d, causal)

    return all(of_head(i) for i in range(batch * heads))


def is_close_head(q, k, v, o, len_q, len_kv, d, causal):
    keys = [k[j * d:(j + 1) * d] for j in range(len_kv)]
    columns = [v[c::d] for c in range(d)]
    for i in range(len_q):
        seen = max(0, min(len_kv, i + len_kv - len_q + 1)) if causal else len_kv
        row = q[i * d:(i + 1) * d]
        scores = [sum(map(operator.mul, row, key)) / math.sqrt(d) for key in keys[:seen]]
        weights = [math.exp(score - max(scores)) for score in scores]
        for c in range(d):
            want = sum(map(operator.mul, weights, columns[c])) / sum(weights) if seen else 0.0
            if not abs(o[i * d + c] - want) <= TOLERANCE + TOLERANCE * abs(want):
                return False
    return True


class Bench:
    def __init__(self, program, ninja, folder):
        self.program, self.folder = program, folder
        self.environment = {"LANESCOPE_NINJA": ninja, **os.environ}
        backends = json.loads(self.call("list", "--format", "json").stdout)["backends"]
        tool = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
        gpu = any(b["backend"] == "cuda" and b["answers"] for b in backends)
        self.sanitizer = tool if gpu and os.path.exists(tool) else None

    def call(self, *words, before=()):
        return subprocess.run([*before, self.program, "-q", *map(str, words)], cwd=self.folder,
                              env=self.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)

    def output_is_close(self, specimen):
        dump, inputs = self.folder / "x.safetensors", []
        self.call("run", specimen.kernel, "fused", "--backend", "sim", *specimen.options(), "-o", dump)
        if specimen.small:
            inputs = ["--input", self.folder / "small.safetensors"]
            write_inputs(inputs[1], read_dump(dump), 0.01)
            self.call("run", specimen.kernel, "fused", "--backend", "sim", "--specimen", specimen.name, *inputs, "-o", dump)
        return is_close(read_dump(dump), specimen.causal)

    def sanitized(self, specimen):
        if not self.sanitizer:
            return "-"

        def says(tool):
            run = ["run", specimen.kernel, "fused", "--backend", "cuda", *specimen.options(), "-o",
                   self.folder / f"{tool}.safetensors"]
            before = [self.sanitizer, "--tool", tool, "--error-exitcode", str(SAID)] if tool else []
            return self.call(*run, before=before).returncode == SAID

        says("")  # it is built
        with concurrent.futures.ThreadPoolExecutor() as pool:
            said = [tool for tool, found in zip(TOOLS, pool.map(says, TOOLS)) if found]
        return "+".join(said) or "nothing"

    def locate(self, specimen):
        command = ["locate", specimen.kernel, "--specimen", specimen.name, "--backend", "sim", "--format", "json"]
        if specimen.cause == "hang":
            command += ["--timeout", "2"]  # seconds that each run of it takes
        self.call(*command)  # its modules are built
        begin = time.perf_counter()
        done = self.call(*command)
        taken = time.perf_counter() - begin
        if done.returncode not in (0, 1):
            sys.exit(f"{specimen.name}: {done.stderr}")
        return json.loads(done.stdout), taken


def main():
    program, ninja, *names = sys.argv[1:]
    failures = 0
    with tempfile.TemporaryDirectory() as scratch:
        bench = Bench(os.path.abspath(program), ninja, pathlib.Path(scratch))
        print(f"{'specimen':24} {'kernel':14} {'output':7} {'sanitizer':10} {'locate':6} {'stage':5} {'site':5} "
              f"{'cause':5} {'seconds':>7}  named")
        for specimen in read_specimens():
            if names and specimen.name not in names:
                continue
            said, taken = bench.locate(specimen)
            if specimen.is_control:
                right = [said["verdict"] == "clean"] * 3
                named = ""
            else:
                cause = f"{said['cause']}{'' if said['certain'] else '?'}"
                right = [said["stage"] == specimen.stage, said["site"] == specimen.site, cause == specimen.cause]
                named = f"{said['stage']} / {said['site']}: {cause}"
            failures += not all(right) or taken > LIMIT
            words = ["right" if is_right else "WRONG" for is_right in right]
            print(f"{specimen.name:24} {specimen.kernel:14} {'passes' if bench.output_is_close(specimen) else 'found':7} "
                  f"{bench.sanitized(specimen):10} {said['verdict']:6} {words[0]:5} {words[1]:5} {words[2]:5} {taken:7.2f}"
                  f"  {named}", flush=True)
    print(f"{failures} not as the list says" if failures else "all as the list says")
    sys.exit(failures > 0)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main()
