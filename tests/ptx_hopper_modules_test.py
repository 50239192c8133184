#!/usr/bin/env python3
"""ptx_hopper_modules_test.py PROGRAM NINJA: `wgmma` as nvcc compiles it, run from its PTX, leaves the bits
of the same source compiled for the machine, at every site of every gate, and is clean under the checker."""

import unittest

from support.program import ProgramTest, demand_nvcc_13, take_arguments

RUNS = [
    ("fused", "f16.d64.128x128", ["--shape", "h=2,s=200,d=64", "--causal"]),
    ("fused", "bf16.d128.128x128", ["--shape", "h=2,hkv=1,s=130,skv=300,d=128"]),
    ("fused", "f16.d64.192x128", ["--shape", "s=200,d=64"]),
    ("qk_only", "f16.d128.128x128", ["--shape", "s=150,d=128", "--causal"]),
    ("softmax_only", "f16.d64.128x128", ["--shape", "s=200,d=64"]),
    ("pv_only", "bf16.d64.128x128", ["--shape", "s=200,d=64", "--causal"]),
]


class PtxHopperModulesTest(ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        demand_nvcc_13()
        if "cuda" not in cls().backends():
            raise unittest.SkipTest("this build has no cuda modules")

    def build_modules(self, *names):
        self.build_targets(*[f"gates/{name}.so" for name in names], "gates/libcudart.so.13")

    def test_same_bits_at_every_site(self):
        for gate, shape, words in RUNS:
            dtype, _, tile = shape.split(".")
            with self.subTest(f"{gate} {shape}"):
                name = f"wgmma.{gate}.{shape}"
                self.build_modules(f"{name}.cuda", f"{name}.sim")
                module = self.module(f"{name}.cuda")
                both = ["--backend", "sim", "--dtype", dtype, *words]
                self.call("run", module, gate, *both, "-o", "ptx.safetensors")
                self.call("run", "wgmma", gate, *both, "--tile-shape", tile, "-o", "source.safetensors")
                report = self.json_of("diff", "ptx.safetensors", "source.safetensors")
                self.assertEqual(report["verdict"], "match")
                self.assertRegex(self.call("check", module, gate, *both).stdout, "clean: nothing found")


if __name__ == "__main__":
    take_arguments(__doc__)
    unittest.main(verbosity=2)
