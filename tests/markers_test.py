#!/usr/bin/env python3
"""markers_test.py PROGRAM NINJA: CUDA C++ kernels with markers (kernels/trace/lanescope.h), compiled as README.md
says, have gates, sites and causes as those of the tree."""

import itertools
import json
import re
import shlex
import struct
import subprocess
import tarfile
import unittest

from support.program import (DIVERGED, MISMATCH, OK, ROOT, USAGE, ProgramTest, demand_nvcc_13, header_of, lines_of_readme,
                             take_arguments)

MARKED = "/tmp/marked"  # what README.md calls the folder
SITES = {"s", "m", "alpha", "p", "l", "o", "o_final", "lse"}
GATES = {"qk_only": {"s"}, "softmax_only": {"s", "m", "alpha", "p", "l"}, "pv_only": {"alpha", "p", "o"}, "fused": SITES}


class MarkersTest(ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        demand_nvcc_13()
        cls.build_targets("gates/libcudart.so.13", "gates/commands/lanescope")
        cls.environment["LANESCOPE_NINJA"] = ""  # modules are given by their paths
        cls.compiled = {}

    def compile(self, source, name, *changes):
        """The module of a kernel of tests/strangers with texts replaced by others, which is called `name` in all tests."""
        folder = self.folder / name
        if name in self.compiled:
            self.assertEqual(self.compiled[name], (source, changes))
            return folder / f"{name}.so"
        folder.mkdir()
        text = (ROOT / "tests" / "strangers" / source).read_text()
        for old, new in changes:
            self.assertEqual(text.count(old), 1, old)
            text = text.replace(old, new)
        copy = folder / f"{name}.cu"
        copy.write_text(text)
        line, = [line for line in lines_of_readme(MARKED) if "-keep" in line]
        line = line.replace("tests/strangers/marked.cu", str(copy))
        line = line.replace(f"{MARKED}/marked.so", str(folder / f"{name}.so")).replace(MARKED, str(folder))
        subprocess.run(shlex.split(line), cwd=ROOT, check=True)
        self.compiled[name] = source, changes
        return folder / f"{name}.so"

    def report(self, module, gate, *words, code=0):
        return self.json_of("diff", module, gate, "--backend", "sim", *words, code=code)

    def test_readme(self):
        """What README.md types, as it stands there."""
        folder = self.folder / "readme"
        said = []
        for line in lines_of_readme(MARKED):
            words = shlex.split(line.replace(MARKED, str(folder)))
            if words[0] == "./lanescope":
                done = self.result_of(*words[1:])
                said.append(done.stdout.strip().splitlines()[-1])
                self.assertEqual(done.returncode, DIVERGED if "moved" in said[-1] else OK, done.stdout + done.stderr)
            else:
                subprocess.run(words, cwd=ROOT, check=True)
        for one, words in zip(said, ["match: ", "clean: ", "clean: ", "row_per_warp: "], strict=True):
            self.assertIn(words, one)

    def test_gates(self):
        for source, name, load in [("marked.cu", "rows", set()), ("marked_mma.cu", "mma", {"k_smem", "v_smem"})]:
            module = self.compile(source, name)
            for gate, sites in GATES.items():
                of_gate = {"qk_only": {"k_smem"}, "pv_only": {"v_smem"}, "softmax_only": set(), "fused": load}[gate]
                for shape in ["b=2,h=4,hkv=2,s=70,d=64", "b=1,h=1,s=40,skv=25,d=40"]:
                    report = self.report(module, gate, "--shape", shape, "--causal")
                    self.assertEqual(report["verdict"], "match", report)
                    self.assertEqual({site["site"] for site in report["sites"]}, sites | (of_gate & load))
                    self.assertTrue(all(site["compared"] > 0 for site in report["sites"]))
            self.refuses(USAGE, "there is no such gate of a marked kernel", "diff", module, "combine_only", "--backend", "sim")
            self.call("check", module, "fused", "--backend", "sim", "--shape", "b=1,h=1,s=40,d=64")

    def test_lanes(self):
        """The dump says which lane held what."""
        module = self.compile("marked_mma.cu", "mma")
        self.call("run", module, "fused", "--backend", "sim", "--shape", "b=1,h=1,s=32,d=64", "-o", "x.safetensors")
        file = (self.folder / "x.safetensors").read_bytes()
        header, data = header_of(file)
        for site, registers, cols in [("s", 8, 16), ("m", 2, 1), ("o", 32, 64)]:
            tensor = header[f"{site}.coordinates"]
            self.assertEqual(tensor["shape"], [2, 32, registers, 2])
            begin, end = tensor["data_offsets"]
            places = struct.iter_unpack("<hh", file[data + begin:data + end])
            for warp, lane in itertools.product(range(2), range(32)):
                held = list(itertools.islice(places, registers))
                # PTX ISA, mma.m16n8k16: the accumulator's fragment
                rows = [16 * warp + lane // 4, 16 * warp + lane // 4 + 8]
                own = [0] if cols == 1 else [8 * n + 2 * (lane % 4) + i for n in range(cols // 8) for i in range(2)]
                self.assertEqual(held, list(itertools.product(rows, own)))
            shown = self.call("show", "x.safetensors", site, "--tile", "1", "--warp", "1").stdout
            self.assertIn(f"{site}  f32, registers", shown)
        self.assertIn("k_smem  f16, shared", self.call("show", "x.safetensors", "k_smem", "--tile", "1").stdout)
        again = self.folder / "again.safetensors"
        self.call("run", module, "fused", "--backend", "sim", "--shape", "b=1,h=1,s=32,d=64", "-o", again)
        self.assertEqual(again.read_bytes(), (self.folder / "x.safetensors").read_bytes())

    def test_bugs(self):
        """(source, change, stage, site, tile and place that diff says first, cause that locate names)"""
        bugs = {
            "stale": ("marked.cu", ("    acc[1] *= alpha;\n", ""), "pv", "o", {"tile": 1, "row": 0, "col": 32, "lane": 0},
                      "not_rescaled"),
            "mask": ("marked.cu", ("key < visible ?", "key <= visible ?"), "qk", "s", {"tile": 0, "row": 0, "col": 1, "warp": 0},
                     "mask_off_by_one"),
            "lanes": ("marked.cu", ("for (int i = 16; i > 0; i /= 2) top", "for (int i = 8; i > 0; i /= 2) top"),
                      "softmax", "m", {"tile": 0}, "incomplete_reduction"),
            "sum": ("marked.cu", ("l = fmaf(l, alpha, sum);", "l = l + sum;"), "softmax", "l", {"tile": 1}, "not_rescaled"),
            "quad": ("marked_mma.cu", ("      top = fmaxf(top, __shfl_xor_sync(~0u, top, 2));\n", ""), "softmax", "m",
                     {"tile": 0}, "incomplete_reduction"),
            "keys": ("marked_mma.cu", ("k_smem[8 * n + g][16 * i", "k_smem[8 * (1 - n) + g][16 * i"), "qk", "s",
                     {"tile": 0, "row": 0, "col": 0}, "permuted"),
        }
        for name, (source, change, stage, site, place, cause) in bugs.items():
            with self.subTest(name):
                module = self.compile(source, name, change)
                first = self.report(module, "fused", "--shape", "b=1,h=1,s=70,d=64", "--causal", code=DIVERGED)["first"]
                self.assertEqual((first["stage"], first["site"]), (stage, site), first)
                self.assertEqual({key: first[key] for key in place}, place)
                gates = {"qk": "qk_only", "softmax": "softmax_only", "pv": "pv_only"}
                for of_stage, gate in gates.items():
                    code = DIVERGED if of_stage == stage else 0
                    self.report(module, gate, "--shape", "b=1,h=1,s=70,d=64", "--causal", code=code)
                found = self.json_of("locate", module, "--backend", "sim", code=DIVERGED)
                self.assertEqual((found["stage"], found["site"], found["cause"]), (stage, site, cause), found["evidence"])
                self.assertRegex(" ".join(found["evidence"]), "alone diverges in the same stage")
                self.assertRegex(found["source"][0], rf"{name}\.cu:\d+ \(its marker\)")
                number = int(re.search(r":(\d+) ", found["source"][0])[1])
                marked = module.with_suffix(".cu").read_text().splitlines()[number - 1]
                self.assertIn(f"lanescope::trace(lanescope::{site},", marked)
                self.assertRegex(" ".join(found["source"][1:]), rf"{name}\.cu:\d+ \(computes it: (fma|mma|add|selp|max|shfl)")

    def test_tiles_in_shared_memory(self):
        """(what is stored, what the marker says of how it lies)"""
        plain = "__shared__ __half k_smem[keys][head_dim], v_smem[keys][head_dim];"
        loads = ["k_smem[i / head_dim][d] = ", "v_smem[i / head_dim][d] = "]
        reads = ["const __half* b = &k_smem[8 * n + g][16 * i + 2 * t];", "pair(b[0], b[1]), pair(b[8], b[9])"]
        swizzled = [(plain, "__shared__ __half k_smem[keys * head_dim], v_smem[keys][head_dim];\n"
                            "  const auto at = [](int row, int d) { return row * head_dim + (d ^ row % 8 * 8); };"),
                    (loads[0], "k_smem[at(i / head_dim, d)] = "),
                    (reads[0], "const __half* b = k_smem; const int key = 8 * n + g, d = 16 * i + 2 * t;"),
                    (reads[1], "pair(b[at(key, d)], b[at(key, d + 1)]), pair(b[at(key, d + 8)], b[at(key, d + 9)])")]
        marker = "&k_smem[0][0], lanescope::rows(head_dim)"
        layouts = {
            "swizzled": [*swizzled, (marker, "k_smem, lanescope::rows(head_dim).swizzled(3, 3, 3)")],
            "padded": [(plain, "__shared__ __half k_smem[keys][head_dim + 8], v_smem[keys][head_dim];"),
                       (marker, "&k_smem[0][0], lanescope::rows(head_dim + 8)")],
        }
        shape = ["--shape", "b=1,h=1,s=70,d=64"]
        for name, changes in layouts.items():
            with self.subTest(name):
                module = self.compile("marked_mma.cu", name, *changes)
                report = self.report(module, "fused", *shape)
                self.assertEqual(report["verdict"], "match")
                self.assertIn("k_smem", {site["site"] for site in report["sites"]})
        wrong = self.compile("marked_mma.cu", "not_swizzled", *swizzled, (marker, "k_smem, lanescope::rows(head_dim)"))
        first = self.report(wrong, "fused", *shape, code=DIVERGED)["first"]
        self.assertEqual((first["stage"], first["site"], first["row"], first["col"]), ("load", "k_smem", 1, 0))
        stale = self.compile("marked_mma.cu", "columns", ("v[key * head_dim + d]", "v[key * head_dim + (d ^ 8)]"))
        first = self.report(stale, "fused", *shape, code=DIVERGED)["first"]
        self.assertEqual((first["stage"], first["site"]), ("load", "v_smem"))
        outside = self.compile("marked_mma.cu", "outside", (marker, "&k_smem[0][0], lanescope::rows(640)"))
        done = self.call("diff", outside, "fused", "--backend", "sim", *shape, code=DIVERGED)
        self.assertRegex(done.stdout, r"lanescope tile k_smem b16 at .*outside\.cu:\d+ in load: the marker has row \d+, column 0 of "
                                      r"k_smem at byte \d+ of shared memory, which has 4096")

    def test_stages(self):
        """Findings say in which stage they are, and what of which tile they are about."""
        barrier = "    __syncthreads();\n    lanescope::tile(lanescope::k_smem"
        race = self.compile("marked_mma.cu", "race", (barrier, "    lanescope::tile(lanescope::k_smem"))
        shape = ["--shape", "b=1,h=1,s=40,d=64"]
        said = self.call("check", race, "fused", *shape, code=DIVERGED).stdout
        self.assertRegex(said, r"read +\S+race\.cu:\d+ in qk .*\n +write +\S+race\.cu:\d+ in load .*\n +at +k_smem\[\d+\]\[\d+\]")
        self.assertRegex(said, r"read +\S+race\.cu:\d+ in pv .*\n +write +\S+race\.cu:\d+ in load .*\n +at +v_smem\[\d+\]\[\d+\]")
        found = self.json_of("locate", race, "--backend", "sim", code=DIVERGED)
        self.assertEqual((found["stage"], found["site"], found["cause"]), ("load", "k_smem", "race"))
        program = race.with_name("main.cu")
        program.write_text('''#include "race.cu"
            int main() {
              __half* x;
              cudaMalloc(&x, 5 * 4096 * sizeof *x);
              cudaMemset(x, 0, 5 * 4096 * sizeof *x);
              __half *o = x + 3 * 4096;
              tensor_cores<<<2, 64>>>(x, x + 4096, x + 8192, o, (float*)(o + 4096), 64, 64, 1, 0.125f, false);
              return cudaDeviceSynchronize();
            }''')
        for keep in [[], ["-keep", "-keep-dir", str(race.parent)]]:
            subprocess.run(["nvcc", "-std=c++20", "-cudart", "shared", "-arch=compute_90", "-lineinfo", f"-I{ROOT}",
                            f"-I{ROOT}/kernels/trace", *keep, str(program), "-o", str(race.with_name("main"))], check=True)
            said = self.call("exec", "--accesses", race.with_name("main"), code=DIVERGED).stderr
            self.assertEqual(" in qk " in said, keep != [], said)
            self.assertEqual(bool(re.search(r"ld\.shared\S* at \S+race\.cu:\d+ in pv", said)), keep != [], said)

    def test_way_of_a_wrong_output(self):
        """Back from the first wrong element: lines, and the first marked value on the way that is wrong."""
        shape = ["--shape", "b=1,h=2,s=70,d=64", "--causal", "--slice"]
        for name, change, site, tile in [
                ("sum", ("l = fmaf(l, alpha, sum);", "l = l + sum;"), "l", 1),
                ("lanes", ("for (int i = 16; i > 0; i /= 2) top", "for (int i = 8; i > 0; i /= 2) top"), "m", 0)]:
            module = self.compile("marked.cu", name, change)
            report = self.report(module, "fused", *shape, code=DIVERGED)
            way = report["slice"]
            self.assertEqual((way["first_wrong"]["site"], way["first_wrong"]["tile"]), (site, tile), way)
            self.assertGreater(way["marked"], 4)
            text = (self.folder / name / f"{name}.cu").read_text().splitlines()
            line, = [i for i, line in enumerate(text, 1) if change[1] in line]
            self.assertTrue(any(f"{name}.cu:{line}: " in told for told in way["lines"]), way["lines"])
            # One row of q, all that it sees of k and v.
            self.assertRegex(" ".join(way["sources"]), rf"of q: row {way['query']} of batch 0, head {way['head']}\b")
            self.assertRegex(" ".join(way["sources"]), r"of k: row 0 .* to row \d+ ")
        told = self.call("diff", module, "fused", "--backend", "sim", *shape, code=DIVERGED).stdout
        self.assertRegex(told, r"marked values on the way the first wrong: m, tile 0, row \d, column 0 [(]warp \d, lane \d+[)]: got ")
        right = self.compile("marked.cu", "rows")
        self.assertNotIn("slice", self.report(right, "fused", *shape))
        # Behind the last marker.
        late = self.compile("marked.cu", "way_late", ("l > 0 ? 1 / l : 0", "l > 0 ? 2 / l : 0"))
        way = self.report(late, "fused", *shape, code=DIVERGED)["slice"]
        self.assertIsNone(way["first_wrong"])
        self.assertGreater(way["marked"], 4)

    def test_unwritten(self):
        """A value that no lane traces was never written."""
        module = self.compile("marked.cu", "unwritten", ("lanescope::trace(lanescope::s, tile, warp,",
                                                         "if (lane != 7 || tile != 1) lanescope::trace(lanescope::s, tile, warp,"))
        report = self.report(module, "fused", "--shape", "b=1,h=1,s=64,d=64", code=DIVERGED)
        site, = [site for site in report["sites"] if (site["site"], site["judgement"]) == ("s", "local")]
        self.assertEqual((site["unwritten"], site["failed"]), (64, 64))
        self.assertEqual({key: report["first"][key] for key in ["site", "tile", "row", "col", "lane"]},
                         {"site": "s", "tile": 1, "row": 0, "col": 7, "lane": 7})

    def test_markers_that_are_missing_or_wrong(self):
        module = self.compile("marked.cu", "wrong", ("    lanescope::inject(lanescope::s, tile, warp, lane, s);\n", ""),
                              ("lanescope::trace(lanescope::l, tile, warp, 0, l);", "lanescope::trace(lanescope::l, tile, warp, 1, l);"))
        shape = ["--backend", "sim", "--shape", "b=1,h=1,s=64,d=64"]
        self.refuses(USAGE, r"no marker lanescope::inject\(lanescope::s, \.\.\.\), and the gate takes s", "diff", module,
                     "softmax_only", *shape)
        done = self.call("diff", module, "fused", *shape, code=DIVERGED)
        self.assertRegex(done.stdout, r"lanescope trace l f32 at .*wrong\.cu:\d+: the marker says row 0, column 1 of l, and a tile "
                                      r"has 8 x 1")
        text = module.with_suffix(".ptx").read_text()
        self.assertIn("// lanescope trace o f32", text)
        module.with_suffix(".ptx").write_text(text.replace("// lanescope trace o f32", "// lanescope trace o b16"))
        self.refuses(USAGE, r"wrong\.ptx:\d+: lanescope trace o b16: the register %f\d+ has 32 bits", "diff", module, "fused", *shape)
        # The kernel is right without them; of one that is not, that is told.
        self.refuses(USAGE, r"the register %f\d+ has 32 bits", "locate", module, *shape)
        bug = self.compile("marked.cu", "wrong_twice", ("    acc[1] *= alpha;\n", ""))
        text_of_bug = bug.with_suffix(".ptx").read_text()
        bug.with_suffix(".ptx").write_text(text_of_bug.replace("// lanescope trace o f32", "// lanescope trace o b16"))
        found = self.json_of("locate", bug, "--backend", "sim", code=DIVERGED)
        self.assertEqual((found["stage"], found["cause"]), ("pv", "not_rescaled"), found["evidence"])
        self.assertRegex(found["evidence"][-1], "^without its markers, since .* has 32 bits")
        module.with_suffix(".ptx").write_text(text.replace("\tmul.", "\tadd."))
        self.refuses(MISMATCH, r"wrong\.ptx is not what the module beside it was compiled to", "diff", module, "fused", *shape)

    def test_gpu(self):
        """The GPU's values are the machine's, bit for bit."""
        if not self.backends().get("cuda"):
            self.skipTest("no CUDA device answers")
        self.build_targets("gates/liblanescope_marked_cuda.so")
        for source, name in [("marked.cu", "rows"), ("marked_mma.cu", "mma")]:
            module = self.compile(source, name)
            self.compare_backends(module, "--shape", "b=2,h=2,s=70,d=64", "--causal")
        with tarfile.open(ROOT / "tests" / "data" / "marked_triton.tar.xz") as captured:
            captured.extractall(self.folder)
        self.compare_backends(self.folder / "attention.ptx", "--shape", "b=2,h=4,hkv=2,s=40,skv=50,d=64")
        for name, words in [("ptx", {}), ("apart", {"fmad": False})]:
            module = self.folder / f"{name}.ptx"
            module.write_text((self.folder / "rows" / "rows.ptx").read_text())
            self.describe(module, **words)
            self.compare_backends(module, "--shape", "b=2,h=2,s=70,d=64", "--causal")

    def compare_backends(self, module, *words):
        for gate in GATES:
            for backend in ["sim", "cuda"]:
                self.call("run", module, gate, "--backend", backend, *words, "-o", f"{backend}.safetensors")
            self.call("diff", "cuda.safetensors")
            self.call("diff", "cuda.safetensors", "sim.safetensors")

    def test_scores_without_their_factor(self):
        """The softmax multiplies with scale · log2(e): qk stands in the place of s."""
        words = [("s * to_base_2 : -INFINITY", "s : -INFINITY"), ("inject(lanescope::s,", "inject(lanescope::qk,"),
                 ("trace(lanescope::s,", "trace(lanescope::qk,"), ("    float top = s;", "    s *= to_base_2;\n    float top = s;")]
        shape = ["--shape", "b=1,h=2,s=70,d=64", "--causal"]
        module = self.compile("marked.cu", "unscaled", *words)
        for gate in GATES:
            self.assertEqual(self.report(module, gate, *shape)["verdict"], "match")
        mixed = self.compile("marked.cu", "mixed", *words[:2], words[3])
        self.refuses(USAGE, "scores in the units raw and base_2", "diff", mixed, "fused", "--backend", "sim", *shape)
        wrong = self.compile("marked.cu", "as_if_scaled", words[0], words[3])
        self.assertEqual(self.report(wrong, "qk_only", *shape, code=DIVERGED)["first"]["site"], "s")

    def test_products_in_flight(self):
        """Accumulators of wgmma have their values behind the wait."""
        source = self.folder / "product.cu"
        source.write_text('''#include "lanescope.h"
            __global__ void product(float* o, unsigned long long a, unsigned long long b) {
              float d[4] = {};
              const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, col = threadIdx.x % 4 * 2;
              for (int tile = 0; tile < 2; ++tile) {
                asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
                asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0,%1,%2,%3}, %4, %5, 1, 1, 1, 0, 0;"
                             : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a), "l"(b));
                asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
            #ifdef TOUCHES
                d[1] += 1;
            #endif
                if (EARLY) lanescope::trace(lanescope::s, tile, row, col, d[0]);
                asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
                lanescope::trace(lanescope::s, tile, row, col, d[0]);
              }
              o[threadIdx.x] = d[0] + d[1];
            }''')
        for name, words in {"early": ["-DEARLY=1"], "late": ["-DEARLY=0"], "touches": ["-DEARLY=0", "-DTOUCHES"],
                            "unmarked": ["-DEARLY=0", "-DLANESCOPE_UNMARKED"]}.items():
            subprocess.run(["nvcc", "-ptx", "-std=c++20", "-arch=compute_90a", "-lineinfo", f"-I{ROOT}/kernels/trace", *words,
                            str(source), "-o", str(self.folder / f"{name}.ptx")], check=True)
            (self.folder / f"{name}.launch.json").write_text('{"grid": 1, "block": 128, "bc": 8, "arguments": ["o", 0, 0]}')
        self.refuses(USAGE, r"lanescope trace s f32 at \S+product\.cu:13 names an accumulator of a wgmma\.mma_async that is still in "
                            r"flight", "diff", "early.ptx", "fused", "--backend", "sim", "--shape", "s=64,d=64")
        done = self.call("diff", "late.ptx", "fused", "--backend", "sim", "--shape", "s=64,d=64", code=DIVERGED)  # its descriptors are of nothing
        self.assertNotIn("in flight", done.stdout + done.stderr)
        for name, serialised in [("touches", True), ("early", False)]:
            code = DIVERGED if serialised else OK
            kernel, = self.json_of("resources", f"{name}.ptx", "--against", "unmarked.ptx", code=code)["kernels"]
            self.assertEqual(["serialized" in line for line in kernel["serialised"]], [True] * serialised)

    def test_machine_code(self):
        """What the markers change of it, by opcode."""
        line, = [line for line in lines_of_readme(MARKED) if "-DLANESCOPE_UNMARKED" in line]
        for source, name in [("marked.cu", "rows"), ("marked_mma.cu", "mma")]:
            with self.subTest(source):
                module = self.compile(source, name).with_suffix(".ptx")
                unmarked = module.with_name("unmarked.ptx")
                line_of = line.replace(f"{MARKED}/unmarked.ptx", str(unmarked))
                line_of = line_of.replace("tests/strangers/marked.cu", str(module.with_suffix(".cu")))
                subprocess.run(shlex.split(line_of), cwd=ROOT, check=True)
                self.assertNotIn("lanescope trace", unmarked.read_text())
                for other in [module, unmarked]:
                    same = other == module
                    kernel, = self.json_of("resources", module, "--against", other, code=0 if same else DIVERGED)["kernels"]
                    self.assertEqual(kernel["same"], same)
                    self.assertGreater(kernel["with"]["registers"], 16)
                    self.assertEqual(kernel["with"]["spill_stores"], 0)
                    more = sum(count["with"] - count["without"] for count in kernel["moved"])
                    self.assertEqual(kernel["with"]["instructions"] - kernel["without"]["instructions"], more)
        self.refuses(USAGE, "--against says which PTX", "resources", module)
        self.refuses(USAGE, "have no kernel in common", "resources", module, "--against", self.folder / "rows" / "rows.ptx")
        broken = module.with_name("broken.ptx")
        broken.write_text(module.read_text().replace("\tret;", "\tretired;"))
        self.refuses(USAGE, "ptxas refuses .*broken.ptx", "resources", module, "--against", broken)

    def test_triton(self):
        """What Triton 3.9 made of tests/strangers/marked_triton.py for sm_80."""
        with tarfile.open(ROOT / "tests" / "data" / "marked_triton.tar.xz") as captured:
            captured.extractall(self.folder)
        module = self.folder / "attention.ptx"
        for gate in GATES:
            report = self.report(module, gate, "--shape", "b=2,h=4,hkv=2,s=40,skv=50,d=64")
            self.assertEqual(report["verdict"], "match")
            self.assertEqual({site["site"] for site in report["sites"]}, GATES[gate])
        described = module.with_suffix(".launch.json")
        right = described.read_text()
        described.write_text(json.dumps({**json.loads(right), "dtype": "bf16"}))
        self.refuses(USAGE, r"attention\.launch\.json: dtype is bf16, and the kernel multiplies f16 alone", "diff", module, "fused")
        described.write_text(right)
        text = module.read_text()
        log2_e = "0f3FB8AA3B"
        self.assertGreater(text.count(log2_e), 0)
        module.write_text(text.replace(log2_e, "0f3F800000"))
        first = self.report(module, "qk_only", "--shape", "b=1,h=1,s=40,d=64", code=DIVERGED)["first"]
        self.assertEqual((first["stage"], first["site"]), ("qk", "s"))
        self.report(module, "pv_only", "--shape", "b=1,h=1,s=40,d=64")
        found = self.json_of("locate", module, code=DIVERGED)
        self.assertEqual((found["stage"], found["site"], found["cause"]), ("qk", "s", "wrong_scale"), found["evidence"])

    @staticmethod
    def describe(module, **words):
        """Says how the PTX of marked.cu is launched."""
        module.with_suffix(".launch.json").write_text(json.dumps({
            "grid": ["batch * heads", "cdiv(len_q, 8)"], "block": 256, "br": 8, "bc": 32, "products": "fp32_fma",
            "arguments": ["q", "k", "v", "o", "lse", "len_q", "len_kv", "heads", "heads / heads_kv", "scale", "causal"], **words}))

    def test_e4m3(self):
        """Operands of 8 bits, with a scale per head."""
        types = [("#include <cuda_fp16.h>", "#include <cuda_fp16.h>\n#include <cuda_fp8.h>"),
                 ("row_per_warp(const __half* q, const __half* k, const __half* v,",
                  "row_per_warp(const __nv_fp8_e4m3* q, const __nv_fp8_e4m3* k, const __nv_fp8_e4m3* v, const float* q_scale,"
                  " const float* k_scale, const float* v_scale,"),
                 ("__half2float(q[d]), __half2float(k[key * head_dim + d])", "float(q[d]), float(k[key * head_dim + d])"),
                 ("const __half* row = v", "const __nv_fp8_e4m3* row = v"), ("__half2float(row[lane])", "float(row[lane])"),
                 ("__half2float(row[lane + 32])", "float(row[lane + 32])"),
                 ("(const __half*)r.q, (const __half*)r.k, (const __half*)r.v,",
                  "(const __nv_fp8_e4m3*)r.q, (const __nv_fp8_e4m3*)r.k, (const __nv_fp8_e4m3*)r.v, r.q_scale, r.k_scale, r.v_scale,"),
                 ("ElementType::f16,", "ElementType::e4m3,"),
                 ("l > 0 ? 1 / l", "l > 0 ? v_scale[head / group] / l")]
        scale = ("= scale * 1.44", "= q_scale[head] * k_scale[head / group] * scale * 1.44")
        shape = ["--shape", "b=1,h=4,hkv=2,s=70,d=64", "--causal"]
        module = self.compile("marked.cu", "e4m3", *types, scale)
        for gate in GATES:
            self.assertEqual(self.report(module, gate, *shape)["verdict"], "match")
        wrong = self.compile("marked.cu", "unscaled_k", *types, (scale[0], "= q_scale[head] * scale * 1.44"))
        self.assertEqual(self.report(wrong, "fused", *shape, code=DIVERGED)["first"]["site"], "s")

    def test_ptx(self):
        """What nvcc -ptx leaves, with a launch description."""
        module = self.compile("marked.cu", "rows").with_suffix(".ptx")
        self.describe(module)
        for gate in GATES:
            report = self.report(module, gate, "--shape", "b=2,h=2,s=30,d=64", "--causal")
            self.assertEqual(report["verdict"], "match")


if __name__ == "__main__":
    take_arguments(__doc__)
    unittest.main(verbosity=2)
