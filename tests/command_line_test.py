#!/usr/bin/env python3
"""command_line_test.py PROGRAM NINJA: the commands as a user types them, their results, what they
refuse, and their exit codes. NINJA builds the modules that are needed; all on the sim backend."""

import json
import os
import pathlib
import re
import resource
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

OK, DIVERGED, USAGE, ENVIRONMENT, MISMATCH = range(5)
RUN = ["mma", "softmax_only", "--backend", "sim"]
LARGEST = 12 << 30  # bytes that the program may map: no mistake of it shall starve the machine


def read_file(path):
    """The header of a safetensors file as JSON, and where its data begin."""
    data = path.read_bytes()
    length, = struct.unpack_from("<Q", data)
    return json.loads(data[8:8 + length]), 8 + length


def write_inputs(path, **tensors):
    """NAME=(dims, values): a safetensors file of f16."""
    header, data = {}, b""
    for name, (dims, values) in tensors.items():
        packed = struct.pack(f"<{len(values)}e", *values)
        header[name] = {"dtype": "F16", "shape": dims, "data_offsets": [len(data), len(data) + len(packed)]}
        data += packed
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


class CommandLineTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = pathlib.Path(scratch.name)
        # The launcher's ninja, where it runs this: that one waits for other builds.
        cls.environment = {"LANESCOPE_NINJA": ninja, **os.environ}
        cls.dump = cls.folder / "dump.safetensors"
        try:
            cls().call("run", *RUN, "-o", cls.dump)
        except AssertionError as error:
            raise unittest.SkipTest(f"this build cannot trace mma softmax_only on sim: {error}")

    def call(self, *arguments, code=OK, timeout=120, **environment):
        """Runs the program, which must exit with `code`; an error leaves stdout empty."""
        words = [str(argument) for argument in arguments]
        done = subprocess.run([program, *words], cwd=self.folder, env={**self.environment, **environment},
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (LARGEST, LARGEST)))
        said = f"{shlex.join(words)}\n{done.stdout}{done.stderr}"
        self.assertEqual(done.returncode, code, said)
        self.assertNotIn("\x1b", done.stdout + done.stderr, "colour without a terminal")
        if code not in (OK, DIVERGED):
            self.assertEqual(done.stdout, "", said)
        return done

    def refuses(self, code, words, *arguments, **options):
        """It exits with `code`, and stderr matches the pattern `words`."""
        with self.subTest(shlex.join(map(str, arguments))):
            self.assertRegex(self.call(*arguments, code=code, **options).stderr, words)

    def json_of(self, *arguments, code=OK):
        return json.loads(self.call(*arguments, "--format", "json", code=code).stdout)

    def copy_of_dump(self, name, change):
        data = bytearray(self.dump.read_bytes())
        change(data)
        (self.folder / name).write_bytes(data)
        return name

    def test_list(self):
        listed = self.json_of("list")
        mma = next(kernel for kernel in listed["kernels"] if kernel["kernel"] == "mma")
        self.assertIn("softmax_only", mma["gates"])
        self.assertEqual(set(mma), {"kernel", "gates", "dtypes", "head_dims", "tiles"})
        self.assertIn("o_final", listed["sites"])
        self.assertIn("mma+swapped_row_max", listed["specimens"])
        self.assertIn("mission", [preset["preset"] for preset in listed["presets"]])
        self.assertIn({"backend": "sim", "answers": True}, listed["backends"])
        text = self.call("list").stdout
        for word in ["mma", "softmax_only", "o_final", "swapped_row_max", "mission", "sim", "random"]:
            self.assertIn(word, text)

    def test_eight_bits(self):
        run = ["wmma_registers", "fused", "--backend", "sim", "--dtype", "e4m3", "--shape", "h=4,hkv=2,s=40,d=64"]
        self.call("diff", *run, "-o", "eight.safetensors")
        header, _ = read_file(self.folder / "eight.safetensors")
        self.assertEqual([header[name]["dtype"] for name in ["q", "k", "v", "o_final", "k_smem"]],
                         ["F8_E4M3"] * 3 + ["F16"] * 2)
        self.assertEqual([header[name]["shape"] for name in ["q_scale", "k_scale", "v_scale"]], [[1, 4], [1, 2], [1, 2]])
        self.call("diff", "eight.safetensors")
        self.call("run", *run, "-o", "again.safetensors")
        self.call("diff", "eight.safetensors", "again.safetensors")
        self.assertRegex(self.call("show", "eight.safetensors", "k_scale", "--block", "7").stdout, "k_scale  f32")
        # A dump holds inputs of the form that --input takes.
        report = self.json_of("diff", "wmma_registers", "fused", "--backend", "sim", "--input", "eight.safetensors")
        self.assertEqual((report["verdict"], report["dtype"]), ("match", "e4m3"))
        self.refuses(USAGE, "mma does not take e4m3.*wmma_registers", "diff", "mma", "fused", "--backend", "sim",
                     "--input", "eight.safetensors")

    def test_list_maps(self):
        shown = self.json_of("list", "--maps", "--backend", "sim")
        self.assertEqual(shown["backend"], "sim")
        lanes = {entry["fragment"]: entry["lanes"] for entry in shown["maps"]}
        self.assertEqual(list(lanes), ["mma_a", "mma_b", "mma_c", "wmma_c"])
        self.assertEqual(lanes["wmma_c"][5], [[1, 2], [1, 3], [9, 2], [9, 3], [1, 10], [1, 11], [9, 10], [9, 11]])
        text = self.call("list", "--maps", "--backend", "sim").stdout
        self.assertRegex(text, r"(?s)mma_c.*lane 31  \( 7, 6\) \( 7, 7\) \(15, 6\) \(15, 7\)")
        self.refuses(USAGE, "--maps", "list", "--backend", "sim")

    def test_help(self):
        self.assertRegex(self.call("--help").stdout, "(?s)list.*run.*diff.*show")
        self.assertRegex(self.call("diff", "--help").stdout, "--specimen")
        self.assertRegex(self.call("--version").stdout, r"^\d+\.\d+\.\d+\n$")
        self.refuses(USAGE, "list run diff watch check locate calibrate resources bench show report", "nothing")
        self.refuses(USAGE, "list run diff watch check locate calibrate resources bench show report")

    def test_diff_that_matches(self):
        done = self.call("diff", *RUN)
        self.assertRegex(done.stdout.splitlines()[-1], r"^match: \d+ comparisons within their bounds$")
        self.assertEqual(self.call("diff", *RUN).stderr, "", "the second time there is nothing to build")
        report = self.json_of("diff", *RUN)
        self.assertLessEqual({"kernel", "gate", "backend", "shape", "verdict", "first", "sites"}, set(report))
        self.assertEqual([report[key] for key in ["kernel", "gate", "backend", "verdict", "first"]],
                         ["mma", "softmax_only", "sim", "match", None])
        self.assertEqual({site["site"] for site in report["sites"]}, {"s", "m_prev", "m", "alpha", "p", "l"})
        self.assertEqual(report["sites"], self.json_of("diff", self.dump)["sites"])

    def test_diff_that_diverges(self):
        planted = ["mma", "softmax_only", "--backend", "sim", "--specimen", "swapped_row_max", "--shape", "s=128,d=64"]
        first = self.json_of("diff", *planted, code=DIVERGED)["first"]
        self.assertLessEqual({"stage", "site", "tile", "block", "warp", "lane", "reg", "row", "col", "got", "want",
                              "bound"}, set(first))
        self.assertEqual((first["stage"], first["site"], first["tile"]), ("softmax", "m", 0))
        self.assertGreater(abs(first["got"] - first["want"]), first["bound"])
        text = self.call("diff", *planted, "-o", "bad.safetensors", code=DIVERGED).stdout
        self.assertRegex(text.splitlines()[-1], "^diverged: softmax / m, tile 0, warp 0, lane 0")
        command = re.search("^  lanescope (show .*)$", text, re.MULTILINE)[1]
        self.assertIn("warp 0, lane 0", self.call(*shlex.split(command)).stdout)
        self.call("diff", "bad.safetensors", code=DIVERGED)

    def test_check(self):
        shape = ["--shape", "s=40,d=64"]
        done = self.call("check", "mma", "fused", *shape)
        self.assertEqual(done.stdout.splitlines()[-1], "clean: nothing found")
        report = self.json_of("check", "mma", "fused", *shape, "--schedule", "3")
        self.assertEqual(set(report), {"kernel", "gate", "shape", "verdict", "findings"})
        self.assertEqual((report["verdict"], report["findings"]), ("clean", []))
        planted = ["check", "mma", "fused", "--specimen", "out_of_bounds_write", *shape]
        report = self.json_of(*planted, code=DIVERGED)
        self.assertEqual((report["kernel"], report["verdict"]), ("mma+out_of_bounds_write", "fault"))
        finding = report["findings"][0]
        self.assertEqual(set(finding), {"kind", "count", "region", "element", "bytes", "passed", "access",
                                         "earlier"})
        self.assertEqual((finding["kind"], finding["region"], finding["earlier"]), ("out of bounds", "o", None))
        self.assertEqual(set(finding["access"]), {"access", "line", "block", "warp", "lane"})
        self.assertRegex(finding["access"]["line"], r"^kernels/mma\.h:\d+$")
        text = self.call(*planted, code=DIVERGED).stdout
        self.assertRegex(text.splitlines()[-1], r"^fault: \d+ findings$")
        self.assertEqual(text, self.call(*planted, code=DIVERGED).stdout, "not the same text again")
        self.refuses(USAGE, "check runs on sim", "check", "mma", "fused", "--backend", "cuda")

    def test_locate(self):
        given = ["--backend", "sim", "--shape", "s=64,d=64"]
        planted = ["locate", "wmma", "--specimen", "missing_barrier_p", *given]
        report = self.json_of(*planted, code=DIVERGED)
        self.assertEqual([report[key] for key in ["verdict", "stage", "site", "tile", "cause", "certain"]],
                         ["fault", "softmax", "p", 0, "race", True])
        finding = report["memory"][0]
        for access in [finding["access"], finding["earlier"]]:
            self.assertRegex(access["line"], r"^kernels/wmma\.h:\d+$")
        self.assertEqual({finding["access"]["access"], finding["earlier"]["access"]}, {"read", "write"})
        self.assertNotEqual(finding["access"]["warp"], finding["earlier"]["warp"])
        self.assertEqual([(run["match"], run["checked"]) for run in report["runs"]], [(False, False), (False, True)])
        text = self.call(*planted, code=DIVERGED).stdout
        self.assertEqual(text.splitlines()[-1], "fault: softmax / p: race")
        command = re.search("^  lanescope (check .*)$", text, re.MULTILINE)[1]
        self.call(*shlex.split(command), code=DIVERGED)
        wrong = self.json_of("locate", "wmma", "--specimen", "rescale_dropped", "--backend", "sim", code=DIVERGED)
        self.assertEqual((wrong["stage"], wrong["cause"], wrong["memory"]), ("pv", "not_rescaled", []))
        self.refuses(USAGE, "--untraced", "locate", "mma", "--untraced")

    def test_calibrate(self):
        for rules in ["hopper", "ampere"]:
            report = self.json_of("calibrate", "--backend", "sim", "--arch", rules)
            self.assertEqual((report["verdict"], report["rules"]), ("fits", rules))
            self.assertEqual({fit["rules"]: fit["differing"] == 0 for fit in report["rule_sets"]},
                             {name: name == rules for name in ["hopper", "ampere"]})
        self.assertEqual(self.call("calibrate", "--backend", "sim").stdout.splitlines()[-1], "fits: hopper")
        self.refuses(USAGE, "no 'volta'.*hopper, ampere", "calibrate", "--backend", "sim", "--arch", "volta")
        answers = {backend["backend"]: backend["answers"] for backend in self.json_of("list")["backends"]}
        if not answers.get("cuda"):
            self.refuses(ENVIRONMENT, "(?i)cuda", "calibrate")

    def test_arch(self):
        shape = ["qk_only", "--backend", "sim", "--shape", "s=64,d=64"]
        for rules, arch in [("hopper", "sm_90"), ("ampere", "sm_80")]:
            for kernel in ["mma", "scalar"]:
                dump = self.folder / f"{kernel}.{rules}.safetensors"
                self.call("run", kernel, *shape, "--arch", rules, "-o", dump)
                self.assertEqual(read_file(dump)[0]["__metadata__"]["arch"], arch)
                self.call("diff", dump)
        done = self.call("diff", "mma.hopper.safetensors", "mma.ampere.safetensors", code=DIVERGED)
        self.assertRegex(done.stderr, "different rounding rules.*Hopper.*sm_90.*Ampere.*sm_80")
        self.assertNotIn("rules", self.call("diff", "scalar.hopper.safetensors", "scalar.ampere.safetensors").stderr)
        self.refuses(USAGE, "no 'turing'.*hopper, ampere", "diff", *RUN, "--arch", "turing")

    def test_resources_without_modules(self):
        backends = [backend["backend"] for backend in self.json_of("list")["backends"]]
        if "cuda" not in backends:
            self.refuses(ENVIRONMENT, "nvcc", "resources", "mma")
        self.refuses(USAGE, "gone.so", "resources", "gone.so")
        module = pathlib.Path(program).parent / "mma.softmax_only.f16.d128.64x64.sim.so"
        self.refuses(USAGE, "only cuda modules", "resources", module)

    def test_bench(self):
        answers = {backend["backend"]: backend["answers"] for backend in self.json_of("list")["backends"]}
        self.refuses(USAGE, "times a GPU", "bench", "mma", "--backend", "sim")
        self.refuses(USAGE, "--repeats", "bench", "mma", "--repeats", "0")
        if not answers.get("cuda"):
            self.refuses(ENVIRONMENT, "(?i)cuda", "bench", "mma")
        if "cuda" in answers:
            self.refuses(USAGE, "no 'x'", "bench", "mma", "--shape", "s=64", "--shape", "x=1")
            self.refuses(USAGE, "no preset 'nope'", "bench", "mma", "--preset", "mission", "--preset", "nope")
            self.refuses(USAGE, "no kernel 'nope'", "bench", "nope")
            self.refuses(USAGE, "no gate 'nope'", "bench", "mma", "nope")
            self.refuses(USAGE, "no tile 7x7", "bench", "mma", "--tile-shape", "7x7")
            self.refuses(USAGE, "(?s)no head dimension of 300.*d=64", "bench", "mma", "--shape", "d=300")

    def test_show(self):
        values = self.json_of("show", self.dump, "m", "--block", "1", "--warp", "2")["values"]
        self.assertEqual({(v["warp"], v["lane"], v["reg"]) for v in values},
                         {(2, lane, reg) for lane in range(32) for reg in range(2)})
        value = next(v for v in values if v["lane"] == 5 and v["reg"] == 1)
        text = self.call("show", self.dump, "m", "--block", "1", "--warp", "2", "--lane", "5").stdout
        self.assertIn(f"{value['bits']}", text)
        self.assertRegex(self.call("show", self.dump, "s").stdout, "warp 0 of 4")
        self.assertEqual(len(self.json_of("show", self.dump, "q")["values"]), 64 * 128)
        piped = self.call("show", self.dump, "--site", "s", "--tile", "1").stdout
        self.assertEqual(piped, self.call("show", self.dump, "s", "--tile", "1", "--as", "heat").stdout)
        self.assertNotIn("\x1b", piped)
        self.assertRegex(piped, r"\n   63 [.:]{64}\n")
        self.assertRegex(self.call("show", self.dump, "--site", "s", "--watch").stdout, r"\n   1 +64 +local +4096")
        self.refuses(USAGE, "Exactly 1 option", "show", self.dump)

    def test_two_dumps(self):
        for i, options in enumerate([[], ["--threads", "1"], ["--threads", "2"]]):
            again = self.folder / f"again{i}.safetensors"
            self.call("run", *RUN, "-o", again, *options)
            self.assertEqual(again.read_bytes(), self.dump.read_bytes(), "not the same bytes again")
        self.assertRegex(self.call("diff", self.dump, "again0.safetensors").stdout.splitlines()[-1],
                         r"^match: \d+ values, bit for bit$")

        def touch_one_value(data):
            header, start = read_file(self.dump)
            self.assertEqual(header["m"]["shape"], [2, 2, 4, 32, 2])
            element = (((1 * 2 + 0) * 4 + 2) * 32 + 5) * 2 + 1
            data[start + header["m"]["data_offsets"][0] + 4 * element] ^= 1

        touched = self.copy_of_dump("touched.safetensors", touch_one_value)
        report = self.json_of("diff", self.dump, touched, code=DIVERGED)
        place = ["tensor", "block", "tile", "warp", "lane", "reg"]
        self.assertEqual([report["first"][key] for key in place], ["m", 1, 0, 2, 5, 1])
        self.assertRegex(self.call("diff", self.dump, touched, code=DIVERGED).stdout.splitlines()[-1],
                         "^diverged: .*m.*tile 0, warp 2, lane 5, register 1")
        self.call("run", *RUN, "--shape", "s=64,d=128", "-o", "other.safetensors")
        self.refuses(MISMATCH, "shape", "diff", self.dump, "other.safetensors")

    def test_dump_of_other_sources(self):
        built_from = read_file(self.dump)[0]["__metadata__"]["source_hash"]
        other = ("1" if built_from[0] == "0" else "0") + built_from[1:]

        def change_hash(data):
            data[:] = data.replace(built_from.encode(), other.encode(), 1)

        stale = self.copy_of_dump("stale.safetensors", change_hash)
        self.refuses(MISMATCH, f"(?s){other}.*{built_from}.*--stale-ok", "diff", stale)
        self.call("diff", stale, "--stale-ok")

    def test_module_of_other_sources(self):
        """An edit after the build: exit 4 and both hashes, before any verdict."""
        module = pathlib.Path(program).parent / "mma.fused.f16.d64.64x64.sim.so"
        shape = ["--shape", "s=64,d=64"]
        self.call("diff", "mma", "fused", "--backend", "sim", *shape)  # it is built
        self.call("check", "mma", "fused", *shape)
        sources = self.folder / "sources"
        for folder in ["kernels", "gates", "debug"]:
            shutil.copytree(root / folder, sources / folder)
        stale = {"LANESCOPE_NINJA": "", "LANESCOPE_SOURCES": str(sources)}
        commands = [["diff", "mma", "fused", "--backend", "sim", *shape], ["diff", module, "fused", *shape],
                    ["locate", module, *shape], ["locate", "mma", "--backend", "sim", *shape],
                    ["check", "mma", "fused", *shape]]
        for command in commands:
            self.call(*command, **stale)
        kernel = sources / "kernels" / "mma.h"
        kernel.write_text(kernel.read_text() + "// an edit\n")
        for command in commands:
            self.refuses(MISMATCH, "built from ([0-9a-f]{16}), at hand (?!\\1)[0-9a-f]{16}", *command, **stale)
        self.call("diff", module, "fused", *shape, "--stale-ok", **stale)

    def test_where(self):
        self.call("run", *RUN, "--where", "block=1,tile=0..0", "-o", "part.safetensors")
        self.assertRegex(self.call("diff", "part.safetensors").stdout, "match: ")
        self.assertEqual(self.json_of("show", "part.safetensors", "s")["block"], 1)
        self.refuses(USAGE, "block 1", "show", "part.safetensors", "s", "--block", "0")
        for where, words in [("block=2", r"block 0\.\.1"), ("tile=0..2", r"tile 0\.\.1"), ("block=1..0", "ends"),
                             ("tile=x", "'x'"), ("row=1", "block, tile"), ("block", "name=value"),
                             ("warp=0", "show --warp")]:
            self.refuses(USAGE, words, "diff", *RUN, "--where", where)

    def test_what_goes_to_stderr(self):
        run = ["run", *RUN, "-o", "log.safetensors"]
        usual = self.call(*run)
        self.assertEqual(usual.stdout, "")
        self.assertRegex(usual.stderr, "^info: log.safetensors")
        quiet = self.call(*run, "-q")
        self.assertEqual(quiet.stdout + quiet.stderr, "")
        self.assertRegex(self.call(*run, "-v").stderr, "debug: mma.softmax_only")

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
                ("text,json", "--format", "yaml"), ("--nope", "--nope")]:
            self.refuses(USAGE, f"(?s){words}", "diff", "mma", "softmax_only", *options)
        for words, *arguments in [("site", self.dump), ("m_prev", self.dump, "nope"),
                                  ("tile 0 to 1", self.dump, "m", "--tile", "2"),
                                  ("lane 0 to 31", self.dump, "m", "--lane", "32"), ("regular", ".", "m"),
                                  ("--lane", self.dump, "q", "--lane", "1")]:
            self.refuses(USAGE, words, "show", *arguments)

    def faulty(self, fault):
        """A module of a kernel in which lane 5 of warp 1 of block 1 breaks down at m of tile 1."""
        build = pathlib.Path(program).parent.parent
        target = f"tests/faulty.{fault}.sim.so"
        subprocess.run([self.environment["LANESCOPE_NINJA"], "-C", build, target], check=True,
                       stdout=subprocess.DEVNULL)
        return build / target

    def test_kernel_that_breaks_down(self):
        shape = ["--shape", "s=200,d=64"]
        for fault, kind, words in [("segfault", "crash", r"block 1: lane 5 of warp 1: .*SIGSEGV.*faulty_kernel\.h:\d+"),
                                   ("hang", "hang", r"no block ended for 1 s.*--timeout")]:
            module, limit = self.faulty(fault), ["--timeout", "1"] if fault == "hang" else []
            done = self.call("diff", module, "fused", *shape, *limit, "-o", "partial.safetensors", code=DIVERGED)
            self.assertRegex(done.stdout, words)
            self.assertRegex(done.stdout, "(?s)last site reached.*block 1, warp 1, lane 5: m of tile 1.*block 0: every "
                                          "warp: lse.*diverged: the run did not end")
            report = self.json_of("diff", "partial.safetensors", "--stale-ok", code=DIVERGED)
            self.assertEqual(report["stop"], {"kind": kind, "block": 1, "warp": 1, "lane": 5, "combining": False})
            self.assertRegex(report["incomplete"], words)
            self.assertIsNone(report["first"], "what was written is right")
            self.assertEqual(report["last_sites"][0], {"block": 1, "warp": 1, "lane": 5, "site": "m", "tile": 1})
            self.assertRegex(self.call("show", "partial.safetensors", "m", "--block", "1").stdout, "did not end")
            done = self.call("run", module, "fused", *shape, *limit, "-o", "partial.safetensors", code=DIVERGED)
            self.assertRegex(done.stderr, f"(?s){words}.*last site reached")
            found = self.json_of("locate", module, *shape, *limit, code=DIVERGED)
            self.assertEqual([found[key] for key in ["verdict", "cause", "stage", "block", "tile", "warp", "lane"]],
                             ["fault", kind, "softmax", 1, 1, 1, 5])
        self.refuses(ENVIRONMENT, "more memory", "diff", self.faulty("ask_too_much"), "fused", *shape)
        self.refuses(USAGE, "timeout", "diff", *RUN, "--timeout", "0")

    def test_options_that_do_not_go_with_a_dump(self):
        for options in [["--shape", "s=4"], ["--causal"], ["-o", "x.safetensors"], ["--timeout", "3"]]:
            self.refuses(USAGE, f"{options[0].replace('-o', '--output')}.*dump", "diff", self.dump, *options)
            self.refuses(USAGE, "dump", "diff", self.dump, self.dump, *options)
        self.call("diff", self.dump, "--threads", "1", "--stale-ok")
        self.refuses(USAGE, "--col is for matrices", "show", self.dump, "m", "--col", "1")

    def test_quiet(self):
        module = pathlib.Path(program).parent / "mma.softmax_only.f16.d128.64x64.sim.so"
        module.unlink(missing_ok=True)
        self.assertEqual(self.call("-q", "diff", *RUN).stderr, "")

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

    def test_module_by_path(self):
        module = pathlib.Path(program).parent / "mma.softmax_only.f16.d128.64x64.sim.so"
        self.call("diff", *RUN)  # it is built
        report = self.json_of("diff", module, "softmax_only")
        self.assertEqual((report["verdict"], report["module"]), ("match", str(module)))
        self.refuses(USAGE, "gate softmax_only", "diff", module, "fused")
        self.refuses(USAGE, "f16", "diff", module, "softmax_only", "--dtype", "bf16")
        self.refuses(USAGE, "tile 64x64", "diff", module, "softmax_only", "--tile-shape", "64x32")
        self.refuses(USAGE, "backend sim", "diff", module, "softmax_only", "--backend", "cuda")
        self.refuses(USAGE, "gone.so", "diff", "gone.so", "softmax_only")
        (self.folder / "text.so").write_text("no module")
        self.refuses(ENVIRONMENT, "text.so", "diff", "text.so", "softmax_only")
        other = next(pathlib.Path("/usr/lib").glob("*/libdl.so.2"), None)
        if other:
            (self.folder / "other.so").symlink_to(other)
            self.refuses(MISMATCH, "lanescope_module", "diff", "other.so", "softmax_only")

    def test_what_the_machine_lacks(self):
        answers = {backend["backend"]: backend["answers"] for backend in self.json_of("list")["backends"]}
        if not answers.get("cuda"):
            self.refuses(ENVIRONMENT, "(?i)cuda", "diff", "mma", "softmax_only", "--backend", "cuda")
        self.refuses(ENVIRONMENT, "not built", "diff", *RUN, LANESCOPE_NINJA="", LANESCOPE_MODULES=str(self.folder))
        for shape in ["s=1048576,d=64", "b=64,h=64,s=65536,skv=65536,d=64", "s=2000000000,d=1"]:
            for gate in ["softmax_only", "fused"]:
                self.call("diff", "mma", gate, "--backend", "sim", "--shape", "s=1,d=64")  # it is built
                self.refuses(ENVIRONMENT, "(?s)MiB.*--where.*--shape", "diff", "mma", gate, "--backend", "sim",
                             "--shape", shape, timeout=10)
        with open("/dev/full", "w") as full:
            done = subprocess.run([program, "diff", str(self.dump)], stdout=full, stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, ENVIRONMENT, "a result that was lost")
        self.assertIn("stdout", done.stderr)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    program, ninja = os.path.abspath(sys.argv[1]), sys.argv[2]
    root = pathlib.Path(__file__).resolve().parent.parent
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
