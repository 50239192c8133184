#include "debug/dump/dump.h"

#include <functional>
#include <random>

#include "debug/dump/dump_check.h"
#include "debug/dump/dump_metadata.h"
#include "debug/dump/safetensors.h"
#include "debug/show/show.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "tests/support/sample_dump.h"

namespace lanescope {
namespace {

using Catch::Matchers::ContainsSubstring;
using testing::read_bytes;
using testing::sample_dump;
using testing::sample_tensor;
using testing::TemporaryFolder;
using testing::tensor_of;
using testing::usage_error;
using testing::write_bytes;

void check_same(const Dump& a, const Dump& b) {
  CHECK(metadata_of(a.info) == metadata_of(b.info));
  REQUIRE(a.info.sites.size() == b.info.sites.size());
  for (std::size_t i = 0; i < a.info.sites.size(); ++i) {
    CHECK(a.info.sites[i].coordinates == b.info.sites[i].coordinates);
    CHECK(a.info.sites[i].owners == b.info.sites[i].owners);
  }
  REQUIRE(a.tensors.size() == b.tensors.size());
  for (std::size_t i = 0; i < a.tensors.size(); ++i) {
    CHECK(a.tensors[i].name == b.tensors[i].name);
    CHECK(a.tensors[i].tensor.type == b.tensors[i].tensor.type);
    CHECK(a.tensors[i].tensor.dims == b.tensors[i].tensor.dims);
    CHECK(a.tensors[i].tensor.bytes == b.tensors[i].tensor.bytes);
  }
}

Dump round_trip(const Dump& dump) {
  const TemporaryFolder folder;
  write_dump(dump, folder / "x.safetensors");
  return read_dump(folder / "x.safetensors");
}

/// The error of checking the sample after `change`.
std::string check_error(const std::function<void(Dump&)>& change) {
  Dump dump = sample_dump();
  change(dump);
  return usage_error([&] { check_dump(dump); });
}

TEST_CASE("dump: what is written is read again, bit for bit", "[quick]") {
  Dump dump = sample_dump();
  testing::set_bits(tensor_of(dump, "s"), 3, poison32);
  testing::set_bits(tensor_of(dump, "s"), 4, 0x7fffffff);
  check_same(dump, round_trip(dump));

  dump.info.incomplete = "time-out\nof the device";
  dump.info.input = "a file.safetensors";
  dump.info.backend = "cuda";
  dump.info.trace = "off";
  dump.info.products = Products::fp32_fma;
  dump.info.problem.causal = false;
  dump.info.sites.clear();
  dump.info.blocks = dump.info.tiles = {};
  dump.tensors.resize(5);
  check_same(dump, round_trip(dump));
}

TEST_CASE("dump: the same dump gives the same bytes") {
  const TemporaryFolder folder;
  write_dump(sample_dump(), folder / "a");
  write_dump(read_dump(folder / "a"), folder / "b");
  CHECK(read_bytes(folder / "a") == read_bytes(folder / "b"));
}

TEST_CASE("dump: tensors and sites are found by name") {
  const Dump dump = sample_dump();
  CHECK(dump.find("lse") == &dump.tensors[4].tensor);
  CHECK(dump.find("p") == nullptr);
  CHECK(dump.find_site("s") == &dump.info.sites[2]);
  CHECK(dump.find_site("q") == nullptr);
}

TEST_CASE("dump: sizes that fit nothing are refused") {
  CHECK(check_error([](Dump&) {}) == "");
  const std::vector<std::pair<std::function<void(DumpInfo&)>, std::string>> cases = {
      {[](DumpInfo& i) { i.problem.batch = 0; }, "the batch is 0"},
      {[](DumpInfo& i) { i.problem.heads = -4; }, "the number of heads is -4"},
      {[](DumpInfo& i) { i.problem.heads_kv = 8; }, "the number of kv heads is 8, outside 1 to 4"},
      {[](DumpInfo& i) { i.problem.heads_kv = 3; }, "no multiple of the number of kv heads"},
      {[](DumpInfo& i) { i.splits = 0; }, "the number of splits is 0"},
      {[](DumpInfo& i) { i.problem.heads_kv = 1, i.heads_per_tile = 3; },
       "heads_per_tile does not divide the query heads of a kv head"},
      {[](DumpInfo& i) { i.problem.len_q = 0; }, "the length of Q is 0"},
      {[](DumpInfo& i) { i.problem.len_kv = -1; }, "the length of K and V is -1"},
      {[](DumpInfo& i) { i.problem.d = 9; }, "d is 9, outside 1 to 8"},
      {[](DumpInfo& i) { i.br = 0; }, "br is 0"},
      {[](DumpInfo& i) { i.bc = 1 << 20; }, "bc is 1048576, outside 1 to 2048"},
      {[](DumpInfo& i) { i.head_dim = 0; }, "head_dim is 0"},
      {[](DumpInfo& i) { i.problem.len_q = INT64_MAX; }, "tensor 'q' has shape [1, 4, 24, 6]"},
      {[](DumpInfo& i) { i.problem.len_kv = 41; }, "tensor 'k' has shape"},
      {[](DumpInfo& i) { i.dtype = ElementType::bf16; }, "tensor 'q' has type f16 instead of bf16"},
      {[](DumpInfo& i) { i.blocks.end = 9; }, "the end of the blocks is 9, outside 0 to 8"},
      {[](DumpInfo& i) { i.tiles.end = 4; }, "the end of the tiles is 4, outside 0 to 3"},
      {[](DumpInfo& i) {
         i.blocks = {3, 3};
       },
       "the first block is 3, outside 0 to 2"},
      {[](DumpInfo& i) {
         i.tiles = {-1, 2};
       },
       "the first tile is -1, outside 0 to 1"},
      {[](DumpInfo& i) {
         i.tiles = {0, 3};
       },
       "tensor 'k_smem' has shape"},
  };
  for (const auto& [change, reason] : cases) {
    CHECK_THAT(check_error([&change = change](Dump& dump) { change(dump.info); }),
               ContainsSubstring(reason));
  }
}

TEST_CASE("dump: sites and tensors that do not belong together are refused") {
  const auto s = [](Dump& dump) -> DumpSite& { return dump.info.sites[2]; };
  const std::vector<std::pair<std::function<void(Dump&)>, std::string>> cases = {
      {[](Dump& d) { d.tensors.erase(d.tensors.begin()); }, "tensor 'q' is missing"},
      {[](Dump& d) { d.tensors.pop_back(); }, "tensor 'm' is missing"},
      {[](Dump& d) { d.tensors.push_back(d.tensors[0]); }, "tensor 'q' is there twice"},
      {[](Dump& d) {
         d.tensors.push_back({"p", {}});
       },
       "tensor 'p' belongs to no site"},
      {[](Dump& d) { d.tensors[7].tensor.bytes.resize(1); }, "does not have the bytes"},
      {[](Dump& d) { tensor_of(d, "s").type = ElementType::f16; }, "has type f16 instead of f32"},
      {[](Dump& d) {
         tensor_of(d, "s").dims = {2, 2, 1, 8, 32};
       },
       "has shape [2, 2, 1, 8, 32] instead of [2, 2, 1, 32, 8]"},
      {[](Dump& d) { tensor_of(d, "lse").dims = {96}; }, "tensor 'lse' has shape [96]"},
      {[](Dump& d) { tensor_of(d, "o_final").type = ElementType::f16; }, "has type f16 instead"},
      {[](Dump& d) { d.info.sites.push_back(d.info.sites[0]); }, "site q_smem is there twice"},
      {[](Dump& d) { d.info.sites[0].site.space = Space::global; }, "are global"},
      {[](Dump& d) { d.info.sites[4].site.space = Space::shared; }, "are global"},
      {[&](Dump& d) { s(d).site.rows = 32; }, "site s has 32 x 16 elements instead of 16 x 16"},
      {[&](Dump& d) { s(d).site.axes = Axes::query; }, "16 x 16 elements instead of 16 x 1"},
      {[&](Dump& d) { s(d).site.warps = 0; }, "no number of warps from 1 to 32"},
      {[&](Dump& d) { s(d).site.warps = 33; }, "no number of warps from 1 to 32"},
      {[&](Dump& d) { s(d).site.regs = 0; }, "no number of registers"},
      {[](Dump& d) { d.info.sites[0].site.regs = 1; }, "is not in registers, but has"},
      {[&](Dump& d) { s(d).coordinates.pop_back(); }, "does not have the coordinates it needs"},
      {[](Dump& d) {
         d.info.sites[0].coordinates = {0, 0};
       },
       "does not have the coordinates"},
      {[&](Dump& d) { s(d).coordinates[0] = 16; }, "the coordinates (16, 0) outside its tile"},
      {[&](Dump& d) { s(d).coordinates[1] = -1; }, "the coordinates (0, -1) outside its tile"},
      {[&](Dump& d) { s(d).owners = {1}; }, "has owners, but is not in shared memory"},
      {[](Dump& d) { d.info.sites[1].owners.pop_back(); }, "one owner for each element"},
      {[](Dump& d) { d.info.sites[1].owners[5] = 1024; }, "no thread of a block"},
      {[](Dump& d) { d.info.sites[1].owners[5] = -2; }, "no thread of a block"},
  };
  for (const auto& [change, reason] : cases) {
    CHECK_THAT(check_error(change), ContainsSubstring(reason));
  }
}

TEST_CASE("dump: an error names the file and says what to do") {
  const TemporaryFolder folder;
  Dump dump = sample_dump();
  dump.info.problem.batch = 0;
  CHECK_THAT(usage_error([&] { write_dump(dump, folder / "x"); }),
             ContainsSubstring("/x is not written, the dump is inconsistent: the batch is 0"));
  CHECK(std::filesystem::is_empty(folder.path()));

  write_safetensors(folder / "y", {}, {});
  CHECK_THAT(usage_error([&] { read_dump(folder / "y"); }),
             ContainsSubstring("/y is no dump that this lanescope can read: its metadata has no "
                               "'lanescope_dump'; `lanescope run KERNEL GATE -o FILE` writes one"));

  const DumpInfo info = sample_dump().info;
  const std::vector<std::byte> bytes(8 * 32 * 2);
  const auto error = [&](const char* name, const char* dtype, std::vector<std::int64_t> dims) {
    const SafetensorsEntry entry = {name, dtype, std::move(dims), bytes};
    write_safetensors(folder / "z", std::span(&entry, 1), metadata_of(info));
    return usage_error([&] { read_dump(folder / "z"); });
  };
  CHECK_THAT(error("s.coordinates", "U16", {1, 32, 8}),
             ContainsSubstring("/z is a damaged dump: tensor 's.coordinates' does not have"));
  CHECK_THAT(error("k_smem.owners", "I16", {256}),
             ContainsSubstring("tensor 'k_smem.owners' does not have the type and shape"));
  CHECK_THAT(error("v", "I32", {128}), ContainsSubstring("tensor 'v' has dtype I32"));
}

TEST_CASE("dump: the scales of e4m3 inputs belong to it, and 8 bits to no site") {
  const auto scaled_dump = [] {
    Dump dump = sample_dump();
    dump.info.dtype = ElementType::e4m3;
    for (auto& [name, tensor] : dump.tensors) {
      if (name == "q" || name == "k" || name == "v") {
        tensor = sample_tensor(ElementType::e4m3, tensor.dims, 1);
      }
    }
    dump.tensors.push_back({"q_scale", sample_tensor(ElementType::f32, {1, 4}, 1)});
    dump.tensors.push_back({"k_scale", sample_tensor(ElementType::f32, {1, 2}, 2)});
    dump.tensors.push_back({"v_scale", sample_tensor(ElementType::f32, {1, 2}, 3)});
    return dump;
  };
  const auto error = [](const Dump& dump) { return usage_error([&] { check_dump(dump); }); };
  const TemporaryFolder folder;
  const Dump dump = scaled_dump();
  CHECK(error(dump) == "");
  write_dump(dump, folder / "x");
  const Inputs inputs = inputs_of(read_dump(folder / "x"));
  CHECK(inputs.scaled());
  CHECK(inputs.k.bytes == dump.find("k")->bytes);
  CHECK(inputs.v_scale.bytes == dump.find("v_scale")->bytes);
  CHECK_THAT(show_text(dump, {.site = "q_scale", .block = 5}, {}),
             ContainsSubstring("q_scale  f32"));

  Dump without = scaled_dump();
  without.tensors.pop_back();
  CHECK(error(without) == "tensor 'v_scale' is missing");
  Dump wide = scaled_dump();
  wide.tensors.back().tensor = sample_tensor(ElementType::f32, {1, 4}, 3);
  CHECK(error(wide) == "tensor 'v_scale' has shape [1, 4] instead of [1, 2]");
  Dump half = sample_dump();
  half.tensors.push_back({"q_scale", sample_tensor(ElementType::f32, {1, 4}, 1)});
  CHECK(error(half) == "tensor 'q_scale' belongs to no site");
  Dump narrow = scaled_dump();
  for (DumpSite& entry : narrow.info.sites) {
    if (entry.site.id == SiteId::k_smem) entry.site.type = ElementType::e4m3;
  }
  CHECK_THAT(error(narrow), ContainsSubstring("site k_smem is of 8 bits"));
}

/// Reads the file and, where that works, looks at everything in it.
void read_and_show(const std::filesystem::path& path) {
  const Dump dump = read_dump(path);
  for (const auto& [name, tensor] : dump.tensors) {
    show_text(dump, {.site = name}, {});
    show_json(dump, {.site = name});
  }
}

TEST_CASE("dump: a file cut anywhere, or with any byte changed, is read or refused") {
  const TemporaryFolder folder;
  const auto path = folder / "x";
  write_dump(sample_dump(), path);
  const std::string bytes = read_bytes(path);
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    write_bytes(path, std::string_view(bytes).substr(0, length));
    REQUIRE(usage_error([&] { read_dump(path); }) != "");
  }
  // Most of the file is values, where any byte is as good as another: the header is aimed at.
  const std::size_t header = bytes.find('}', bytes.rfind("data_offsets")) + 2;
  std::mt19937 random(1);
  int refused = 0;
  for (int i = 0; i < 10000; ++i) {
    std::string changed = bytes;
    changed[random() % (i % 4 == 0 ? bytes.size() : header)] = static_cast<char>(random());
    // Digits turn into digits: such files stay JSON and reach the deeper checks.
    const std::size_t digit = changed.find_first_of("0123456789", random() % header);
    if (i % 2 == 0 && digit < header) changed[digit] = static_cast<char>('0' + random() % 10);
    write_bytes(path, changed);
    refused += usage_error([&] { read_and_show(path); }) != "";
  }
  CHECK(refused > 1000);
  CHECK(refused < 10000);
}

}  // namespace
}  // namespace lanescope
