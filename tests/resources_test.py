#!/usr/bin/env python3
"""resources_test.py PROGRAM NINJA: what the fused kernels take is within the recorded budgets, and what
is not is named. One type, head dimension and tile of each kernel, compiled by nvcc; `.ci/run` holds every
module to its budget."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

OK, OVER, USAGE, ENVIRONMENT, MISMATCH = range(5)
SPECIMEN = "mma+dead_zero_output"  # the output is never written: nothing of it is needed


class ResourcesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = pathlib.Path(scratch.name)
        listed = json.loads(subprocess.run([program, "list", "--format", "json"], check=True, stdout=subprocess.PIPE).stdout)
        cls.kernels = {kernel["kernel"]: ["--gate", "fused", "--dtype", "f16", "--d", "64", "--tile-shape", kernel["tiles"][0]]
                       for kernel in listed["kernels"] if "fused" in kernel["gates"] and 64 in kernel["head_dims"]}
        if "cuda" not in [backend["backend"] for backend in listed["backends"]] or "mma" not in cls.kernels:
            raise unittest.SkipTest("this build has no cuda module of mma fused")

    def call(self, kernel, *words, code=OK, budgets=None):
        environment = {"LANESCOPE_NINJA": ninja, **os.environ}
        if budgets:
            environment["LANESCOPE_BUDGETS"] = str(budgets)
        done = subprocess.run([program, "resources", kernel, *words], env=environment, capture_output=True, text=True)
        self.assertEqual(done.returncode, code, f"{kernel}\n{done.stdout}{done.stderr}")
        return done

    def json_of(self, kernel, *words, **options):
        return json.loads(self.call(kernel, *words, "--format", "json", **options).stdout)

    def altered(self, name, figure, change):
        """A folder with mma's budgets as recorded here, one figure of them changed."""
        folder = self.folder / name
        folder.mkdir()
        self.call("mma", *self.kernels["mma"], "--record", budgets=folder)
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
                if not (root / "kernels" / "budgets" / f"{kernel}.txt").exists():
                    self.fail(f"no budgets: ./lanescope resources {kernel} --record writes them")
                report = self.json_of(kernel, *options)
                self.assertEqual(report["verdict"], "within")
                self.assertEqual({one["traced"] for one in report["modules"]}, {True, False})
                for one in report["modules"]:
                    self.assertIsNotNone(one["budget"], one["module"])
                    self.assertGreater(one["registers"], 15, one["module"])
                    self.assertGreater(one["blocks_per_multiprocessor"], 0, one["module"])

    def test_over_budget(self):
        for name, figure, change, words in [
                ("registers", 2, lambda n: n - 1, r"\d+ registers, the budget is \d+: 1 more"),
                ("shared", 6, lambda n: n - 16, r"bytes of shared memory, the budget is \d+: 16 more"),
                ("blocks", 7, lambda n: n + 1, r"blocks per multiprocessor, the budget is at least \d+: 1 fewer")]:
            with self.subTest(name):
                folder = self.altered(name, figure, change)
                text = self.call("mma", *self.kernels["mma"], code=OVER, budgets=folder).stdout
                self.assertRegex(text, words)
                self.assertEqual(text.splitlines()[-1], "over budget: 2 of 2")
        report = self.json_of("mma", *self.kernels["mma"], code=OVER, budgets=folder)
        self.assertEqual((report["verdict"], report["modules"][0]["over"][0]["figure"]), ("over", "blocks"))

    def test_far_below_budget_is_judged(self):
        folder = self.altered("fell", 2, lambda n: n * 2)
        report = self.json_of("mma", *self.kernels["mma"], budgets=folder)
        self.assertEqual({one["diff"] for one in report["modules"]}, {"match"})
        shutil.copy(folder / "mma.txt", folder / f"{SPECIMEN}.txt")
        path = folder / f"{SPECIMEN}.txt"
        path.write_text(path.read_text().replace("mma.", f"{SPECIMEN}."))
        text = self.call(SPECIMEN, *self.kernels["mma"], code=OVER, budgets=folder).stdout
        self.assertRegex(text, r"(?s)registers, recorded are \d+.*DIVERGES.*lanescope diff mma\+dead_zero_output fused")
        kept = path.read_text()
        done = self.call(SPECIMEN, *self.kernels["mma"], "--record", code=OVER, budgets=folder)
        self.assertIn("nothing is recorded", done.stderr)
        self.assertEqual(path.read_text(), kept)

    def test_what_it_refuses(self):
        options = self.kernels["mma"]
        empty = self.folder / "empty"
        empty.mkdir()
        self.assertIn("no budgets of mma are recorded", self.call("mma", *options, budgets=empty).stdout)
        (empty / "mma.txt").write_text("# nothing\n")
        self.assertIn("no budget is recorded for it", self.call("mma", *options, code=OVER, budgets=empty).stdout)
        (empty / "mma.txt").write_text("mma.fused 1 2\n")
        self.assertRegex(self.call("mma", *options, code=USAGE, budgets=empty).stderr, r"mma\.txt:1: .*--record")
        other = self.altered("arch", 7, lambda n: n)
        (other / "mma.txt").write_text((other / "mma.txt").read_text().replace(" sm_", " sm_1"))
        self.assertIn("-Dgpu_arch", self.call("mma", *options, code=MISMATCH, budgets=other).stderr)
        self.assertIn("no kernel 'nope'", self.call("nope", code=USAGE).stderr)
        self.assertIn("no cuda module", self.call("mma", "--d", "63", code=USAGE).stderr)
        tile = options[-1]
        module = pathlib.Path(program).parent / f"mma.fused.f16.d64.{tile}.cuda.so"
        self.assertRegex(self.call(str(module)).stdout, "mma.fused.f16")
        alone = self.folder / module.name
        shutil.copy(module, alone)
        self.assertIn("compile_cuda.sh", self.call(str(alone), code=ENVIRONMENT).stderr)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    program, ninja = os.path.abspath(sys.argv[1]), sys.argv[2]
    root = pathlib.Path(__file__).resolve().parent.parent
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
