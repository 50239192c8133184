// Every instruction that depends on its operands alone, in all its roundings and on special values,
// against what an H200 made of it (tests/data/ptx_h200.safetensors, written by
// tests/capture_ptx.cu).

#include "tests/support/ptx_conformance.h"

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "debug/dump/safetensors.h"
#include "reference/error.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "tests/support/ptx_kernel.h"

using namespace lanescope;
using namespace lanescope::ptx_conformance;

namespace {

/// What the machine makes of it; nothing where it does not execute it.
std::vector<std::uint64_t> results_of(const Spelling& spelling) {
  std::vector<std::uint64_t> in, out(tries);
  for (const auto& operand : inputs_of(spelling)) {
    in.insert(in.end(), operand.begin(), operand.end());
  }
  in.resize(in.size() + 1);
  try {
    PtxKernel kernel(module_head + kernel_of(spelling, "kernel"));
    kernel.use(in);
    kernel.use(out);
    kernel.grid.threads[0] = tries;
    kernel.run({address(in.data()), address(out.data())});
  } catch (const UsageError&) {
    return {};
  }
  return out;
}

std::uint64_t word_at(const std::byte* data, std::size_t index, std::size_t bytes) {
  std::uint64_t word = 0;
  std::memcpy(&word, data + index * bytes, bytes);
  return word;
}

/// The tries in which both differ, the first of them in words.
std::string differences(const Spelling& spelling, const std::vector<std::uint64_t>& got,
                        const std::byte* want) {
  const auto bytes = static_cast<std::size_t>(result_bytes(spelling));
  const auto inputs = inputs_of(spelling);
  int wrong = 0;
  std::string text;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const std::uint64_t mine = word_at(reinterpret_cast<const std::byte*>(&got[i]), 0, bytes);
    const std::uint64_t its = word_at(want, i, bytes);
    if (mine == its || !is_defined(spelling, inputs, i)) continue;
    if (wrong++ > 0) continue;
    char word[40];
    for (const auto& operand : inputs) {
      std::snprintf(word, sizeof word, " %#llx", static_cast<unsigned long long>(operand[i]));
      text += word;
    }
    std::snprintf(word, sizeof word, " -> %#llx", static_cast<unsigned long long>(mine));
    text += word;
    std::snprintf(word, sizeof word, ", an H200: %#llx", static_cast<unsigned long long>(its));
    text += word;
  }
  return wrong == 0 ? ""
                    : std::to_string(wrong) + " of " + std::to_string(tries) + ", first" + text;
}

}  // namespace

TEST_CASE("ptx: what an instruction makes of its operands has an H200's bits", "[ptx]") {
  const SafetensorsFile file(testing::data_file("ptx_h200.safetensors"));
  int compared = 0;
  for (const Spelling& spelling : spellings()) {
    const SafetensorsEntry* entry = file.find(spelling.name());
    if (!entry) continue;  // that ptxas refuses
    const std::vector<std::uint64_t> got = results_of(spelling);
    INFO(spelling.name());
    if (got.empty()) continue;  // that the machine refuses
    ++compared;
    CHECK(differences(spelling, got, entry->bytes.data()) == "");
  }
  CHECK(compared >= 1437);
}
