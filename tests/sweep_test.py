#!/usr/bin/env python3
"""sweep_test.py PROGRAM NINJA: `sweep` through the command line: what it finds, says and keeps, that it goes
on after it was ended, shards, baselines. NINJA builds the modules that are needed; all on the sim backend."""

import json
import signal
import subprocess
import time
import unittest

from support import browser
from support.program import DIVERGED, MISMATCH, USAGE, ProgramTest, take_arguments

SMALL = ["--backend", "sim", "--over", "s=1..40,skv=1..80,h=1..2,hkv=1..2,causal", "--check", "0"]


class SweepTest(ProgramTest):
    def lines_of(self, name):
        return [json.loads(line) for line in (self.folder / name).read_text().splitlines()]

    def cells_of(self, name):
        return [line for line in self.lines_of(name) if line["index"] is not None]

    def test_a_clean_kernel(self):
        done = self.call("sweep", "mma", *SMALL, "--runs", 30, "-o", "clean.jsonl")
        self.assertRegex(done.stdout, "(?s)^30 of 30 cells: 30 match\n.*no failure in 30 cells\n$")
        cells = self.cells_of("clean.jsonl")
        self.assertEqual(sorted(cell["index"] for cell in cells), list(range(30)))
        for cell in cells:
            self.assertEqual((cell["kernel"], cell["gate"], cell["outcome"]), ("mma", "fused", "match"))
            self.assertTrue(cell["s"] <= 40 and cell["skv"] <= 80 and cell["d"] == 64, cell)
            self.assertRegex(cell["bits"] + cell["source_hash"] + cell["build"], "^[0-9a-f]{48}$")
            self.assertGreater(cell["cpu_seconds"], 0)
            self.assertLessEqual(max(cell["errors"].values()), 1)

    def test_a_bug(self):
        answer = json.loads(self.call("sweep", "scalar", "--specimen", "masked_tile_unguarded", *SMALL, "--runs", 60, "-o",
                                      "bug.jsonl", "--format", "json", code=DIVERGED).stdout)
        self.assertEqual(answer["cells"], 60)
        way = answer["ways"][0]
        self.assertEqual(way["way"], "diverged at softmax / alpha")
        self.assertEqual(way["cause"], "masked_row_unguarded")
        self.assertIn("--shape b=1,h=1,s=2,skv=1,d=64 --causal", way["command"])
        clause, = answer["rules"][0]["clauses"]
        self.assertEqual((set(clause["conditions"]), clause["passing"]), ({"causal", "s > skv"}, 0))
        # What is said to run it again shows it, and the results say the same of themselves.
        self.call(*way["command"].split(), code=DIVERGED)
        again = self.json_of("sweep", "--report", "bug.jsonl", code=DIVERGED)
        self.assertEqual((again["failing"], again["rules"]), (answer["failing"], answer["rules"]))

    def test_a_bug_that_crashes(self):
        done = self.call("sweep", "scalar", "--specimen", "loop_past_the_end", *SMALL, "--runs", 12, "--failures", 3, code=DIVERGED)
        self.assertRegex(done.stdout, "ended early .--failures 3.")
        self.assertRegex(done.stdout, "crash in [3-9] cells")

    def ended(self, name, how, cells):
        """A sweep of 200 cells that is ended by a signal once it has written so many."""
        process = subprocess.Popen([self.program, "sweep", "mma", *SMALL, "--runs", "200", "-o", name], cwd=self.folder,
                                   env=self.environment, stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL, text=True)
        path = self.folder / name
        while not path.exists() or path.read_text().count("\n") < cells:
            self.assertIsNone(process.poll(), "it ended by itself")
            time.sleep(0.01)
        process.send_signal(how)
        words = process.communicate(timeout=60)[0]
        self.assertEqual(process.returncode, -how)
        return words

    def test_it_goes_on(self):
        self.assertEqual(self.ended("on.jsonl", signal.SIGKILL, 20), "")
        with open(self.folder / "on.jsonl", "a") as file:
            file.write('{"schema":1,"sweep":"half a li')
        self.assertRegex(self.ended("on.jsonl", signal.SIGINT, 60), "ended early .interrupted.")
        before = len(self.cells_of("on.jsonl"))
        self.assertTrue(60 <= before < 200, before)
        done = self.call("sweep", "mma", *SMALL, "--runs", 200, "-o", "on.jsonl")
        self.assertRegex(done.stdout, f"(?s)200 of 200 cells: 200 match\n{200 - before} cells run in")
        cells = self.cells_of("on.jsonl")
        self.assertEqual(sorted(cell["index"] for cell in cells), list(range(200)))
        print(f"killed and interrupted: {before} cells kept, {200 - before} run, none lost, none twice")

    def test_shards_are_the_whole(self):
        self.call("sweep", "mma", *SMALL, "--runs", 31, "-o", "whole.jsonl")
        for shard in (1, 2, 3):
            self.call("sweep", "mma", *SMALL, "--runs", 31, "--shard", f"{shard}/3", "-o", f"part{shard}.jsonl")
        def told(cells):
            return sorted((cell["index"], cell["seed"], cell["s"], cell["skv"], cell["bits"]) for cell in cells)
        parts = [cell for shard in (1, 2, 3) for cell in self.cells_of(f"part{shard}.jsonl")]
        self.assertEqual(told(parts), told(self.cells_of("whole.jsonl")))
        both = self.json_of("sweep", "--report", "part1.jsonl", "part2.jsonl", "part3.jsonl", "part1.jsonl")
        self.assertEqual(both["cells"], 31)

    def test_baseline(self):
        run = ["sweep", "scalar", *SMALL, "--runs", 40]
        self.call(*run, "-o", "base.jsonl")
        self.assertRegex(self.call(*run, "--baseline", "base.jsonl", "--bits").stdout, "as the baseline: 0 fail")
        lines = self.lines_of("base.jsonl")
        for line in lines:
            line["kernel"] = "scalar+mask_off_by_one"
        (self.folder / "other.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        bug = ["sweep", "scalar", "--specimen", "mask_off_by_one", *SMALL, "--runs", 40]
        self.assertRegex(self.call(*bug, "--baseline", "other.jsonl", code=DIVERGED).stdout, "cells newly failing\n$")
        self.call(*bug, "-o", "known.jsonl", code=DIVERGED)
        self.assertRegex(self.call(*bug, "--baseline", "known.jsonl").stdout, "all of which failed before\n$")
        lines[5]["bits"] = "0" * 16
        for line in lines:
            line["kernel"] = "scalar"
        (self.folder / "bits.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        self.call(*run, "--baseline", "bits.jsonl")
        self.assertRegex(self.call(*run, "--baseline", "bits.jsonl", "--bits", code=DIVERGED).stdout, "other bits in 1\n$")

    def test_page(self):
        self.call("sweep", "scalar", "--specimen", "masked_tile_unguarded", *SMALL, "--runs", 40, "-o", "page.jsonl", code=DIVERGED)
        self.call("sweep", "--report", "page.jsonl", "-o", "page.html", code=DIVERGED)
        self.refuses(USAGE, "names a page", "sweep", "--report", "page.jsonl", "-o", "again.jsonl")
        self.refuses(USAGE, "names the results", "sweep", "scalar", "-o", "page.html")
        if not browser.find():
            self.skipTest("no Chromium")
        seen, errors, logged = browser.look_at(self.folder, self.folder / "page.html", """
          const buttons = () => [...document.querySelectorAll("#sweep_map button")];
          const cells_in = (words) => buttons().reduce((sum, button) => sum + Number(button.title.match(words)[1]), 0);
          seen.push({failure: document.getElementById("failure").textContent, verdict: document.getElementById("verdict").textContent,
                     cells: cells_in(/[(](\\d+) cells/), fail: cells_in(/, (\\d+) fail/), rule: document.getElementById("rules").textContent});
          buttons().find((button) => !/ 0 fail/.test(button.title)).click();
          document.getElementById("down").value = "causal";
          document.getElementById("down").dispatchEvent(new Event("change"));
          await wait();
          buttons().find((button) => !/ 0 fail/.test(button.title)).click();
          seen.push({rows: document.querySelectorAll("#sweep_map > tr").length, field: document.getElementById("field").textContent,
                     sites: document.getElementById("sites").rows.length, slowest: document.getElementById("slowest").rows.length});
        """)
        self.assertEqual((errors, logged), ([], []))
        failing = sum(cell["failed"] for cell in self.cells_of("page.jsonl"))
        self.assertEqual((seen[0]["failure"], seen[0]["cells"], seen[0]["fail"]), ("", 40, failing))
        self.assertIn(f"{failing} of 40 cells", seen[0]["verdict"])
        self.assertIn("fails whenever", seen[0]["rule"])
        self.assertEqual((seen[1]["rows"], seen[1]["sites"], seen[1]["slowest"]), (2, 12, 12))
        self.assertRegex(seen[1]["field"], "diverged at .*lanescope diff scalar fused --specimen masked_tile_unguarded")

    def test_another_build(self):
        self.call("sweep", "mma", *SMALL, "--runs", 3, "-o", "old.jsonl")
        path = self.folder / "old.jsonl"
        path.write_text(path.read_text().replace(self.lines_of("old.jsonl")[0]["build"], "0123456789abcdef"))
        self.refuses(MISMATCH, "3 cells of this sweep from another build", "sweep", "mma", *SMALL, "--runs", 9, "-o", "old.jsonl")

    def test_what_is_refused(self):
        for words, *arguments in [
                ("which kernel", "sweep"),
                ("no kernel 'mmma'.*did you mean mma", "sweep", "mmma"),
                ("no gate 'fusd'", "sweep", "mma", "fusd"),
                ("has no gate 'combine_only'", "sweep", "mma", "combine_only"),
                ("--over s: '3..1' ends before", "sweep", "mma", "--over", "s=3..1"),
                ("like 1/8.*--array=1-8", "sweep", "mma", "--shard", "0/4"),
                ("does not end in .jsonl", "sweep", "mma", "-o", "x.json"),
                ("--baseline", "sweep", "mma", "--bits"),
                ("cannot read", "sweep", "--report", "none.jsonl"),
                ("runs no mma", "sweep", "mma", "--report", "none.jsonl"),
                ("no backend 'simm'", "sweep", "mma", "--backend", "simm")]:
            self.refuses(USAGE, words, *arguments)

    def test_all_kernels_and_gates(self):
        over = ["--backend", "sim", "--over", "s=1..40,skv=1..80,input=*"]
        self.call("sweep", "all", "fused", "softmax_only", *over, "--check", "10", "--runs", 40, "-o", "all.jsonl")
        cells = self.cells_of("all.jsonl")
        self.assertEqual({cell["outcome"] for cell in cells}, {"match"})
        self.assertEqual({cell["gate"] for cell in cells}, {"fused", "softmax_only"})
        self.assertGreater(len({cell["kernel"] for cell in cells}), 3)
        self.assertTrue(any(cell["checked"] for cell in cells))
        # Of gates that not every kernel has, those that do.
        self.call("sweep", "all", "combine_only", *over, "--check", "0", "--runs", 6, "-o", "combine.jsonl")
        self.assertEqual({(cell["kernel"], cell["outcome"]) for cell in self.cells_of("combine.jsonl")}, {("splitk", "match")})


if __name__ == "__main__":
    take_arguments(__doc__)
    unittest.main()
