#!/usr/bin/env python3
"""launcher_test.py ROOT BUILD: what ./lanescope says and does where it cannot write, and what `test` takes."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

OK, ENVIRONMENT = 0, 3  # exit codes, as README.md has them
NOBODY = 65534


class LauncherTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.folder.chmod(0o555)
        self.addCleanup(self.folder.chmod, 0o755)

    def call(self, folder, *arguments):
        """As one who may read all and write nothing, not even as root."""
        user = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.getuid() == 0 else {}
        environment = {**os.environ, "LANESCOPE_BUILD": str(folder)}
        return subprocess.run([root / "lanescope", *arguments], cwd=self.folder, env=environment,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, **user)

    def test_a_build_folder_that_cannot_be_written(self):
        for folder in [self.folder, self.folder / "build"]:
            done = self.call(folder, "list")
            self.assertEqual(done.returncode, ENVIRONMENT, done.stderr)
            self.assertIn(f"cannot write to the build folder {folder}: LANESCOPE_BUILD=FOLDER", done.stderr)

    def test_a_dump_is_read_where_nothing_can_be_written(self):
        if not (build / "locked-ninja").exists():
            self.skipTest("the build was not set up by ./lanescope")
        if os.getuid() != 0:
            self.skipTest("only root can become one who may not write")
        dump = self.folder / "x.safetensors"
        subprocess.run([root / "lanescope", "-q", "run", "mma", "softmax_only", "--backend", "sim", "-o", dump],
                       env={**os.environ, "LANESCOPE_BUILD": str(build)}, check=True)
        dump.chmod(0o444)
        for arguments in [["show", dump, "m"], ["diff", dump]]:
            done = self.call(build, *arguments)
            self.assertEqual(done.returncode, OK, done.stderr)
            self.assertEqual(done.stderr, "")

    def test_options_of_the_tests_stand_anywhere(self):
        for arguments in [["-v", "no test of this name"], ["no test of this name", "-v"]]:
            done = subprocess.run([sys.executable, root / "tests" / "run.py", build, *arguments],
                                  capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr), (2, "no test matches: no test of this name\n"))

    def test_what_matches_any_of_several_patterns_runs(self):
        for patterns in [["simt: shuffles*", "no test of this name"], ["no test of this name,simt: shuffles*"]]:
            done = subprocess.run([sys.executable, root / "tests" / "run.py", build, *patterns],
                                  capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stdout.splitlines()[-1]), (0, "1 passed, 0 failed, 0 skipped"))


if __name__ == "__main__":
    root, build = map(pathlib.Path, sys.argv[1:3])
    del sys.argv[1:3]
    unittest.main()
