#!/usr/bin/env python3
"""sweep_table.py [--in FOLDER] [--minutes M] [--every N] [KERNEL ...]: what `sweep` says of the bugs of
tests/shape_bugs/KERNEL.txt [all kernels], which only some shapes show, one after the other.

Works in a copy of the sources, in FOLDER where that is given (it is kept, and used again), through
./lanescope. --minutes: that a sweep may take on two cores of its own [5]: it ends when its cells have taken
twice that of processor time, however long that is. --every N: every N-th bug only. FOLDER holds a line of JSON
per bug, sweep_table.jsonl, and each sweep's results. Exit code 1 where a list does not fit its kernel, or a cell fails outside of where
its bug may show."""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

from mutation_table import ROOT, Mutation, sources_of

sys.path.insert(0, str(ROOT / "tests"))
from support.checkout import copy_sources  # noqa: E402

CORES = 2
FAILURES = 12  # after which a sweep ends: enough to learn a rule from


class Bug(Mutation):
    def __init__(self, line):
        when, edit = line.split(" | ", 1)
        super().__init__(edit)
        self.when = compile(when, line, "eval")
        self.when_text = when

    def may_show(self, cell):
        br, bc = map(int, cell["tile"].split("x"))
        names = {**cell, "Br": br, "Bc": bc, "D": cell["head_dim"], "tiles": -(-cell["skv"] // bc),
                 "group": cell["h"] // cell["hkv"], "max": max}
        return bool(eval(self.when, {"__builtins__": {}}, names))


def read_list(kernel):
    lines = (ROOT / "tests" / "shape_bugs" / f"{kernel}.txt").read_text().splitlines()
    return [Bug(line) for line in lines if line and not line.startswith("#")]


def sweep(root, kernel, results, budget):
    """What the sweep says, and the lines that it wrote, in the order in which they came."""
    results.unlink(missing_ok=True)
    environment = {**os.environ}
    environment.pop("LANESCOPE_BUILD", None)
    command = ["./lanescope", "-q", "sweep", kernel, "--backend", "sim", "--check", "0", "--seed", "1",
               "--failures", str(FAILURES), "-o", str(results), "--format", "json"]
    runs, lines, said = 0, [], None
    while True:  # in parts, since the budget is of processor time
        runs += 500
        done = subprocess.run([*command, "--runs", str(runs)], cwd=root, env=environment, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True)
        if done.returncode not in (0, 1):
            sys.exit(done.stderr or done.stdout)
        said = json.loads(done.stdout)
        lines = [json.loads(line) for line in results.read_text().splitlines()]
        if said["failing"] or sum(line["cpu_seconds"] for line in lines) >= budget:
            return said, lines


def row_of(kernel, bug, said, lines):
    cells = [line for line in lines if line["index"] is not None]
    first = next((i for i, line in enumerate(cells) if line["failed"]), None)
    upto = cells[: first + 1] if first is not None else cells
    rule = (said["rules"] or [{"clauses": []}])[0]
    return {
        "kernel": kernel, "bug": bug.line, "when": bug.when_text, "found": first is not None,
        "cells_to_first": len(upto), "cpu_seconds_to_first": round(sum(line["cpu_seconds"] for line in upto), 2),
        "cells": len(cells), "tried": len(lines) - len(cells),
        "outside": sum(line["failed"] and not bug.may_show(line) for line in lines),
        "inside_right": sum(line["outcome"] == "match" and bug.may_show(line) for line in lines),
        "rule": [" and ".join(clause["conditions"]) + f" ({clause['failing']} of {clause['failing'] + clause['passing']})"
                 for clause in rule["clauses"]],
        "unexplained": rule.get("unexplained", 0),
        "smallest": said["ways"][0]["command"] if said["ways"] else None,
        "cause": said["ways"][0]["cause"] if said["ways"] else None,
        "ways": len(said["ways"])}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--in", dest="folder")
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("kernels", nargs="*")
    options = parser.parse_args()
    kernels = options.kernels or sorted(path.stem for path in (ROOT / "tests" / "shape_bugs").glob("*.txt"))
    lists = {kernel: read_list(kernel)[::options.every] for kernel in kernels}
    found = total = outside = 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(options.folder or scratch)
        copy = folder / "lanescope"
        copy_sources(ROOT, copy)
        subprocess.run(["./lanescope", "-Dbackends=sim", "list"], cwd=copy, capture_output=True, check=True)  # it is built
        for kernel, bugs in lists.items():
            edits = [bug.applied_to(sources_of(kernel)) for bug in bugs]
            for number, (bug, (path, text)) in enumerate(zip(bugs, edits)):
                source = copy / path.relative_to(ROOT)
                source.write_text(text)
                begin = time.perf_counter()
                said, lines = sweep(copy, kernel, folder / f"{kernel}.{number}.jsonl", 60 * CORES * options.minutes)
                source.write_text(path.read_text())
                row = row_of(kernel, bug, said, lines)
                with open(folder / "sweep_table.jsonl", "a") as file:
                    file.write(json.dumps(row) + "\n")
                total, found, outside = total + 1, found + row["found"], outside + row["outside"]
                print(f"{kernel:15} {'found ' if row['found'] else 'MISSED'} {row['cells_to_first']:5} cells "
                      f"{row['cpu_seconds_to_first']:6.1f} CPU s  {time.perf_counter() - begin:5.0f} s in all"
                      f"{'  OUTSIDE ' + str(row['outside']) if row['outside'] else ''}\n  when   {row['when']}\n"
                      f"  rule   {'; else '.join(row['rule']) or 'none'}{', ' + str(row['unexplained']) + ' others' if row['unexplained'] else ''}\n"
                      f"  least  {row['smallest']}\n  cause  {row['cause']}", flush=True)
    print(f"{found} of {total} found")
    return 1 if outside else 0


if __name__ == "__main__":
    sys.exit(main())
