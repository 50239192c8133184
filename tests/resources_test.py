#!/usr/bin/env python3
"""resources_test.py PROGRAM NINJA: what the fused kernels take is within the recorded budgets, and what
is not is named. One type, head dimension and tile of each kernel, compiled by nvcc; `.ci/run` holds every
module to its budget."""

import re
import shutil
import unittest

from support.program import DIVERGED as OVER
from support.program import ENVIRONMENT, MISMATCH, ROOT, USAGE, ProgramTest, take_arguments

SPECIMEN = "mma+dead_zero_output"  # the output is never written: nothing of it is needed


class ResourcesTest(ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        listed = cls().json_of("list")
        cls.kernels = {kernel["kernel"]: ["--gate", "fused", "--dtype", "f16", "--d", "64", "--tile-shape", kernel["tiles"][0]]
                       for kernel in listed["kernels"] if "fused" in kernel["gates"] and 64 in kernel["head_dims"]}
        if "cuda" not in [backend["backend"] for backend in listed["backends"]] or "mma" not in cls.kernels:
            raise unittest.SkipTest("this build has no cuda module of mma fused")

    def altered(self, name, figure, change):
        """A folder with mma's budgets as recorded here, one figure of them changed."""
        folder = self.folder / name
        folder.mkdir()
        self.call("resources", "mma", *self.kernels["mma"], "--record", LANESCOPE_BUDGETS=folder)
        path = folder / "mma.txt"
        lines = path.read_text().splitlines()
        for i, line in enumerate(lines):
            if not line.startswith("#"):
                words = line.split()
                words[figure] = str(change(int(words[figure])))
                lines[i] = " ".join(words)
        path.write_text("\n".join(lines) + "\n")
        return folder

    def test_within_the_recorded_budgets(self):
        for kernel, options in self.kernels.items():
            with self.subTest(kernel):
                if not (ROOT / "kernels" / "budgets" / f"{kernel}.txt").exists():
                    self.fail(f"no budgets: ./lanescope resources {kernel} --record writes them")
                report = self.json_of("resources", kernel, *options)
                self.assertEqual(report["verdict"], "within")
                self.assertEqual({one["traced"] for one in report["modules"]}, {True, False})
                for one in report["modules"]:
                    self.assertIsNotNone(one["budget"], one["module"])
                    self.assertGreater(one["registers"], 15, one["module"])
                    self.assertGreater(one["blocks_per_multiprocessor"], 0, one["module"])

    def test_modules_at_hand_come_first(self):
        one = ["resources", "mma", "--gate", "softmax_only", "--dtype", "f16", "--d", "64"]
        tiles = [tile for kernel in self.json_of("list")["kernels"] if kernel["kernel"] == "mma" for tile in kernel["tiles"]]
        row = f"mma.softmax_only.f16.d64.{tiles[1]}.cuda"
        self.call(*one, "--tile-shape", tiles[1], "--record", LANESCOPE_BUDGETS=self.folder)
        for suffix in [".so", ".resources"]:
            self.module(f"mma.softmax_only.f16.d64.{tiles[0]}.cuda").with_suffix(suffix).unlink(missing_ok=True)
        fails_late = self.folder / "ninja"  # only what is at hand builds
        fails_late.write_text(f'#!/bin/sh\ncase "$*" in *{tiles[0]}*) exit 1;; esac\nexec {self.environment["LANESCOPE_NINJA"]} "$@"\n')
        fails_late.chmod(0o755)
        done = self.result_of(*one, LANESCOPE_NINJA=str(fails_late))
        self.assertEqual(done.returncode, USAGE, done.stderr)
        self.assertRegex(done.stdout, rf"(?m)^{re.escape(row)} +\d+ \| \d+")
        self.assertNotIn(tiles[0], done.stdout)
        self.assertRegex(done.stderr, r"these were at hand; \d+ modules are to be compiled")

    def test_over_budget(self):
        for name, figure, change, words in [
                ("registers", 2, lambda n: n - 1, r"\d+ registers, the budget is \d+: 1 more"),
                ("shared", 6, lambda n: n - 16, r"bytes of shared memory, the budget is \d+: 16 more"),
                ("blocks", 7, lambda n: n + 1, r"blocks per multiprocessor, the budget is at least \d+: 1 fewer")]:
            with self.subTest(name):
                folder = self.altered(name, figure, change)
                text = self.call("resources", "mma", *self.kernels["mma"], code=OVER, LANESCOPE_BUDGETS=folder).stdout
                self.assertRegex(text, words)
                self.assertEqual(text.splitlines()[-1], "over budget: 2 of 2")
        report = self.json_of("resources", "mma", *self.kernels["mma"], code=OVER, LANESCOPE_BUDGETS=folder)
        self.assertEqual((report["verdict"], report["modules"][0]["over"][0]["figure"]), ("over", "blocks"))

    def test_far_below_budget_is_judged(self):
        folder = self.altered("fell", 2, lambda n: n * 2)
        report = self.json_of("resources", "mma", *self.kernels["mma"], LANESCOPE_BUDGETS=folder)
        self.assertEqual({one["diff"] for one in report["modules"]}, {"match"})
        shutil.copy(folder / "mma.txt", folder / f"{SPECIMEN}.txt")
        path = folder / f"{SPECIMEN}.txt"
        path.write_text(path.read_text().replace("mma.", f"{SPECIMEN}."))
        text = self.call("resources", SPECIMEN, *self.kernels["mma"], code=OVER, LANESCOPE_BUDGETS=folder).stdout
        self.assertRegex(text, r"(?s)registers, recorded are \d+.*DIVERGES.*lanescope diff mma\+dead_zero_output fused")
        kept = path.read_text()
        done = self.call("resources", SPECIMEN, *self.kernels["mma"], "--record", code=OVER, LANESCOPE_BUDGETS=folder)
        self.assertIn("nothing is recorded", done.stderr)
        self.assertEqual(path.read_text(), kept)

    def test_what_it_refuses(self):
        run = ["resources", "mma", *self.kernels["mma"]]
        empty = self.folder / "empty"
        empty.mkdir()
        self.assertIn("no budgets of mma are recorded", self.call(*run, LANESCOPE_BUDGETS=empty).stdout)
        (empty / "mma.txt").write_text("# nothing\n")
        self.assertIn("no budget is recorded for it", self.call(*run, code=OVER, LANESCOPE_BUDGETS=empty).stdout)
        (empty / "mma.txt").write_text("mma.fused 1 2\n")
        self.refuses(USAGE, r"mma\.txt:1: .*--record", *run, LANESCOPE_BUDGETS=empty)
        other = self.altered("arch", 7, lambda n: n)
        (other / "mma.txt").write_text((other / "mma.txt").read_text().replace(" sm_", " sm_1"))
        self.refuses(MISMATCH, "-Dgpu_arch", *run, LANESCOPE_BUDGETS=other)
        self.refuses(USAGE, "no kernel 'nope'", "resources", "nope")
        self.refuses(USAGE, "no cuda module", "resources", "mma", "--d", "63")
        module = self.module(f"mma.fused.f16.d64.{run[-1]}.cuda")
        self.assertRegex(self.call("resources", module).stdout, "mma.fused.f16")
        alone = self.folder / module.name
        shutil.copy(module, alone)
        self.refuses(ENVIRONMENT, r"compile_cuda\.sh", "resources", alone)


if __name__ == "__main__":
    take_arguments(__doc__)
    unittest.main(verbosity=2)
