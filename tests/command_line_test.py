#!/usr/bin/env python3
"""command_line_test.py PROGRAM NINJA: what a user may give on the command line, options, files and
modules, and what is refused, with which words and exit code. NINJA builds the modules that are needed;
all on the sim backend."""

import json
import pathlib
import shlex
import struct
import subprocess
import unittest

from support.checkout import copy_sources
from support.program import ENVIRONMENT, MISMATCH, ROOT, RUN, USAGE, DumpTest, header_of, take_arguments


def write_inputs(path, **tensors):
    """NAME=(dims, values): a safetensors file of f16."""
    header, data = {}, b""
    for name, (dims, values) in tensors.items():
        packed = struct.pack(f"<{len(values)}e", *values)
        header[name] = {"dtype": "F16", "shape": dims, "data_offsets": [len(data), len(data) + len(packed)]}
        data += packed
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


class CommandLineTest(DumpTest):
    def test_help(self):
        self.assertRegex(self.call("--help").stdout, "(?s)list.*run.*diff.*show")
        self.assertRegex(self.call("diff", "--help").stdout, "--specimen")
        self.assertRegex(self.call("--version").stdout, r"^\d+\.\d+\.\d+\n$")
        commands = "list, run, diff, watch, check, locate, calibrate, resources, bench, show, report, help"
        self.refuses(USAGE, f"no command 'nothing'; commands: {commands}", "nothing")
        self.refuses(USAGE, f"which command.*{commands}")

    def test_wrong_usage(self):
        for words, arguments in [
                ("no kernel 'nope'.*mma", ["nope", "fused"]), ("no gate 'nope'.*qk_only", ["mma", "nope"]),
                ("KERNEL GATE", ["mma"]), ("KERNEL GATE", ["mma", "fused", "more"]), ("required", []),
                ("KERNEL GATE", [self.dump, "fused"])]:
            self.refuses(USAGE, words, "diff", *arguments)
        for words, *options in [
                ("no preset 'nope'.*mission", "--preset", "nope"), ("no 'x'.*skv", "--shape", "x=1"),
                ("1 or more", "--shape", "s=0"), ("not a number", "--shape", "s=-4"), ("twice", "--shape", "s=1,s=2"),
                ("name=value", "--shape", "64"), ("multiple", "--shape", "h=3,hkv=2"), ("d=64", "--shape", "d=129"),
                ("1 TiB", "--shape", "s=999999999999"), ("no type 'nope'.*bf16", "--dtype", "nope"),
                ("mma does not take e4m3.*wmma_registers does.*f16, bf16", "--dtype", "e4m3"), ("no backend 'nope'.*sim", "--backend", "nope"),
                ("like 64x32", "--tile-shape", "64"), ("16x16.*64x32", "--tile-shape", "16x16"),
                ("64x32", "--tile-shape", "4294967360x64"), ("counting.*safetensors", "--input", "nope"),
                ("counting.*safetensors", "--input", "."), ("bhsd, bshd", "--layout", "nope"), ("seed", "--seed", "-1"),
                ("seed", "--seed", "18446744073709551616"), ("threads", "--threads", "-1"),
                ("threads", "--threads", "100000"), ("no specimen 'nope'.*swapped_row_max", "--specimen", "nope"),
                ("does not split", "--splits", "2"),
                ("timeout.*nan", "--timeout", "nan"), ("timeout", "--timeout", "inf"), ("timeout", "--timeout", "0"),
                ("shape.*is empty", "--shape", ""), ("tile-shape.*is empty", "--tile-shape", ""),
                ("where.*is empty", "--where", ""), ("specimen.*is empty", "--specimen", ""),
                ("text,json", "--format", "yaml"), ("--nope", "--nope")]:
            self.refuses(USAGE, f"(?s){words}", "diff", "mma", "softmax_only", *options)
        for words, *arguments in [("site", self.dump), ("m_prev", self.dump, "nope"),
                                  ("tile 0 to 1", self.dump, "m", "--tile", "2"),
                                  ("lane 0 to 31", self.dump, "m", "--lane", "32"), ("regular", ".", "m"),
                                  ("--lane", self.dump, "q", "--lane", "1")]:
            self.refuses(USAGE, words, "show", *arguments)

    def test_what_goes_to_stderr(self):
        run = ["run", *RUN, "-o", "log.safetensors"]
        usual = self.call(*run)
        self.assertEqual(usual.stdout, "")
        self.assertRegex(usual.stderr, "^info: log.safetensors")
        quiet = self.call(*run, "-q")
        self.assertEqual(quiet.stdout + quiet.stderr, "")
        self.assertRegex(self.call(*run, "-v").stderr, "debug: mma.softmax_only")

    def test_quiet(self):
        module = self.module("mma.softmax_only.f16.d128.64x64.sim")
        module.unlink(missing_ok=True)
        self.assertEqual(self.call("-q", "diff", *RUN).stderr, "")

    def test_where(self):
        self.call("run", *RUN, "--where", "block=1,tile=0..0", "-o", "part.safetensors")
        self.assertRegex(self.call("diff", "part.safetensors").stdout, "match: ")
        self.assertEqual(self.json_of("show", "part.safetensors", "s")["block"], 1)
        self.refuses(USAGE, "block 1", "show", "part.safetensors", "s", "--block", "0")
        for where, words in [("block=2", r"block 0\.\.1"), ("tile=0..2", r"tile 0\.\.1"), ("block=1..0", "ends"),
                             ("tile=x", "'x'"), ("row=1", "block, tile"), ("block", "name=value"),
                             ("warp=0", "show --warp")]:
            self.refuses(USAGE, words, "diff", *RUN, "--where", where)

    def test_inputs_from_a_file(self):
        size = 64 * 64
        numbers = {name: ([1, 1, 64, 64], [((i * 37 + n) % 64 - 32) / 16 for i in range(size)])
                   for n, name in enumerate("qkv")}
        write_inputs(self.folder / "in.safetensors", **numbers)
        self.call("diff", "mma", "softmax_only", "--backend", "sim", "--input", "in.safetensors")
        numbers["q"][1][100] = float("nan")
        write_inputs(self.folder / "nan.safetensors", **numbers)
        done = self.call("diff", "mma", "softmax_only", "--backend", "sim", "--input", "nan.safetensors")
        self.assertRegex(done.stderr, "warning: q of the file holds 1 NaN")
        self.assertRegex(done.stdout, "warning: input q holds 1 NaN")
        (self.folder / "noise.safetensors").write_bytes(bytes(range(256)) * 8)
        write_inputs(self.folder / "lacks.safetensors", q=numbers["q"], k=numbers["k"])
        write_inputs(self.folder / "flat.safetensors", **{name: ([size], v[1]) for name, v in numbers.items()})
        (self.folder / "folder.safetensors").mkdir()
        for name, words in [("noise", "no safetensors file"), ("lacks", "no tensor 'v'"), ("flat", "four are needed"),
                            ("folder", "not a regular file"), ("gone", "No such file")]:
            self.refuses(USAGE, words, "diff", *RUN, "--input", f"{name}.safetensors")
        self.refuses(USAGE, "--shape", "diff", *RUN, "--input", "in.safetensors", "--shape", "s=64")
        self.refuses(USAGE, "--preset", "diff", *RUN, "--input", "in.safetensors", "--preset", "debug")

    def test_options_that_do_not_go_with_a_dump(self):
        for options in [["--shape", "s=4"], ["--causal"], ["-o", "x.safetensors"], ["--timeout", "3"]]:
            self.refuses(USAGE, f"{options[0].replace('-o', '--output')}.*dump", "diff", self.dump, *options)
            self.refuses(USAGE, "dump", "diff", self.dump, self.dump, *options)
        self.call("diff", self.dump, "--threads", "1", "--stale-ok")
        self.refuses(USAGE, "--col is for matrices", "show", self.dump, "m", "--col", "1")

    def test_files_that_are_no_dumps(self):
        whole = self.dump.read_bytes()
        for name, data in [("empty", b""), ("start", whole[:5]), ("header", whole[:300]), ("short", whole[:-1]),
                           ("long", whole + b"x"), ("inputs", (struct.pack("<Q", 2) + b"{}"))]:
            (self.folder / f"{name}.safetensors").write_bytes(data)
            for command in [["diff"], ["diff", self.dump], ["show"]]:
                site = ["m"] if command == ["show"] else []
                self.refuses(USAGE, f"{name}.safetensors", *command, f"{name}.safetensors", *site)

    def test_where_a_dump_cannot_go(self):
        (self.folder / "a.safetensors").mkdir()
        for words, path in [("folder gone", "gone/x.safetensors"), ("regular file", "a.safetensors"),
                            ("safetensors", "x.bin"), ("/proc", "/proc/x.safetensors")]:
            for command in ["run", "diff"]:
                self.refuses(USAGE, words, command, *RUN, "-o", path)
        self.refuses(USAGE, "-o", "run", *RUN)

    def test_a_file_that_may_not_grow(self):
        """`ulimit -f`: what is written beyond it fails, and no signal ends the program."""
        for command, path in [("run", "x.safetensors"), ("report", "x.html")]:
            what = RUN if command == "run" else [self.dump]
            words = shlex.join(map(str, [self.program, command, *what, "-o", path]))
            done = subprocess.run(["bash", "-c", f"ulimit -f 8; {words}"], cwd=self.folder, env=self.environment,
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True)
            self.assertEqual(done.returncode, ENVIRONMENT, done.stderr)
            self.assertRegex(done.stderr, "File too large")

    def test_dump_of_other_sources(self):
        data = self.dump.read_bytes()
        built_from = header_of(data)[0]["__metadata__"]["source_hash"]
        other = ("1" if built_from[0] == "0" else "0") + built_from[1:]
        stale = self.folder / "stale.safetensors"
        stale.write_bytes(data.replace(built_from.encode(), other.encode(), 1))
        self.refuses(MISMATCH, f"(?s){other}.*{built_from}.*--stale-ok", "diff", stale)
        self.call("diff", stale, "--stale-ok")

    def test_module_of_other_sources(self):
        """An edit after the build: exit 4 and both hashes, before any verdict."""
        module = self.module("mma.fused.f16.d64.64x64.sim")
        shape = ["--shape", "s=64,d=64"]
        self.call("locate", "mma", "--backend", "sim", *shape)  # builds what the commands below take
        self.call("check", "mma", "fused", *shape)
        sources = self.folder / "sources"
        copy_sources(ROOT, sources)
        stale = {"LANESCOPE_NINJA": "", "LANESCOPE_SOURCES": str(sources)}
        commands = [["diff", "mma", "fused", "--backend", "sim", *shape], ["diff", module, "fused", *shape],
                    ["locate", module, *shape], ["locate", "mma", "--backend", "sim", *shape],
                    ["check", "mma", "fused", *shape]]
        for command in commands:
            self.call(*command, **stale)
        kernel = sources / "kernels" / "mma.h"
        text = kernel.read_text()
        kernel.unlink()  # part of a checkout is one of other sources
        self.refuses(MISMATCH, "not built from the sources at hand", *commands[0], **stale)
        kernel.write_text(text + "// an edit\n")
        for command in commands:
            self.refuses(MISMATCH, "built from ([0-9a-f]{16}), at hand (?!\\1)[0-9a-f]{16}", *command, **stale)
        self.call("diff", module, "fused", *shape, "--stale-ok", **stale)

    def test_module_by_path(self):
        module = self.module("mma.softmax_only.f16.d128.64x64.sim")
        self.call("diff", *RUN)  # it is built
        report = self.json_of("diff", module, "softmax_only")
        self.assertEqual((report["verdict"], report["module"]), ("match", str(module)))
        self.refuses(USAGE, "gate softmax_only", "diff", module, "fused")
        self.refuses(USAGE, "f16", "diff", module, "softmax_only", "--dtype", "bf16")
        self.refuses(USAGE, "tile 64x64", "diff", module, "softmax_only", "--tile-shape", "64x32")
        self.refuses(USAGE, "backend sim", "diff", module, "softmax_only", "--backend", "cuda")
        self.refuses(USAGE, "gone.so", "diff", "gone.so", "softmax_only")
        (self.folder / "text.so").write_text("no module")
        self.refuses(USAGE, "text.so: it is no shared library", "diff", "text.so", "softmax_only")
        other = next(pathlib.Path("/usr/lib").glob("*/libdl.so.2"), None)
        if other:
            (self.folder / "other.so").symlink_to(other)
            self.refuses(USAGE, "lanescope_module", "diff", "other.so", "softmax_only")

    def test_resources_without_modules(self):
        if "cuda" not in self.backends():
            self.refuses(ENVIRONMENT, "nvcc", "resources", "mma")
        self.refuses(USAGE, "gone.so", "resources", "gone.so")
        module = self.module("mma.softmax_only.f16.d128.64x64.sim")
        self.refuses(USAGE, "only cuda modules", "resources", module)

    def test_what_the_machine_lacks(self):
        if not self.backends().get("cuda"):
            self.refuses(ENVIRONMENT, "(?i)cuda", "diff", "mma", "softmax_only", "--backend", "cuda")
        self.refuses(ENVIRONMENT, "not built", "diff", *RUN, LANESCOPE_NINJA="", LANESCOPE_MODULES=str(self.folder))
        for shape in ["s=1048576,d=64", "b=64,h=64,s=65536,skv=65536,d=64", "s=2000000000,d=1"]:
            for gate in ["softmax_only", "fused"]:
                self.call("diff", "mma", gate, "--backend", "sim", "--shape", "s=1,d=64")  # it is built
                self.refuses(ENVIRONMENT, "(?s)MiB.*--where.*--shape", "diff", "mma", gate, "--backend", "sim",
                             "--shape", shape, timeout=10)
        with open("/dev/full", "w") as full:
            done = subprocess.run([self.program, "diff", self.dump], stdout=full, stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, ENVIRONMENT, "a result that was lost")
        self.assertIn("stdout", done.stderr)


if __name__ == "__main__":
    take_arguments(__doc__)
    unittest.main(verbosity=2)
