#!/usr/bin/env python3
"""commands_test.py PROGRAM NINJA: what each command says of a run or a dump, as text and as JSON, and how
it exits. NINJA builds the modules that are needed; all on the sim backend."""

import re
import shlex
import subprocess
import unittest

from support.program import DIVERGED, ENVIRONMENT, MISMATCH, RUN, USAGE, DumpTest, header_of, take_arguments


class CommandsTest(DumpTest):
    def test_list(self):
        listed = self.json_of("list")
        mma = next(kernel for kernel in listed["kernels"] if kernel["kernel"] == "mma")
        self.assertIn("softmax_only", mma["gates"])
        self.assertEqual(set(mma), {"kernel", "gates", "dtypes", "head_dims", "tiles"})
        self.assertIn("o_final", listed["sites"])
        self.assertIn({"specimen": "mma+swapped_row_max", "command": "diff", "options": "--shape s=128,d=64"}, listed["specimens"])
        self.assertIn({"specimen": "wmma_registers+control_eight_elements", "command": None, "options": "--shape s=64,d=64"},
                      listed["specimens"])
        self.assertIn("mission", [preset["preset"] for preset in listed["presets"]])
        self.assertIn({"backend": "sim", "answers": True}, listed["backends"])
        text = self.call("list").stdout
        for word in ["mma", "softmax_only", "o_final", "swapped_row_max", "mission", "sim", "random"]:
            self.assertIn(word, text)

    def test_every_result_for_programs_says_its_version(self):
        self.json_of("list", "--causes")
        run = self.json_of("run", *RUN, "-o", "said.safetensors")
        self.assertEqual([run[key] for key in ["kernel", "dump", "blocks", "tiles", "sites", "incomplete", "stop"]],
                         ["mma", "said.safetensors", 2, 2, 6, "", "none"])
        self.assertEqual(self.json_of("report", self.dump, "-o", "said.html"),
                         {"page": "said.html", "blocks": 2, "blocks_judged": 2, "verdict": "match", "bits": None})
        for arguments, code in [(["nothing"], USAGE), (["diff", "mma", "nope"], USAGE), (["diff", "--nope"], USAGE),
                                ([], USAGE), (["show", self.dump, "nope"], USAGE), (["run", *RUN], USAGE)]:
            self.call(*arguments, "--format", "json", code=code)
            self.call("--format=json", *arguments, code=code)

    def test_list_maps(self):
        shown = self.json_of("list", "--maps", "--backend", "sim")
        self.assertEqual(shown["backend"], "sim")
        lanes = {entry["fragment"]: entry["lanes"] for entry in shown["maps"]}
        self.assertEqual(list(lanes), ["mma_a", "mma_b", "mma_c", "wmma_c"])
        self.assertEqual(lanes["wmma_c"][5], [[1, 2], [1, 3], [9, 2], [9, 3], [1, 10], [1, 11], [9, 10], [9, 11]])
        text = self.call("list", "--maps", "--backend", "sim").stdout
        self.assertRegex(text, r"(?s)mma_c.*lane 31  \( 7, 6\) \( 7, 7\) \(15, 6\) \(15, 7\)")
        self.refuses(USAGE, "--maps", "list", "--backend", "sim")

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
        command = re.search(f"^  {re.escape(str(self.program))} (show .*)$", text, re.MULTILINE)[1]
        self.assertIn("warp 0, lane 0", self.call(*shlex.split(command)).stdout)
        self.call("diff", "bad.safetensors", code=DIVERGED)
        values = self.json_of("show", "bad.safetensors", "m")["values"]
        worst = max((value for value in values if value["row"] is not None), key=lambda value: float(value["error"]))
        self.assertRegex(self.call("show", "bad.safetensors", "m").stdout,
                         rf"\nworst: warp {worst['warp']}, lane {worst['lane']}, register {worst['reg']}, row {worst['row']}, ")
        self.assertNotIn("worst:", self.call("show", self.dump, "m").stdout)

    def test_a_specimen_that_does_not_show_names_the_shape_that_shows_it(self):
        for specimen, options in [("output_of_other_layout", []), ("masked_tile_unguarded", []), ("out_of_bounds_write", [])]:
            command = "check" if specimen == "out_of_bounds_write" else "diff"
            done = self.call(command, "mma", "fused", "--backend", "sim", "--specimen", specimen, *options)
            shown = re.search(f"did not show; it does in {re.escape(str(self.program))} (.*)$", done.stderr, re.MULTILINE)
            self.assertIsNotNone(shown, done.stderr)
            self.call(*shlex.split(shown[1]), "--backend", "sim", code=DIVERGED)
        self.assertNotIn("did not show", self.call("diff", *RUN).stderr)
        verdict = self.call("diff", *RUN, "--where", "block=0,tile=0..1").stdout.splitlines()[-1]
        self.assertRegex(verdict, r"^match: .* bounds; of the sites only block=0$")

    def test_two_dumps(self):
        for i, options in enumerate([[], ["--threads", "1"], ["--threads", "2"]]):
            again = self.folder / f"again{i}.safetensors"
            self.call("run", *RUN, "-o", again, *options)
            self.assertEqual(again.read_bytes(), self.dump.read_bytes(), "not the same bytes again")
        self.assertRegex(self.call("diff", self.dump, "again0.safetensors").stdout.splitlines()[-1],
                         r"^match: \d+ values, bit for bit$")

        data = bytearray(self.dump.read_bytes())
        header, start = header_of(data)
        self.assertEqual(header["m"]["shape"], [2, 2, 4, 32, 2])
        element = (((1 * 2 + 0) * 4 + 2) * 32 + 5) * 2 + 1
        data[start + header["m"]["data_offsets"][0] + 4 * element] ^= 1
        touched = self.folder / "touched.safetensors"
        touched.write_bytes(data)
        report = self.json_of("diff", self.dump, touched, code=DIVERGED)
        place = ["tensor", "block", "tile", "warp", "lane", "reg"]
        self.assertEqual([report["first"][key] for key in place], ["m", 1, 0, 2, 5, 1])
        self.assertRegex(self.call("diff", self.dump, touched, code=DIVERGED).stdout.splitlines()[-1],
                         "^diverged: .*m.*tile 0, warp 2, lane 5, register 1")
        self.call("run", *RUN, "--shape", "s=64,d=128", "-o", "other.safetensors")
        self.refuses(MISMATCH, "shape", "diff", self.dump, "other.safetensors")

    def test_eight_bits(self):
        run = ["wmma_registers", "fused", "--backend", "sim", "--dtype", "e4m3", "--shape", "h=4,hkv=2,s=40,d=64"]
        self.call("diff", *run, "-o", "eight.safetensors")
        header, _ = header_of((self.folder / "eight.safetensors").read_bytes())
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

    def test_arch(self):
        shape = ["qk_only", "--backend", "sim", "--shape", "s=64,d=64"]
        for rules, arch in [("hopper", "sm_90"), ("ampere", "sm_80")]:
            for kernel in ["mma", "scalar"]:
                dump = self.folder / f"{kernel}.{rules}.safetensors"
                self.call("run", kernel, *shape, "--arch", rules, "-o", dump)
                self.assertEqual(header_of(dump.read_bytes())[0]["__metadata__"]["arch"], arch)
                self.call("diff", dump)
        done = self.call("diff", "mma.hopper.safetensors", "mma.ampere.safetensors", code=DIVERGED)
        self.assertRegex(done.stderr, "different rounding rules.*Hopper.*sm_90.*Ampere.*sm_80")
        self.assertNotIn("rules", self.call("diff", "scalar.hopper.safetensors", "scalar.ampere.safetensors").stderr)
        self.refuses(USAGE, "no 'turing'.*hopper, ampere", "diff", *RUN, "--arch", "turing")

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
        self.refuses(USAGE, "which site", "show", self.dump)

    def test_check(self):
        shape = ["--shape", "s=40,d=64"]
        done = self.call("check", "mma", "fused", *shape)
        self.assertEqual(done.stdout.splitlines()[-1], "clean: nothing found")
        report = self.json_of("check", "mma", "fused", *shape, "--schedule", "3")
        self.assertEqual(set(report), {"kernel", "gate", "shape", "verdict", "findings", "notes"})
        self.assertEqual((report["verdict"], report["findings"]), ("clean", []))
        planted = ["check", "mma", "fused", "--specimen", "out_of_bounds_write", *shape]
        report = self.json_of(*planted, code=DIVERGED)
        self.assertEqual((report["kernel"], report["verdict"]), ("mma+out_of_bounds_write", "fault"))
        finding = report["findings"][0]
        self.assertEqual(set(finding), {"kind", "count", "region", "element", "bytes", "passed", "access",
                                         "earlier", "used", "waited"})
        self.assertEqual((finding["kind"], finding["region"], finding["earlier"]), ("out of bounds", "o", None))
        self.assertEqual(set(finding["access"]), {"access", "line", "block", "warp", "lane"})
        self.assertRegex(finding["access"]["line"], r"^kernels/parts/mma_epilogue\.h:\d+$")
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
        command = re.search(f"^  {re.escape(str(self.program))} (check .*)$", text, re.MULTILINE)[1]
        self.call(*shlex.split(command), code=DIVERGED)
        wrong = self.json_of("locate", "wmma", "--specimen", "rescale_dropped", "--backend", "sim", code=DIVERGED)
        self.assertEqual((wrong["stage"], wrong["cause"], wrong["memory"]), ("pv", "not_rescaled", []))
        self.refuses(USAGE, "--untraced", "locate", "mma", "--untraced")

    def faulty(self, fault):
        """A module of a kernel in which lane 5 of warp 1 of block 1 breaks down at m of tile 1."""
        build = self.program.parent.parent
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

    def test_calibrate(self):
        for rules in ["hopper", "ampere"]:
            report = self.json_of("calibrate", "--backend", "sim", "--arch", rules)
            self.assertEqual((report["verdict"], report["rules"]), ("fits", rules))
            self.assertEqual({fit["rules"]: fit["differing"] == 0 for fit in report["rule_sets"]},
                             {name: name == rules for name in ["hopper", "ampere"]})
        self.assertEqual(self.call("calibrate", "--backend", "sim").stdout.splitlines()[-1], "fits: hopper")
        self.refuses(USAGE, "no 'volta'.*hopper, ampere", "calibrate", "--backend", "sim", "--arch", "volta")
        if not self.backends().get("cuda"):
            self.refuses(ENVIRONMENT, "(?i)cuda", "calibrate")

    def test_bench(self):
        answers = self.backends()
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


if __name__ == "__main__":
    take_arguments(__doc__)
    unittest.main(verbosity=2)
