// What ptxas says, what follows from it, and the budgets it is held to.

#include "gates/measure/resources.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "gates/measure/occupancy.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"

using namespace lanescope;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("resources: blocks per multiprocessor") {
  const auto blocks = [](const char* arch, int threads, int registers, std::int64_t shared) {
    return blocks_per_multiprocessor(arch, {threads, registers, shared}).value();
  };
  // As cuda_occupancy.h of CUDA 13.0 has it.
  CHECK(blocks("sm_90", 128, 128, 40960) == 4);  // registers: 65536 / (128 · 128)
  CHECK(blocks("sm_90a", 128, 129, 0) == 3);     // a warp's come in units of 256
  CHECK(blocks("sm_90", 128, 32, 49152) == 4);   // shared memory: 228 / (48 + 1) KiB
  CHECK(blocks("sm_90", 128, 32, 232448) == 1);  // 227 KiB, the most that a block may have
  CHECK(blocks("sm_90", 128, 32, 232448 + 1) == 0);
  CHECK(blocks("sm_90", 32, 16, 0) == 32);       // blocks
  CHECK(blocks("sm_90", 1024, 32, 0) == 2);      // threads: 2048
  CHECK(blocks("sm_90", 1024, 255, 0) == 0);     // more registers than there are
  CHECK(blocks("sm_90", 96, 168, 0) == 4);       // three warps from each quarter
  CHECK(blocks("sm_89", 128, 128, 40960) == 2);  // shared memory: 100 KiB
  CHECK(blocks("sm_86", 128, 40, 0) == 12);      // threads: 1536
  CHECK(blocks("sm_75", 256, 64, 32768) == 2);
  CHECK_FALSE(blocks_per_multiprocessor("sm_999", {}));
  CHECK_FALSE(blocks_per_multiprocessor("", {}));
}

TEST_CASE("resources: the words of ptxas", "[quick]") {
  const std::string words =
      "ptxas info    : 0 bytes gmem\n"
      "ptxas info    : Compiling entry function '_Z12kernel_entryv' for 'sm_90'\n"
      "ptxas info    : Function properties for _Z12kernel_entryv\n"
      "    96 bytes stack frame, 140 bytes spill stores, 204 bytes spill loads\n"
      "ptxas info    : Used 168 registers, used 1 barriers, 96 bytes cumulative stack size, 5136 "
      "bytes smem\n"
      "ptxas info    : Function properties for _Z6calledv\n"
      "    16 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads\n"
      "ptxas info    : Compiling entry function '_Z13combine_entryv' for 'sm_90'\n"
      "ptxas info    : Function properties for _Z13combine_entryv\n"
      "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
      "ptxas info    : Used 32 registers\n";
  const auto functions = parse_ptxas(words);
  REQUIRE(functions.size() == 2);
  CHECK(functions[0].name == "_Z12kernel_entryv");
  CHECK(functions[0].arch == "sm_90");
  CHECK(functions[0].figures == Figures{168, 96, 144, 212, 5136, 0});  // with what it calls
  CHECK(functions[1].figures == Figures{32, 0, 0, 0, 0, 0});
  CHECK(parse_ptxas("").empty());
  std::string other = words;
  other.replace(other.find("spill stores"), 12, "spilled");
  CHECK_THROWS_WITH(parse_ptxas(other), ContainsSubstring("_Z12kernel_entryv"));
}

TEST_CASE("resources: budgets are written and read, and a broken line is named") {
  const testing::TemporaryFolder folder;
  setenv("LANESCOPE_BUDGETS", folder.path().c_str(), 1);
  CHECK_FALSE(read_budgets("some"));
  const Budget budget{
      "some.fused.f16.d64.64x64.cuda", "kernel", {168, 0, 8, 16, 5136, 3}, "sm_90", "13.0", "0123"};
  const std::string path = write_budgets("some", {budget, budget});
  const auto budgets = read_budgets("some");
  REQUIRE(budgets);
  REQUIRE(budgets->size() == 2);
  CHECK((*budgets)[1].module == budget.module);
  CHECK((*budgets)[1].figures == budget.figures);
  CHECK((*budgets)[1].sources == "0123");
  for (const char* line : {"some.fused kernel 1 2 3", "a kernel 1 2 3 4 5 x sm_90 13.0 1",
                           "a kernel 1 2 3 4 5 6 sm_90 13.0 1 more"}) {
    std::ofstream(path, std::ios::app) << line << "\n";
    CHECK_THROWS_WITH(read_budgets("some"),
                      ContainsSubstring("some.txt:6") && ContainsSubstring("--record"));
    write_budgets("some", {budget, budget});
  }
  unsetenv("LANESCOPE_BUDGETS");
}
