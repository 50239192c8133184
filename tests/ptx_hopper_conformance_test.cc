// Products of warpgroups and reductions of bulk copies in kernels given as PTX, against the bits of
// an H200 (tests/data/hopper_h200.safetensors, written by tests/capture_hopper.cu).

#include <cstring>
#include <string>
#include <vector>

#include "debug/dump/safetensors.h"
#include "debug/ptx/tensor_map.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "tests/support/ptx_kernel.h"

using namespace lanescope;

namespace {

using Words = std::vector<std::uint32_t>;

Words captured_on_hopper(const std::string& name) {
  static const SafetensorsFile file(testing::data_file("hopper_h200.safetensors"));
  const SafetensorsEntry* entry = file.find(name);
  REQUIRE(entry != nullptr);
  Words words(entry->bytes.size() / 4);
  std::memcpy(words.data(), entry->bytes.data(), entry->bytes.size());
  return words;
}

int differences(const Words& a, const Words& b) {
  REQUIRE(a.size() == b.size());
  int count = 0;
  for (std::size_t i = 0; i < a.size(); ++i) count += a[i] != b[i] ? 1 : 0;
  return count;
}

/// A product of the capture, which says what lies where.
struct Product {
  std::string name, words, tail;
  int registers;
};
const Product products[] = {{"half_f16", "m64n8k16.f16.f16.f16", ", 1, 1, 0, 0", 2},
                            {"half_e4m3", "m64n8k32.f16.e4m3.e4m3", ", 1, 1", 2},
                            {"half_e5m2", "m64n8k32.f16.e5m2.e5m2", ", 1, 1", 2},
                            {"half_mixed", "m64n8k32.f16.e4m3.e5m2", ", 1, 1", 2},
                            {"f16", "m64n8k16.f32.f16.f16", ", 1, 1, 0, 0", 4},
                            {"bf16", "m64n8k16.f32.bf16.bf16", ", 1, 1, 0, 0", 4},
                            {"tf32", "m64n8k8.f32.tf32.tf32", ", 1, 1", 4},
                            {"tf32_negated", "m64n8k8.f32.tf32.tf32", ", -1, 1", 4},
                            {"e4m3", "m64n8k32.f32.e4m3.e4m3", ", 1, 1", 4},
                            {"e5m2", "m64n8k32.f32.e5m2.e5m2", ", 1, 1", 4},
                            {"e4m3_e5m2", "m64n8k32.f32.e4m3.e5m2", ", 1, 1", 4},
                            {"e5m2_e4m3", "m64n8k32.f32.e5m2.e4m3", ", 1, 1", 4},
                            {"s8", "m64n8k32.s32.s8.s8", "", 4},
                            {"u8", "m64n8k32.s32.u8.u8", "", 4},
                            {"s8_u8", "m64n8k32.s32.s8.u8", "", 4},
                            {"u8_s8", "m64n8k32.s32.u8.s8", "", 4},
                            {"s8_saturating", "m64n8k32.s32.s8.s8.satfinite", "", 4},
                            {"u8_saturating", "m64n8k32.s32.u8.u8.satfinite", "", 4}};

/// Each block brings its tile to shared memory, by words; %r8: where it lies there.
std::string bring_words(const std::string& from, int words) {
  return "mov.u32 %r1, %r0;\nL: mul.wide.u32 %rd5, %r1, 4; add.s64 %rd6, " + from +
         ", %rd5; ld.global.u32 %r2, [%rd6];\n"
         "shl.b32 %r3, %r1, 2; add.u32 %r3, %r3, %r8; st.shared.u32 [%r3], %r2;\n"
         "add.u32 %r1, %r1, 128; setp.lt.u32 %p1, %r1, " +
         std::to_string(words) + "; @%p1 bra L;\nfence.proxy.async; bar.sync 0;\n";
}
const std::string opening =
    ".shared .align 128 .b8 tile[2304]; .reg .pred %p<4>; .reg .b32 %r<32>; .reg .b64 %rd<16>;\n"
    "mov.u32 %r0, %tid.x; mov.u32 %r9, %ctaid.x; mov.u32 %r8, tile;\n"
    "ld.param.u64 %rd0, [p0]; ld.param.u64 %rd1, [p1]; ld.param.u64 %rd2, [p2];\n"
    "setp.eq.u32 %p0, %r0, 0;\n";

PtxKernel kernel_of(const Product& product) {
  std::string registers;
  std::string loads, stores;
  for (int i = 0; i < product.registers; ++i) {
    const std::string name = "%r" + std::to_string(16 + i), at = std::to_string(4 * i);
    registers += (i > 0 ? ", " : "") + name;
    loads += "ld.global.u32 " + name + ", [%rd3+" + at + "];\n";
    stores += "st.global.u32 [%rd4+" + at + "], " + name + ";\n";
  }
  return PtxKernel(ptx_module(
      opening +
      "mul.wide.u32 %rd3, %r9, 2304; add.s64 %rd0, %rd0, %rd3;\n"
      "mad.lo.u32 %r10, %r9, 128, %r0; mul.wide.u32 %rd3, %r10, " +
      std::to_string(4 * product.registers) +
      ";\nadd.s64 %rd4, %rd2, %rd3; add.s64 %rd3, %rd1, %rd3;\n" + bring_words("%rd0", 576) +
      loads +
      "shr.u32 %r10, %r8, 4; cvt.u64.u32 %rd7, %r10; or.b64 %rd7, %rd7, 0x1000080000;\n"
      "add.u64 %rd8, %rd7, 128; setp.eq.u32 %p3, 0, 0;\nwgmma.fence.sync.aligned;\n"
      "wgmma.mma_async.sync.aligned." +
      product.words + " {" + registers + "}, %rd7, %rd8, %p3" + product.tail +
      ";\nwgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;\n" + stores + "ret;"));
}

/// The words of memory that a reduction leaves: of a plain copy, or of a tensor with this
/// CUtensorMapDataType.
Words reduced(const std::string& name, const std::string& words, int element_bytes, int type) {
  constexpr int bytes = 2048;
  struct alignas(16) Chunk {  // as bulk copies ask for
    std::uint32_t words[4];
  };
  std::vector<Chunk> memory(bytes / 16);
  const Words old = captured_on_hopper(name + ".old");
  std::memcpy(memory.data(), old.data(), bytes);
  Words by = captured_on_hopper(name + ".by");
  std::string reduce;
  ptx::TensorMapBytes map;
  if (type < 0) {
    reduce = "@%p0 cp.reduce.async.bulk.global.shared::cta.bulk_group." + words +
             " [%rd0], [%r8], 2048;\n";
  } else {
    map.base = address(memory.data());
    map.rank = 1;
    map.element_bytes = static_cast<std::uint8_t>(element_bytes);
    map.type = static_cast<std::uint8_t>(type);
    map.size[0] = static_cast<std::uint64_t>(bytes / element_bytes);
    map.box[0] = 32;
    for (int at = 0; at < bytes; at += 32 * element_bytes) {
      reduce += "mov.u32 %r5, " + std::to_string(at / element_bytes) + "; add.u32 %r6, %r8, " +
                std::to_string(at) + ";\n@%p0 cp.reduce.async.bulk.tensor.1d.global.shared::cta." +
                words + ".tile.bulk_group [%rd2, {%r5}], [%r6];\n";
    }
  }
  PtxKernel kernel(
      ptx_module(opening + bring_words("%rd1", bytes / 4) + reduce +
                 "@%p0 cp.async.bulk.commit_group; @%p0 cp.async.bulk.wait_group 0;\nret;"));
  std::vector<ptx::TensorMapBytes> maps(1, map);
  kernel.use(memory);
  kernel.use(by);
  kernel.use(maps);
  kernel.grid.threads[0] = 128;
  kernel.run({address(memory.data()), address(by.data()), address(maps.data()), 0});
  Words left(bytes / 4);
  std::memcpy(left.data(), memory.data(), bytes);
  return left;
}

struct Reduction {
  std::string name, words;
  int element_bytes = 0, type = -1;
};
const Reduction reductions[] = {{"add.noftz.f16", "add.noftz.f16"},
                                {"min.f16", "min.f16"},
                                {"max.f16", "max.f16"},
                                {"add.noftz.bf16", "add.noftz.bf16"},
                                {"min.bf16", "min.bf16"},
                                {"max.bf16", "max.bf16"},
                                {"add.f32", "add.f32"},
                                {"add.f64", "add.f64"},
                                {"inc.u32", "inc.u32"},
                                {"dec.u32", "dec.u32"},
                                {"min.s32", "min.s32"},
                                {"max.s64", "max.s64"},
                                {"add.u64", "add.u64"},
                                {"tensor.add.f16", "add", 2, 6},
                                {"tensor.min.f16", "min", 2, 6},
                                {"tensor.max.f16", "max", 2, 6},
                                {"tensor.add.bf16", "add", 2, 9},
                                {"tensor.min.bf16", "min", 2, 9},
                                {"tensor.max.bf16", "max", 2, 9},
                                {"tensor.add.f32", "add", 4, 7},
                                {"tensor.add.f32_ftz", "add", 4, 10},
                                {"tensor.add.f64", "add", 8, 8},
                                {"tensor.add.s32", "add", 4, 3},
                                {"tensor.add.u32", "add", 4, 2},
                                {"tensor.min.s32", "min", 4, 3},
                                {"tensor.max.u32", "max", 4, 2},
                                {"tensor.inc.u32", "inc", 4, 2},
                                {"tensor.dec.u32", "dec", 4, 2},
                                {"tensor.and.u32", "and", 4, 2},
                                {"tensor.and.s32", "and", 4, 3},
                                {"tensor.add.u64", "add", 8, 4},
                                {"tensor.min.s64", "min", 8, 5},
                                {"tensor.max.u64", "max", 8, 4},
                                {"tensor.and.u64", "and", 8, 4}};

}  // namespace

TEST_CASE("ptx hopper: products of warpgroups have an H200's bits", "[ptx]") {
  for (const Product& product : products) {
    INFO(product.name);
    Words tiles = captured_on_hopper(product.name + ".ab"),
          c = captured_on_hopper(product.name + ".c"), d(c.size());
    PtxKernel kernel = kernel_of(product);
    for (Words* buffer : {&tiles, &c, &d}) kernel.use(*buffer);
    kernel.grid.threads[0] = 128;
    kernel.grid.blocks[0] = static_cast<std::uint32_t>(tiles.size() / 576);
    REQUIRE(kernel.grid.blocks[0] >= 4);
    kernel.run({address(tiles.data()), address(c.data()), address(d.data()), 0});
    CHECK(differences(d, captured_on_hopper(product.name + ".d")) == 0);
  }
}

TEST_CASE("ptx hopper: reductions of bulk copies have an H200's bits", "[ptx]") {
  for (const Reduction& r : reductions) {
    INFO(r.name);
    CHECK(differences(reduced(r.name, r.words, r.element_bytes, r.type),
                      captured_on_hopper(r.name + ".new")) == 0);
  }
}
