#!/usr/bin/env python3
"""edit_to_verdict.py SOURCE_ROOT MESON NINJA: how long one waits, as medians of 5, next to the limits
that the lab set itself (shown, not enforced). Works in a copy of the sources, through ./lanescope."""

import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

REPEATS = 5
DIFF = ["./lanescope", "-q", "diff", "mma", "softmax_only", "--preset", "debug", "--backend", "sim"]
FUSED = ["./lanescope", "-q", "run", "mma", "fused", "--preset", "mission", "--untraced", "--backend", "sim",
         "-o", "x.safetensors"]
CUDA_MODULE = "gates/mma.softmax_only.f16.d128.64x64.cuda.so"


class Copy:
    """A copy of the sources, and what the commands run in it take."""

    def __init__(self, source_root, folder, meson):
        self.root = folder / "lanescope"
        shutil.copytree(source_root, self.root, ignore=shutil.ignore_patterns(".*", "build*", "*.safetensors"))
        self.environment = {**os.environ, "PATH": f"{pathlib.Path(meson).parent}:{os.environ['PATH']}"}
        self.environment.pop("LANESCOPE_BUILD", None)
        self.kernel = self.root / "kernels" / "mma.h"
        self.text = self.kernel.read_text()
        self.edits = 0

    def edit(self):
        """Changes nothing that a compiler or a kernel sees."""
        self.edits += 1
        self.kernel.write_text(f"{self.text}// edit {self.edits}\n")

    def seconds(self, *command):
        begin = time.perf_counter()
        done = subprocess.run(command, cwd=self.root, env=self.environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        taken = time.perf_counter() - begin
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}")
        return taken

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
        report("first verdict of a new checkout", copy.seconds(*DIFF))
        report("edit of kernels/mma.h -> verdict", copy.median(*DIFF, edited=True), 6)
        report("no edit -> verdict", copy.median(*DIFF), 0.5)
        copy.seconds(*FUSED)  # compiles it
        report("fused at mission on sim, untraced", copy.median(*FUSED), 3)
        targets = subprocess.run([ninja, "-C", copy.root / "build", "-t", "targets", "all"], check=True,
                                 stdout=subprocess.PIPE, text=True).stdout
        if re.search(f"^{re.escape(CUDA_MODULE)}:", targets, re.MULTILINE):
            compile_cuda = [ninja, "-C", str(copy.root / "build"), CUDA_MODULE]
            report("edit of kernels/mma.h -> cuda module", copy.median(*compile_cuda, edited=True))


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main()
