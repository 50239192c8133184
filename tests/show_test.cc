#include "debug/show/show.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "tests/support/sample_dump.h"

namespace lanescope {
namespace {

using Catch::Matchers::ContainsSubstring;
using nlohmann::json;
using testing::sample_dump;
using testing::tensor_of;
using testing::usage_error;

/// Index in the sample's tensor `s` [2, 2, 1, 32, 8] of a register of block 2, tile 1.
std::int64_t slot_of_s(int lane, int reg) { return (2 * 32 + lane) * 8 + reg; }

/// A dump whose `s` has the value 100·lane + register at block 2, tile 1, of a machine for which
/// there is no reference.
Dump counting_dump() {
  Dump dump = sample_dump();
  dump.info.arch = "sm_60";
  for (int lane = 0; lane < 32; ++lane) {
    for (int reg = 0; reg < 8; ++reg) {
      tensor_of(dump, "s").set(slot_of_s(lane, reg), 100 * lane + reg);
    }
  }
  return dump;
}

int longest_line(const std::string& text) {
  int longest = 0, length = 0;
  for (const char c : text) {
    length = c == '\n' ? 0 : length + ((static_cast<unsigned char>(c) & 0xc0) != 0x80);
    longest = std::max(longest, length);
  }
  return longest;
}

TEST_CASE("show: a warp's registers are a grid of its lanes", "[quick]") {
  Dump dump = counting_dump();
  Tensor& s = tensor_of(dump, "s");
  testing::set_bits(s, slot_of_s(0, 0), poison32);
  s.set(slot_of_s(1, 1), NAN);
  s.set(slot_of_s(2, 0), -INFINITY);
  const std::string text = show_text(dump, {.site = "s", .block = 2, .tile = 1}, {});
  const std::string expected =
      R"(mma fused  sim  sim (Hopper rules)
s  f32, registers, stage qk, 16 x 16 per tile
block 2 (batch 0, head 1, queries from 0), tile 1 (keys from 16)
not judged: no rounding rule of matrix products known for 'sm_60': expected sm_70 or later
warp 0 of 1

registers 0 to 1: rows 0..7, columns 0..7
lanes                     +0                     +1                     +2                     +3
    0        ····          1         100        nan        -inf        201         300        301
    4         400        401         500        501         600        601         700        701
)";
  CHECK(text.substr(0, expected.size()) == expected);
  CHECK_THAT(text, ContainsSubstring("registers 6 to 7"));
  CHECK_THAT(text, ContainsSubstring("   28        2806       2807        2906       2907"));
  CHECK(longest_line(text) <= 100);
}

TEST_CASE("show: as many registers side by side as the width holds") {
  const Dump dump = counting_dump();
  const auto text = [&](int width) {
    return show_text(dump, {.site = "s", .block = 2, .tile = 1}, {.width = width});
  };
  CHECK_THAT(text(60), ContainsSubstring("register 7: rows 8..15, columns 9..15\n"));
  CHECK_THAT(text(190), ContainsSubstring("registers 4 to 7: "));
  CHECK_THAT(text(1000), ContainsSubstring("registers 0 to 7"));
  CHECK_THAT(text(1), ContainsSubstring("3107"));
  for (const int width : {90, 100, 140, 190, 1000}) CHECK(longest_line(text(width)) <= width);
}

TEST_CASE("show: one lane in full") {
  Dump dump = counting_dump();
  testing::set_bits(tensor_of(dump, "s"), slot_of_s(5, 6), poison32);
  testing::set_bits(tensor_of(dump, "s"), slot_of_s(5, 7), 0x7fc00001);
  const std::string text =
      show_text(dump, {.site = "s", .block = 2, .tile = 1, .warp = 0, .lane = 5}, {});
  CHECK_THAT(text,
             ContainsSubstring("warp 0, lane 5\n"
                               "\n"
                               "register  row  column  value        bits  want  bound  error\n"
                               "       0    1       2    500  0x43fa0000     -      -      -\n"
                               "       1    1       3    501  0x43fa8000     -      -      -\n"
                               "       2    9       2    502  0x43fb0000     -      -      -\n"));
  CHECK_THAT(text,
             ContainsSubstring("       6    9      10   ····  0xffb1ffb1     -      -      -\n"
                               "       7    9      11    nan  0x7fc00001     -      -      -\n"));
  CHECK_THAT(show_text(dump, {.site = "m", .lane = 5}, {}),
             ContainsSubstring("       0    -       -"));
}

TEST_CASE("show: shared memory is a matrix, cut to the width") {
  Dump dump = sample_dump();
  dump.info.arch = "sm_60";
  Tensor& k_smem = tensor_of(dump, "k_smem");
  const std::int64_t tile = (1 * 2 + 0) * 16 * 8;  // block 2, tile 1
  for (int i = 0; i < 16 * 8; ++i) k_smem.set(tile + i, i / 8 + (i % 8) / 8.0);
  testing::set_bits(k_smem, tile + 8, poison16);
  const ShowOptions options = {.site = "k_smem", .block = 2, .tile = 1};
  const std::string text = show_text(dump, options, {});
  CHECK_THAT(text, ContainsSubstring("k_smem  f16, shared, stage load, 16 x 8 per tile\n"));
  CHECK_THAT(text, ContainsSubstring("row            0          1          2"));
  CHECK_THAT(text, ContainsSubstring("    1       ····      1.125       1.25"));
  CHECK_THAT(text, ContainsSubstring("   15         15      15.12      15.25"));
  CHECK(longest_line(text) <= 100);
  CHECK(text.find("--col") == text.npos);

  CHECK_THAT(show_text(dump, options, {.width = 40}),
             ContainsSubstring("columns 0 to 2 of 8; go on with --col 3, all of them with"));
  CHECK_THAT(show_text(dump, {.site = "k_smem", .block = 2, .tile = 1, .col = 6}, {.width = 40}),
             ContainsSubstring("columns 6 to 7 of 8; all of them with --format json"));
}

TEST_CASE("show: inputs and outputs are shown by block and tile") {
  const Dump dump = sample_dump();
  // Block 5 is head 2, the ragged second tile of queries: rows 16 to 23 of Q.
  const json q = json::parse(show_json(dump, {.site = "q", .block = 5}));
  CHECK(q["values"].size() == 8 * 6);
  CHECK(q["values"][0]["value"] == dump.find("q")->at((2 * 24 + 16) * 6));
  CHECK(q["values"].back()["value"] == dump.find("q")->at(3 * 24 * 6 - 1));
  // Heads 2 and 3 read kv head 1; tile 2 has the last 8 of its 40 keys.
  const json v = json::parse(show_json(dump, {.site = "v", .block = 5, .tile = 2}));
  CHECK(v["values"].size() == 8 * 6);
  CHECK(v["values"][0]["value"] == dump.find("v")->at((40 + 32) * 6));
  const json lse = json::parse(show_json(dump, {.site = "lse", .block = 1}));
  CHECK(lse["values"].size() == 8);
  CHECK(lse["values"][7]["value"] == dump.find("lse")->at(23));
  CHECK_THAT(show_text(dump, {.site = "q", .block = 5}, {}),
             ContainsSubstring("block 5 (batch 0, head 2, queries from 16)\n"));
  CHECK_THAT(show_text(dump, {.site = "k", .tile = 2}, {}),
             ContainsSubstring("tile 2 (keys from 32)\n"));
}

TEST_CASE("show: json has every selected slot with its coordinates") {
  Dump dump = counting_dump();
  Tensor& s = tensor_of(dump, "s");
  testing::set_bits(s, slot_of_s(5, 0), poison32);
  s.set(slot_of_s(5, 1), NAN);
  s.set(slot_of_s(5, 2), -INFINITY);
  const ShowOptions one_lane = {.site = "s", .block = 2, .tile = 1, .warp = 0, .lane = 5};
  const json lane = json::parse(show_json(dump, one_lane));
  CHECK(lane["site"] == "s");
  CHECK(lane["stage"] == "qk");
  CHECK(lane["space"] == "registers");
  CHECK(lane["type"] == "f32");
  CHECK(lane["block"] == 2);
  CHECK(lane["head"] == 1);
  CHECK(lane["tile"] == 1);
  REQUIRE(lane["values"].size() == 8);
  CHECK(lane["values"][0] == json::parse(R"({"warp":0,"lane":5,"reg":0,"row":1,"col":2,
                                             "value":null,"bits":"0xffb1ffb1","want":null,
                                             "bound":null,"error":null,"verdict":null})"));
  CHECK(lane["judgement"] == nullptr);
  CHECK(lane["values"][1]["value"] == "nan");
  CHECK(lane["values"][2]["value"] == "-inf");
  CHECK(lane["values"][7]["value"] == 507);

  CHECK(json::parse(show_json(dump, {.site = "s"}))["values"].size() == 32 * 8);
  const json m = json::parse(show_json(dump, {.site = "m", .lane = 1}));
  CHECK(m["values"][0]["row"] == nullptr);
  const json k_smem = json::parse(show_json(dump, {.site = "k_smem"}));
  CHECK(k_smem["values"].size() == 16 * 8);
  CHECK(k_smem["values"][0]["owner"] == nullptr);
  CHECK(k_smem["values"][9]["row"] == 1);
  CHECK(k_smem["values"][9]["col"] == 1);
  CHECK(k_smem["values"][9]["owner"] == 8);
  CHECK(!json::parse(show_json(dump, {.site = "q_smem"}))["values"][0].contains("owner"));
}

TEST_CASE("show: what the dump does not have is refused with what it has") {
  const Dump dump = sample_dump();
  const auto error = [&](const ShowOptions& options) {
    const std::string text = usage_error([&] { show_text(dump, options, {}); });
    if (options.col == 0) CHECK(usage_error([&] { show_json(dump, options); }) == text);
    return text;
  };
  CHECK(error({.site = "p"}) ==
        "the dump has no site 'p'; it has q, k, v, o_final, lse, q_smem, k_smem, s, m");
  CHECK(error({.site = "s", .block = 0}) == "--block 0: the dump has of s block 1 to 2");
  CHECK(error({.site = "s", .tile = 3}) == "--tile 3: the dump has of s tile 1 to 2");
  CHECK(error({.site = "q_smem", .tile = 1}) == "--tile 1: the dump has of q_smem tile 0");
  CHECK(error({.site = "q", .block = 8}) == "--block 8: the dump has of q block 0 to 7");
  CHECK(error({.site = "v", .tile = -1}) == "--tile -1: the dump has of v tile 0 to 2");
  CHECK(error({.site = "s", .warp = 1}) == "--warp 1: the dump has of s warp 0");
  CHECK(error({.site = "s", .lane = 32}) == "--lane 32: the dump has of s lane 0 to 31");
  CHECK_THAT(error({.site = "k_smem", .lane = 3}),
             ContainsSubstring("not in registers and has no lanes: leave out --warp and --lane"));
  CHECK_THAT(error({.site = "lse", .warp = 0}), ContainsSubstring("leave out --warp"));
  CHECK(error({.site = "k_smem", .as = ShowAs::lanes}) ==
        "k_smem is not in registers and has no lanes: --as tile or --as heat");
  CHECK(error({.site = "s", .tile = 1, .watch = true}) ==
        "--watch follows all tiles, a line each: leave out --as and --tile");
  CHECK_THAT(usage_error([] { parse_show_as("rows"); }), ContainsSubstring("lanes, tile, heat"));
  CHECK_THAT(error({.site = "m", .col = 1}), ContainsSubstring("--col is for matrices"));
  CHECK(error({.site = "k_smem", .col = 8}) == "--col 8: the tile has the columns 0 to 7");
}

TEST_CASE("show: colours are there only where they are asked for") {
  Dump dump = counting_dump();
  tensor_of(dump, "s").set(0, NAN);
  CHECK(show_text(dump, {.site = "s"}, {}).find('\x1b') == std::string::npos);
  CHECK_THAT(show_text(dump, {.site = "s"}, {.colour = true}),
             ContainsSubstring("\x1b[31m       nan\x1b[0m"));
}

}  // namespace
}  // namespace lanescope
