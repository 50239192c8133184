#!/usr/bin/env python3
"""watch_test.py SOURCE_ROOT BUILD MESON: `./lanescope watch` in a copy of the sources, as an editor saves
them: what is newly wrong, what does not compile, what is newly right, and how it ends."""

import os
import pathlib
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from support.checkout import copy_objects, copy_sources

WATCH = ["./lanescope", "watch", "mma", "softmax_only", "--backend", "sim", "--shape", "s=128,d=64"]
RIGHT, WRONG = "alpha[r] = rescale(m_prev, m[r]);", "alpha[r] = rescale(m[r], m[r]);"
FIRST_BUILD, BUILD = 1500, 300  # seconds until a verdict


class Watch:
    """A running watch, its lines as they come."""

    def __init__(self, root, environment):
        self.process = subprocess.Popen(WATCH, cwd=root, env=environment, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                        start_new_session=True)
        self.lines = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line.rstrip("\n"))
        self.lines.put(None)

    def run(self, number, seconds=BUILD):
        """The lines of the next run, from its first one to its verdict."""
        end, text = time.monotonic() + seconds, []
        while True:
            line = self.lines.get(timeout=max(end - time.monotonic(), 0.1))
            assert line is not None, "the watch has ended: " + "\n".join(text)
            text.append(line)
            if line.endswith(" s)"):
                assert f"run {number}:" in "\n".join(text), f"run {number} is missing: " + "\n".join(text)
                return "\n".join(text)

    def is_quiet(self, seconds=2):
        try:
            return self.lines.get(timeout=seconds) is None
        except queue.Empty:
            return True

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def end(self, how):
        """Ctrl-C, which reaches the foreground process alone or all of its group."""
        how(self.process.pid, signal.SIGINT)
        return self.process.wait(timeout=30)


class WatchTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.root = pathlib.Path(scratch.name) / "lanescope"
        copy_sources(source_root, cls.root)
        copy_objects(source_root, build, cls.root / "build")
        cls.environment = {**os.environ, "PATH": f"{pathlib.Path(meson).parent}:{os.environ['PATH']}"}
        cls.environment.pop("LANESCOPE_BUILD", None)
        cls.kernel = cls.root / "kernels" / "parts" / "mma_stages.h"
        cls.text = cls.kernel.read_text()
        assert RIGHT in cls.text

    def replace(self, text):
        """As editors save that write a new file and rename it."""
        new = self.kernel.with_name(".mma_stages.h.new")
        new.write_text(text)
        os.replace(new, self.kernel)

    def test_edit_break_and_restore(self):
        watch = Watch(self.root, self.environment)
        self.addCleanup(watch.kill)
        self.assertRegex(watch.run(1, FIRST_BUILD), r"\nmatch  \(")

        self.kernel.write_text(self.text.replace(RIGHT, WRONG))
        wrong = watch.run(2)
        self.assertRegex(wrong, "run 2: kernels/parts/mma_stages.h\n")
        self.assertRegex(wrong, r"\n  newly wrong  softmax / alpha +chain +\d+ of \d+")
        self.assertRegex(wrong, r"\ndiverged: softmax / alpha \(local\), tile 1, .*  \(")
        self.assertNotIn("\x1b", wrong)

        self.replace(self.text.replace(RIGHT, "alpha[r] = nothing_of_the_kind;"))
        broken = watch.run(3)
        self.assertRegex(broken, r"\nkernels/parts/mma_stages.h:\d+:\d+: error: .*nothing_of_the_kind.*\n")
        self.assertRegex(broken, r"\nno verdict  \(")
        self.assertNotIn("FAILED", broken)
        self.assertLess(len(broken.splitlines()), 15)

        for text in [self.text + "// a\n", self.text + "// b\n", self.text]:  # at once
            self.replace(text)
        right = watch.run(4)
        self.assertRegex(right, r"\n  newly right  softmax / alpha +chain +0 of \d+, was \d+")
        self.assertRegex(right, r"\n  first divergence moved from softmax / alpha .* to nothing\nmatch  \(")
        self.kernel.write_text(self.text)
        self.assertTrue(watch.is_quiet(), "a save that changes nothing, or several saves, gave another run")

        text = self.root / "debug" / "text" / "text.cc"
        text.write_text(text.read_text() + "// an edit\n")
        again = watch.run(5)
        self.assertIn("debug/text/text.cc is part of lanescope itself, which was built again", again)
        self.assertRegex(again, r"\nmatch  \(")
        self.assertEqual(watch.end(os.kill), 0)

        watch = Watch(self.root, self.environment)
        self.addCleanup(watch.kill)
        watch.run(1)
        self.kernel.write_text(self.text + "// another\n")
        self.assertIn("run 2:", watch.lines.get(timeout=BUILD))
        self.assertEqual(watch.end(os.killpg), 0, "Ctrl-C while it builds")
        self.assertEqual(watch.lines.get(timeout=30), None, "something still runs")

    def test_what_no_edit_will_mend_ends_it(self):
        for words, arguments in [("no kernel 'nope'", ["nope", "fused"]), ("no gate 'nope'", ["mma", "nope"])]:
            done = subprocess.run([*WATCH[:2], *arguments], cwd=self.root, env=self.environment, text=True,
                                  stdin=subprocess.DEVNULL, capture_output=True, timeout=FIRST_BUILD)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(words, done.stderr)


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    source_root, build, meson = sys.argv[1:4]
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]], verbosity=2)
