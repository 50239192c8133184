#!/usr/bin/env python3
"""gpu_dumps_test.py PROGRAM NINJA DUMPS.tar.xz: the SIMT machine leaves, bit for bit, what a GPU left at
every site of every kernel, gate and type (captured by tests/data/capture_dumps.py). NINJA builds the
modules that are needed. Returns 77 where nothing has been captured yet."""

import json
import os
import shlex
import sys
import tarfile
import unittest

from support.program import ProgramTest, header_of, take_arguments


def split(dump):
    """A safetensors file as its metadata and its tensors: name -> (type, dimensions, bytes)."""
    header, start = header_of(dump)
    metadata = header.pop("__metadata__")
    return metadata, {name: (entry["dtype"], entry["shape"], dump[start:][slice(*entry["data_offsets"])])
                      for name, entry in header.items()}


class GpuDumpsTest(ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        with tarfile.open(captured) as archive:
            files = {entry.name: archive.extractfile(entry).read() for entry in archive.getmembers()}
        cls.provenance = json.loads(files.pop("provenance.json"))
        cls.dumps = files
        cls.built = {(kernel["kernel"], gate, dtype) for kernel in cls().json_of("list")["kernels"]
                     for gate in kernel["gates"] for dtype in kernel["dtypes"]}

    def difference(self, name, dump, module=None):
        """Runs on sim what `dump` is of, or a module in its place: the first thing that is not the same,
        or nothing."""
        metadata, want = split(dump)
        tile = json.loads(metadata["tile"])
        words = shlex.split(self.provenance["commands"][name])
        if module:
            words[words.index(metadata["kernel"])] = str(module)
        self.call(*words, "--backend", "sim", "--tile-shape", f"{tile['br']}x{tile['bc']}", "-o", "sim.safetensors")
        ours, got = split((self.folder / "sim.safetensors").read_bytes())
        self.assertEqual(ours["input_hash"], metadata["input_hash"], "the inputs are not those of the GPU's run")
        self.assertEqual(list(got), list(want), "not the same tensors")
        wrong = [tensor for tensor in want if got[tensor] != want[tensor]]
        if not wrong:
            return ""
        (self.folder / "gpu.safetensors").write_bytes(dump)
        told = self.result_of("diff", "gpu.safetensors", "sim.safetensors")
        return f"the bits of {' '.join(wrong)} differ\n{told.stdout}{told.stderr}"

    def test_every_bit(self):
        compared = 0
        for name, dump in self.dumps.items():
            metadata, _ = split(dump)
            if (metadata["kernel"], metadata["gate"], metadata["dtype"]) not in self.built:
                continue  # left out by -Dkernels or -Dgates
            with self.subTest(name):
                self.assertEqual((metadata["backend"], metadata["incomplete"]), ("cuda", ""))
                self.assertEqual(metadata["device"], self.provenance["device"])
                if difference := self.difference(name, dump):
                    self.fail(difference)
            compared += 1
        if compared == 0:
            self.skipTest("this build has none of the kernels and gates that were captured")
        missing = self.built - {tuple(name.split(".")[:3]) for name in self.dumps}
        print(f"{compared} dumps of {self.provenance['device']}; never captured: "
              f"{', '.join('.'.join(one) for one in sorted(missing)) or 'none'}")

    def test_ptx(self):
        """What nvcc makes of the kernels, run from its PTX."""
        backends = self.backends()
        if "cuda" not in backends:
            self.skipTest("this build has no cuda modules")
        for name, dump in self.dumps.items():
            metadata, _ = split(dump)
            tile = json.loads(metadata["tile"])
            one = (metadata["kernel"], metadata["gate"], metadata["dtype"])
            if one not in self.built or metadata["gate"] != "fused":
                continue
            shape = f"d{tile['head_dim']}.{tile['br']}x{tile['bc']}"
            module = self.module(f"{'.'.join(one)}.{shape}.cuda")
            with self.subTest(module.name):
                self.build_targets(f"gates/{module.name}")
                if difference := self.difference(name, dump, module):
                    self.fail(difference)

    def test_one_bit_is_found(self):
        name = next((name for name in self.dumps if tuple(name.split(".")[:3]) in self.built), None)
        if not name:
            self.skipTest("this build has none of the kernels and gates that were captured")
        header, start = header_of(self.dumps[name])
        site = json.loads(header["__metadata__"]["sites"])[-1]["id"]
        touched = bytearray(self.dumps[name])
        touched[start + header[site]["data_offsets"][0]] ^= 1
        self.assertRegex(self.difference(name, bytes(touched)), rf"(?s)the bits of {site} differ.*\bdiverged: .*{site}")


if __name__ == "__main__":
    captured, = take_arguments(__doc__, more=1)
    if not os.path.exists(captured):
        print(f"{captured}: not captured yet")
        sys.exit(77)
    unittest.main(verbosity=2)
