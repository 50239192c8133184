// Reading PTX: what is read, and that what is not is a clear error before anything runs.

#include <string>

#include "debug/ptx/program.h"
#include "debug/ptx/syntax.h"
#include "reference/error.h"
#include "reference/splitmix64.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "tests/support/ptx_kernel.h"

using namespace lanescope;
using Catch::Matchers::ContainsSubstring;

namespace {

std::string read_sample(const std::string& name) {
  return testing::read_bytes(testing::folder_of(__FILE__) / "ptx" / name);
}

std::string error_of(const std::string& text) {
  try {
    PtxKernel kernel(text);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no error";
}

std::string body_error(const std::string& body) {
  return error_of(ptx_module(".reg .b32 %r<8>; .reg .b64 %rd<8>; .reg .pred %p<4>;\n" + body));
}

}  // namespace

TEST_CASE("ptx: a module of nvcc's is read", "[ptx]") {
  const ptx::Module module = ptx::parse(read_sample("saxpy.ptx"), "saxpy.ptx");
  CHECK(module.target == "sm_90");
  REQUIRE(module.functions.size() == 1);
  const ptx::Program program = ptx::decode(module, module.functions[0].name, {});
  CHECK(program.parameters.size() == 4);
  CHECK(program.code.size() == module.functions[0].statements.size() + 1);
  // Every instruction that comes from a line knows it.
  CHECK_THAT(program.line_of(static_cast<std::uint32_t>(program.code.size()) - 3),
             ContainsSubstring("saxpy.cu:"));
}

TEST_CASE("ptx: names are those of the innermost braces", "[ptx]") {
  PtxKernel kernel(ptx_module(R"(
    .reg .b32 %r<4>; .reg .b64 %rd<2>;
    mov.u32 %r1, 1;
    { .reg .b32 x; mov.u32 x, 5; LOOP: sub.u32 x, x, 1; .reg .pred p; setp.ne.u32 p, x, 0;
      add.u32 %r1, %r1, 1; @p bra LOOP; }
    { .reg .b32 x; mov.u32 x, 3; LOOP: sub.u32 x, x, 1; .reg .pred p; setp.ne.u32 p, x, 0;
      add.u32 %r1, %r1, 10; @p bra LOOP; }
    ld.param.u64 %rd0, [p0];
    st.global.u32 [%rd0], %r1;
    ret;)"));
  std::vector<std::uint32_t> out(1);
  kernel.use(out);
  kernel.grid.threads[0] = 1;
  kernel.run({address(out.data()), 0, 0, 0});
  CHECK(out[0] == 36);
}

TEST_CASE("ptx: the paths of sources are those that the user has", "[ptx]") {
  const auto file_of = [](const std::string& path) {
    const ptx::Module module = ptx::parse(ptx_module("ret;") + "\n.file 1 \"" + path + "\"", "x");
    return module.files.at(1);
  };
  CHECK(file_of("/tmp/k\\303\\266rnel x.cu") == "/tmp/k\303\266rnel x.cu");
  CHECK(file_of("C:\\9\\30") == "C:\\9\\30");
  CHECK(file_of("\\033[31m") == "?[31m");
}

TEST_CASE("ptx: lines of Triton's own functions are those that they are inlined at", "[ptx]") {
  const auto line_of = [](const std::string& comment) {
    const PtxKernel kernel(
        ptx_module(".reg .b32 %r<2>;\n\t.loc\t2 168 27  // standard.py:168:27" + comment +
                   "\n mov.b32 %r0, 1;\n ret;") +
        "\n\t.file\t1 \"/home/k.py\"\n\t.file\t2 \"/venv/triton/language/standard.py\"");
    return kernel.program().line_of(0);
  };
  CHECK(line_of(" @[ k.py:255:57 ]") == "/home/k.py:255");
  CHECK(line_of(" @[ standard.py:301:9 @[ k.py:255:57 ] ]") == "/home/k.py:255");
  CHECK(line_of("") == "/venv/triton/language/standard.py:168");
  CHECK(line_of(" @[ other.py:255:57 ]") == "/venv/triton/language/standard.py:168");
  CHECK(line_of(" @[ k.py ]") == "/venv/triton/language/standard.py:168");
}

TEST_CASE("ptx: directives need no blanks between them", "[ptx]") {
  PtxKernel kernel(ptx_module(R"(
    .reg.b64 %rd<2>; .shared.align 4 .b32 x; .local.b32 y;
    {.reg.b32 a, b; mov.b32 a, 3; st.shared.b32 [x], a; ld.shared.b32 b, [x];
     st.local.b32 [y], b; ld.local.b32 a, [y];
     ld.param.u64 %rd0, [p0]; st.global.u32 [%rd0], a;}
    ret;)"));
  std::vector<std::uint32_t> out(1);
  kernel.use(out);
  kernel.grid.threads[0] = 1;
  kernel.run({address(out.data()), 0, 0, 0});
  CHECK(out[0] == 3);
}

TEST_CASE("ptx: calls through a register are refused in the kernel that makes them", "[ptx]") {
  const std::string other =
      ".func (.param .b32 r) f(.param .b32 x) { ret; }\n.global .align 8 .u64 table[1] = {f};\n"
      ".visible .entry other() { .reg .b64 %rd<2>; .param .b32 a; .param .b32 b;\n"
      "mov.u64 %rd1, table; ld.global.u64 %rd0, [%rd1];\n"
      "prototype_0 : .callprototype (.param .b32 _) _ (.param .b32 _);\n"
      "call (b), %rd0, (a), prototype_0;\nret; }\n";
  const std::string body =
      ".reg .b64 %rd0; .reg .b32 %r0; ld.param.u64 %rd0, [p0]; mov.u32 %r0, 5; st.global.u32 "
      "[%rd0], %r0; ret;";
  PtxKernel kernel(ptx_module(body, 1, other));
  std::vector<std::uint32_t> out(1);
  kernel.use(out);
  kernel.grid.threads[0] = 1;
  kernel.run({address(out.data())});
  CHECK(out[0] == 5);
  CHECK_THROWS_WITH(PtxKernel(ptx_module(body, 1, other), "other", {4096}),
                    ContainsSubstring("call: not executed: calls through a register"));
}

TEST_CASE("ptx: what is not executed is an error with its line", "[ptx]") {
  CHECK_THAT(body_error("cp.reduce.async.bulk.add;"),
             ContainsSubstring("test.ptx:6: cp.reduce.async.bulk.add: not executed"));
  CHECK_THAT(body_error("frobnicate.u32 %r1, %r2;"),
             ContainsSubstring("does not know this instruction"));
  CHECK_THAT(body_error("add.u32.fast %r1, %r2, %r3;"),
             ContainsSubstring(".fast is not executed here"));
  CHECK_THAT(body_error("add.u64 %rd1, %r2, %rd3;"),
             ContainsSubstring("the register %r2 has 32 bits, where .u64 is taken"));
  CHECK_THAT(body_error("add.u32 %r1, %r2;"), ContainsSubstring("it has 2 operands, and takes 3"));
  CHECK_THAT(body_error("add.u32 %r1, %r2, %r9;"), ContainsSubstring("there is no register %r9"));
  CHECK_THAT(error_of(ptx_module(".reg .b64 %rd1; mov.u64 %rd1, f;", 0, ".func f() { ret; }\n")),
             ContainsSubstring("the address of the function f: neither calls through a register"));
  CHECK_THAT(body_error("bra NOWHERE;"), ContainsSubstring("there is no such label"));
  CHECK_THAT(body_error("mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {%rd1}, {%rd1}, {%rd1}, "
                        "{%rd1};"),
             ContainsSubstring("not known bit for bit"));
  CHECK_THAT(body_error("call nowhere, ();"),
             ContainsSubstring("the function nowhere is not in the module"));
  CHECK_THAT(body_error("createpolicy.fractional.L2::evict_last.b64;"),
             ContainsSubstring("it has 0 operands, and takes more"));
  CHECK_THAT(error_of(ptx_module("call f, (x); ret;", 1, ".func f(.param .b32 a) { ret; }\n")),
             ContainsSubstring("arguments that are no .param"));
  CHECK_THAT(body_error("mov.u32 %r1, %tid.x"), ContainsSubstring("';' is expected"));
  CHECK_THAT(body_error(".reg .b32 %x<2000000>;"), ContainsSubstring("more than"));
  CHECK_THAT(body_error(".local .b8 big[1000000];"), ContainsSubstring("passes 512 KiB"));
  CHECK_THAT(error_of(""), ContainsSubstring("is this PTX at all?"));
  CHECK_THAT(error_of(std::string("\x7f"
                                  "ELF")),
             ContainsSubstring("is this text at all?"));
  CHECK_THAT(error_of(".version 8.5\n.target sm_90\n.address_size 32\n"),
             ContainsSubstring("64-bit"));
  CHECK_THAT(
      error_of(ptx_module("call f; ret;", 1,
                          ".func f { .local .b32 x; call g; ret; }\n.func g { call f; ret; }\n")),
      ContainsSubstring("it calls itself"));
}

TEST_CASE("ptx: damaged text is an error or other PTX, never a crash", "[ptx]") {
  const std::string text = read_sample("saxpy.ptx");
  const auto try_to_read = [](const std::string& damaged) {
    try {
      const ptx::Module module = ptx::parse(damaged, "damaged.ptx");
      for (const ptx::Function& function : module.functions) {
        if (function.is_entry) ptx::decode(module, function.name, {});
      }
    } catch (const UsageError&) {
    }
  };
  for (std::size_t length = 0; length < text.size(); length += 3)
    try_to_read(text.substr(0, length));
  Random32 random{1};
  for (int i = 0; i < 3000; ++i) {
    std::string damaged = text;
    for (int flips = 0; flips < 3; ++flips) {
      damaged[random.next() % damaged.size()] = static_cast<char>(random.next() % 128);
    }
    try_to_read(damaged);
  }
  SUCCEED();
}

TEST_CASE("ptx: a register of 128 bits is one of 64 beside another", "[ptx]") {
  PtxKernel kernel(ptx_module(R"(
    .reg .b32 %r<4>; .reg .b64 %rd<8>; .reg .b128 %q<3>, whole; .reg .pred %p;
    mov.u32 %r0, %tid.x; ld.param.u64 %rd0, [p0]; mul.wide.u32 %rd1, %r0, 32;
    add.s64 %rd0, %rd0, %rd1;
    ld.global.b128 %q1, [%rd0];
    mov.b128 {%rd2, %rd3}, %q1;
    mov.b128 %q2, {%rd3, %rd2};
    mov.b128 whole, %q2;
    setp.lt.u32 %p, %r0, 2;
    @%p st.global.b128 [%rd0+16], whole;
    ret;)"));
  std::vector<std::uint64_t> data;
  for (std::uint64_t lane = 0; lane < 32; ++lane) {
    for (const std::uint64_t word :
         {2 * lane + 1, 2 * lane + 2, std::uint64_t{0}, std::uint64_t{0}})
      data.push_back(word);
  }
  kernel.use(data);
  kernel.grid.threads[0] = 32;
  kernel.run({address(data.data()), 0, 0, 0});
  for (std::size_t lane = 0; lane < 32; ++lane) {
    CHECK(data[4 * lane + 2] == (lane < 2 ? 2 * lane + 2 : 0));
    CHECK(data[4 * lane + 3] == (lane < 2 ? 2 * lane + 1 : 0));
  }
  for (const std::string operands : {"", " %q0", " %q0, %rd0", " %q0, [%rd0]"}) {
    CHECK_THAT(
        error_of(ptx_module(".reg .b128 %q<2>; .reg .b64 %rd<2>;\nmov.b128" + operands + "; ret;")),
        ContainsSubstring("two halves"));
  }
}
