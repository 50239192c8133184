#include "debug/report/report.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "debug/report/suggested_command.h"
#include "reference/elementary.h"
#include "tests/support/catch.h"
#include "tests/support/sample_dump.h"

namespace lanescope {
namespace {

using Catch::Matchers::ContainsSubstring;
using nlohmann::json;
using testing::sample_dump;
using testing::tensor_of;

using reference::infinity;

/// Register 2 of lane 5 of warp 0 in block 2, tile 1 of the sample.
Divergence at_s() {
  Divergence at;
  at.site = SiteId::s;
  at.stage = Stage::qk;
  at.judgement = Judgement::local;
  at.block = 2;
  at.tile = 1;
  at.batch = 0;
  at.head = 1;
  at.warp = 0;
  at.lane = 5;
  at.reg = 2;
  at.row = 9;
  at.col = 2;
  at.query = 9;
  at.key = 18;
  at.got = 0.1f;
  at.want = 0.25;
  at.bound = 1e-6;
  return at;
}

SiteReport site_report(SiteId site, Stage stage, Judgement judgement) {
  SiteReport report;
  report.site = site;
  report.stage = stage;
  report.judgement = judgement;
  report.compared = 1024;
  report.max_error = 1.19209290e-07;
  report.max_error_over_bound = 0.0312;
  return report;
}

DiffReport matching() {
  DiffReport report;
  report.match = true;
  report.sites = {site_report(SiteId::s, Stage::qk, Judgement::local),
                  site_report(SiteId::s, Stage::qk, Judgement::chain),
                  site_report(SiteId::o_final, Stage::epilogue, Judgement::chain)};
  return report;
}

DiffReport diverged() {
  DiffReport report = matching();
  report.match = false;
  report.first = at_s();
  report.sites[0].failed = 7;
  report.sites[0].first = at_s();
  report.sites[0].worst = at_s();
  report.sites[0].worst->reg = 3;
  report.sites[0].worst->got = NAN;
  report.sites[0].max_error = infinity;
  report.sites[0].max_error_over_bound = infinity;
  for (int i = 0; i < 6; ++i) report.rows.push_back({0, 1, 9 + i, 0.25, 1e4});
  report.warnings = {"q holds 1 NaN"};
  return report;
}

/// The sample with what at_s() says in its place.
Dump diverged_dump() {
  Dump dump = sample_dump();
  tensor_of(dump, "s").set((2 * 32 + 5) * 8 + 2, 0.1);
  return dump;
}

const std::string of_a_part = "; of the sites only block=1..2,tile=1..2";

std::string last_line(std::string text) {
  text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

TEST_CASE("report: a match ends in its verdict") {
  const std::string text = diff_text(sample_dump(), matching(), {});
  CHECK(text ==
        R"(mma fused  b=1,h=4,hkv=2,s=24,skv=40,d=6 causal  f16  tile 16 x 16
input random  seed 18446744073709551615
sim  sim (Hopper rules)  mma.fused.f16.d8.16x16.sim

stage     site     judged  compared  failed  unwritten  not finite  max error  error/bound
qk        s        local       1024       0          0           0   1.19e-07       0.0312
qk        s        chain       1024       0          0           0   1.19e-07       0.0312
epilogue  o_final  chain       1024       0          0           0   1.19e-07       0.0312

match: 3072 comparisons within their bounds; of the sites only block=1..2,tile=1..2
)");
}

TEST_CASE("report: a divergence says what, where, how far, and how to go on", "[quick]") {
  const std::string text = diff_text(diverged_dump(), diverged(), {}, "a file.safetensors");
  CHECK_THAT(text, ContainsSubstring(R"(
qk        s        local       1024       7          0           0        inf          inf
)"));
  CHECK_THAT(text, ContainsSubstring(R"(
first divergence
  stage     qk
  site      s (f32, registers)
  judged    local: against the reference applied to what this stage received
  block     2 (batch 0, head 1, queries from 0)
  slot      tile 1, warp 0, lane 5, register 2
  place     row 9 of the tile (query 9), column 2 (key 18)
  got       0.100000001       0x3dcccccd
  want      0.25
  bound     1e-06
  error     0.149999999

worst of s
  slot      block 2, tile 1, warp 0, lane 5, register 3
  place     row 9 of the tile (query 9), column 2 (key 18)
  got       nan, want 0.25, bound 1e-06

worst rows of the output
  batch  head  query  max error  error/bound
      0     1      9       0.25        1e+04
)"));
  CHECK(text.find("     13       0.25") == text.npos);
  CHECK_THAT(text, ContainsSubstring("look closer\n  lanescope show 'a file.safetensors' s --block "
                                     "2 --tile 1 --warp 0 --lane 5\n"));
  CHECK_THAT(text, ContainsSubstring("\nwarning: q holds 1 NaN\n"));
  CHECK(last_line(text) == "diverged: qk / s, tile 1, warp 0, lane 5, register 2" + of_a_part);

  int lines = 0;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line); ++lines) CHECK(line.size() <= 102);
  CHECK(lines <= 50);
}

TEST_CASE("report: without a dump on disk, the way to one is told") {
  CHECK_THAT(diff_text(diverged_dump(), diverged(), {}),
             ContainsSubstring("look closer\n  lanescope diff mma fused --shape "));
  CHECK_THAT(diff_text(diverged_dump(), diverged(), {}),
             ContainsSubstring(" -o x.safetensors\n  lanescope show x.safetensors s --block 2"));
}

TEST_CASE("report: shared memory has rows and columns, and its lane is the one that wrote") {
  DiffReport report = diverged();
  report.first->site = SiteId::k_smem;
  report.first->stage = Stage::load;
  report.first->reg = -1;
  const std::string text = diff_text(sample_dump(), report, {}, "x.safetensors");
  CHECK(last_line(text) ==
        "diverged: load / k_smem, tile 1, warp 0, lane 5, row 9, column 2" + of_a_part);
  CHECK_THAT(text, ContainsSubstring("show x.safetensors k_smem --block 2 --tile 1\n"));
}

TEST_CASE("report: an unwritten slot is said to be one") {
  Dump dump = sample_dump();
  testing::set_bits(tensor_of(dump, "s"), (2 * 32 + 5) * 8 + 2, poison32);
  DiffReport report = diverged();
  report.first->got = NAN;
  report.first->unwritten = true;
  const std::string text = diff_text(dump, report, {});
  CHECK_THAT(text, ContainsSubstring("  got       never written     0xffb1ffb1\n"));
  CHECK(text.find("  error ") == text.npos);
  CHECK(json::parse(diff_json(dump.info, report))["first"]["got"] == nullptr);
  CHECK(json::parse(diff_json(dump.info, report))["first"]["unwritten"] == true);
}

TEST_CASE("report: a divergence that points nowhere is told without bits") {
  DiffReport report = diverged();
  report.first->lane = 32;
  CHECK_THAT(diff_text(sample_dump(), report, {}), ContainsSubstring("got       0.100000001\n"));
}

TEST_CASE("report: no match without a failure refers to the warnings") {
  DiffReport report = matching();
  report.match = false;
  report.warnings = {"the dump lacks an output, o_final or lse"};
  CHECK(last_line(diff_text(sample_dump(), report, {})) ==
        "diverged: what was compared holds, but see the warnings" + of_a_part);
}

TEST_CASE("report: colours only where they are asked for") {
  CHECK(diff_text(diverged_dump(), diverged(), {}).find('\x1b') == std::string::npos);
  const std::string text = diff_text(diverged_dump(), diverged(), {.colour = true});
  CHECK_THAT(text, ContainsSubstring("\x1b[31mdiverged: qk / s"));
  CHECK_THAT(diff_text(sample_dump(), matching(), {.colour = true}),
             ContainsSubstring("\x1b[32mmatch: "));
}

TEST_CASE("report: json of a match") {
  const json report = json::parse(diff_json(sample_dump().info, matching()));
  CHECK(report["kernel"] == "mma");
  CHECK(report["gate"] == "fused");
  CHECK(report["backend"] == "sim");
  CHECK(report["shape"] == json::parse(R"({"batch":1,"heads":4,"heads_kv":2,"len_q":24,
                                           "len_kv":40,"d":6,"causal":true})"));
  CHECK(report["seed"] == 18446744073709551615u);
  CHECK(report["verdict"] == "match");
  CHECK(report["first"] == nullptr);
  REQUIRE(report["sites"].size() == 3);
  CHECK(report["sites"][0]["site"] == "s");
  CHECK(report["sites"][0]["judgement"] == "local");
  CHECK(report["sites"][0]["max_error"] == 1.19209290e-07);
  CHECK(report["sites"][0]["worst"] == nullptr);
  CHECK(report["warnings"] == json::array());
}

TEST_CASE("report: json of a divergence") {
  DiffReport diff = diverged();
  diff.first->key = -1;
  const json report = json::parse(diff_json(sample_dump().info, diff));
  CHECK(report["verdict"] == "diverged");
  CHECK(report["first"] == json::parse(R"({
    "stage":"qk", "site":"s", "judgement":"local", "tile":1, "block":2, "batch":0, "head":1,
    "query":9, "key":null, "warp":0, "lane":5, "reg":2, "row":9, "col":2,
    "got":0.10000000149011612, "want":0.25, "bound":1e-06, "unwritten":false})"));
  CHECK(report["sites"][0]["worst"]["got"] == "nan");
  CHECK(report["sites"][0]["max_error_over_bound"] == "inf");
  CHECK(report["rows"].size() == 6);
  CHECK(report["rows"][1]["query"] == 10);
  CHECK(report["warnings"][0] == "q holds 1 NaN");
}

std::vector<BitReport> one_difference() {
  Divergence at = at_s();
  at.want = -infinity;
  return {{"q_smem", 256, 0, {}}, {"s", 1024, 3, at}, {"p", 0, 0, {}}};
}

TEST_CASE("report: two dumps, bit for bit") {
  Dump a = sample_dump();
  tensor_of(a, "s").set((2 * 32 + 5) * 8 + 2, -infinity);
  const Dump b = diverged_dump();
  CHECK(diff_text(a, matching(), {}) != "");
  CHECK(!same_bits(one_difference()));
  CHECK_THAT(bits_text(a, b, one_difference(), {}), ContainsSubstring(R"(
a  sim  sim (Hopper rules)  mma.fused.f16.d8.16x16.sim
b  sim  sim (Hopper rules)  mma.fused.f16.d8.16x16.sim

tensor  compared    differing
q_smem       256            0
s           1024            3
p              0  only in one

first difference
  tensor    s
  block     2 (batch 0, head 1, queries from 0)
  slot      tile 1, warp 0, lane 5, register 2
  place     row 9 of the tile (query 9), column 2 (key 18)
  a         -inf              0xff800000
  b         0.100000001       0x3dcccccd

diverged: s, tile 1, warp 0, lane 5, register 2
)"));
  const json report = json::parse(bits_json(a.info, b.info, one_difference()));
  CHECK(report["verdict"] == "diverged");
  CHECK(report["first"]["tensor"] == "s");
  CHECK(report["first"]["want"] == "-inf");
  CHECK(report["first"]["got"] == 0.10000000149011612);
  CHECK(report["tensors"][0]["first"] == nullptr);
  CHECK(report["tensors"][1]["differing"] == 3);
}

TEST_CASE("report: two dumps that are the same, and two with nothing to compare") {
  const Dump dump = sample_dump();
  const std::vector<BitReport> same = {{"s", 1024, 0, {}}};
  CHECK(same_bits(same));
  CHECK(last_line(bits_text(dump, dump, same, {})) == "match: 1024 values, bit for bit");
  CHECK(json::parse(bits_json(dump.info, dump.info, same))["verdict"] == "match");
  CHECK(json::parse(bits_json(dump.info, dump.info, same))["first"] == nullptr);
  CHECK(!same_bits({}));
  CHECK(last_line(bits_text(dump, dump, {}, {})) == "diverged: 0 values, bit for bit");
}

TEST_CASE("report: an unwritten slot of the first dump is said to be one") {
  Dump a = sample_dump();
  testing::set_bits(tensor_of(a, "s"), (2 * 32 + 5) * 8 + 2, poison32);
  CHECK_THAT(bits_text(a, diverged_dump(), one_difference(), {}),
             ContainsSubstring("  a         never written     0xffb1ffb1\n"));
}

TEST_CASE("commands: a path is one word of a shell") {
  Divergence nowhere;
  CHECK(show_command_text("a.safetensors", "s", nowhere) == "lanescope show a.safetensors s");
  CHECK(show_command_text("it's $HOME", "s", nowhere) == "lanescope show 'it'\\''s $HOME' s");
  CHECK(shape_option({.batch = 2, .heads = 4, .heads_kv = 4, .len_q = 8, .len_kv = 8, .d = 64}) ==
        "b=2,h=4,s=8,d=64");
}

}  // namespace
}  // namespace lanescope
