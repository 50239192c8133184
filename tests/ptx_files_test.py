#!/usr/bin/env python3
"""ptx_files_test.py PROGRAM NINJA: kernels given as PTX with a launch description beside it: as nvcc
leaves them and as README.md says, and with the metadata that Triton leaves."""

import json
import pathlib
import re
import shlex
import subprocess
import unittest

from support.program import DIVERGED, ROOT, USAGE, ProgramTest, demand_nvcc_13, lines_of_readme, take_arguments

SHAPE = ["--shape", "s=100,d=64"]


class PtxFilesTest(ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        demand_nvcc_13()
        cls.build_targets("gates/libcudart.so.13")
        cls.environment["LANESCOPE_NINJA"] = ""
        cls.description = json.loads((ROOT / "tests/strangers/plain.launch.json").read_text())

    def compile(self, name, change=None, **description):
        """README's line, of a copy of the source with a text replaced by another; description: what is
        described otherwise, None: not at all."""
        line, = [line for line in lines_of_readme("plain.cu") if line.startswith("nvcc -ptx ")]
        text = (ROOT / "tests/strangers/plain.cu").read_text()
        if change:
            self.assertEqual(text.count(change[0]), 1, change)
            text = text.replace(*change)
        (self.folder / f"{name}.cu").write_text(text)
        ptx = self.folder / f"{name}.ptx"
        words = shlex.split(line.replace("tests/strangers/plain.cu", str(self.folder / f"{name}.cu"))
                            .replace("/tmp/plain.ptx", str(ptx)))
        subprocess.run(words, cwd=ROOT, check=True)
        self.describe(name, **description)
        return ptx

    def describe(self, name, **description):
        described = {key: value for key, value in {**self.description, **description}.items() if value is not None}
        (self.folder / f"{name}.launch.json").write_text(json.dumps(described))

    def test_kernel_that_is_right(self):
        ptx = self.compile("plain")
        for shape in ["s=200,d=64", "b=2,h=4,hkv=2,s=65,d=40", "s=1,skv=200,d=64"]:
            for causal in [[], ["--causal"]]:
                report = self.json_of("diff", ptx, "fused", "--shape", shape, *causal)
                self.assertEqual((report["verdict"], report["kernel"]), ("match", "my_attention"))
        self.assertRegex(self.call("check", ptx, "fused", *SHAPE).stdout, "clean: nothing found")
        self.assertRegex(self.call("locate", ptx, *SHAPE).stdout, "clean: ")
        self.call("run", ptx, "fused", *SHAPE, "-o", "x.safetensors")
        self.assertEqual(self.json_of("diff", "x.safetensors")["verdict"], "match")

    def test_gpu(self):
        """The driver compiles it; the GPU's values are the machine's, bit for bit, and so is what a bug is called."""
        if not self.backends().get("cuda"):
            self.skipTest("no CUDA device answers")
        ptx = self.compile("gpu")
        for backend in ["sim", "cuda"]:
            self.call("run", ptx, "fused", "--backend", backend, "--shape", "b=2,h=4,hkv=2,s=65,d=40", "--causal",
                      "-o", f"{backend}.safetensors")
        self.call("diff", "cuda.safetensors", "sim.safetensors")
        self.assertRegex(self.call("locate", ptx, "--backend", "cuda", *SHAPE).stdout, "clean: ")
        bug = self.compile("gpu_bug", ("l = fmaf(l, alpha, p);", "l += p;"))
        found = self.json_of("locate", bug, "--backend", "cuda", code=DIVERGED)
        self.assertEqual((found["stage"], found["cause"]), ("softmax", "not_rescaled"), found["evidence"])

    def test_kernel_for_a_number_of_heads(self):
        ptx = self.compile("heads", conditions=["heads == 4 * heads_kv"])
        out = self.call("locate", ptx).stdout
        self.assertRegex(out, r"match  a ragged tail .*h=4,hkv=1,")
        self.assertNotIn("several tiles: refused", out)
        self.assertGreater(int(re.search(r"clean: (\d+) runs", out).group(1)), 12, out)

    def test_whole_numbers_in_memory(self):
        change = ("int len_q, int len_kv, int group, float scale,\n                             bool causal) {\n",
                  "long long begins, int len_kv, int group, float scale,\n bool causal) {\n"
                  "const int len_q = ((const int*)begins)[1] - ((const int*)begins)[0];\n")
        arguments = self.description["arguments"]
        ptx = self.compile("begins", change, arguments=["i32(2, 7, len_q)" if a == "len_q" else a for a in arguments])
        self.assertEqual(self.json_of("diff", ptx, "fused", *SHAPE)["verdict"], "match")
        for said, numbers in [(r'"2, 7" is not: how many, the first, the step', "i32(2, 7)"),
                              (r"there are no such numbers", "i32(0, 7, 1)"),
                              (r"there are no such numbers", "i32(2, 2000000000, 2000000000)"),
                              (r'"0.5" is 0.5, no whole number', "i64(2, 0, 0.5)")]:
            self.describe("begins", arguments=[numbers if a == "len_q" else a for a in arguments])
            self.refuses(USAGE, said, "diff", ptx, "fused", *SHAPE)

    def test_kernels_one_after_the_other(self):
        """The first leaves O in memory of its own, from where the second brings it."""
        change = ("// What the lab needs of it.", "__global__ void bring(const __half* from, __half* to, int count) {\n"
                  "int i = blockIdx.x * blockDim.x + threadIdx.x;\nif (i < count) to[i] = from[i];\n}\n")
        ptx = self.compile("both", change)
        attention, bring = [word.split("(")[0] for line in ptx.read_text().splitlines() if ".entry" in line
                            for word in [line.split()[-1]]]
        if "bring" in attention:
            attention, bring = bring, attention
        of_o = "scratch(o, 2 * batch * heads * len_q * head_dim)"
        arguments = [of_o if a == "o" else a for a in self.description["arguments"]]
        alone = {key: self.description.get(key) for key in ["grid", "block"]}
        first = {**alone, "kernel": attention, "arguments": arguments}
        second = {"ptx": "both.ptx", "kernel": bring, "grid": "cdiv(batch * heads * len_q * head_dim, 128)", "block": 128,
                  "arguments": [of_o, "o", "batch * heads * len_q * head_dim"]}
        none = dict.fromkeys(["kernel", "grid", "block", "arguments", "shared"])
        self.describe("both", **none, launches=[first, second])
        report = self.json_of("diff", ptx, "fused", "--shape", "b=2,h=4,hkv=2,s=65,d=40")
        self.assertEqual((report["verdict"], report["kernel"]), ("match", "my_attention + bring"))
        self.assertRegex(self.call("check", ptx, "fused", *SHAPE).stdout, "clean: nothing found")
        self.describe("both", **none, launches=[first])
        self.assertEqual(self.json_of("diff", ptx, "fused", *SHAPE, code=DIVERGED)["verdict"], "diverged")
        for said, launches in [
                (r"launches\[1\]: grid is missing", [first, {k: v for k, v in second.items() if k != "grid"}]),
                (r"launches\[0\]: dtype is not known; there is: ptx, kernel", [{**first, "dtype": "f16"}]),
                (r"scratch of o has 12800 bytes, and later 99999", [first, {**second, "arguments": ["scratch(o, 99999)", "o", 1]}]),
                (r"launches is no list of 1 to 64", []),
                (r"launches\[0\] is no object", [1])]:
            with self.subTest(said):
                self.describe("both", **none, launches=launches)
                self.refuses(USAGE, said, "diff", ptx, "fused", *SHAPE)
        self.describe("both", launches=[first, second])
        self.refuses(USAGE, "what launches say stands in each of them alone", "diff", ptx, "fused", *SHAPE)

    def test_same_bits_as_the_program_that_launches_it(self):
        ptx = self.compile("same")
        module = self.folder / "same.so"
        subprocess.run(["nvcc", "-std=c++20", "-arch=sm_90", "-shared", "-cudart", "shared", "-Xcompiler", "-fPIC", "-I.",
                        "tests/strangers/plain.cu", "-o", module], cwd=ROOT, check=True)
        for name in [ptx, module]:
            self.call("run", name, "fused", *SHAPE, "--backend", "sim", "-o", f"{name.suffix[1:]}.safetensors")
        report = self.json_of("diff", "ptx.safetensors", "so.safetensors")
        self.assertEqual(report["verdict"], "match", report)

    def test_kernels_that_are_wrong(self):
        scaled = self.compile("scaled", ("s *= scale;", "s *= 1.1f * scale;"))
        report = self.json_of("diff", scaled, "fused", *SHAPE, code=DIVERGED)
        self.assertEqual(report["first"]["site"], "o_final")
        stray = self.compile("stray", ("l = fmaf(l, alpha, p);", "l = fmaf(l, alpha, p); o[64 * len_q] = __half(1);"))
        report = self.json_of("check", stray, "fused", "--shape", "b=1,h=1,s=100,d=64", code=DIVERGED)
        self.assertIn("out of bounds", {finding["kind"] for finding in report["findings"]})
        endless = self.compile("endless", ("l = fmaf(l, alpha, p);", "while (*(volatile const short*)q == *(const short*)q) {}"))
        done = self.call("diff", endless, "fused", *SHAPE, "--timeout", "1", code=DIVERGED)
        self.assertRegex(done.stdout, "did not end|has not ended|hang")

    def test_metadata_of_triton(self):
        ptx = self.compile("triton", block=None, kernel=None)
        name, = [word.split("(")[0] for line in ptx.read_text().splitlines() if ".entry" in line for word in [line.split()[-1]]]
        metadata = {"name": name, "num_warps": 4, "shared": 0, "num_ctas": 1, "global_scratch_size": 0,
                    "enable_fp_fusion": False, "target": "GPUTarget(backend='cuda', arch=90, warp_size=32)"}
        beside = self.folder / "triton.json"
        beside.write_text(json.dumps(metadata))
        self.assertEqual(self.json_of("diff", ptx, "fused", *SHAPE)["verdict"], "match")
        # Pointers to scratch memory stand behind the parameters that are described.
        self.describe("triton", block=None, arguments=self.description["arguments"][:-2])
        self.refuses(USAGE, r"8 arguments, and the kernel takes 10:\n  \.u64", "diff", ptx, "fused", *SHAPE)
        beside.write_text(json.dumps({**metadata, "num_ctas": 2}))
        self.refuses(USAGE, "clusters are not executed", "diff", ptx, "fused", *SHAPE)
        beside.write_text(json.dumps({**metadata, "num_warps": "four"}))
        self.refuses(USAGE, r"triton\.json: num_warps is no number", "diff", ptx, "fused", *SHAPE)

    def test_what_is_wrong_with_a_description(self):
        ptx = self.compile("wrong")
        arguments = self.description["arguments"]
        for said, change in [
                (r"grid is missing", {"grid": None}),
                (r"\"len_k\": there is no word 'len_k'; words: batch, causal", {"grid": "len_k"}),
                (r"\"0.5\" is 0.5, no whole number", {"grid": "0.5"}),
                (r"\"0\" is below 1", {"block": "0"}),
                (r"block is missing", {"block": None}),
                (r"blocks of 2048 threads", {"block": 2048}),
                (r"bytes of shared memory", {"shared": 1 << 20}),
                (r"9 arguments, and the kernel takes 10:\n  \.u64 ", {"arguments": arguments[1:]}),
                (r"\"len_q \* 1000\" is 100000, no whole number of its range", {"arguments": arguments[:-1] + ["len_q * 1000"]}),
                (r"\"q\" is an address, and the parameter", {"arguments": arguments[:-1] + ["q"]}),
                (r"stride\(z, ", {"arguments": arguments[:-1] + ["stride(z, 1)"]}),
                (r"has no kernel nothing", {"kernel": "nothing"}),
                (r"grids is not known; there is: kernel, grid", {"grids": 1}),
                (r"dtype is none of f16, bf16, e4m3 and f32", {"dtype": "tf32"}),
                (r"products is tensor_core, which does not take f32: there is fp32_fma and tensor_core_tf32",
                 {"dtype": "f32", "products": "tensor_core"}),
                (r"head_dim is no number from 1", {"head_dim": 0}),
                (r"the kernel is compiled for causal problems", {"causal": True}),
                (r"the kernel takes problems with len_q % 64 == 0", {"conditions": ["len_q % 64 == 0"]}),
                (r"grid has 4 elements", {"grid": [1, 1, 1, 1]}),
        ]:
            with self.subTest(said):
                self.describe("wrong", **change)
                self.refuses(USAGE, said, "diff", ptx, "fused", *SHAPE)
        (self.folder / "wrong.launch.json").write_text("[1]")
        self.refuses(USAGE, r"wrong\.launch\.json is no JSON object", "diff", ptx, "fused", *SHAPE)
        (self.folder / "wrong.launch.json").unlink()
        self.refuses(USAGE, r"how to launch .*wrong\.ptx is not known: .*wrong\.launch\.json says it.* takes:\n  \.u64 ",
                     "diff", ptx, "fused", *SHAPE)
        self.describe("wrong")
        ptx.write_text("nothing")
        self.refuses(USAGE, r"wrong\.ptx:1: ", "diff", ptx, "fused", *SHAPE)
        self.refuses(USAGE, "there is no module", "diff", self.folder / "none.ptx", "fused", *SHAPE)


if __name__ == "__main__":
    take_arguments(__doc__)
    unittest.main(verbosity=2)
