#!/usr/bin/env python3
"""strangers_test.py PROGRAM NINJA MESON: kernels of someone else, brought in as README.md says: as a
module with no word of the lab in the kernel, and as a kernel with seams outside the tree. What
README.md has typed is what is run here."""

import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import unittest
from unittest import mock

from support.program import DIVERGED, ENVIRONMENT, MISMATCH, ROOT, USAGE, ProgramTest, lines_of_readme, take_arguments

PLAIN = "/tmp/mine.so"  # what README.md calls the module


class StrangersTest(ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.environment["LANESCOPE_NINJA"] = ""  # modules are given by their paths
        shutil.copytree(ROOT / "tests" / "strangers", cls.folder / "strangers")

    def compile(self, compiler, name=None, *changes):
        """README's line for `compiler`, of a copy of its source with texts replaced by others; as it is, once for all."""
        line, = [line for line in lines_of_readme(PLAIN) if line.startswith(compiler + " ")]
        source, = [word for word in line.split() if word.startswith("tests/strangers/")]
        name = name or f"unchanged_{pathlib.Path(source).suffix[1:]}"
        copy = self.folder / f"{name}{pathlib.Path(source).suffix}"
        text = (ROOT / source).read_text()
        for change in changes:
            self.assertEqual(text.count(change[0]), 1, change)
            text = text.replace(*change)
        copy.write_text(text)
        module = self.folder / f"{name}.so"
        if module.exists():
            return module
        words = shlex.split(line.replace(source, str(copy)).replace(PLAIN, str(module)))
        subprocess.run(words, cwd=ROOT, check=True)
        return module

    def test_plain_kernel(self):
        module = self.compile("g++")
        line, = [line for line in lines_of_readme(PLAIN) if line.startswith("./lanescope diff")]
        words = shlex.split(line.replace(PLAIN, str(module)))[1:]
        report = self.json_of(*words)
        self.assertEqual((report["verdict"], report["kernel"]), ("match", "my_attention"))
        for shape in ["b=2,h=4,hkv=2,s=65,d=40", "s=1,skv=200,d=64", "s=70,skv=10,d=64"]:
            for causal in [[], ["--causal"]]:
                self.assertEqual(self.json_of("diff", module, "fused", "--shape", shape, *causal)["verdict"], "match")

    def test_plain_kernel_that_writes_outside_of_its_buffers(self):
        store = "for (int i = 0; i < d; ++i) o[row * d + i] = (_Float16)(keys > 0 ? out[i] / l : 0);"
        for name, extra, words in [("behind", "if (row == len_q - 1) for (int i = 0; i < 8; ++i) o[len_q * d + i] = 1;",
                                    "behind buffer o"),
                                   ("before", "if (row == 0) o[-1] = 1;", "before buffer o"),
                                   ("input", "if (row == 0) const_cast<_Float16*>(k)[-3] = 1;", "before buffer k")]:
            with self.subTest(name):
                module = self.compile("g++", name, (store, store + " " + extra))
                shape = ["--shape", "b=1,h=1,s=40,d=64"]
                report = self.json_of("diff", module, "fused", *shape, code=DIVERGED)
                self.assertEqual((report["verdict"], report["stop"]["kind"]), ("diverged", "stray"))
                self.assertIn("the kernel wrote " + words, report["incomplete"])
                self.assertEqual(sum(site["failed"] for site in report["sites"]), 0)
                found = self.json_of("locate", module, *shape, code=DIVERGED)
                self.assertEqual(found["cause"], "out_of_bounds")
                dump = self.folder / f"{name}.safetensors"
                self.call("run", module, "fused", *shape, "-o", dump, code=DIVERGED)
                if name == "behind":
                    self.assertIn("16 bytes changed, the first 0 behind its end, the last 15 behind its end",
                                  report["incomplete"])

    def test_plain_kernel_that_is_wrong(self):
        bugs = {
            "scale": (("p[j] *= scale", "p[j] *= 1.1f * scale"), "qk", "wrong_scale", "the factor 1.1 too much"),
            "mask": (("row + len_kv - len_q + 1", "row + len_kv - len_q"), "qk", "mask_off_by_one", "1 key fewer"),
            "last_key": (("l += p[j] = std::exp(p[j] - m);", "l += (p[j] = std::exp(p[j] - m)) * (j + 1 < keys);"),
                         "softmax", "contribution_missing", "l lacks the last key"),
            "row_not_written": (("row < len_q; ++row", "row < len_q - 1; ++row"), "epilogue", "never_written", "rows 35"),
        }
        for name, (change, stage, cause, words) in bugs.items():
            with self.subTest(name):
                module = self.compile("g++", name, change)
                shape = ["--shape", "s=100,d=64", "--causal"]
                report = self.json_of("diff", module, "fused", *shape, code=DIVERGED)
                self.assertEqual(report["first"]["site"], "o_final")
                found = self.json_of("locate", module, *shape, code=DIVERGED)
                self.assertEqual((found["stage"], found["site"], found["cause"], found["certain"]),
                                 (stage, "o_final", cause, True), found["evidence"])
                self.assertRegex(" ".join(found["evidence"]), words)

    def test_a_bug_of_more_than_two_tiles(self):
        """Two tiles are right, of which splits of whole tiles, each of several, cannot be made: they do not speak for
        a lost split against a lost tile."""
        module = self.compile("g++", "tile", ("const int keys", "int keys"), ("    std::vector<float> p(keys)", """
            const int end = causal ? std::min(len_kv, row / 64 * 64 + 64 + len_kv - len_q) : len_kv;
            if (end > 128) keys = std::min(keys, (end - 1) / 64 * 64);
            std::vector<float> p(keys)"""))
        found = self.json_of("locate", module, code=DIVERGED)
        self.assertEqual((found["stage"], found["cause"]), ("qk", "tile_skipped"), found["evidence"])

    def test_plain_kernel_that_crashes(self):
        module = self.compile("g++", "crash", ("float m = -INFINITY", "if (row == 33) *(volatile int*)8 = row; float m = -INFINITY"))
        done = self.call("diff", module, "fused", "--shape", "s=100,d=64", code=DIVERGED)
        self.assertRegex(done.stdout, r"SIGSEGV.*at address 0x8")
        self.assertRegex(done.stdout, "last site reached")
        self.assertRegex(done.stdout, "look closer\n  gdb .*--args \\S+/gates/lanescope diff .*crash.so fused --shape b=1,h=1,s=100,d=64")

    def test_plain_kernel_that_refuses(self):
        module = self.compile("g++", "refuses", ("  for (int head = 0;", '  if (r.causal) return "not causal yet";\n'
                              '  if (r.len_q != r.len_kv || r.heads != r.heads_kv) return "not so";\n  for (int head = 0;'))
        self.call("diff", module, "fused", "--shape", "s=64,d=64")
        self.refuses(USAGE, "not causal yet", "diff", module, "fused", "--shape", "s=64,d=64", "--causal")
        found = self.json_of("locate", module)
        run = {run["about"] for run in found["runs"]}
        self.assertLessEqual({"several tiles", "a ragged tail", "several heads", "a padded head dimension"}, run)
        refused = [line for line in found["not_tried"] if "refuses" in line]
        self.assertTrue(all(line.startswith(("causal", "one query")) for line in refused), refused)
        self.refuses(USAGE, "is gate fused", "diff", module, "qk_only")
        self.refuses(USAGE, "head dimension 64: give --shape d=64 or less", "diff", module, "fused", "--shape", "d=128")

    def compile_cuda(self, name=None, *changes):
        os.environ["PATH"] += ":/usr/local/cuda/bin"
        if not shutil.which("nvcc"):
            self.skipTest("there is no nvcc")
        version = subprocess.run(["nvcc", "--version"], capture_output=True, text=True).stdout
        if "release 13." not in version:
            self.skipTest("nvcc is not CUDA 13's")
        self.build_targets("gates/libcudart.so.13")
        return self.compile("nvcc", name, *changes)

    def test_plain_cuda_kernel(self):
        module = self.compile_cuda()
        on_gpu = self.backends().get("cuda")
        for backend in ["sim", "cuda"] if on_gpu else ["sim", "auto"]:
            for shape in ["s=200,d=64", "b=2,h=4,hkv=2,s=65,d=40", "s=1,skv=200,d=64"]:
                words = ["diff", module, "fused", "--backend", backend, "--shape", shape, "--causal"]
                self.assertEqual(self.json_of(*words)["verdict"], "match")
        if not on_gpu:
            done = self.call("diff", module, "fused", "--backend", "cuda", "--shape", "s=64,d=64", code=ENVIRONMENT)
            self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
        done = self.call("check", module, "fused", "--backend", "sim", "--shape", "s=70,d=64")
        self.assertRegex(done.stdout, "clean: nothing found")

    def test_plain_cuda_kernel_that_is_linked_with_the_driver(self):
        """Kernels that copy by tensor maps are: the machine has the driver's functions in its runtime."""
        calls = ("  my_attention<<<", '  if (cuInit(0) != CUDA_SUCCESS) return "no driver";\n  my_attention<<<')
        self.compile_cuda()  # there is nvcc
        stubs = pathlib.Path(shutil.which("nvcc")).resolve().parents[1] / "lib64" / "stubs"
        with mock.patch.dict(os.environ, NVCC_APPEND_FLAGS=f"-L{stubs} -lcuda"):
            module = self.compile_cuda("driver", ("#include <cuda_fp16.h>", "#include <cuda.h>\n#include <cuda_fp16.h>"), calls)
        needed = subprocess.run(["readelf", "-d", module], capture_output=True, text=True).stdout
        self.assertIn("[libcuda.so.1]", needed)
        words = ["diff", module, "fused", "--backend", "sim", "--shape", "s=65,d=64"]
        self.assertEqual(self.json_of(*words)["verdict"], "match")

    def test_runtime_of_the_machine_that_is_missing(self):
        """Only what is linked with CUDA's runtime needs it."""
        shape = ["--backend", "sim", "--shape", "s=64,d=64"]
        self.refuses(ENVIRONMENT, r"libcudart\.so\.13 is not built: .*ninja -C .* gates/libcudart\.so\.13", "diff",
                     self.compile_cuda(), "fused", *shape, LANESCOPE_MODULES=str(self.folder))
        self.call("diff", self.compile("g++"), "fused", *shape, LANESCOPE_MODULES=str(self.folder))

    def test_runtime_of_the_machine_of_another_build(self):
        header = (self.program.parent / "machine_headers.h").read_text()
        other = self.folder / "other_build"
        other.mkdir()
        own = re.search(r'"([0-9a-f]{16})"', header)[1].encode()
        library = (self.program.parent / "libcudart.so.13").read_bytes()
        self.assertIn(own, library)
        (other / "libcudart.so.13").write_bytes(library.replace(own, own[::-1]))
        self.refuses(MISMATCH, r"libcudart\.so\.13 is of another build than this program: \./lanescope brings", "diff",
                     self.compile_cuda(), "fused", "--backend", "sim", "--shape", "s=64,d=64",
                     LANESCOPE_MODULES=str(other), LANESCOPE_NINJA="")

    def test_plain_cuda_kernel_that_crashes_on_a_gpu(self):
        """A GPU says that it was an illegal access; the machine which, and where."""
        if not self.backends().get("cuda"):
            self.skipTest("there is no GPU")
        module = self.compile_cuda("far", ("o[d] = ", "o[d + (row == 33 ? 1ll << 36 : 0)] = "))
        found = self.json_of("locate", module, "--backend", "cuda", "--shape", "s=100,d=64", code=DIVERGED)
        self.assertEqual((found["cause"], found["certain"]), ("out_of_bounds", True), found["evidence"])
        self.assertRegex(" ".join(found["evidence"]), r"cudaErrorIllegalAddress")
        self.assertRegex(" ".join(found["source"]), r"far\.cu:24")

    def test_plain_cuda_kernel_that_is_wrong(self):
        bugs = {
            "scale_cuda": ("s *= scale;", "s *= 1.1f * scale;"),
            "mask_cuda": ("j <= row + len_kv - len_q", "j < row + len_kv - len_q"),
        }
        for name, change in bugs.items():
            with self.subTest(name):
                module = self.compile_cuda(name, change)
                report = self.json_of("diff", module, "fused", "--backend", "sim", "--shape", "s=100,d=64", "--causal",
                                      code=DIVERGED)
                self.assertEqual(report["first"]["site"], "o_final")

    def test_plain_cuda_kernel_that_makes_a_nan(self):
        bug = ("s *= scale;", "s *= scale; if (j == 3) s = sqrtf(-fabsf(s) - 1);")
        for name, changes in {"hidden_cuda": [bug], "nan_cuda": [bug, ("l > 0 ? acc[d] / l : 0.0f", "acc[d] / l")]}.items():
            module = self.compile_cuda(name, *changes)
            evidence = self.json_of("locate", module, "--backend", "sim", "--shape", "s=96,d=64", code=DIVERGED)["evidence"]
            self.assertEqual(sum(line.startswith("first NaN: sqrt") for line in evidence), 1, evidence)
            self.assertNotIn("suspect memory", "\n".join(evidence))
        source = (self.folder / "nan_cuda.cu").read_text().splitlines()
        line, = [i for i, line in enumerate(source, 1) if "sqrtf" in line]
        origin = rf"^first NaN: sqrt\S* at \S*nan_cuda\.cu:{line} in qk of -[\d.]+, block 0, "
        checked = self.json_of("check", module, "fused", "--backend", "sim", "--shape", "s=40,d=64")
        self.assertEqual((checked["verdict"], checked["findings"]), ("clean", []))
        self.assertRegex(checked["notes"][0], origin)
        told = self.call("check", module, "fused", "--backend", "sim", "--shape", "s=40,d=64").stdout
        self.assertRegex(told, f"(?m){origin}")
        right = self.json_of("check", self.compile_cuda(), "fused", "--backend", "sim", "--shape", "s=40,d=64")
        self.assertEqual(right["notes"], [])

    def test_plain_cuda_kernel_whose_first_nan_tells_where_it_is_wrong(self):
        unguarded = ("l > 0 ? acc[d] / l : 0.0f", "acc[d] / l")
        masked = [("j < len_kv && (!causal || j <= row + len_kv - len_q)", "j < len_kv"),
                  ("s *= scale;", "s = causal && j > row + len_kv - len_q ? -INFINITY : s * scale;")]
        kept = [("m_new = fmaxf(m, s)", "m_new = j == 0 ? s : m")]
        for name, changes, options, told in [
                ("divided_cuda", [unguarded], ["--shape", "s=96,skv=64,d=64", "--causal"], ("epilogue", "divided_by_zero")),
                ("masked_cuda", masked + [unguarded], ["--shape", "s=96,skv=64,d=64", "--causal"], ("softmax", "masked_row_unguarded")),
                ("overflow_cuda", kept, ["--shape", "s=96,d=64", "--input", "large"], ("softmax", "overflow"))]:
            with self.subTest(name):
                found = self.json_of("locate", self.compile_cuda(name, *changes), "--backend", "sim", *options, code=DIVERGED)
                self.assertEqual((found["stage"], found["cause"]), told, found["evidence"])

    def test_plain_cuda_kernel_whose_index_is_narrow(self):
        # A second grid doubles O, a block for each row, where the first has one for 128.
        doubled = [("acc[d] / l", "acc[d] / (2 * l)"), ("// What the lab needs", """__global__ void twice(__half* o) {
  __half& x = o[(blockIdx.y * (long long)gridDim.x + blockIdx.x) * 64 + threadIdx.x];
  x = __float2half(2 * __half2float(x));
}
// What the lab needs"""), ("  return nullptr;", "  twice<<<dim3(r.len_q, r.batch * r.heads), 64>>>((__half*)r.o);\n  return nullptr;")]
        # Of few queries alone, nothing but right log-sum-exps says that K's index is of 64 bits.
        few = ("const dim3 grid", 'if (r.len_q > 1024) return "few queries alone"; const dim3 grid')
        near = ("const dim3 grid", 'if (r.heads > 3 && r.heads < 8000) return "few heads, or very many"; const dim3 grid')
        narrow = self.compile_cuda("narrow_cuda", ("v += blockIdx.y / group * (long long)len_kv", "v += int(blockIdx.y / group) * len_kv"),
                                   *doubled, few, near)
        text = self.call("locate", narrow, "--backend", "sim", code=DIVERGED).stdout
        self.assertRegex(text, r"\nfault: load / v_smem: index_overflow\n$")  # and is certain
        self.assertRegex(text, r"\n  source    \S+narrow_cuda\.cu:20\n")
        self.assertNotIn("look closer", text)  # no machine has room for such a dump
        # Of K alone: what lies where it is read is 0, and O the mean of the right rows of V. A stride that is an int
        # bounds a batch, not all of them.
        strides = ("const dim3 grid", 'if (1LL * r.heads * std::max(r.len_q, r.len_kv) * 64 > INT_MAX) return "a stride beyond an int"; '
                                      'const dim3 grid')
        for name, *more in [("narrow_k_cuda", few, near), ("strides_cuda", few, near, strides)]:
            found = self.json_of("locate", self.compile_cuda(name, ("k += blockIdx.y / group * (long long)len_kv",
                                                                    "k += int(blockIdx.y / group) * len_kv"), *more),
                                 "--backend", "sim", code=DIVERGED)
            self.assertEqual((found["stage"], found["site"], found["cause"]), ("load", "k_smem", "index_overflow"), found["evidence"])
            self.assertRegex(found["source"][0], r"\.cu:17$")
        # The rows that are not read where they are tell Q from O, whatever block has them.
        backwards = ("const int row = blockIdx.x * blockDim.x", "const int row = (gridDim.x - 1 - blockIdx.x) * blockDim.x")
        found = self.json_of("locate", self.compile_cuda("narrow_q_cuda", ("q += (blockIdx.y * (long long)len_q", "q += (blockIdx.y * len_q"), backwards, near),
                             "--backend", "sim", code=DIVERGED)
        self.assertEqual((found["site"], found["cause"]), ("q_smem", "index_overflow"), found["evidence"])
        self.assertRegex(found["source"][0], r"\.cu:17$")
        right, alone = (self.json_of("locate", self.compile_cuda(), "--backend", "sim", "--threads", threads) for threads in "21")
        self.assertEqual((right["verdict"], right["not_tried"], right), ("clean", [], alone))
        self.assertFalse(any("multiprocessors, memory" in run["about"] for run in right["runs"]))  # a block has one item
        # So many heads, multiplied by each other, pass 2^31, and are no index.
        shared = self.compile_cuda("shared_cuda", *[(f"{x} += blockIdx.y / group *", f"{x} += int(blockIdx.y) * heads_kv / heads *") for x in "kv"],
                                   ("int group", "int heads, int heads_kv"), ("r.heads / r.heads_kv", "r.heads, r.heads_kv"), near)
        self.assertEqual(self.json_of("locate", shared, "--backend", "sim")["verdict"], "clean")
        # The last block has the last rows of two tiles, and not those of more.
        in_turns = self.compile_cuda("turns_cuda", ("const int row = blockIdx.x * blockDim.x", "const int half = blockIdx.x / 2;"
            "const int row = (blockIdx.x % 2 ? gridDim.x - 1 - half : half) * blockDim.x"), near)
        self.assertEqual(self.json_of("locate", in_turns, "--backend", "sim")["verdict"], "clean")

    def test_plain_cuda_kernel_whose_blocks_go_on_to_other_items(self):
        """Between the first and the second item of a block, a barrier is missing."""
        changes = [("bool causal) {", "bool causal, int heads) {\n  const int blocks = (len_q + 127) / 128;\n"
                    "  for (int item = blockIdx.x; item < blocks * heads; item += gridDim.x) {\n"
                    "  __shared__ int shared; if (threadIdx.x == 64) shared = item / blocks;\n  __syncthreads(); const int head = shared;"),
                   ("const int row = blockIdx.x * blockDim.x +", "const int row = item % blocks * 128 +"),
                   ("if (row >= len_q) return;", "if (row >= len_q) continue;"),
                   ("q += (blockIdx.y * (long long)len_q + row) * 64;", "const __half* qr = q + (head * (long long)len_q + row) * 64;"),
                   ("o += (blockIdx.y * (long long)len_q + row) * 64;", "__half* to = o + (head * (long long)len_q + row) * 64;"),
                   ("k += blockIdx.y / group * (long long)len_kv * 64;", "const __half* kh = k + head / group * (long long)len_kv * 64;"),
                   ("v += blockIdx.y / group * (long long)len_kv * 64;", "const __half* vh = v + head / group * (long long)len_kv * 64;"),
                   ("half2float(q[d])", "half2float(qr[d])"), ("(k[j *", "(kh[j *"), ("(v[j *", "(vh[j *"), ("o[d] =", "to[d] ="),
                   ("lse[blockIdx.y *", "lse[head *"), ("-INFINITY;\n}", "-INFINITY;\n  }\n}"),
                   ("const dim3 grid((r.len_q + 127) / 128, r.batch * r.heads);",
                    'if (r.heads > 3 && r.heads != 136) return "few heads, or very many";\n  const dim3 grid(132);'),
                   ("r.scale,\n                              r.causal", "r.scale,\n                              r.causal, r.batch * r.heads")]
        found = self.json_of("locate", self.compile_cuda("items_cuda", *changes), "--backend", "sim", code=DIVERGED)
        self.assertEqual((found["cause"], found["certain"]), ("race", True), found["evidence"])
        self.assertIn("h=136,", found["options"])

    def test_plain_cuda_kernel_that_never_ends(self):
        hang = self.compile_cuda("hang_cuda", ("++j) {", "j += j != 40) {"))
        found = self.json_of("locate", hang, "--backend", "sim", "--timeout", "1", code=DIVERGED)
        # Wherever in the loop its lanes are.
        self.assertIn(found["stage"], ("qk", "softmax", "pv"), found["evidence"])
        self.assertEqual(found["cause"], "hang", found["evidence"])
        self.assertRegex(found["source"][0], r"hang_cuda\.cu:(1[5-9]|2[0-3])$")
        self.assertTrue(any(re.search(r"warps? \S+ lanes .* run in ", line) for line in found["evidence"]), found["evidence"])
        self.assertLess(len(found["runs"]), 4)  # each takes as long

    def test_plain_cuda_kernel_that_breaks_rules(self):
        shape = ["--backend", "sim", "--shape", "s=100,d=64"]
        far = self.compile_cuda("far_cuda", ("lse[blockIdx.y", "lse[(row == 77) * 100000 + blockIdx.y"))
        done = self.call("diff", far, "fused", *shape, code=DIVERGED)
        self.assertRegex(done.stdout, r"lane 13 of warp 2, st\.global\.f32 at .*far_cuda\.cu:\d+ in epilogue: address 0x")
        race = self.compile_cuda("race_cuda", ("acc[64] = {};", "acc[64] = {}; __shared__ float box[128]; "
                                               "box[threadIdx.x] = l; l = box[threadIdx.x ^ 32];"))
        done = self.call("check", race, "fused", *shape, code=DIVERGED)
        self.assertRegex(done.stdout, r"race, \d+ times[^\n]*\n  read +.*race_cuda\.cu:\d+")
        # Also in a process that has loaded it with CUDA's own runtime, as one has that ran it on a GPU before.
        cuda = pathlib.Path(shutil.which("nvcc")).resolve().parent.parent / "lib64"
        keeper = self.folder / "keeper.so"
        (self.folder / "keeper.c").write_text('#include <dlfcn.h>\n#include <stdlib.h>\n'
            '__attribute__((constructor)) void keep(void) { if (!dlopen(getenv("KEPT"), RTLD_NOW)) abort(); }\n')
        subprocess.run(["g++", "-x", "c++", "-shared", "-fPIC", self.folder / "keeper.c", "-o", keeper], check=True)
        if (cuda / "libcudart.so.13").exists():
            again = self.call("check", race, "fused", *shape, code=DIVERGED, LD_PRELOAD=str(keeper), KEPT=str(race),
                              LD_LIBRARY_PATH=str(cuda))
            self.assertEqual(done.stdout, again.stdout)
        unknown = self.compile_cuda("unknown_cuda", ("s *= scale;", 's *= scale; asm("{.reg .b32 r; mov.b32 r, %0; '
                                                     'multimem.red.relaxed.sys.global.add.u32 [%1], r;}" : "+f"(s) : "l"(lse));'))
        self.refuses(USAGE, r"\.ptx:\d+: multimem\.red\.relaxed\.sys\.global\.add\.u32: not executed: of memory that several GPUs share", "diff", unknown, "fused", *shape)
        # Where nothing can be run, each reason is said, not the last one alone.
        picky = self.compile_cuda("picky_cuda", ("s *= scale;", 's *= scale; asm("{.reg .b32 r; mov.b32 r, %0; '
                                  'multimem.red.relaxed.sys.global.add.u32 [%1], r;}" : "+f"(s) : "l"(lse));'),
                                  ("const dim3 grid", 'if (r.len_q != r.len_kv) return "not that"; const dim3 grid'))
        self.refuses(USAGE, r"nothing could be run: [^;]*: not that; [^;]*multimem\.red\.relaxed\.sys\.global\.add\.u32: not executed: of memory that several GPUs share", "locate", picky,
                     "--backend", "sim")

    def test_plain_cuda_kernel_whose_lanes_run_in_step(self):
        # A warp's lanes exchange values without __syncwarp(): a GPU gives the right ones as a rule.
        box = "__shared__ volatile float box[129];\n box[threadIdx.x] = s;\n if ((row ^ 1) < len_q) s += 0 * box[threadIdx.x ^ 1];\n"
        right = self.compile_cuda("step_cuda", ("s *= scale;", "s *= scale; " + box))
        done = self.call("check", right, "fused", "--backend", "sim", "--shape", "s=100,d=64", code=DIVERGED)
        self.assertRegex(done.stdout, r"race, \d+ times: two lanes of a warp, and no __syncwarp\(\) orders them")
        text = self.call("locate", right, "--backend", "sim", "--threads", "2", code=DIVERGED).stdout
        self.assertRegex(text, r"race within a warp; values are right in \d\d runs\n$")
        # Also where the memory checker is asked beside the runs.
        self.assertEqual(self.call("locate", right, "--backend", "sim", "--threads", "1", code=DIVERGED).stdout, text)
        # Values that are wrong all the same are so for another reason.
        unscaled = self.compile_cuda("unscaled_step_cuda", ("s *= scale;", box))
        shape = ["--shape", "s=100,d=64"]
        found = self.json_of("locate", unscaled, "--backend", "sim", *shape, code=DIVERGED)
        self.assertEqual((found["stage"], found["cause"], found["certain"]), ("qk", "wrong_scale", True))
        mixed = self.compile_cuda("mixed_step_cuda", ("s *= scale;", "s *= scale; " + box), ("__half2float(v[j", "__half2float(k[j"))
        found = self.json_of("locate", mixed, "--backend", "sim", *shape, code=DIVERGED)
        self.assertEqual((found["cause"], found["certain"]), ("wrong_source", True))
        self.assertRegex("\n".join(found["evidence"]), "finds races within a warp, which do not explain it")
        # Or the two lines mean two arrays, and these overlap.
        overlap = self.compile_cuda("overlap_cuda", ("s *= scale;", "s *= scale; " + box.replace(
            "if ((row ^ 1) < len_q) s += 0 * box[threadIdx.x ^ 1]", "if (threadIdx.x % 32 < 31) box[threadIdx.x + 1] = s * s;\n s = box[threadIdx.x]")))
        found = self.json_of("locate", overlap, "--backend", "sim", "--shape", "s=100,d=64", code=DIVERGED)
        self.assertEqual((found["cause"], found["certain"]), ("race", False))
        self.assertRegex("\n".join(found["evidence"]), "mean two arrays, these overlap")
        self.assertEqual(len(found["source"]), 2)
        # Warps that race with each other come first, and are certain.
        apart = self.compile_cuda("apart_cuda", ("s *= scale;", "s *= scale; " + box.replace("^ 1", "^ 33").replace("0 *", "")))
        found = self.json_of("locate", apart, "--backend", "sim", "--shape", "s=100,d=64", code=DIVERGED)
        self.assertEqual((found["cause"], found["certain"]), ("race", True))
        first = found["memory"][0]
        self.assertNotEqual(first["access"]["warp"], first["earlier"]["warp"])

    def test_plain_cuda_kernel_whose_numbers_tell_how_far_it_is_right(self):
        odd = self.compile_cuda("odd_cuda", ("acc[d] * alpha", "acc[d] * (d % 2 ? 1 : alpha)"))
        found = self.json_of("locate", odd, "--backend", "sim", "--shape", "s=96,d=64", code=DIVERGED)
        self.assertEqual((found["stage"], found["cause"], found["certain"]), ("pv", "not_rescaled", True))
        evidence = "\n".join(found["evidence"])
        for what, line in ("weights", 19), ("inverses or logarithms of row sums", 25):
            self.assertRegex(evidence, rf"(?m)^{what} of the wrong rows: (\d+) of \1 were made right, at \S*odd_cuda\.cu:{line}$")
        self.assertRegex(evidence, r"(?m)^sums of P·V of the wrong rows: (\d+) of (?!\1)\d+ were made right, at \S*odd_cuda\.cu:20; it lacks those of odd columns$")
        # Cubes of scores are nothing that is known.
        cubed = self.compile_cuda("cubed_cuda", ("s *= scale;", "s *= scale * s * s;"))
        found = self.json_of("locate", cubed, "--backend", "sim", "--shape", "s=96,d=64", code=DIVERGED)
        evidence = "\n".join(found["evidence"])
        self.assertRegex(evidence, r"(?m)^scores of the wrong rows: 9\d{3} of 9216 were made right, at \S*cubed_cuda\.cu:17$")
        self.assertNotIn("weights of the wrong rows", evidence)
        half = self.compile_cuda("half_cuda", ("k[j * 64 + d]", "k[j / 2 * 64 + d]"))
        found = self.json_of("locate", half, "--backend", "sim", "--shape", "s=96,d=64", code=DIVERGED)
        self.assertEqual(found["stage"], "load")
        self.assertIn("rows of K that wrong rows need and no block read for them: 3072 of 6144", found["evidence"])
        # The line where numbers meet that do not go together, and two of them.
        self.assertRegex("\n".join(found["evidence"]), r"half_cuda\.cu:20: the scores are of other keys than the rows of V that they weigh; "
                         r"for example the weight of query \d+ of head 0, batch 0 and key (\d+) .* and V of key (?!\1 )\d+ of head 0")
        # The line that takes the wrong rows of K comes first.
        self.assertRegex(found["source"][0], r"half_cuda\.cu:17$")
        # Or the first that are not what they should be.
        natural = self.compile_cuda("natural_cuda", ("s *= scale;", "s *= scale * (row % 3 + 1);"))
        found = self.json_of("locate", natural, "--backend", "sim", "--shape", "s=96,d=64", code=DIVERGED)
        self.assertEqual(found["stage"], "qk")
        self.assertRegex("\n".join(found["evidence"]), r"natural_cuda\.cu:1[78]: scores are no multiples of what they should be")

    def test_plain_cuda_kernel_that_adds_to_its_output(self):
        # O in global memory is what earlier keys gave; the host says what it is at first.
        adds = [("float* lse, int len_q", "float* sums, float* lse, int len_q"),
                ("for (int d = 0; d < 64; ++d) acc[d] = fmaf(p, __half2float(v[j * 64 + d]), acc[d] * alpha);",
                 "for (int d = 0; d < 64; ++d) { float& a = sums[(blockIdx.y * (long long)len_q + row) * 64 + d]; "
                 "acc[d] = a = fmaf(p, __half2float(v[j * 64 + d]), a * alpha); }\n lse[blockIdx.y * (long long)len_q + row] += 0;"),
                ("(__half*)r.o, r.lse", "(__half*)r.o, sums, r.lse"),
                ("  return nullptr;", "  cudaFree(sums);\n  return nullptr;")]
        fill = ("const dim3 grid", "const long long bytes = 4ll * r.batch * r.heads * r.len_q; float* sums; cudaMalloc(&sums, bytes * 64); %s "
                "const dim3 grid")
        shape = ["fused", "--backend", "sim", "--shape", "s=70,d=64"]
        zeros = "cudaMemset(sums, 0, bytes * 64); cudaMemset(r.lse, 0, bytes);"
        copied = ("float* zeros = new float[bytes * 16](); cudaMemcpy(sums, zeros, bytes * 64, cudaMemcpyHostToDevice); "
                  "cudaMemcpy(r.lse, sums, bytes, cudaMemcpyDeviceToDevice); delete[] zeros;")
        for name, what in [("filled_cuda", zeros), ("copied_cuda", copied)]:
            right = self.compile_cuda(name, *adds, (fill[0], fill[1] % what))
            self.assertEqual(self.json_of("diff", right, *shape)["verdict"], "match")
            self.assertEqual(self.json_of("check", right, *shape)["findings"], [])
        # An allocation that fails is no fault of the kernel's indices.
        heads = fill[1].replace("bytes * 64)", "r.heads > 1 ? 1ll << 50 : bytes * 64)") % f"if (r.heads == 1) {{ {zeros} }}"
        large = self.compile_cuda("large_cuda", *adds, (fill[0], heads))
        failed = "an allocation of 1125899906842624 bytes had failed"
        self.refuses(ENVIRONMENT, rf"large_cuda\.cu:\d+ in pv: .*; before that, {failed}", "diff", large, "fused", "--backend", "sim",
                     "--shape", "h=2,s=70,d=64")
        found = self.json_of("locate", large, "--backend", "sim")
        self.assertEqual(found["verdict"], "clean")
        for problem in ["several heads: ", "several heads, memory checker: ", "causal, heads that share keys: "]:
            self.assertTrue(any(line.startswith(problem) and failed in line for line in found["not_tried"]), found["not_tried"])
        half = self.compile_cuda("half_filled_cuda", *adds, (fill[0], fill[1] % zeros.replace("r.lse, 0, bytes", "r.lse, 0, bytes / 2")))
        finding, = self.json_of("check", half, *shape, code=DIVERGED)["findings"]
        self.assertEqual((finding["kind"], finding["element"]), ("uninitialised read", "lse[batch 0][head 0][row 35]"))

    def test_guide_quotes_what_is_there(self):
        sources = ["tests/strangers/traced.h", "kernels/wmma_registers.h", "kernels/device/cuda.h", "kernels/device/sim.h"]
        texts = [(ROOT / source).read_text() for source in sources]
        quotes = [part.split("```")[0] for part in (ROOT / "kernels" / "README.md").read_text().split("```cpp\n")[1:]]
        self.assertEqual(len(quotes), 5)
        for quote in quotes:
            self.assertTrue(any(quote in text for text in texts), quote)

    def set_up(self, name, *options):
        """A build of its own, with a small part of the tree."""
        build = self.folder / name
        again = ["--reconfigure"] if build.exists() else []
        return build, subprocess.run([meson, "setup", *again, build, ROOT, *options, "-Dkernels=scalar", "-Dbackends=sim"],
                                     capture_output=True, text=True)

    def build_module(self, build, name):
        done = subprocess.run([self.ninja, "-C", build, f"gates/{name}.so"], capture_output=True, text=True)
        return build / "gates" / f"{name}.so", done

    def test_traced_kernel(self):
        line, = [line for line in lines_of_readme("-Dextra_kernels=") if line.startswith("./lanescope -D")]
        option, = [word for word in shlex.split(line) if word.startswith("-Dextra_kernels=")]
        kernel = self.folder / "traced.h"
        option = option.replace("/tmp/traced.h", str(kernel))
        self.assertIn(str(kernel), option)
        text = (ROOT / "tests" / "strangers" / "traced.h").read_text()
        kernel.write_text(text)
        build, done = self.set_up("build", option)
        self.assertEqual(done.returncode, 0, done.stdout)

        def module(gate):
            path, built = self.build_module(build, f"mine.{gate}.f16.d64.64x64.sim")
            self.assertEqual(built.returncode, 0, built.stdout)
            return path

        shape = ["--shape", "h=2,s=150,d=64", "--causal"]
        for gate in ["qk_only", "softmax_only", "pv_only", "fused"]:
            report = self.json_of("diff", module(gate), gate, *shape)
            self.assertEqual(report["verdict"], "match")
        self.assertEqual({site["site"] for site in report["sites"]},
                         {"s", "m", "alpha", "p", "l", "o", "o_final", "lse"})
        changed = text.replace("o[d] = o[d] * alpha[0]", "o[d] = o[d]")
        self.assertNotEqual(changed, text)
        kernel.write_text(changed)
        first = self.json_of("diff", module("fused"), "fused", *shape, code=DIVERGED)["first"]
        self.assertEqual((first["stage"], first["site"], first["tile"]), ("pv", "o", 1))
        found = self.json_of("locate", module("fused"), *shape, code=DIVERGED)
        self.assertEqual(found["cause"], "not_rescaled")

    def test_described_kernel(self):
        """A kernel with a description: tiles, types, folders, flags; one more rebuilds nothing of the program."""
        folder = self.folder / "described"
        (folder / "more").mkdir(parents=True)
        text = (ROOT / "tests" / "strangers" / "traced.h").read_text()
        edits = [("global<T>(SiteId::o_final),\n      global<float>(SiteId::lse)", "global<T>(SiteId::o_final)"),
                 ("    a.lse[row] = log_sum_exp(m[0], l[0]);\n", ""),
                 ('#include "kernels/trace/seam.h"', '#include "kernels/trace/seam.h"\n#include "own.h"\nstatic_assert(OWN == 3 && own == 4);'),
                 ("  template <class Trace>\n", '  static const char* refuses(const Problem& p) { return p.causal ? "not causal yet" : nullptr; }\n'
                                                "  template <class Trace>\n")]
        for old, replacement in edits:
            self.assertEqual(text.count(old), 1, old)
            text = text.replace(old, replacement)
        (folder / "mine.h").write_text(text)
        (folder / "more" / "own.h").write_text("constexpr int own = 4;\n")
        described = {"name": "mine", "template": "Mine", "file": "mine.h", "dtypes": ["f16"], "head_dims": [64],
                     "tiles": [[32, 24], [64, 64]], "include": ["more"], "flags": ["-DOWN=3"]}
        file = folder / "mine.json"
        file.write_text(json.dumps(described))
        build, done = self.set_up("described_build")
        self.assertEqual(done.returncode, 0, done.stdout)
        headers = {path: path.read_text() for path in (build / "gates").glob("*.h")}
        build, done = self.set_up("described_build", f"-Dextra_kernels={file}")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual({path: path.read_text() for path in headers}, headers)
        path, built = self.build_module(build, "mine.fused.f16.d64.32x24.sim")
        self.assertEqual(built.returncode, 0, built.stdout)
        report = self.json_of("diff", path, "fused", "--shape", "h=2,s=150,d=64")
        self.assertEqual((report["verdict"], report["tile"]["br"], report["tile"]["bc"]), ("match", 32, 24))
        self.assertNotIn("lse", {site["site"] for site in report["sites"]})
        self.refuses(USAGE, "not causal yet", "diff", path, "fused", "--shape", "s=64,d=64", "--causal")
        path, built = self.build_module(build, "mine.fused.f16.d64.64x64.sim.checked")
        self.assertEqual(built.returncode, 0, built.stdout)
        self.call("check", path, "fused", "--shape", "s=70,d=64")  # lse, which it does not have, is not missed
        for change, words in [({"tiles": [[32]]}, '"tiles" is .*, not pairs of numbers'),
                              ({"tile": [32, 24]}, 'there is no member "tile"; members: name'),
                              ({"file": "other.h"}, "there is no file .*other.h"),
                              ({"name": "scalar"}, "there is a kernel scalar already"),
                              ({"template": 3}, '"template" is 3, not the name of a class template')]:
            file.write_text(json.dumps({**described, **change}))
            build, done = self.set_up("described_build", f"-Dextra_kernels={file}")
            self.assertNotEqual(done.returncode, 0)
            self.assertRegex(done.stdout + done.stderr, words)

    def test_site_table_that_is_wrong(self):
        """What the table says and the kernel does not do is refused, with words, before anything runs."""
        text = (ROOT / "tests" / "strangers" / "traced.h").read_text()
        table = text[text.index("static constexpr auto table"):text.index("  /// The element of the tile")]
        rows = table[table.index("site_table"):]
        changes = {
            "warps": "if (site.warps > 1) site.warps = 1;",
            "fewer": "if (site.id == SiteId::s) site.regs = Bc / 2;",
            "more": "if (site.id == SiteId::s) site.regs = Bc * 2;",
            "space": "if (site.id == SiteId::m) site.space = Space::shared;",
            "rows": "if (site.id == SiteId::o) site.rows = Br * 2;",
            "cols": "if (site.id == SiteId::p) site.cols = Bc / 2;",
            "twice": "if (site.id == SiteId::alpha) site.id = SiteId::m;",
            "missing": "",
        }
        options = []
        for name, change in changes.items():
            made = f"static constexpr auto table = [] {{\n auto all = {rows.rstrip()[:-1]};\n for (auto& site : all) {{ {change} }}\n return all;\n }}();\n"
            kernel = text.replace(table, made)
            if name == "missing":
                kernel = kernel.replace("return {warp * 32 + lane, reg}", "return {warp * 32, reg}")
            (self.folder / f"{name}.h").write_text(kernel)
            options.append(f"{name}=Mine={self.folder}/{name}.h")
        build, done = self.set_up("wrong_tables", "-Dextra_kernels=" + ",".join(options))
        self.assertEqual(done.returncode, 0, done.stdout)
        compiler = {"warps": "another number of warps than", "fewer": "another number of registers than",
                    "more": "another number of registers than", "space": "has in memory what is passed to the seam in registers",
                    "twice": "does not have this site"}
        program = {"rows": "rows of site o is 128, not 64", "cols": "cols of site p is 32, not 64",
                   "missing": "no register of site s stands for row 1, column 0 of the tile"}
        self.assertEqual({*compiler, *program}, {*changes})
        for name in changes:
            with self.subTest(name):
                path, built = self.build_module(build, f"{name}.fused.f16.d64.64x64.sim")
                if name in compiler:
                    self.assertNotEqual(built.returncode, 0)
                    self.assertIn(compiler[name], built.stdout)
                else:
                    self.refuses(USAGE, program[name], "diff", path, "fused")

    def test_words_of_cuda(self):
        """CUDA C++ without PTX, for nvcc and for g++."""
        line, = [line for line in lines_of_readme("words.cu") if line.startswith("g++ ")]
        module = self.folder / "words.so"
        subprocess.run(shlex.split(line.replace("/tmp/words.so", str(module))), cwd=ROOT, check=True)
        modules = [(module, []), (module, ["--schedule", "5"])]
        if shutil.which("nvcc", path=os.environ["PATH"] + ":/usr/local/cuda/bin"):
            words, = [line for line in lines_of_readme(PLAIN) if line.startswith("nvcc ")]
            cuda = self.folder / "words_cuda.so"
            environment = {**os.environ, "PATH": os.environ["PATH"] + ":/usr/local/cuda/bin"}
            subprocess.run(shlex.split(words.replace("plain.cu", "words.cu").replace(PLAIN, str(cuda))), cwd=ROOT, check=True,
                           env=environment)
            self.build_targets("gates/libcudart.so.13")
            modules.append((cuda, []))
        for path, options in modules:
            for shape in ["s=100,d=64", "b=2,h=4,hkv=2,s=65,d=40", "s=70,skv=10,d=64"]:
                report = self.json_of("diff", path, "fused", "--backend", "sim", "--shape", shape, "--causal", *options)
                self.assertEqual((report["verdict"], report["kernel"]), ("match", "warp_per_row"))
        text = (ROOT / "tests" / "strangers" / "words.cu").read_text()
        for change, says in [(("i > 0; i >>= 1) x = fmaxf", "i > 1; i >>= 1) x = fmaxf"), "diverged: epilogue / o_final"),
                             (("__syncthreads();\n    const int key", "if (warp) __syncthreads();\n    const int key"),
                              "diverged: .*barrier")]:
            wrong = self.folder / "wrong_words.cu"
            self.assertEqual(text.count(change[0]), 1, change)
            wrong.write_text(text.replace(*change))
            subprocess.run(shlex.split(line.replace("/tmp/words.so", str(module)).replace("tests/strangers/words.cu", str(wrong))), cwd=ROOT,
                           check=True)
            done = self.call("diff", module, "fused", "--backend", "sim", "--shape", "s=100,d=64", code=DIVERGED)
            self.assertRegex(done.stdout, says)

    def test_kernel_of_float32(self):
        line, = [line for line in lines_of_readme("words.cu") if line.startswith("g++ ")]
        text = (ROOT / "tests" / "strangers" / "float32.cu").read_text()

        def module(name, old="", new=""):
            source = self.folder / f"{name}.cu"
            self.assertTrue(not old or text.count(old) == 1, old)
            source.write_text(text.replace(old, new) if old else text)
            path = self.folder / f"{name}.so"
            words = line.replace("tests/strangers/words.cu", str(source)).replace("/tmp/words.so", str(path))
            subprocess.run(shlex.split(words), cwd=ROOT, check=True)
            return path

        def shape(sides):
            return ["--backend", "sim", "--shape", sides, "--causal"]

        right = module("float32")
        for sides in ["b=2,h=4,hkv=2,s=65,d=40", "s=70,skv=10,d=64"]:
            report = self.json_of("diff", right, "fused", *shape(sides))
            self.assertEqual((report["verdict"], report["dtype"]), ("match", "f32"))
        self.refuses(USAGE, r"is for f32", "diff", right, "fused", "--dtype", "f16")
        shown = self.folder / "float32.safetensors"
        self.call("run", right, "fused", *shape("s=40,d=64"), "-o", shown)
        self.assertEqual(self.json_of("diff", shown)["verdict"], "match")
        self.assertRegex(self.call("show", shown, "o_final").stdout, "o_final  f32")
        bugs = {
            "rescale": (("acc[i] *= alpha;", ""), "pv", "not_rescaled", "O is not rescaled"),
            "tf32": (("s += q_tile[row][d] * k_tile[j][d];",
                      "s += __uint_as_float((__float_as_uint(q_tile[row][d]) + 0x1000) & ~0x1fff) * "
                      "__uint_as_float((__float_as_uint(k_tile[j][d]) + 0x1000) & ~0x1fff);"),
                     "qk", "precision_lost", "Q and K are rounded to tf32"),
        }
        for name, (change, stage, cause, words) in bugs.items():
            with self.subTest(name):
                found = self.json_of("locate", module(name, *change), *shape("s=100,d=64"), code=DIVERGED)
                self.assertEqual((found["stage"], found["cause"], found["certain"]), (stage, cause, True))
                self.assertRegex(" ".join(found["evidence"]), words)


if __name__ == "__main__":
    meson, = take_arguments(__doc__, more=1)
    unittest.main(verbosity=2)
