#!/usr/bin/env python3
"""printed_trace_test.py PROGRAM NINJA MESON: a build with -Dtrace=printf prints the values that
PROGRAM's traced modules put into a dump; and what the options of a build choose.

The other build makes modules alone, which PROGRAM loads from there."""

import json
import math
import re
import struct
import subprocess
import unittest

from support.program import ROOT, USAGE, ProgramTest, take_arguments

SHAPE = ["--backend", "sim", "--shape", "s=65,d=64"]  # two blocks and two tiles, the second of each ragged
SITES = {"qk_only": ["q_smem", "k_smem", "s"],
         "softmax_only": ["s", "m_prev", "m", "alpha", "p", "l"]}  # in the order of the data
LINE = re.compile(r"block=(\d+) tile=(\d+) site=(\w+) warp=(\d+) lane=(\d+) reg=(-?\d+) row=(\d+) col=(\d+) : (\S+)")
BLOCK, TILE, SITE, WARP, LANE, REG, ROW, COL, VALUE = range(9)


def bits(value):
    """Of an f32, so that values compare as they are; every NaN is the same."""
    number = float(value)
    return "nan" if math.isnan(number) else struct.pack("<f", number)


def parse(text):
    lines = [LINE.fullmatch(line) for line in text.splitlines()]
    assert lines and all(lines), "a line without the labels"
    return [tuple(int(word) if word.lstrip("-").isdigit() and i != VALUE else word
                  for i, word in enumerate(line.groups())) for line in lines]


def place(line):
    """Where a printed line stands in the order: what another lane wrote goes by its row and column."""
    within = line[ROW:VALUE] if line[REG] < 0 else line[WARP:ROW]
    return line[BLOCK], line[TILE], line[SITE], within


SETTING = r"This build is set to -Dtrace=printf.*\./lanescope -Dtrace=on sets it back"


class PrintedTraceTest(ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.configure("printing", "-Dtrace=printf", "-Dkernels=mma,scalar", "-Dbackends=sim",
                      "-Dgates=qk_only,softmax_only")
        cls.configure("fused", "-Dtrace=off", "-Dkernels=mma", "-Dbackends=sim", "-Dgates=fused")

    @classmethod
    def configure(cls, build, *options, fails=False):
        """What meson says of a build folder with these options."""
        done = subprocess.run([meson, "setup", cls.folder / build, ROOT, *options],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True)
        assert (done.returncode != 0) == fails, done.stdout + done.stderr
        return done.stdout + done.stderr

    def printed(self, *arguments, **options):
        """Runs PROGRAM with the modules that print."""
        return self.call(*arguments, **options, LANESCOPE_NINJA="", LANESCOPE_MODULES=self.folder / "printing" / "gates")

    def build(self, kernel, gate):
        """Has a dump of a traced run in place, and the module that prints the same run."""
        self.call("run", kernel, gate, *SHAPE, "-o", f"{kernel}.{gate}.safetensors")
        report = self.json_of("diff", kernel, gate, *SHAPE)
        subprocess.run([self.ninja, "-C", self.folder / "printing", f"gates/{report['module']}.so"], check=True,
                       stdout=subprocess.DEVNULL)

    def shown(self, kernel, gate, block, tile, site):
        return self.json_of("show", f"{kernel}.{gate}.safetensors", site, "--block", block, "--tile", tile)["values"]

    def check_values(self, kernel, gate, lines):
        printed = {place(line): line for line in lines}
        self.assertEqual(len(printed), len(lines), "a value is printed twice")
        compared = 0
        for block, tile, site in sorted({line[:WARP] for line in lines}):
            for want in self.shown(kernel, gate, block, tile, site):
                within = (want["row"], want["col"]) if "owner" in want else (want["warp"], want["lane"], want["reg"])
                line = printed[block, tile, site, within]
                self.assertEqual(bits(line[VALUE]), bits(want["value"]), line)
                if "owner" in want:
                    self.assertEqual(line[WARP] * 32 + line[LANE], want["owner"], line)
                elif want["row"] is not None:  # else another lane speaks for this element
                    self.assertEqual(line[ROW:VALUE], (want["row"], want["col"]), line)
                compared += 1
        self.assertEqual(compared, len(lines), "more is printed than the dump has")

    def test_values_and_order(self):
        for kernel in ["mma", "scalar"]:
            for gate, sites in SITES.items():
                with self.subTest(kernel=kernel, gate=gate):
                    self.build(kernel, gate)
                    lines = parse(self.printed("run", kernel, gate, *SHAPE).stdout)
                    order = [(line[BLOCK], line[TILE], sites.index(line[SITE]), place(line)[3]) for line in lines]
                    self.assertEqual(order, sorted(order))
                    self.assertEqual({line[SITE] for line in lines}, set(sites))
                    self.assertEqual({line[:SITE] for line in lines}, {(b, t) for b in range(2) for t in range(2)})
                    self.check_values(kernel, gate, lines)

    def test_where(self):
        for gate in SITES:
            self.build("mma", gate)
            run = ["run", "mma", gate, *SHAPE]
            every = parse(self.printed(*run).stdout)
            lines = parse(self.printed(*run, "--where", "block=1,tile=1,warp=2,lane=4..5").stdout)
            once_per_block = "q_smem"  # not narrowed by a tile
            self.assertEqual(lines, [line for line in every
                                     if line[BLOCK] == 1 and (line[TILE] == 1 or line[SITE] == once_per_block)
                                     and line[WARP:REG] in [(2, 4), (2, 5)]])
            self.assertEqual({line[SITE] for line in lines}, set(SITES[gate]))
        for where, words in [("warp=4", r"warp 0\.\.3"), ("lane=30..32", r"lane 0\.\.31"), ("tile=2", r"tile 0\.\.1")]:
            self.assertRegex(self.printed(*run, "--where", where, code=USAGE).stderr, words)

    def test_diff_judges(self):
        self.build("mma", "softmax_only")
        diff = ["diff", "mma", "softmax_only", *SHAPE, "--where", "block=0,tile=0,warp=0,lane=0"]
        done = self.printed(*diff)
        self.assertNotRegex(done.stdout + done.stderr, LINE, "the verdict drowns in printed values")
        self.assertRegex(done.stdout.splitlines()[-1], "^match: ")
        self.assertRegex(done.stderr, SETTING)
        done = self.printed(*diff, "--format", "json", "-o", "printed.safetensors")
        self.assertEqual(json.loads(done.stdout)["verdict"], "match")
        self.assertRegex(self.call("diff", "printed.safetensors").stdout, "match: ")

    def test_the_setting_is_named_where_it_matters(self):
        self.build("mma", "softmax_only")
        run = ["mma", "softmax_only", *SHAPE]
        self.assertEqual(self.printed("run", *run).stderr, "", "what was asked for")
        self.assertRegex(self.printed("run", *run, "-o", "a.safetensors").stderr, SETTING)
        self.call("diff", "mma", "fused", *SHAPE)
        subprocess.run([self.ninja, "-C", self.folder / "fused", "gates/mma.fused.f16.d64.64x64.sim.so"], check=True,
                       stdout=subprocess.DEVNULL)
        self.refuses(USAGE, f"locate: it needs the traced values.*{SETTING}".replace("printf", "off"), "locate", "mma", *SHAPE,
                     LANESCOPE_NINJA="", LANESCOPE_MODULES=self.folder / "fused" / "gates")
        self.assertIn("-Dtrace=on", self.call("list").stdout)
        self.assertEqual(self.json_of("list")["build"]["trace"], "on")

    def test_options(self):
        self.assertRegex(self.configure("a", "-Dgates=sofmax_only", fails=True),
                         "sofmax_only.*qk_only, softmax_only, pv_only, fused")
        self.assertRegex(self.configure("b", "-Dtrace=print", fails=True), 'print.*"on", "off", "printf"')
        self.assertRegex(self.configure("c", "-Dkernels=nma", fails=True), "nma.*mma, scalar")
        self.configure("one", "-Dgates=qk_only", "-Dbackends=sim")
        targets = subprocess.run([self.ninja, "-C", self.folder / "one", "-t", "targets", "all"], check=True,
                                 stdout=subprocess.PIPE, text=True).stdout
        gates = set(re.findall(r"^gates/[^./]+\.(\w+)\.[^/]*\.so:", targets, re.MULTILINE))
        self.assertEqual(gates, {"qk_only"}, "another gate's modules are declared")


if __name__ == "__main__":
    meson, = take_arguments(__doc__, more=1)
    unittest.main(verbosity=2)
