#!/usr/bin/env python3
"""hostile_test.py PROGRAM NINJA: every row of tests/support/hostile_cases.py and every file of
tests/support/bad_dumps.py: the program ends soon, with the exit code of the row, and says what is wrong and
nothing on stdout; whatever comes, it does not crash, and no escape sequence reaches a terminal."""

import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import struct
import subprocess
import time
import unittest

from support import hostile_cases
from support.bad_dumps import bad_files
from support.hostile_cases import Case
from support.program import DIVERGED, ENVIRONMENT, OK, ROOT, RUN, USAGE, ProgramTest, header_of, take_arguments

SECONDS = 15  # that a case may take: a module that hangs when it is loaded is ended after ten


def tensors(**shapes):
    """A safetensors file of zeros: NAME=(dtype, bytes of an element, dims)."""
    header, size = {}, 0
    for name, (dtype, width, dims) in shapes.items():
        count = width
        for side in dims:
            count *= side
        header[name] = {"dtype": dtype, "shape": dims, "data_offsets": [size, size + count]}
        size += count
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(size)


class HostileTest(ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.began, cls.count = time.monotonic(), 0
        cls.dump = cls.dump_of("dump.safetensors", *RUN)
        cls().call("diff", *RUN, "--shape", "d=64")  # builds what rows of another d take
        cls.files = cls.folder / "files"
        cls.files.mkdir()
        cls.write_files()
        subprocess.run(["g++", "-std=c++20", "-shared", "-fPIC", f"-I{ROOT}", "-o", cls.folder / "hostile.so",
                        ROOT / "tests" / "support" / "hostile_module.cc"], check=True)
        whole = (cls.folder / "hostile.so").read_bytes()
        for name, data in {"empty": b"", "text": b"no module", "half_header": whole[:30], "half": whole[:len(whole) // 2],
                           "garbled": whole[:5000] + b"\xa5" * 8000 + whole[13000:]}.items():
            (cls.files / f"{name}.so").write_bytes(data)
        (cls.files / "folder.so").mkdir()
        other = next(pathlib.Path("/usr/lib").glob("*/libdl.so.2"), None)
        if other:
            (cls.files / "other.so").symlink_to(other)

    @classmethod
    def write_files(cls):
        whole = cls.dump.read_bytes()
        built_from = header_of(whole)[0]["__metadata__"]["source_hash"]
        other = ("1" if built_from[0] == "0" else "0") + built_from[1:]
        square = ("F16", 2, [1, 1, 64, 64])
        for name, data in {
                "empty": b"", "text": b"no dump\n" * 100, "start": whole[:300], "half": whole[:len(whole) // 2],
                "stale": whole.replace(built_from.encode(), other.encode(), 1), "a name; with $(blanks)": whole, "unreadable": b"\xff" * 4096,
                "lacks": tensors(q=square, k=square), "flat": tensors(**{name: ("F16", 2, [4096]) for name in "qkv"}),
                "f64": tensors(**{name: ("F64", 8, [1, 1, 64, 64]) for name in "qkv"})}.items():
            (cls.files / f"{name}.safetensors").write_bytes(data)
        (cls.files / "folder.safetensors").mkdir()
        (cls.files / "loop.safetensors").symlink_to("loop.safetensors")
        (cls.files / "link.safetensors").symlink_to(cls.dump)
        os.mkfifo(cls.files / "fifo.safetensors")

    def filled(self, case):
        words = case.arguments.split() if isinstance(case.arguments, str) else case.arguments
        places = {"{dump}": self.dump, "{files}": self.files, "{module}": self.module("mma.softmax_only.f16.d128.64x64.sim")}
        for place, path in places.items():
            words = [word.replace(place, str(path)) for word in words]
        return words

    def wrong_with(self, case):
        """What the program did other than the row says; nothing where all is as it should be."""
        words = self.filled(case)
        command = [self.program, *words]
        if case.shell or case.redirect:
            quoted = shlex.join(map(str, command)).encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")
            command = ["bash", "-c", f"{case.shell or ':'}; exec {quoted} {case.redirect}"]
        try:
            done = subprocess.run(command, cwd=self.folder, env={**self.environment, **case.environment}, stdin=subprocess.DEVNULL,
                                  capture_output=True, text=True, errors="replace", timeout=SECONDS)
        except subprocess.TimeoutExpired:
            return f"it did not end within {SECONDS} s"
        said = done.stderr if case.code >= USAGE else done.stdout + done.stderr
        faults = []
        if done.returncode != case.code:
            faults.append(f"exit code {done.returncode}, not {case.code}")
        if not re.search(case.words, said):
            faults.append(f"it does not say {case.words!r}")
        if case.code not in (OK, DIVERGED) and done.stdout and "json" not in words:
            faults.append(f"an error with results: {done.stdout[:200]!r}")
        if "\x1b" in done.stdout + done.stderr:
            faults.append("an escape sequence")
        if case.code >= USAGE and re.search("unexpected|terminate called|Sanitizer|std::", done.stderr):
            faults.append("words of the machinery")
        return f"{'; '.join(faults)}: {done.stderr[:600]}" if faults else ""

    def run_cases(self, cases):
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for case, fault in zip(cases, pool.map(self.wrong_with, cases)):
                with self.subTest(str(case.arguments)[:200], environment=case.environment, shell=case.shell + case.redirect):
                    self.assertEqual(fault, "")
        type(self).count += len(cases)

    def test_command_lines(self):
        self.run_cases(hostile_cases.COMMAND_LINE)

    def test_options(self):
        self.run_cases(hostile_cases.OPTIONS)

    def test_files(self):
        self.run_cases(hostile_cases.FILES)

    def test_modules(self):
        self.run_cases([case._replace(environment={"LANESCOPE_NINJA": "", **case.environment}) for case in hostile_cases.MODULES])

    def test_environments(self):
        self.run_cases(hostile_cases.ENVIRONMENTS)

    def test_what_a_module_prints_is_no_result(self):
        diff = ["diff", *hostile_cases.PLAIN.split(), "--format", "json"]
        plain, noisy = (self.call(*diff, code=DIVERGED, HOSTILE=way, LANESCOPE_NINJA="") for way in ["", "prints"])
        self.assertEqual(noisy.stdout, plain.stdout)
        for word in ["loaded", "launched", "unloaded"]:
            self.assertIn(word, noisy.stderr)

    def test_little_memory(self):
        """Wherever memory runs out, a clean kernel is not called wrong."""
        self.call("diff", *RUN)  # it is built
        codes = set()
        for self.most_memory in [*range(24 << 20, 64 << 20, 2 << 20), 1 << 30]:
            done = self.result_of("diff", *RUN, LANESCOPE_NINJA="true")
            said = f"{self.most_memory >> 20} MiB: {done.stdout[-300:]}{done.stderr[-300:]}"
            self.assertIn(done.returncode, (OK, ENVIRONMENT), said)
            codes.add(done.returncode)
        self.assertEqual(codes, {OK, ENVIRONMENT})

    def test_damaged_dumps(self):
        self.call("run", "mma", "qk_only", "--backend", "sim", "--shape", "s=100,d=64", "-o", "good.safetensors")
        cases = []
        for i, (what, data) in enumerate(bad_files(self.folder / "good.safetensors").items()):
            path = self.files / f"bad{i}.safetensors"
            path.write_bytes(data)
            command = ["show", str(path), "q"] if i % 3 else ["diff", str(path), "--stale-ok"]
            cases.append(Case(USAGE, rf"bad{i}\.safetensors( is|:) \w", command, {"WHAT": what}))
        self.run_cases(cases)

    @classmethod
    def tearDownClass(cls):
        seconds = time.monotonic() - cls.began
        print(f"{cls.count} hostile cases in {seconds:.0f} s")


if __name__ == "__main__":
    take_arguments(__doc__)
    unittest.main()
