// The special functions' unit on every float of whole octaves, and on all halves, against an H200
// (tests/data/units_h200.safetensors, written by tests/capture_units.cu).

#include "tests/support/units.h"

#include <bit>
#include <cstring>
#include <string>
#include <vector>

#include "debug/dump/safetensors.h"
#include "debug/simt/numerics.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "tests/support/ptx_kernel.h"

namespace lanescope::units {
namespace {

template <class T>
std::vector<T> captured(const std::string& name) {
  static const SafetensorsFile file(testing::data_file("units_h200.safetensors"));
  const SafetensorsEntry* entry = file.find(name);
  REQUIRE(entry != nullptr);
  std::vector<T> words(entry->bytes.size() / sizeof(T));
  std::memcpy(words.data(), entry->bytes.data(), entry->bytes.size());
  return words;
}

struct Unit {
  std::string name;
  float (*function)(float);
};
const Unit functions[] = {{"ex2.approx.ftz", simt::ex2},   {"lg2.approx.ftz", simt::lg2},
                          {"rcp.approx.ftz", simt::rcp},   {"rsqrt.approx.ftz", simt::rsqrt},
                          {"sqrt.approx.ftz", simt::sqrt}, {"sin.approx.ftz", simt::sin},
                          {"cos.approx.ftz", simt::cos},   {"tanh.approx", simt::tanh}};

}  // namespace

TEST_CASE("units: special functions have an H200's bits on every fraction") {
  for (const Range& range : ranges) {
    const auto want = captured<std::uint64_t>(name_of(range));
    REQUIRE(want.size() == range.blocks);
    const Unit* unit = functions;
    while (unit->name != range.function) ++unit;
    int wrong = 0;
    for (std::uint32_t block = 0; block < range.blocks; ++block) {
      Digest digest;
      for (std::uint32_t i = 0; i < block_floats; ++i) {
        const float x = std::bit_cast<float>(range.first + block * block_floats + i);
        digest.add(std::bit_cast<std::uint32_t>(unit->function(x)));
      }
      wrong += digest.value() != want[block] ? 1 : 0;
    }
    INFO(name_of(range));
    CHECK(wrong == 0);
  }
}

TEST_CASE("units: ex2 and tanh of all halves have an H200's bits", "[ptx]") {
  for (const std::string name :
       {"ex2.approx.f16", "ex2.approx.ftz.bf16", "tanh.approx.f16", "tanh.approx.bf16"}) {
    std::vector<std::uint16_t> out(1 << 16);
    PtxKernel kernel(
        ptx_module(".reg .b16 %h<4>; .reg .b32 %r<4>; .reg .b64 %rd<4>;\n"
                   "mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mad.lo.u32 %r0, %r1, 256, %r0;\n"
                   "cvt.u16.u32 %h0, %r0; " +
                       name +
                       " %h1, %h0; ld.param.u64 %rd0, [p0]; mul.wide.u32 %rd1, %r0, 2;\n"
                       "add.s64 %rd0, %rd0, %rd1; st.global.u16 [%rd0], %h1; ret;",
                   1));
    kernel.use(out);
    kernel.grid.threads[0] = kernel.grid.blocks[0] = 256;
    kernel.run({address(out.data())});
    INFO(name);
    CHECK(out == captured<std::uint16_t>(name));
  }
}

}  // namespace lanescope::units
