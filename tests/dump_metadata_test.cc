#include "debug/dump/dump_metadata.h"

#include <array>
#include <tuple>

#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "tests/support/sample_dump.h"

namespace lanescope {
namespace {

using Catch::Matchers::ContainsSubstring;
using testing::sample_dump;
using testing::usage_error;

/// The error of reading the sample's metadata with one string changed.
std::string metadata_error(const std::string& key, const std::string& value) {
  SafetensorsMetadata metadata = metadata_of(sample_dump().info);
  for (auto& [name, text] : metadata) {
    if (name == key) text = value;
  }
  return usage_error([&] { info_of(metadata); });
}

TEST_CASE("dump metadata: every field of the metadata comes back") {
  DumpInfo want = sample_dump().info;
  want.incomplete = "a crash";
  want.rescale = {12, true};
  want.maxima = ScoreUnit::base_e;
  want.lane_sums = true;
  want.stop = {Stop::Kind::crash, 2, 0, -1, true};
  const DumpInfo got = info_of(metadata_of(want));
  CHECK(got.lanescope_version == want.lanescope_version);
  CHECK(got.kernel == want.kernel);
  CHECK(got.gate == want.gate);
  CHECK(got.backend == want.backend);
  CHECK(got.device == want.device);
  CHECK(got.arch == want.arch);
  CHECK(got.module == want.module);
  CHECK(got.trace == want.trace);
  CHECK(got.dtype == want.dtype);
  CHECK(got.products == want.products);
  CHECK(got.scores == want.scores);
  CHECK(got.maxima == want.maxima);
  CHECK(got.lane_sums == want.lane_sums);
  CHECK(got.rescale == want.rescale);
  CHECK(got.problem == want.problem);
  CHECK(got.head_dim == want.head_dim);
  CHECK(got.br == want.br);
  CHECK(got.bc == want.bc);
  CHECK(got.input == want.input);
  CHECK(got.seed == want.seed);
  CHECK(got.input_hash == want.input_hash);
  CHECK(got.source_hash == want.source_hash);
  CHECK(got.compile_flags == want.compile_flags);
  CHECK(got.blocks == want.blocks);
  CHECK(got.tiles == want.tiles);
  CHECK(got.incomplete == want.incomplete);
  CHECK(got.stop == want.stop);
  REQUIRE(got.sites.size() == want.sites.size());
  for (std::size_t i = 0; i < got.sites.size(); ++i) {
    const Site &a = got.sites[i].site, &b = want.sites[i].site;
    CHECK(std::tuple(a.id, a.stage, a.space, a.type, a.axes, a.per_tile) ==
          std::tuple(b.id, b.stage, b.space, b.type, b.axes, b.per_tile));
    CHECK(std::tuple(a.rows, a.cols, a.warps, a.regs) ==
          std::tuple(b.rows, b.cols, b.warps, b.regs));
  }
}

TEST_CASE("dump metadata: no control character of a file gets to a terminal") {
  SafetensorsMetadata metadata = metadata_of(sample_dump().info);
  for (auto& [name, text] : metadata) {
    if (name == "kernel") text = "\x1b[31mmma\x7f\nµ\xc2\x9b";
    if (name == "incomplete") text = "\x1b]0;a\ab\nc\r";
  }
  const DumpInfo info = info_of(metadata);
  CHECK(info.kernel == "?[31mmma??µ??");
  CHECK(info.incomplete == "?]0;a?b\nc?");
}

TEST_CASE("dump metadata: metadata that no dump holds is refused") {
  SafetensorsMetadata empty;
  CHECK_THAT(usage_error([&] { info_of(empty); }), ContainsSubstring("no 'lanescope_dump'"));
  for (const auto& [key, value] : metadata_of(sample_dump().info)) {
    SafetensorsMetadata metadata = metadata_of(sample_dump().info);
    std::erase_if(metadata, [&key = key](const auto& entry) { return entry.first == key; });
    CHECK_THAT(usage_error([&] { info_of(metadata); }), ContainsSubstring("no '" + key + "'"));
  }
  const std::string shape =
      R"({"batch":1,"heads":1,"heads_kv":1,"len_q":1,"len_kv":1,"d":1,"causal":0})";
  const std::string site =
      R"([{"id":"s","stage":"qk","space":"registers","type":"f32","axes":"query_key",)"
      R"("per_tile":true,"rows":16,"cols":16,"warps":1,"regs":-8}])";
  const auto with = [](std::string text, std::string_view from, std::string_view to) {
    return text.replace(text.find(from), from.size(), to);
  };
  std::string many = "[" + site.substr(1, site.size() - 2);
  for (int i = 0; i < site_id_count; ++i) many += "," + site.substr(1, site.size() - 2);
  const std::vector<std::array<std::string, 3>> cases = {
      {"lanescope_dump", "2", "its dump format is version '2', and this lanescope reads version 1"},
      {"backend", "hip", "'backend' of its metadata is 'hip', neither 'sim' nor 'cuda'"},
      {"trace", "printf", "neither 'on' nor 'off'"},
      {"dtype", "f64", "the unknown dtype 'f64'"},
      {"scores", "guess",
       "'scores' of its metadata is 'guess', none of 'scaled', 'base_e' and 'unscaled'"},
      {"products", "guess", "the unknown kind of products 'guess'"},
      {"seed", "-1", "'seed' of its metadata is no number: '-1'"},
      {"seed", "", "is no number"},
      {"seed", "18446744073709551616", "is no number"},
      {"seed", "1 ", "is no number"},
      {"shape", "{", "'shape' of its metadata is no valid JSON"},
      {"shape", std::string(1 << 20, '['), "'shape' of its metadata is no valid JSON of at most"},
      {"shape", std::string(65536, '['), "'shape' of its metadata is no valid JSON of at most"},
      {"shape", shape + std::string(65536, ' '), "'shape' of its metadata is no valid JSON of at"},
      {"shape", shape + '\0', "'shape' of its metadata is no valid JSON"},
      {"shape", with(shape, "{", R"({"d":2,)"),
       "'shape' of its metadata has 'd' twice in one object"},
      {"sites", with(site, "{", R"({"rows":2,)"), "'sites' of its metadata has 'rows' twice"},
      {"shape", "[]", "the shape is not a JSON object"},
      {"shape", shape, "'causal' of the shape is neither true nor false"},
      {"shape", with(shape, "\"d\":1,", ""), "'d' of the shape is missing"},
      {"shape", with(shape, "\"d\":1", "\"d\":-1"), "'d' of the shape is no whole number from 0"},
      {"shape", with(shape, "\"d\":1", "\"d\":1.5"), "'d' of the shape is no whole number"},
      {"shape", with(shape, "\"d\":1", "\"d\":9223372036854775808"), "is no whole number"},
      {"shape", with(shape, "\"d\":1", "\"d\":\"1\""), "is no whole number"},
      {"tile", R"({"head_dim":8,"br":16,"bc":9999999})", "'bc' of the tile is no whole number"},
      {"tile", R"({"head_dim":8,"br":16,"bc":16})", "'splits' of the tile is missing"},
      {"traced", R"({"blocks":[1],"tiles":[0,1]})", "'blocks' of the traced range is not a pair"},
      {"traced", R"({"blocks":[0,-1],"tiles":[0,1]})", "'blocks' of the traced range is no whole"},
      {"sites", "{}", "'sites' of its metadata is no JSON array of at most 15 sites"},
      {"sites", many + "]", "is no JSON array of at most 15 sites"},
      {"sites", "[1]", "a site in the site table is not a JSON object"},
      {"sites", site, "'regs' of a site in the site table is no whole number"},
      {"sites", with(site, "\"s\"", "\"x\""), "the unknown site 'x'"},
      {"sites", with(site, "\"qk\"", "\"x\""), "the unknown stage 'x'"},
      {"sites", with(site, "\"registers\"", "\"x\""), "the unknown memory space 'x'"},
      {"sites", with(site, "\"f32\"", "\"x\""), "the unknown element type 'x'"},
      {"sites", with(site, "\"query_key\"", "\"x\""), "the unknown kind of axes 'x'"},
      {"sites", with(site, "\"s\"", "1"), "'id' of a site in the site table is not a string"},
  };
  for (const auto& [key, value, reason] : cases) {
    CHECK_THAT(metadata_error(key, value), ContainsSubstring(reason));
  }
  DumpInfo info = sample_dump().info;
  info.rescale.above = 65;
  CHECK_THAT(usage_error([&] { info_of(metadata_of(info)); }),
             ContainsSubstring("'rescale_above' of its metadata is more than 64: '65'"));
}

}  // namespace
}  // namespace lanescope
