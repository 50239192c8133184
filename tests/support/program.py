"""What the tests share that call the program: their arguments, a scratch folder, calls that must exit
with a code."""

import json
import os
import pathlib
import resource
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

SCHEMA = 1  # of what it says with --format json
OK, DIVERGED, USAGE, ENVIRONMENT, MISMATCH = range(5)  # exit codes, as README.md has them
LARGEST = 12 << 30  # bytes to map on sim: no mistake shall starve the machine; a device's driver maps more
RUN = ["mma", "softmax_only", "--backend", "sim"]
ROOT = pathlib.Path(__file__).resolve().parents[2]  # of the sources


def take_arguments(usage, more=0):
    """Takes PROGRAM, NINJA and `more` arguments after them off the command line and returns those;
    unittest gets the rest."""
    if len(sys.argv) < 3 + more:
        sys.exit(usage)
    ProgramTest.program, ProgramTest.ninja = pathlib.Path(sys.argv[1]).absolute(), sys.argv[2]
    taken = sys.argv[3:3 + more]
    del sys.argv[1:3 + more]
    return taken


def lines_of_readme(word):
    """What a user types, from README.md: the lines that hold `word`, without the comments behind them."""
    blocks = (ROOT / "README.md").read_text().split("```sh\n")[1:]
    return [line.split(" #")[0].strip() for block in blocks for line in block.split("```")[0].splitlines()
            if word in line]


def header_of(file):
    """Of the bytes of a safetensors file: the header as JSON, and where the data begin."""
    length, = struct.unpack_from("<Q", file)
    return json.loads(file[8:8 + length]), 8 + length


def demand_nvcc_13():
    """Skips the tests that need nvcc of the CUDA whose runtime the SIMT machine stands in for."""
    os.environ["PATH"] += ":/usr/local/cuda/bin"
    if not shutil.which("nvcc"):
        raise unittest.SkipTest("there is no nvcc")
    if "release 13." not in subprocess.run(["nvcc", "--version"], capture_output=True, text=True).stdout:
        raise unittest.SkipTest("nvcc is not CUDA 13's")


class ProgramTest(unittest.TestCase):
    """Calls the program in `folder`, a scratch folder of the class, with `environment`."""

    most_memory = None  # bytes that the program may map

    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = pathlib.Path(scratch.name)
        cls.environment = {**os.environ, "LANESCOPE_NINJA": cls.locked_ninja()}

    @classmethod
    def locked_ninja(cls):
        """The launcher's ninja, where it runs this: two at a time in one build folder spoil each other's records, and
        what they built is built again."""
        return os.environ.get("LANESCOPE_NINJA", cls.ninja)

    @classmethod
    def build_targets(cls, *targets):
        """Builds these in the program's build folder."""
        subprocess.run([cls.locked_ninja(), "-C", cls.program.parents[1], *targets], check=True, stdout=subprocess.DEVNULL)

    @classmethod
    def dump_of(cls, name, *run):
        """The path of a dump of this run."""
        cls().call("run", *run, "-o", name)
        return cls.folder / name

    def result_of(self, *arguments, timeout=300, **environment):
        """The process of the program, ended, whatever came of it."""
        def limit():
            if self.most_memory:
                resource.setrlimit(resource.RLIMIT_AS, (self.most_memory, self.most_memory))
        return subprocess.run([self.program, *map(str, arguments)], cwd=self.folder, preexec_fn=limit,
                              env={**self.environment, **environment}, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=timeout)

    def call(self, *arguments, code=OK, **options):
        """The same of a program that must exit with `code`; an error leaves stdout empty, or as JSON says there
        what stderr says."""
        done = self.result_of(*arguments, **options)
        said = f"lanescope {shlex.join(map(str, arguments))}\n{done.stdout[-10000:]}{done.stderr}"
        self.assertEqual(done.returncode, code, said)
        self.assertNotIn("\x1b", done.stdout + done.stderr, "colour without a terminal")
        if code not in (OK, DIVERGED):
            json_wanted = " --format json" in said.splitlines()[0] or "--format=json" in map(str, arguments)
            self.assertEqual(done.stdout != "", json_wanted, said)
            if json_wanted:
                answer = json.loads(done.stdout)
                self.assertEqual((set(answer), answer["schema"], answer["error"]["code"]),
                                 ({"schema", "error"}, SCHEMA, code), said)
                self.assertIn(f"error: {answer['error']['message']}\n", done.stderr)
        return done

    def json_of(self, *arguments, **options):
        """What it says as JSON, without the version of that."""
        answer = json.loads(self.call(*arguments, "--format", "json", **options).stdout)
        self.assertEqual(next(iter(answer)), "schema")
        self.assertEqual(answer.pop("schema"), SCHEMA)
        return answer

    def refuses(self, code, words, *arguments, **options):
        """It exits with `code`, and stderr matches the pattern `words`."""
        with self.subTest(shlex.join(map(str, arguments))):
            self.assertRegex(self.call(*arguments, code=code, **options).stderr, words)

    @property
    def whole_program(self):
        """The one with all commands, which `program` hands those over to that it has not."""
        return self.program.parent / "commands" / self.program.name

    def backends(self):
        """Those that are built, and whether each answers."""
        return {entry["backend"]: entry["answers"] for entry in self.json_of("list")["backends"]}

    def module(self, name):
        """The path of a module of the program's build."""
        return self.program.parent / f"{name}.so"


class DumpTest(ProgramTest):
    """Has `dump`, that of RUN, and as much memory as the largest mistake may take."""

    most_memory = LARGEST

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.dump = cls.dump_of("dump.safetensors", *RUN)
