#!/usr/bin/env python3
"""command_line_test.py PROGRAM NINJA: what a user may give on the command line, options, files and
modules; hostile_test.py has what is refused. NINJA builds the modules that are needed; all on the sim
backend."""

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
        commands = "list, run, diff, watch, check, exec, locate, sweep, calibrate, resources, bench, show, report, help"
        self.refuses(USAGE, f"which command.*{commands}")

    def test_what_goes_to_stderr(self):
        run = ["run", *RUN, "-o", "log.safetensors"]
        usual = self.call(*run)
        self.assertEqual(usual.stdout, "")
        self.assertRegex(usual.stderr, "^info: log.safetensors")
        quiet = self.call(*run, "-q")
        self.assertEqual(quiet.stdout + quiet.stderr, "")
        self.assertRegex(self.call(*run, "-v").stderr, "debug: mma.softmax_only")

    def test_quiet(self):
        self.module("mma.softmax_only.f16.d128.128x64.sim").unlink(missing_ok=True)  # of no other test
        self.assertEqual(self.call("-q", "diff", *RUN, "--tile-shape", "128x64").stderr, "")

    def test_where(self):
        self.call("run", *RUN, "--where", "block=1,tile=0..0", "-o", "part.safetensors")
        self.assertRegex(self.call("diff", "part.safetensors").stdout, "match: ")
        self.assertEqual(self.json_of("show", "part.safetensors", "s")["block"], 1)
        self.refuses(USAGE, "block 1", "show", "part.safetensors", "s", "--block", "0")

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
        self.refuses(USAGE, "--shape", "diff", *RUN, "--input", "in.safetensors", "--shape", "s=64")
        self.refuses(USAGE, "--preset", "diff", *RUN, "--input", "in.safetensors", "--preset", "debug")

    def test_options_that_go_with_a_dump(self):
        self.call("diff", self.dump, "--threads", "1", "--stale-ok")

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

    def test_what_the_machine_lacks(self):
        if not self.backends().get("cuda"):
            self.refuses(ENVIRONMENT, "(?i)cuda", "diff", "mma", "softmax_only", "--backend", "cuda")
        if "cuda" not in self.backends():
            self.refuses(ENVIRONMENT, "nvcc", "resources", "mma")


if __name__ == "__main__":
    take_arguments(__doc__)
    unittest.main(verbosity=2)
