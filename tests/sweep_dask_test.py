#!/usr/bin/env python3
"""sweep_dask_test.py PROGRAM NINJA BUILD: `sweep --dask` with a real scheduler and three workers, of which one is
killed, and a fourth one of another build, in a virtual environment in the folder BUILD with Dask. NINJA builds
the modules; all on the sim backend. Skipped (77) where PyPI is not reached."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

from support.environment import environment_in
from support.program import ENVIRONMENT, OK, USAGE, ProgramTest, take_arguments

DASK = "distributed==2025.1.0"
SMALL = ["sweep", "mma", "--backend", "sim", "--over", "s=1..40,skv=1..80,h=1..2,hkv=1..2,causal", "--check", "0"]
CELLS = 300


class DaskTest(ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.processes = []
        cls.addClassCleanup(lambda: [process.kill() for process in cls.processes] and [process.wait() for process in cls.processes])
        path = cls.folder / "scheduler.json"
        cls.start("dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", path)
        while not path.exists():
            time.sleep(0.05)
        cls.address = json.loads(path.read_text())["address"]
        cls.environment = {**cls.environment, "PATH": f"{cls.python.parent}:{os.environ['PATH']}"}

    @classmethod
    def start(cls, what, *arguments, **environment):
        """A scheduler or a worker, which says what it says to a file of its name."""
        with open(cls.folder / f"{what}.{len(cls.processes)}.log", "w") as log:
            cls.processes.append(subprocess.Popen([cls.python, "-m", f"distributed.cli.{what}", *map(str, arguments)], cwd=cls.folder,
                                                  env={**os.environ, **environment}, stdout=log, stderr=log))
        return cls.processes[-1]

    def worker(self, name, **environment):
        return self.start("dask_worker", self.address, "--nthreads", "1", "--no-nanny", "--no-dashboard", "--name", name, **environment)

    def cells_of(self, name):
        path = self.folder / name
        lines = [json.loads(line) for line in path.read_text().split("\n")[:-1]] if path.exists() else []
        return sorted((line["index"], line["seed"], line["s"], line["skv"], line["bits"]) for line in lines)

    def test_a_worker_is_killed_and_one_is_refused(self):
        other = self.folder / "other_lanescope"
        shutil.copy(self.whole_program, other)
        with open(other, "ab") as file:
            file.write(b"\0")  # another build
        workers = [self.worker(f"worker{i}") for i in range(3)]
        self.worker("other", LANESCOPE_PROGRAM=str(other), LANESCOPE_MODULES=str(self.program.parent))
        sweep = subprocess.Popen([self.program, *SMALL, "--runs", str(CELLS), "-o", "dask.jsonl", "--dask", self.address], cwd=self.folder,
                                 env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while len(self.cells_of("dask.jsonl")) < CELLS // 5:
            self.assertIsNone(sweep.poll(), "it ended too soon")
            time.sleep(0.02)
        before = len(self.cells_of("dask.jsonl"))
        workers[0].send_signal(signal.SIGKILL)
        said, errors = sweep.communicate(timeout=300)
        self.assertEqual(sweep.returncode, OK, said + errors)
        self.assertRegex(said, f"^{CELLS} of {CELLS} cells: {CELLS} match")
        self.assertEqual(len(re.findall("worker tcp://[^ ]* is refused: .*another build", errors)), 1, errors)
        cells = self.cells_of("dask.jsonl")
        self.assertEqual([cell[0] for cell in cells], list(range(CELLS)))
        self.call(*SMALL, "--runs", CELLS, "-o", "local.jsonl")
        self.assertEqual(cells, self.cells_of("local.jsonl"))
        print(f"{CELLS} cells, a worker killed after {before}: none lost, none twice, the bits of a local run")

    def test_what_is_refused(self):
        self.refuses(USAGE, "--dask needs -o", *SMALL, "--dask", self.address)
        self.refuses(ENVIRONMENT, "no Dask scheduler answers", *SMALL, "--runs", 1, "-o", "none.jsonl", "--dask", "tcp://127.0.0.1:9")


if __name__ == "__main__":
    build = pathlib.Path(take_arguments(__doc__, 1)[0]).resolve()
    DaskTest.python = environment_in(build / "dask_environment", DASK)
    if DaskTest.python is None:
        sys.exit(77)
    unittest.main()
