#!/usr/bin/env python3
"""shell_test.py PROGRAM NINJA MESON: help, what shells complete, the manual page, and where `meson install`
puts them and the reader of dumps. A shell that is not there is left out."""

import os
import pty
import re
import select
import shutil
import subprocess
import time
import unittest

from support.program import USAGE, ProgramTest, take_arguments

# What is typed, and what of it can be completed to.
COMPLETED = {
    "lanescope dif": {"diff"}, "lanescope he": {"help"}, "lanescope diff mm": {"mma"},
    "lanescope run mma soft": {"softmax_only"}, "lanescope diff mma fused --pre": {"--preset"},
    "lanescope locate mma --specimen swapped": {"swapped_row_max"}, "lanescope diff mma fused --preset mis": {"mission"},
    "lanescope check mma fused --back": {"--backend"}, "lanescope show ./a_dump": {"./a_dump.safetensors"},
    "lanescope show a_dump.safetensors o_fi": {"o_final"}, "lanescope help resou": {"resources"},
}


class ShellTest(ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.shell = cls.program.parent / "shell"
        build = cls.program.parent.parent
        subprocess.run([cls.environment["LANESCOPE_NINJA"], "-C", build, "gates/shell/lanescope"], check=True,
                       stdout=subprocess.DEVNULL)
        (cls.folder / "a_dump.safetensors").touch()
        (cls.folder / "other.txt").touch()

    def completes(self, shell, completions):
        """`completions` gives what `shell` makes of a line that is typed, as a set of words."""
        if not shutil.which(shell):
            self.skipTest(f"no {shell}")
        for line, wanted in COMPLETED.items():
            with self.subTest(line):
                self.assertEqual(completions(line), wanted)

    def said(self, *words):
        return subprocess.run(words, cwd=self.folder, check=True, capture_output=True, text=True).stdout

    def test_bash(self):
        script = """source "$1"; COMP_WORDS=($2); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _lanescope; printf '%s\\n' "${COMPREPLY[@]}" """
        self.completes("bash", lambda line: set(self.said("bash", "-c", script, "-", self.shell / "lanescope", line).split()))

    def test_fish(self):
        script = "source $argv[1]; complete -C $argv[2]"
        self.completes("fish", lambda line: {word.split("\t")[0] for word in self.said(
            "fish", "--no-config", "-c", script, self.shell / "lanescope.fish", line).splitlines()})

    def test_zsh(self):
        """Types a line and the tab into a shell on a terminal, then has the line printed."""
        def completions(line):
            master, slave = pty.openpty()
            process = subprocess.Popen(["zsh", "-f", "-i"], cwd=self.folder, stdin=slave, stdout=slave, stderr=slave,
                                       env={**os.environ, "TERM": "dumb"}, start_new_session=True)
            os.close(slave)
            try:
                os.write(master, f"PS1=; unsetopt zle prompt_cr prompt_sp; fpath=({self.shell} $fpath); autoload -Uz compinit; "
                                 f"compinit -u -D; setopt zle; print re''ady\n".encode())
                self.wait_for(master, "ready")
                os.write(master, f"{line}\t\x01print -r -- go''t: \n".encode())
                return set(self.wait_for(master, r"got: ([^\r\n]*)[\r\n]").split()[-1:])
            finally:
                process.kill()
                process.wait()
                os.close(master)
        self.completes("zsh", completions)

    def wait_for(self, terminal, pattern):
        said, end = "", time.monotonic() + 20
        while time.monotonic() < end:
            if select.select([terminal], [], [], 0.1)[0]:
                said += os.read(terminal, 4096).decode(errors="replace")
            if found := re.search(pattern, said):
                return found[found.re.groups]
        self.fail(f"no {pattern} in {said!r}")

    def test_help(self):
        table = self.json_of("help")
        names = [command["command"] for command in table["commands"]]
        listed = re.findall(r"^  (\w+)  ", self.call("help").stdout.split("Subcommands:")[1].split("Exit")[0], re.MULTILINE)
        self.assertEqual(listed, names)
        self.assertEqual(self.call("help").stdout, self.call("--help").stdout)
        for name in names:
            self.assertEqual(self.call("help", name).stdout, self.call(name, "--help").stdout)
        for command in table["commands"]:
            for row in command["options"]:
                self.assertTrue(row["about"], f"{command['command']}: nothing is said of {row['names']}")
        self.refuses(USAGE, r"no command 'dif' \(did you mean diff\?\)", "help", "dif")

    def test_manual_page(self):
        page = (self.shell / "lanescope.1").read_text()
        for command in self.json_of("help")["commands"]:
            self.assertIn(f".SS \\fB{command['command']}\\fR", page)
            for row in command["options"]:
                for name in row["names"]:
                    if name.startswith("--"):
                        self.assertIn(name.replace("-", "\\-"), page)
        if shutil.which("groff"):
            done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", self.shell / "lanescope.1"], capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_install(self):
        build = self.program.parent.parent
        done = subprocess.run([meson, "install", "-C", build, "--no-rebuild", "--destdir", self.folder / "root"],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        files = {str(path.relative_to(self.folder / "root")) for path in (self.folder / "root").rglob("*") if path.is_file()}
        for end in ["bin/lanescope", "bash-completion/completions/lanescope", "zsh/site-functions/_lanescope",
                    "fish/vendor_completions.d/lanescope.fish", "man/man1/lanescope.1", "lanescope/__init__.py",
                    "lanescope/dump_file.py", "lanescope/safetensors_file.py"]:
            self.assertTrue(any(file.endswith(end) for file in files), f"{end} is not in {files}")
        program = next(path for path in (self.folder / "root").rglob("bin/lanescope"))
        self.assertEqual(self.said(program, "--version"), self.call("--version").stdout)


if __name__ == "__main__":
    meson, = take_arguments(__doc__, more=1)
    unittest.main(verbosity=2)
