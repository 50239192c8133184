#!/usr/bin/env python3
"""edit_to_verdict.py SOURCE_ROOT MESON NINJA: how long one waits for a verdict after an edit, and for the
simulator, as medians of 5, next to the limits that the lab set itself (shown, not enforced). Works in a copy
of the sources, through ./lanescope. Where no GPU answers, of cuda only the compilation is timed."""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support.checkout import copy_sources  # noqa: E402

REPEATS = 5
DIFF = ["./lanescope", "-q", "diff", "mma", "softmax_only", "--preset", "debug", "--backend"]
FUSED = ["./lanescope", "-q", "run", "mma", "fused", "--untraced", "--backend", "sim", "-o", "x.safetensors"]
CHECK = ["./lanescope", "-q", "check", "mma", "fused"]
MISSION = ["--preset", "mission"]
LENGTHS = {512: 8, 1024: 2, 2048: 1, 4096: 1}  # and the heads of such a run
CUDA_MODULE = "gates/mma.softmax_only.f16.d128.64x64.cuda.so"


class Copy:
    """A copy of the sources, and what the commands run in it take."""

    def __init__(self, source_root, folder, meson):
        self.root = folder / "lanescope"
        copy_sources(source_root, self.root)
        self.environment = {**os.environ, "PATH": f"{pathlib.Path(meson).parent}:{os.environ['PATH']}"}
        self.environment.pop("LANESCOPE_BUILD", None)
        self.kernel = self.root / "kernels" / "mma.h"
        self.text = self.kernel.read_text()
        self.edits = 0

    def edit(self):
        """Changes nothing that a compiler or a kernel sees."""
        self.edits += 1
        self.kernel.write_text(f"{self.text}// edit {self.edits}\n")

    def output(self, *command):
        done = subprocess.run(command, cwd=self.root, env=self.environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}")
        return done.stdout

    def seconds(self, *command):
        begin = time.perf_counter()
        self.output(*command)
        return time.perf_counter() - begin

    def median(self, *command, edited=False):
        times = []
        for _ in range(REPEATS):
            if edited:
                self.edit()
            times.append(self.seconds(*command))
        return statistics.median(times)


def report(what, seconds, limit=None):
    print(f"{what:50} {seconds:8.2f} s   {f'limit {limit} s' if limit else ''}", flush=True)


def main():
    source_root, meson, ninja = sys.argv[1:4]
    with tempfile.TemporaryDirectory() as name:
        copy = Copy(source_root, pathlib.Path(name), meson)
        report("first verdict of a new checkout", copy.seconds(*DIFF, "sim"))
        report("edit of kernels/mma.h -> verdict on sim", copy.median(*DIFF, "sim", edited=True), 4)
        report("no edit -> verdict", copy.median(*DIFF, "sim"), 0.5)
        copy.seconds(*FUSED, *MISSION)  # compiles it
        report("fused at mission on sim, untraced", copy.median(*FUSED, *MISSION), 1)
        copy.seconds(*CHECK, *MISSION)
        report("check of fused at mission", copy.median(*CHECK, *MISSION), 4)
        for length, heads in LENGTHS.items():
            taken = copy.median(*FUSED, "--shape", f"h={heads},s={length},d=64")
            print(f"{f'fused on sim, S = {length}':50} {1e9 * taken / (heads * length ** 2):8.1f} ns for a query and key")
        listed = json.loads(copy.output("./lanescope", "-q", "list", "--format", "json"))
        answers = {backend["backend"]: backend["answers"] for backend in listed["backends"]}
        if answers.get("cuda"):
            copy.seconds(*DIFF, "cuda")
            report("edit of kernels/mma.h -> verdict on cuda", copy.median(*DIFF, "cuda", edited=True), 6)
        elif "cuda" in answers:
            compile_cuda = [ninja, "-C", str(copy.root / "build"), CUDA_MODULE]
            copy.seconds(*compile_cuda)
            report("edit of kernels/mma.h -> cuda module", copy.median(*compile_cuda, edited=True))


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main()
