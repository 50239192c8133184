#!/usr/bin/env python3
"""run.py BUILD [-v] [--quick] [PATTERN ...]: runs the tests that the build folder BUILD holds, one per core, and
those that mostly wait beside them; `./lanescope test` calls it.

A PATTERN is Catch2's (a name, `mma*`, a tag `[shapes]`) or names a test in Python, and several may stand in
one (`mma*,watch`): what matches any of them runs; without one all run but the cases with a hidden tag. --quick: the cases tagged [quick]. -v says how each ended.
A case that cannot run here says so in the file LANESCOPE_SKIPPED, a test in Python by exit code 77. Ends in
the slowest ones, with the seconds of CPU that they took, the names of those that failed, and "N passed, N failed,
N skipped"; exits with 1 where one failed, 2 where none matches."""

import argparse
import concurrent.futures
import fnmatch
import json
import os
import pathlib
import queue
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

CATCH = "lanescope_tests"
CATCH_WORDS = re.compile(r"=*|Filters: .*|Randomness seeded to: .*|All tests passed .*")
CASE_SECONDS = 1800  # that a case of it may take
WAITS = "lanescope:waits"  # meson's suite of what mostly waits: for a browser, for a clock
SLOWEST = 10  # that are listed


class Job:
    """A case of Catch2 or a test in Python: its name, what to call, for how many seconds at most; whether it mostly
    waits."""

    def __init__(self, name, command, seconds, waits=False):
        self.name, self.command, self.seconds, self.waits = name, command, seconds, waits


def cases(build, patterns):
    program = build / "tests" / CATCH

    def listed(*how):
        return subprocess.run([program, *how, *filter(None, [",".join(patterns)])], capture_output=True, text=True)

    done = listed("--list-test-names-only")  # Catch2 2
    if "Unrecognised token" in done.stdout + done.stderr:
        done = listed("--list-tests", "--verbosity", "quiet")  # Catch2 3
    escaped = str.maketrans({c: "\\" + c for c in '\\,["'})  # what a pattern gives another meaning
    names = [line.strip() for line in done.stdout.splitlines() if line.strip()]
    return [Job(name, [program, name.translate(escaped)], CASE_SECONDS) for name in names]


def python_tests(build, patterns):
    tests = json.loads((build / "meson-info" / "intro-tests.json").read_text())
    return [Job(test["name"], test["cmd"], test["timeout"], WAITS in test["suite"]) for test in tests
            if test["name"] != CATCH and (not patterns or any(fnmatch.fnmatchcase(test["name"], pattern)
                                     for pattern in ",".join(patterns).split(",")))]


def wait_for(process, seconds):
    """The exit code of a process that leads a session, None where it took too long and was killed with all of its
    group; the seconds of CPU that it and what it waited for took."""
    late = threading.Event()

    def end():
        late.set()
        os.killpg(process.pid, signal.SIGKILL)

    timer = threading.Timer(seconds, end)
    timer.start()
    _, status, used = os.wait4(process.pid, 0)
    timer.cancel()
    process.returncode = os.waitstatus_to_exitcode(status)
    return None if late.is_set() else process.returncode, used.ru_utime + used.ru_stime


def run(job, build):
    """How the job ended ("passed", "failed", "skipped"), in how many seconds, how many of CPU, and what it said."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+", errors="replace") as said:
        skipped = pathlib.Path(folder) / "skipped"
        skipped.touch()
        start = time.monotonic()
        # In the build folder, to which the compiler's names of the sources are relative; in a session
        # of its own, so that all that it started ends with it.
        process = subprocess.Popen(job.command, cwd=build, stdin=subprocess.DEVNULL, stdout=said, stderr=said,
                                   env={**os.environ, "LANESCOPE_SKIPPED": str(skipped)}, start_new_session=True)
        code, cpu = wait_for(process, job.seconds)
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        said.seek(0)
        words = said.read()
        if code is None:
            words += f"ended after {job.seconds} s\n"
        reason = skipped.read_text()
        ended = "skipped" if code == 77 or (code == 0 and reason) else "passed" if code == 0 else "failed"
        return ended, time.monotonic() - start, cpu, words + reason


def start_all(jobs, build):
    """The futures of `run` of each job, in this order one per core, to which its threads are bound: with more of them
    than cores each takes up to half as much CPU again. Those that wait run beside them, one at a time."""
    cores = queue.SimpleQueue()
    for core in os.sched_getaffinity(0):
        cores.put(core)
    working = concurrent.futures.ThreadPoolExecutor(cores.qsize(), initializer=lambda: os.sched_setaffinity(0, {cores.get()}))
    waiting = concurrent.futures.ThreadPoolExecutor(1)
    return {(waiting if job.waits else working).submit(run, job, build): job for job in jobs}


def main():
    parser = argparse.ArgumentParser(prog="./lanescope test", description=__doc__.split("\n\n", 1)[1])
    parser.add_argument("build", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("-v", "--verbose", action="store_true", help="say how each ended")
    parser.add_argument("--quick", action="store_true", help="a few cases of each folder")
    parser.add_argument("pattern", nargs="*")
    options = parser.parse_intermixed_args()  # options may stand before the patterns
    build = options.build.resolve()
    patterns = options.pattern + (["[quick]"] if options.quick else [])
    jobs = python_tests(build, patterns) + cases(build, patterns)
    if not jobs:
        print("no test matches:", *patterns, file=sys.stderr)
        return 2

    # Those that took longest last time begin, so that none is left over at the end; the first time [slow] cases.
    record = build / "test_seconds.json"
    seconds = json.loads(record.read_text()) if record.exists() else {}
    slow = {job.name for job in cases(build, ["[slow]"])}
    jobs.sort(key=lambda job: (-seconds.get(job.name, float("inf")), job.name not in slow))
    counts, failed, took, cpu = {"passed": 0, "failed": 0, "skipped": 0}, [], {}, {}
    futures = start_all(jobs, build)
    for future in concurrent.futures.as_completed(futures):
        name = futures[future].name
        ended, took[name], cpu[name], words = future.result()
        counts[ended] += 1
        if ended == "failed" or options.verbose:
            print(f"{ended}: {name}  ({took[name]:.1f} s)", flush=True)
        if ended == "failed":
            failed.append(name)
            print(words, flush=True)
        elif ended == "passed" and options.verbose:
            for line in words.splitlines():
                if not CATCH_WORDS.fullmatch(line):
                    print(" ", line, flush=True)
        if ended == "skipped":
            print(words.strip().splitlines()[-1] if words.strip() else f"SKIPPED: {name}", flush=True)
    record.write_text(json.dumps({**seconds, **took}, indent=0))

    print("\nslowest")
    for name in sorted(took, key=took.get, reverse=True)[:SLOWEST]:
        print(f"{took[name]:8.1f} s {cpu[name]:8.1f} CPU-s  {name}")
    for name in failed:
        print(f"FAILED: {name}")
    print(", ".join(f"{count} {ended}" for ended, count in counts.items()))
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
