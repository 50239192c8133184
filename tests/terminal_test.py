#!/usr/bin/env python3
"""terminal_test.py PROGRAM NINJA: what the program does only where a terminal is: a line that says how far it
is, on stderr, which vanishes. Nothing of it where there is none. All on the sim backend."""

import fcntl
import os
import pty
import re
import select
import shlex
import subprocess
import threading
import unittest

from support.program import OK, RUN, ProgramTest, take_arguments

LONG = ["mma", "fused", "--backend", "sim", "--shape", "h=4,s=1024,d=64"]  # some seconds of it
DRAWN = re.compile(r"\r([^\r\n\x1b]+)\x1b\[K")  # each line that is drawn

WAITING = "lanescope: another build is under way: waiting\r\n"  # as another test may be building at any time


def on_screen(text):
    """What a terminal shows in the end of `text`, of lines that are drawn over."""
    lines = text.replace("\r\n", "\n").split("\n")
    return "\n".join(line.split("\r")[-1].replace("\x1b[K", "") for line in lines)


class TerminalTest(ProgramTest):
    def on_terminal(self, *arguments, code=OK, stdout_too=False, columns=100, rows=40, waiting=False, **environment):
        """What the program writes to stdout, and what it sends to the terminal that stderr is; with WAITING if
        that is what is looked for."""
        master, slave = pty.openpty()
        subprocess.run(["stty", "cols", str(columns), "rows", str(rows)], stdin=slave, check=True)
        process = subprocess.Popen([self.program, *map(str, arguments)], cwd=self.folder, stdin=subprocess.DEVNULL,
                                   stdout=slave if stdout_too else subprocess.PIPE, stderr=slave,
                                   env={**self.environment, "TERM": "xterm", **environment})
        os.close(slave)
        ends = {master: b"", **({} if stdout_too else {process.stdout.fileno(): b""})}
        open_ends = set(ends)
        while open_ends:
            for end in select.select(list(open_ends), [], [])[0]:
                try:
                    data = os.read(end, 65536)
                except OSError:  # how a terminal without writers ends
                    data = b""
                ends[end] += data
                if not data:
                    open_ends.discard(end)
        self.assertEqual(process.wait(), code, ends)
        out = "" if stdout_too else ends[process.stdout.fileno()].decode()
        if not stdout_too:
            process.stdout.close()
        os.close(master)
        text = ends[master].decode()
        return out, text if waiting else text.replace(WAITING, "")

    def test_a_line_says_how_far_it_is(self):
        self.call("diff", *LONG)  # it is built
        piped = self.call("diff", *LONG)
        self.assertEqual(piped.stderr, "", "a progress line without a terminal")
        out, shown = self.on_terminal("diff", *LONG, columns=70)
        self.assertEqual(out, piped.stdout, "stdout is another where a terminal looks on")
        drawn = DRAWN.findall(shown)
        self.assertTrue(any(re.search(r"(running mma fused: \d+ of 64 blocks|judging: \d+ of 64 row tiles), about \d+ s left", line) for line in drawn), shown)
        self.assertTrue(all(len(line) < 70 for line in drawn), "a line that wraps cannot be taken away")
        self.assertLess(len(drawn), 600, "drawn too often")
        self.assertEqual(on_screen(shown), "", "what is left of it on the terminal")

    def test_where_it_is_not_wanted(self):
        self.assertEqual(self.on_terminal("diff", *LONG, "--quiet")[1], "")
        self.assertEqual(self.on_terminal("diff", *LONG, TERM="dumb")[1], "")

    def test_another_build_is_under_way(self):
        build = self.program.parent.parent
        if not (build / "locked-ninja").exists():
            self.skipTest("the launcher did not set this build up")
        modules = self.folder / "modules"  # of which it does not know that they are up to date
        modules.symlink_to(build / "gates")
        with open(build / "lock", "a") as lock:
            def shown(*more):
                fcntl.flock(lock, fcntl.LOCK_EX)
                release = threading.Timer(2, fcntl.flock, (lock, fcntl.LOCK_UN))
                release.start()
                text = self.on_terminal("diff", *RUN, *more, waiting=True, LANESCOPE_NINJA=str(build / "locked-ninja"),
                                        LANESCOPE_MODULES=str(modules))[1]
                release.join()
                return text
            self.assertIn(WAITING, shown())
            self.assertEqual(shown("--quiet"), "")

    def test_builds(self):
        module, run = "gates/mma.softmax_only.f16.d128.64x32.sim.so", [*RUN, "--tile-shape", "64x32"]  # of no other test
        self.call("diff", *run)
        (self.program.parent.parent / module).unlink()
        slow = self.folder / "slow-ninja"
        slow.write_text(f'#!/bin/sh\nsleep 4\nexec {shlex.quote(self.environment["LANESCOPE_NINJA"])} "$@"\n')
        slow.chmod(0o755)
        shown = self.on_terminal("diff", *run, LANESCOPE_NINJA=str(slow))[1]
        drawn = "\n".join(DRAWN.findall(shown))
        self.assertRegex(drawn, rf"(?m)^building {re.escape(module)}, (\d+ s|about \d+ s left)$")
        self.assertNotRegex(shown, r"\[\d+/\d+\]", "ninja's lines beside the line")
        self.assertEqual(on_screen(shown), "")

    def test_long_texts_go_through_a_pager(self):
        self.call("run", *RUN, "-o", "x.safetensors")
        show, short = ["show", "x.safetensors", "s"], ["show", "x.safetensors", "m", "--lane", "3"]
        plain = self.call(*show, PAGER="sed s/^/paged:/").stdout
        self.assertNotIn("paged:", plain, "a pager without a terminal")

        def shown(*arguments, **environment):
            return on_screen(self.on_terminal(*arguments, stdout_too=True, NO_COLOR="1", **environment)[1])
        self.assertEqual(shown(*show, PAGER="sed s/^/paged:/"), "".join("paged:" + line for line in plain.splitlines(True)))
        self.assertEqual(shown(*show, PAGER=""), plain)
        self.assertIn("not found", shown(*show, PAGER="no-such-pager"))
        self.assertIn(plain, shown(*show, PAGER="no-such-pager"), "the text is lost with the pager")
        self.assertEqual(shown(*show, PAGER="head -n 1"), plain.splitlines(True)[0])
        self.assertNotIn("paged:", shown(*short, PAGER="sed s/^/paged:/"), "a pager for what fits")

    def test_locate(self):
        shown = self.on_terminal("locate", "mma", "--backend", "sim")[1]
        self.assertRegex(shown, r"locating: \d+ of \d+ problems, about \d+ s left")
        self.assertEqual(on_screen(shown), "")


if __name__ == "__main__":
    take_arguments(__doc__)
    unittest.main(verbosity=2)
