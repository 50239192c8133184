// Atomics, stores to other blocks, products and fragments of warps, and tensor maps that a kernel
// changes, against what an H200 made of them (tests/data/ptx_warps_h200.safetensors, written by
// tests/capture_ptx_warps.cu).

#include "tests/support/ptx_warps.h"

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "debug/dump/safetensors.h"
#include "debug/ptx/tensor_map.h"
#include "debug/simt/machine.h"
#include "reference/error.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "tests/support/ptx_kernel.h"

namespace lanescope::ptx_warps {
namespace {

using Words = std::vector<std::uint32_t>;

struct alignas(128) Line {
  std::uint32_t words[32];
};

ptx::TensorMapBytes map_of(const void* base) {
  ptx::TensorMapBytes map;
  map.base = address(base);
  map.rank = 2;
  map.element_bytes = 4;
  map.type = 7;  // CU_TENSOR_MAP_DATA_TYPE_FLOAT32
  map.size[0] = 32;
  map.size[1] = 28;
  map.stride[0] = 128;
  map.box[0] = map.box[1] = 16;
  return map;
}

/// What the machine leaves; nothing where it does not execute it.
Words results(const Trial& trial) {
  const Words words = words_of(trial);
  const auto count = static_cast<std::size_t>(results_of(trial));
  std::vector<Line> in(words.size() / 32 + 1), out(count / 32 + 1), own(scratch_bytes / 128);
  std::memcpy(in.data(), words.data(), 4 * words.size());
  std::vector<ptx::TensorMapBytes> map(1, map_of(in.data()));
  try {
    PtxKernel kernel(trial.text);
    for (std::vector<Line>* lines : {&in, &out, &own}) kernel.use(*lines);
    kernel.use(map);
    kernel.grid.threads[0] = static_cast<std::uint32_t>(trial.threads);
    kernel.grid.blocks[0] = kernel.grid.cluster[0] = static_cast<std::uint32_t>(trial.blocks);
    kernel.run({address(in.data()), address(out.data()), address(map.data()), address(own.data())});
  } catch (const UsageError&) {
    return {};
  } catch (const simt::Fault& fault) {  // bytes that never come: a GPU goes on asking for them
    if (std::string(fault.what()).find("1024 of 512 expected bytes") == std::string::npos) throw;
    return {};
  }
  Words left(count);
  std::memcpy(left.data(), out.data(), 4 * count);
  return left;
}

/// The words in which both differ, the first of them in words.
std::string differences(const Words& got, const Words& want) {
  std::string text;
  int wrong = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (got[i] == want[i] || wrong++ > 0) continue;
    char word[80];
    std::snprintf(word, sizeof word, "first word %zu: %#x, an H200: %#x", i, got[i], want[i]);
    text = word;
  }
  return wrong == 0 ? ""
                    : std::to_string(wrong) + " of " + std::to_string(got.size()) + ", " + text;
}

}  // namespace

TEST_CASE("ptx warps: what they make of memory and of each other has an H200's bits", "[ptx]") {
  const SafetensorsFile file(testing::data_file("ptx_warps_h200.safetensors"));
  int compared = 0;
  for (const Trial& trial : trials()) {
    const SafetensorsEntry* entry = file.find(trial.name);
    if (!entry) continue;  // that ptxas refuses
    INFO(trial.name);
    const Words got = results(trial);
    if (got.empty()) continue;  // that the machine refuses
    ++compared;
    Words want(entry->bytes.size() / 4);
    std::memcpy(want.data(), entry->bytes.data(), entry->bytes.size());
    REQUIRE(got.size() == want.size());
    CHECK(differences(got, want) == "");
  }
  CHECK(compared >= 539);
}

}  // namespace lanescope::ptx_warps
