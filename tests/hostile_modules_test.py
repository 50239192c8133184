#!/usr/bin/env python3
"""hostile_modules_test.py PROGRAM NINJA: modules by path that break down when they are loaded, say of
themselves what cannot be, or leave processes and print. Whatever they do, the program says what
happened, with the right exit code, and soon."""

import subprocess
import time
import unittest

from support.program import DIVERGED, MISMATCH, ROOT, USAGE, ProgramTest, take_arguments


class HostileModulesTest(ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.environment["LANESCOPE_NINJA"] = ""  # modules are given by their paths
        cls.path = cls.folder / "hostile.so"
        subprocess.run(["g++", "-std=c++20", "-shared", "-fPIC", f"-I{ROOT}", "-o", cls.path,
                        ROOT / "tests" / "support" / "hostile_module.cc"], check=True)

    def diff(self, way, code=DIVERGED, options=()):
        """What comes of a `diff` of the module that is hostile in this way."""
        with self.subTest(way):
            return self.call("diff", self.path, "fused", "--shape", "s=64,d=64", *options, code=code, HOSTILE=way)

    def test_files_that_are_no_modules(self):
        whole = self.path.read_bytes()
        for name, data in [("empty", b""), ("text", b"no module"), ("start", whole[:200]), ("half", whole[:len(whole) // 2]),
                           ("garbled", whole[:5000] + b"\xa5" * 8000 + whole[13000:])]:
            (self.folder / f"{name}.so").write_bytes(data)
            self.refuses(USAGE, f"{name}.so: ", "diff", f"{name}.so", "fused")
        (self.folder / "folder.so").mkdir()
        self.refuses(USAGE, "folder.so: it is no regular file", "diff", "folder.so", "fused")
        self.refuses(USAGE, "text.so: it is no shared library", "resources", "text.so")

    def test_modules_that_break_down_when_they_are_loaded(self):
        for way, words in [("exits", r"exit\(0\)"), ("aborts", "SIGABRT"), ("wild_name", "SIGSEGV"),
                           ("coordinate_crashes", "SIGSEGV"), ("hangs", "did not end within 10 s")]:
            self.assertRegex(self.diff(way, USAGE).stderr, f"hostile.so: loading it was tried.*{words}")

    def test_modules_that_say_what_cannot_be(self):
        for way, words in [("null", "returns a null pointer"), ("null_name", "kernel is a null pointer"),
                           ("escape_in_name", "kernel is no text"), ("null_function", "functions is a null pointer"),
                           ("null_sites", "sites is a null pointer"), ("many_sites", "site_count is 1073741824"),
                           ("no_threads", "threads is 0"), ("huge_tile", "br is 1073741824"), ("unknown_gate", "gate is 99"),
                           ("wild_coordinate", "site m has an element at row 1000")]:
            self.assertRegex(self.diff(way, USAGE).stderr, f"hostile.so: .*{words}")
        self.assertRegex(self.diff("other_abi", MISMATCH).stderr, "hostile.so: .*version 1 .*build the module again")

    def test_kernels_that_leave_processes(self):
        for way in ["forks", "forks_and_crashes"]:
            begin = time.monotonic()
            self.diff(way)
            self.assertLess(time.monotonic() - begin, 10, way)

    def test_what_a_module_prints_is_no_result(self):
        plain, noisy = (self.diff(way, options=["--format", "json"]) for way in ["", "prints"])
        self.assertEqual(noisy.stdout, plain.stdout)
        for word in ["loaded", "launched", "unloaded"]:
            self.assertIn(word, noisy.stderr)


if __name__ == "__main__":
    take_arguments(__doc__)
    unittest.main()
