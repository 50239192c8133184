#!/usr/bin/env python3
"""mutation_table.py [--in FOLDER] [--every N] [KERNEL ...]: what `locate` says of the one-line edits
of tests/mutations/KERNEL.txt [all kernels], one after the other.

Works in a copy of the sources, in FOLDER where that is given (it is kept, and used again), through
./lanescope. --every N: every N-th edit only. Exit code 1 where a list does not fit its kernel."""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from support.checkout import copy_sources  # noqa: E402
LINE = re.compile(r"(?P<stage>\w+)(?: (?P<place>\d+))?: (?P<old>.+?) =>(?: (?P<new>.*))?")
LONGEST = 300  # seconds that a locate may take


class Mutation:
    def __init__(self, line):
        parts = LINE.fullmatch(line)
        if not parts:
            sys.exit(f"not of the form 'STAGE: TEXT => TEXT': {line}")
        self.line = line
        self.stage, self.old, self.new = parts["stage"], parts["old"], parts["new"] or ""
        self.place = int(parts["place"] or 1)

    def applied_to(self, sources):
        """(path, text) of the first source that holds the place, with the edit made."""
        for path in sources:
            pieces = path.read_text().split(self.old)
            if len(pieces) > self.place:
                return path, self.old.join(pieces[:self.place]) + self.new + self.old.join(pieces[self.place:])
        sys.exit(f"the kernel does not hold the text of: {self.line}")


def sources_of(kernel):
    """The kernel's file, then the parts that it includes, one after the other."""
    sources = [ROOT / "kernels" / f"{kernel}.h"]
    for path in sources:
        for name in re.findall(r'#include "(kernels/(?:parts/)?\w+\.h)"', path.read_text()):
            if ROOT / name not in sources:
                sources.append(ROOT / name)
    return sources


def read_list(kernel):
    lines = (ROOT / "tests" / "mutations" / f"{kernel}.txt").read_text().splitlines()
    return [Mutation(line) for line in lines if line and not line.startswith("#")]


def locate(root, kernel):
    """What locate says, as one word per question, and how it was said."""
    command = ["./lanescope", "-q", "locate", kernel, "--backend", "sim", "--format", "json"]
    environment = {**os.environ}
    environment.pop("LANESCOPE_BUILD", None)
    try:
        done = subprocess.run(command, cwd=root, env=environment, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=LONGEST)
    except subprocess.TimeoutExpired:
        return {"verdict": "timeout"}
    if done.returncode not in (0, 1):
        return {"verdict": "error", "words": (done.stderr or done.stdout).strip().splitlines()[-1:]}
    return json.loads(done.stdout)


def judged(mutation, said):
    """How the answer compares with what the list expects: detected, right stage."""
    if mutation.stage == "clean":
        return said["verdict"] == "clean", said["verdict"] == "clean"
    return said["verdict"] == "fault", said["verdict"] == "fault" and said["stage"] == mutation.stage


def answer_text(said):
    if said["verdict"] != "fault":
        return " ".join([said["verdict"], *said.get("words", [])])
    return f"{said['stage']} / {said['site']}: {said['cause']}{'' if said['certain'] else ' ?'}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--in", dest="folder")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("kernels", nargs="*")
    options = parser.parse_args()
    kernels = options.kernels or sorted(path.stem for path in (ROOT / "tests" / "mutations").glob("*.txt"))
    lists = {kernel: read_list(kernel)[::options.every] for kernel in kernels}
    with tempfile.TemporaryDirectory() as scratch:
        copy = pathlib.Path(options.folder or scratch) / "lanescope"
        copy_sources(ROOT, copy)
        totals = []
        subprocess.run(["./lanescope", "-Dbackends=sim", "list"], cwd=copy, capture_output=True, check=True)  # it is built
        for kernel, mutations in lists.items():
            sources = sources_of(kernel)
            edited = [mutation.applied_to(sources) for mutation in mutations]
            found = right = certain = 0
            for mutation, (path, text) in zip(mutations, edited):
                source = copy / path.relative_to(ROOT)
                source.write_text(text)
                begin = time.perf_counter()
                said = locate(copy, kernel)
                taken = time.perf_counter() - begin
                source.write_text(path.read_text())
                detected, stage = judged(mutation, said)
                found += detected
                right += stage
                certain += bool(said.get("certain"))
                print(f"{kernel:15} {'found ' if detected else 'MISSED'} {'stage' if stage else 'STAGE'} "
                      f"{answer_text(said):48} {taken:5.1f} s  {mutation.line}", flush=True)
            totals.append(f"{kernel}: {found} of {len(mutations)} found, {right} at the right stage, "
                          f"{certain} with a certain cause")
    print("\n".join(totals))


if __name__ == "__main__":
    main()
