#!/usr/bin/env python3
"""exec_test.py PROGRAM NINJA: someone else's test program, compiled as README.md says, run whole by
`lanescope exec` where there is no GPU: its own exit code and output, and what is found in its kernels."""

import ctypes
import json
import pathlib
import re
import shlex
import shutil
import subprocess
import unittest

from support.program import DIVERGED, ENVIRONMENT, ROOT, SCHEMA, USAGE, ProgramTest, demand_nvcc_13, lines_of_readme, take_arguments

SOURCE = ROOT / "tests" / "strangers" / "program.cu"
SAID = "16 6 8 1\n"  # what the program prints where its kernels are right


class ExecTest(ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        demand_nvcc_13()
        line, = lines_of_readme("tests/strangers/program.cu")
        cls.own = cls.folder / "program"
        subprocess.run(shlex.split(line.replace("/tmp/program", str(cls.own))), cwd=ROOT, check=True)

    def execute(self, mode, *words, code, options=(), arguments=(), **more):
        """The words of the program, and what was found, of the program in this mode."""
        done = self.result_of(*options, "exec", *arguments, self.own, mode, *words, **more)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout, done.stderr

    def line_of(self, text):
        line, = [i for i, line in enumerate(SOURCE.read_text().splitlines(), 1) if text in line]
        return f"program.cu:{line}"

    def finds(self, mode, kind, *lines):
        """That and nothing else."""
        _, found = self.execute(mode, code=DIVERGED, options=["--format", "json"])
        answer = json.loads(found)
        self.assertEqual(answer["schema"], SCHEMA)
        findings = [finding for launch in answer["launches"] for finding in launch["findings"]]
        self.assertEqual({finding["kind"] for finding in findings}, {kind})
        named = {end["line"].split("/")[-1] for finding in findings
                 for end in [finding["access"], finding["earlier"]] if end}
        self.assertEqual(named, {self.line_of(line) for line in lines})

    def fails(self, mode, said, found, code=DIVERGED):
        """It does not get to its end, and both say why."""
        out, err = self.execute(mode, code=code)
        self.assertRegex(out, said)
        self.assertRegex(err, found)

    def test_program_that_is_right(self):
        for code in [0, 5]:
            out, err = self.execute("", code, code=code)
            self.assertEqual(out, SAID)
            self.assertRegex(err, rf"^info: 3 launches checked, nothing found; the program's exit code: {code}; "
                                  r"[\d.e-]+ M warp instructions in [\d.e-]+ CPU-s\n$")
        for options in [["--threads", "1"], ["--schedule", "7"], ["--arch", "ampere"]]:
            done = self.result_of("exec", *options, self.own, "much shared allowed", "3")
            self.assertEqual((done.returncode, done.stdout), (3, SAID), done.stderr)

    def test_what_is_found(self):
        self.finds("unwritten", "uninitialised read", "// reads x", "= x[blockIdx.x];")
        self.finds("too long", "out of bounds", "// reads x", "// writes y")
        self.finds("race of blocks", "race", "// races across")
        self.finds("race of lanes", "race", "y[threadIdx.x] = 1;", "// races too")
        self.finds("late sum", "race", "// too late", "// too early")
        self.finds("unfenced sum", "race", "// unfenced", "// adds what may not have come")
        self.finds("wrapped", "out of bounds", "// calls copy")
        self.finds("odd", "misaligned", "// misaligned")
        self.finds("neighbours", "race", "// writes its box", "// reads the other's")
        self.execute("neighbours that meet", code=0)

    def test_libraries_whose_kernels_are_machine_code(self):
        library = self.folder / "libcublas.so.13"
        subprocess.run(["gcc", "-shared", "-x", "c", "/dev/null", "-o", library], check=True)
        out, err = self.execute("", code=0, LD_PRELOAD=str(library))
        self.assertEqual(out, SAID)
        self.assertIn("lanescope: libcublas.so.13: libraries whose kernels are machine code do not run here", err)

    def test_attributes_of_a_kernel(self):
        out, _ = self.execute("attributes", code=0)
        self.assertEqual(out, "90 90 2 77\n" + SAID)

    def test_unwritten_global_memory_is_no_matter_of_the_block(self):
        _, err = self.execute("unwritten", code=DIVERGED)
        self.assertIn("nobody wrote these bytes before\n", err)

    def test_what_is_found_again_is_told_once(self):
        _, err = self.execute("race thrice", code=DIVERGED)
        self.assertEqual(err.count("\nrace, "), 1, err)
        self.assertEqual(err.count("lanescope: launch"), 1, err)
        self.assertIn("6 launches checked, 3 with findings", err)

    def test_where_inlined_functions_are_called(self):
        _, err = self.execute("inlined", code=DIVERGED)
        self.assertRegex(err, rf"race.*\n  write +\S*{self.line_of('// stores it')}, called at "
                              rf"{self.line_of('// puts its')}  block 0")

    def test_what_accesses_cost(self):
        self.assertNotIn("slow", self.execute("slow", code=0)[1])
        _, err = self.execute("slow", code=0, arguments=["--accesses"])
        for said in [rf"bank conflicts: ld.shared\S* at \S*{self.line_of('// banks')}: 32 wavefronts per access, and 1",
                     rf"uncoalesced: st.global\S* at \S*{self.line_of('// sectors')}: 16 sectors of 32 bytes per access, and 4",
                     rf"dead wait: cp.async.wait_all at \S*{self.line_of('// waits for nothing')} ran once"]:
            self.assertRegex(err, said)

    def test_what_bytes_came_through(self):
        """y[30] of the first launch is x[97], by another lane of another warp."""
        _, err = self.execute("", code=0, arguments=["--slice", "2+120"])
        for said in [r"launch 1: reverse<<<", r"what allocation 2, byte 120 came through, in block 0, the last first:",
                     rf"program.cu:{self.line_of('// writes y').split(':')[1]}: st.global.f32, mul.f32, .*ld.shared.f32.*; last 6; warp 0, lanes 30\n",
                     rf"program.cu:{self.line_of('// reads x').split(':')[1]}: st.shared.f32.*; warp 3, lanes 1\n",
                     r"from 4 bytes of allocation 1 \(argument 1 of reverse\), between byte 388 and 391\n"]:
            self.assertRegex(err, said)
        self.assertNotIn("launch 2", err)
        self.assertNotIn("came through", self.execute("", code=0, arguments=["--slice", "1+20"])[1])
        self.refuses(USAGE, "--slice takes ALLOCATION[+]BYTE", "exec", "--slice", "y[5]", self.own)
        self.refuses(USAGE, "--slice takes", "exec", "--slice", "0+4", self.own)
        _, err = self.execute("", code=USAGE, arguments=["--slice", "2+3998:4"])
        self.assertRegex(err, "--slice: allocation 2 has 4000 bytes")

    def test_where_it_is_used(self):
        _, err = self.execute("unwritten", code=DIVERGED)
        self.assertRegex(err, rf"read +\S*{self.line_of('// reads x')} .*\n +used +\S*{self.line_of('// writes y')} ")
        out, _ = self.execute("tail", code=0)
        self.assertEqual(out, SAID)

    def test_kernel_that_does_not_end(self):
        out, err = self.execute("endless", code=DIVERGED, arguments=["--timeout", "0.3"])
        self.assertIn("cudaErrorLaunchTimeout: the launch timed out", out)
        self.assertRegex(err, rf"block 0 did not end in 0.3 s:\n.*warp 0 lanes 0-31 run in .*program.cu:\d+")
        self.refuses(USAGE, "--timeout", "exec", "--timeout", "0", "true")

    def test_first_nan(self):
        out, err = self.execute("no number", code=0)
        self.assertEqual(out, SAID)
        where = self.line_of("// no log")
        self.assertRegex(err, rf"launch 4: no_number<<<.*\nfirst NaN: \S+\.f32 at .*{where} of .*, block 0, warp 0, lane 0\n")
        self.assertIn("checked, nothing found but numbers that are not finite; ", err)
        self.assertNotIn("first NaN", self.execute("", code=0)[1])

    def test_way_of_a_nan(self):
        """From where it was made back to the mask; an infinity that goes to memory is told too."""
        _, err = self.execute("masked", code=0)
        own = self.line_of("// takes its own")
        self.assertRegex(err, rf"first NaN: sub\S* at \S*{self.line_of('// subtracts it')} of -inf, -inf, block 0, warp 0, lane 0\n")
        way = [line for line in err.splitlines() if line.startswith("  from ")]
        self.assertRegex(way[0], rf"ld.shared\S* at \S*{own}: -inf, warp 0, lane 0$")
        self.assertRegex(way[1], r"mov\S* at .*: -inf, warp 0, lane 1$")
        _, err = self.execute("narrow", code=0)
        self.assertRegex(err, rf"first infinity: cvt.rn.f16.f32 at \S*{self.line_of('// overflows')} of 200000, block 0")
        self.assertNotIn("first inf", self.execute("tail", code=0)[1])

    def test_once_each(self):
        _, err = self.execute("too long", code=DIVERGED)
        self.assertEqual(err.count("out of bounds"), 2, err)
        self.assertRegex(err, r"0 bytes behind the end of allocation 1 \(argument 1 of reverse\)\n")

    def test_kernels_that_do_not_end(self):
        self.fails("far", "^cudaErrorIllegalAddress: an illegal memory access",
                   rf"{self.line_of('// strays')}: address 0x\w+, \d+ bytes behind the 4000 of allocation [12]")
        self.fails("freed", "^cudaErrorIllegalAddress",
                   rf"{self.line_of('// reads x')}: address 0x\w+, \d+ bytes into the 4000 of allocation 1, which has been freed")

    def test_functions_that_call_themselves(self):
        out, _ = self.execute("recursive", code=0)
        self.assertEqual(out, "0 1 1 2 3 5 8 13 \n" + SAID)

    def test_launches_that_do_not_begin(self):
        self.fails("much shared", "^cudaErrorInvalidValue", "102400 bytes of dynamic shared memory.*49152: cudaFuncSet")
        self.fails("many threads", "^cudaErrorInvalidConfiguration", "blocks of 2048 threads, and it takes 1024")
        self.fails("unknown", "^cudaErrorInvalidPtx", r"multimem\.red\.relaxed\.sys\.global\.add\.u32: not executed: .*several GPUs", code=USAGE)
        self.fails("by table", "^cudaErrorInvalidPtx", "call: not executed: calls through a register", code=USAGE)
        out, err = self.execute("unknown beside others", code=USAGE)
        self.assertEqual(out, "cudaErrorInvalidPtx cudaErrorInvalidPtx cudaSuccess\n" + SAID)
        self.assertRegex(err, "4 launches checked, 1 with findings")
        self.assertEqual(err.count("multimem"), 1)
        out, _ = self.execute("too many", code=7)
        self.assertRegex(out, "^cudaErrorCooperativeLaunchTooLarge")

    def test_damaged_fat_binaries(self):
        whole = bytearray(self.own.read_bytes())
        at = whole.rindex((0xba55ed50).to_bytes(4, "little") + b"\x01\x00\x10\x00")  # the container's header
        damaged = self.folder / "damaged"
        for field, value in [(8, 1 << 40), (8, 80), (6, 3), (16 + 4, 1 << 31), (16 + 8, (1 << 64) - 64)]:
            size = {4: 2, 6: 2, 8: 8, 20: 4, 24: 8}[field]
            damaged.write_bytes(whole[:at + field] + value.to_bytes(size, "little") + whole[at + field + size:])
            damaged.chmod(0o755)
            done = self.result_of("exec", damaged, "", 0)
            self.assertEqual(done.returncode, USAGE, f"{field} {done.stdout}{done.stderr}")
            self.assertRegex(done.stderr, "the module's fat binary (is damaged|holds no PTX)")

    def test_variables_that_the_host_uses_too(self):
        source, program = self.folder / "managed.cu", self.folder / "managed"
        source.write_text("""#include <cstdio>
__managed__ float managed[2] = {3, 4};
__global__ void add() { managed[1] += managed[0]; }
int main() {
  managed[0] += 2;
  add<<<1, 1>>>();
  float copied = 0;
  cudaMemcpyFromSymbol(&copied, managed, 4, 4);
  std::printf("%g %g\\n", managed[1], copied);
}
""")
        subprocess.run(["nvcc", "-cudart", "shared", "-arch=compute_90", source, "-o", program], check=True)
        done = self.result_of("exec", program)
        self.assertEqual((done.returncode, done.stdout), (0, "9 9\n"), done.stderr)

    def test_code_of_an_architecture_alone_comes_first(self):
        """nvcc -arch=sm_90a leaves PTX for sm_90, too: the machine runs what a driver would take."""
        source, program = self.folder / "specific.cu", self.folder / "specific"
        source.write_text("""#include <cstdio>
__managed__ int of_its_own;
__global__ void tell() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  of_its_own = 1;
#endif
}
int main() {
  tell<<<1, 1>>>();
  cudaDeviceSynchronize();
  std::printf("%d\\n", of_its_own);
}
""")
        code = "-gencode=arch=compute_{0},code=compute_{0}"
        for flags in [["-arch=sm_90a"], [code.format("90"), code.format("90a")], [code.format("90a"), code.format("90")]]:
            subprocess.run(["nvcc", "-cudart", "shared", *flags, source, "-o", program], check=True)
            done = self.result_of("exec", program)
            self.assertEqual((done.returncode, done.stdout), (0, "1\n"), done.stderr)

    def test_units_of_the_gpu(self):
        """The bits that its units give, not those of rounding to nearest."""
        out, _ = self.execute("approximate", code=0)
        self.assertEqual(out, "1.41421354 0.964029312\n" + SAID)

    def test_blocks_that_wait_for_each_other(self):
        out, _ = self.execute("meeting", code=0)
        self.assertEqual(out, "1 0\n" + SAID)
        self.finds("missing", "race", "// writes its own", "// reads the next one's")

    def test_graphs(self):
        """A graph does at each launch what was asked of the streams that were captured for it, and nothing before."""
        out, err = self.execute("graph", code=0)
        self.assertEqual(out, "3 30\n" + SAID)
        self.assertIn("12 launches checked", err)
        out, _ = self.execute("graph waited for", code=7)
        self.assertRegex(out, "^cudaErrorStreamCaptureUnsupported")

    def test_calls_that_are_not_there(self):
        """A program is linked with all of CUDA's runtime, whatever it calls: the machine's has every name."""
        out, err = self.execute("texture", code=7)
        self.assertEqual(out, "cudaErrorNotSupported: operation not supported\n")
        self.assertIn("lanescope: the SIMT machine has no cudaMallocArray: operation not supported", err)
        nvcc = pathlib.Path(shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc").resolve()
        header = (nvcc.parent.parent / "include" / "cuda_runtime_api.h").read_text()
        library = ctypes.CDLL(str(self.module("libcudart.so.13").with_suffix("")))
        missing = {name for name in re.findall(r"CUDARTAPI\s+(cuda\w+)\s*\(", header) if not hasattr(library, name)}
        self.assertEqual(missing, set())

    def test_modules_loaded_while_it_runs(self):
        """What a program hands to the driver: PTX or a fat binary; its kernels are checked as those linked in are."""
        source, program = self.folder / "scale.cu", self.folder / "driver"
        source.write_text("""__device__ float offset;
            extern "C" __global__ void scale(float* x, float by, int n) {
              const int i = blockIdx.x * blockDim.x + threadIdx.x;
              if (i < n) x[i] = x[i] * by + offset;
            }""")
        nvcc = pathlib.Path(shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc").resolve()
        files = {"scale.ptx": ["-ptx", "-lineinfo", "-arch=compute_90"], "scale.cubin": ["-cubin", "-arch=sm_90"],
                 "scale.fatbin": ["-fatbin", "-gencode", "arch=compute_90,code=compute_90"]}
        for name, options in files.items():
            subprocess.run([nvcc, *options, source, "-o", self.folder / name], check=True)
        subprocess.run(["g++", "-std=c++20", f"-I{nvcc.parents[1]}/include", f"-L{nvcc.parents[1]}/lib64/stubs",
                        ROOT / "tests" / "strangers" / "driver.cc", "-lcuda", "-o", program], check=True)

        def execute(*words, code):
            done = self.result_of("exec", program, *words)
            self.assertEqual(done.returncode, code, done.stdout + done.stderr)
            return done.stdout, done.stderr

        ptx = self.folder / "scale.ptx"
        for words in [(ptx,), (self.folder / "scale.fatbin",), (ptx, "buffer"), (ptx, "cluster"), (ptx, "much shared allowed")]:
            out, err = execute(*words, code=0)
            self.assertEqual(out, "3 3\n")
            self.assertIn("1 launch checked, nothing found", err)
        self.assertRegex(execute(ptx, "too long", code=DIVERGED)[1], r"out of bounds[^\n]*\n *read +\S*scale\.cu:4 ")
        self.assertRegex(execute(ptx, "unwritten", code=DIVERGED)[1], r"scale\.cu:4 ")
        for mode, said in [("short buffer", "CUDA_ERROR_INVALID_VALUE"), ("no name", "CUDA_ERROR_NOT_FOUND"),
                           ("unloaded", "CUDA_ERROR_INVALID_HANDLE")]:
            self.assertIn(said, execute(ptx, mode, code=7)[0])
        self.assertIn("CUDA_ERROR_INVALID_VALUE", execute(ptx, "much shared", code=DIVERGED)[0])
        out, err = execute(self.folder / "scale.cubin", code=USAGE)
        self.assertRegex(out, "^log: the module is machine code .*\n.*CUDA_ERROR_INVALID_PTX")
        self.assertIn("give it what nvcc -ptx", err)
        text = ptx.read_text()
        ptx.write_text(text.replace("ret;", "retired;"))
        self.assertIn("retired", execute(ptx, code=USAGE)[1])
        ptx.write_text(text.replace(".visible", ".invisible"))
        self.assertRegex(execute(ptx, code=USAGE)[0], r"^log: module \d+\.ptx:\d+: .*invisible")

    def test_functions_of_the_driver_by_name(self):
        """dlsym and cuGetProcAddress, whose names have no forms."""
        code = "; ".join(["import ctypes", "cuda = ctypes.CDLL('libcuda.so.1')", "at, found = ctypes.c_void_p(), ctypes.c_int()",
                          "known = [cuda.cuGetProcAddress_v2(name, ctypes.byref(at), 13000, ctypes.c_uint64(0), ctypes.byref(found)) "
                          "for name in [b'cuMemAlloc', b'cuCtxCreate', b'cuNothing']]",
                          "print(known, ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint)(ctypes.cast(cuda.cuInit, ctypes.c_void_p).value)(0))"])
        self.assertEqual(self.result_of("exec", "python3", "-c", code).stdout, "[0, 0, 500] 0\n")

    def test_names_of_the_driver(self):
        """Every name is there, for who is linked with it; one that is not executed says so, and is not found by asking."""
        nvcc = pathlib.Path(shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc").resolve()
        stub = nvcc.parents[1] / "lib64" / "stubs" / "libcuda.so"
        symbols = subprocess.run(["nm", "-D", "--defined-only", stub], check=True, capture_output=True, text=True).stdout
        library = ctypes.CDLL(str(self.module("libcudart.so.13").with_suffix("")))
        names = re.findall(r" T (cu[A-Z]\w+)", symbols)
        self.assertGreater(len(names), 500)
        self.assertEqual({name for name in names if not hasattr(library, name)}, set())
        code = "; ".join(["import ctypes", "cuda, at = ctypes.CDLL('libcuda.so.1'), ctypes.c_void_p()",
                          "asked = cuda.cuGetProcAddress(b'cuArrayCreate', ctypes.byref(at), 12000, ctypes.c_uint64(0))",
                          "limit = ctypes.c_size_t()", "print(asked, cuda.cuArrayCreate_v2(None, None), cuda.cuCtxGetLimit(ctypes.byref(limit), 0))"])
        done = self.result_of("exec", "python3", "-c", code)
        self.assertEqual(done.stdout, "500 801 0\n")
        self.assertIn("lanescope: the SIMT machine has no cuArrayCreate_v2: operation not supported", done.stderr)

    def test_calls_that_are_wrong(self):
        for mode in ["freed twice", "long copy", "wrong kind"]:
            out, _ = self.execute(mode, code=7)
            self.assertEqual(out, "cudaErrorInvalidValue: invalid argument\n")

    def test_program_that_breaks_down(self):
        _, err = self.execute("hangs up", code=128 + 6)
        self.assertIn("0 launches checked, nothing found; the program was ended by Aborted (SIGABRT)", err)

    def test_machine_in_a_folder_with_a_blank(self):
        """LD_PRELOAD has blanks and colons between its names."""
        for name in ["two words", "a:b"]:
            folder = self.folder / name
            folder.mkdir()
            for library in ["libcudart.so.13", "libcuda.so.1"]:
                (folder / library).symlink_to(self.module(library).with_suffix(""))
            _, err = self.execute("", code=0, LANESCOPE_NINJA="", LANESCOPE_MODULES=str(folder))
            self.assertIn("launches checked, nothing found", err)

    def test_what_is_no_such_program(self):
        done = self.result_of("exec", "true")
        self.assertEqual(done.returncode, USAGE)
        self.assertIn("true had no CUDA module: nothing was checked", done.stderr)
        self.refuses(USAGE, "cannot start ./nothing: No such file", "exec", "./nothing")
        self.refuses(USAGE, "there is no 'volta'", "exec", "--arch", "volta", "true")
        self.refuses(ENVIRONMENT, r"libcudart\.so\.13 is not built", "exec", "true", LANESCOPE_NINJA="",
                     LANESCOPE_MODULES=str(self.folder))


class OverlapTest(ProgramTest):
    """Grids that begin before the one before them has ended."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        demand_nvcc_13()
        cls.source = ROOT / "tests" / "strangers" / "overlap.cu"
        cls.own = cls.folder / "overlap"
        subprocess.run(["nvcc", "-cudart", "shared", "-arch=compute_90", "-lineinfo", cls.source, "-o", cls.own], check=True)

    def line_of(self, text):
        line, = [i for i, line in enumerate(self.source.read_text().splitlines(), 1) if text in line]
        return f"overlap.cu:{line}"

    def test_grid_that_waits(self):
        for mode in ["right", "one lane", "keeps to itself", "waited for", "copied", "in order"]:
            with self.subTest(mode):
                done = self.result_of("exec", self.own, mode)
                self.assertEqual((done.returncode, done.stdout), (0, "7\n"), done.stderr)

    def test_grid_that_does_not_wait(self):
        reads, writes = self.line_of("// the second reads y"), self.line_of("// the first reads x")
        overwrites = self.line_of("// the second writes z")
        for mode, access, earlier in [("none", f"read +.*{reads} ", f"write +.*{writes} "),
                                      ("late", f"read +.*{reads} ", f"write +.*{writes} "),
                                      ("one lane alone", f"read +.*{reads} .*lane 1\n", f"write +.*{writes} "),
                                      ("overwrites x", f"write +.*{overwrites} ", f"read +.*{writes} "),
                                      ("graph", f"read +.*{reads} ", f"write +.*{writes} ")]:
            with self.subTest(mode):
                done = self.result_of("exec", self.own, mode)
                self.assertEqual(done.returncode, DIVERGED, done.stderr)
                self.assertRegex(done.stderr, rf"launch 2: second.*\nmissing grid wait, 25[26] times: .*\n +{access}.*\n? +{earlier}")
                self.assertEqual(done.stderr.count("missing grid wait"), 1)


class CompiledWhileItRunsTest(ProgramTest):
    """NVRTC makes the kernel's PTX, which the driver loads; it is linked with neither runtime."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        demand_nvcc_13()
        cls.own = cls.folder / "nvrtc_program"
        cuda = pathlib.Path(shutil.which("nvcc")).resolve().parents[1]
        libraries = cuda / "lib64"
        if not (libraries / "libnvrtc.so").exists() or not (libraries / "stubs" / "libcuda.so").exists():
            raise unittest.SkipTest(f"no NVRTC in {libraries}")
        subprocess.run(["g++", "-std=c++20", ROOT / "tests" / "strangers" / "nvrtc_program.cc", "-I", cuda / "include",
                        "-L", libraries, "-L", libraries / "stubs", "-lnvrtc", "-lcuda", f"-Wl,-rpath,{libraries}",
                        "-o", cls.own], check=True)

    def test_kernel_that_nvrtc_compiled(self):
        done = self.result_of("exec", self.own)
        self.assertEqual((done.returncode, done.stdout), (0, "6 6\n"), done.stderr)
        self.assertRegex(done.stderr, "1 launch checked, nothing found")

    def test_its_lines_are_named(self):
        done = self.result_of("exec", self.own, "too many")
        self.assertEqual(done.returncode, DIVERGED, done.stderr)
        self.assertRegex(done.stderr, r"out of bounds, 24 times.*\n +read +\S*scale.cu:3 ")

    def test_machine_code_is_refused(self):
        done = self.result_of("exec", self.own, "cubin")
        self.assertEqual(done.returncode, USAGE, done.stderr)
        self.assertRegex(done.stderr, r"machine code \(a cubin\).*--gpu-architecture=compute_90")


if __name__ == "__main__":
    take_arguments(__doc__)
    unittest.main(verbosity=2)
