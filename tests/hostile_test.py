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
import shutil
import signal
import struct
import subprocess
import time
import unittest

from support import hostile_cases
from support.bad_dumps import bad_files
from support.hostile_cases import Case
from support.program import DIVERGED, ENVIRONMENT, OK, ROOT, RUN, USAGE, ProgramTest, header_of, take_arguments

SECONDS = 30  # that a case may take: a module that hangs when it is loaded is ended after ten


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


def wait_until(holds, seconds=10):
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def read_if_there(path):
    try:
        return path.read_bytes().decode(errors="replace")
    except OSError:  # the process ended
        return ""


def processes_with(mark):
    """Of those that still run: the ones with `mark` in their environment."""
    return [folder.name for folder in pathlib.Path("/proc").glob("[0-9]*") if mark in read_if_there(folder / "environ").split("\0")]


def maps_of(process):
    return read_if_there(pathlib.Path(f"/proc/{process}/maps"))


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
        for name, source in {"hostile": "hostile_module", "lying": "lying_kernel"}.items():
            subprocess.run(["g++", "-std=c++20", "-O1", "-shared", "-fPIC", f"-I{ROOT}", "-o", cls.folder / f"{name}.so",
                            ROOT / "tests" / "support" / f"{source}.cc"], check=True)
        (cls.folder / "modules").mkdir()
        for name in ["maps.sim.so", "probes.sim.so"]:
            shutil.copy(cls.folder / "hostile.so", cls.folder / "modules" / name)
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
        for name in ["dangling.safetensors", "dangling.html"]:
            (cls.files / name).symlink_to(f"/nowhere/{name}")
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
        command = [self.whole_program, *words]
        if case.shell or case.redirect:
            quoted = shlex.join(map(str, command)).encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")
            begin = "" if case.redirect.startswith("|") else "exec "
            command = ["bash", "-c", f"{case.shell or ':'}; {begin}{quoted} {case.redirect}"]
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

    def test_lying_kernels(self):
        self.run_cases([case._replace(environment={"LANESCOPE_NINJA": "", **case.environment}) for case in hostile_cases.LIARS])

    def test_what_the_fuzzer_of_command_lines_found(self):
        files = sorted((ROOT / "tests" / "data" / "fuzz" / "command_lines").iterdir())
        self.assertGreater(len(files), 3)
        away = {"LANESCOPE_NINJA": "", "LANESCOPE_MODULES": "/nowhere"}
        for file in files:
            words = [os.fsdecode(word) for word in file.read_bytes().split(b"\0")[0].split(b"\n")]
            done = self.result_of(*words, **away)
            with self.subTest(file.name):
                self.assertIn(done.returncode, (OK, USAGE, ENVIRONMENT))
                self.assertNotIn("unexpected:", done.stderr)

    def test_signals(self):
        """Whenever it comes: the program ends at once, none of its processes stays, and there is a whole dump or none."""
        output = self.files / "ended" / "x.safetensors"
        output.parent.mkdir()
        run = [self.program, "run", "mma", "softmax_only", "--backend", "sim", "--shape", "h=4,s=512,d=64", "-o", output]
        begin = time.monotonic()
        self.call(*run[1:])
        seconds = time.monotonic() - begin
        whole = output.read_bytes()
        for i in range(20):
            output.unlink(missing_ok=True)
            end = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL][i % 4]
            with self.subTest(end.name, i=i):
                mark = f"{os.getpid()}.{i}"
                child = subprocess.Popen(run, env={**self.environment, "LANESCOPE_NINJA": "", "MARK": mark}, stderr=subprocess.DEVNULL)
                time.sleep(seconds * i / 18)
                child.send_signal(end)
                self.assertIn(child.wait(5), (-end, OK))
                self.assertTrue(wait_until(lambda: not processes_with(f"MARK={mark}")), "a process of it is left")
                left = {path.name: path.read_bytes() for path in output.parent.iterdir()}
                self.assertIn(left, ({}, {output.name: whole}))
        type(self).count += 20

    def test_files_that_change_while_they_are_read(self):
        self.call("run", "mma", "softmax_only", "--backend", "sim", "--shape", "h=2,s=1024,d=64", "-o", "large.safetensors")
        whole = (self.folder / "large.safetensors").read_bytes()
        path = self.files / "changes.safetensors"
        changes = {"shorter": lambda: os.truncate(path, 5_000_000), "empty": lambda: os.truncate(path, 0), "gone": path.unlink,
                   "another": lambda: os.replace(shutil.copy(self.dump, self.files / "other"), path)}
        for name, change in changes.items():
            with self.subTest(name):
                path.write_bytes(whole)
                child = subprocess.Popen([self.program, "diff", path], env=self.environment, stdout=subprocess.PIPE,
                                         stderr=subprocess.PIPE, text=True)
                self.assertTrue(wait_until(lambda: str(path) in maps_of(child.pid) or child.poll() is not None))
                change()
                out, err = child.communicate(timeout=60)
                if name in ("gone", "another"):
                    self.assertEqual((child.returncode, "match: " in out), (OK, True), err)
                else:
                    self.assertEqual((child.returncode, out), (USAGE, ""), err)
                    self.assertIn("became shorter while it was read", err)
        type(self).count += len(changes)

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
