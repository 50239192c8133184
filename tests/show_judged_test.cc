#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "debug/judge/diff.h"
#include "debug/show/show.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "tests/support/synthetic_dump.h"

namespace lanescope {
namespace {

using Catch::Matchers::ContainsSubstring;
using nlohmann::json;
using testing::slot_index;
using testing::synthetic_dump;
using testing::tensor_of;

/// Three tiles of 32 keys, the last of them ragged; a single block of 32 query rows.
Dump clean_dump() {
  return synthetic_dump(
      {.problem = {.len_q = 32, .len_kv = 80, .d = 32}, .input = "random", .br = 32, .bc = 32});
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

/// The lines that begin with `label`, spaces aside.
std::vector<std::string> lines_with(const std::string& text, const std::string& label) {
  std::vector<std::string> found;
  for (const std::string& line : lines_of(text)) {
    const std::size_t begin = line.find_first_not_of(' ');
    if (begin != line.npos && line.compare(begin, label.size(), label) == 0) found.push_back(line);
  }
  return found;
}

TEST_CASE("show judged: the reference stands below what is not exactly that") {
  Dump dump = clean_dump();
  const ShowOptions options = {.site = "l", .tile = 1, .warp = 0};
  const std::string clean = show_text(dump, options, {});
  CHECK_THAT(clean, ContainsSubstring("\nright: 128 of 128 values, worst error 0."));
  CHECK(lines_with(clean, "want").size() == lines_with(clean, "error").size());

  Tensor& l = tensor_of(dump, SiteId::l);
  const std::int64_t index = slot_index(dump, SiteId::l, 0, 1, 2, 0);
  l.set(index, 1000);
  const std::string wrong = show_text(dump, options, {});
  CHECK_THAT(wrong, ContainsSubstring("\nwrong: 1 of 128 values"));
  CHECK_THAT(wrong, ContainsSubstring("    8        1000"));
  CHECK_THAT(wrong, ContainsSubstring("; judged local\n"));
  CHECK_THAT(show_text(dump, options, {.colour = true}),
             ContainsSubstring("\x1b[31m      1000\x1b[0m"));
}

TEST_CASE("show judged: NaN, inf and unwritten slots are wrong and named") {
  Dump dump = clean_dump();
  Tensor& m = tensor_of(dump, SiteId::m);
  m.set(slot_index(dump, SiteId::m, 0, 1, 0, 0), NAN);
  m.set(slot_index(dump, SiteId::m, 0, 1, 1, 0), INFINITY);
  testing::poison(m, slot_index(dump, SiteId::m, 0, 1, 2, 0));
  const std::string text = show_text(dump, {.site = "m", .tile = 1}, {});
  CHECK_THAT(text, ContainsSubstring("wrong: 3 of 128 values, unwritten 1, nan 1, inf 1, worst"));
  const json values =
      json::parse(show_json(dump, {.site = "m", .tile = 1, .warp = 0, .lane = 8}))["values"];
  CHECK(values[0]["verdict"] == "unwritten");
  CHECK(values[0]["value"] == nullptr);
  CHECK(values[0]["want"].is_number());
  CHECK(values[0]["error"] == "inf");
  CHECK(values[1]["verdict"] == "right");
  CHECK_THAT(show_text(dump, {.site = "m", .tile = 1, .warp = 0, .lane = 0}, {}),
             ContainsSubstring(" nan "));
}

TEST_CASE("show judged: a NaN that came from upstream is wrong where a number is wanted") {
  Dump dump = clean_dump();
  Tensor &o = tensor_of(dump, SiteId::o), &o_final = tensor_of(dump, SiteId::o_final);
  for (std::int64_t col = 0; col < 32; ++col) {
    o.set(slot_index(dump, SiteId::o, 0, 2, 3, col), NAN);
    o_final.set(3 * 32 + col, NAN);
  }
  o_final.set(5 * 32, 1000);  // wrong for what it received, so that the tile is judged locally
  const json shown = json::parse(show_json(dump, {.site = "o_final"}));
  CHECK(shown["judgement"] == "local");
  for (const json& value : shown["values"]) {
    const bool wrong = value["row"] == 3 || (value["row"] == 5 && value["col"] == 0);
    CHECK(value["verdict"] == (wrong ? "wrong" : "right"));
    CHECK(value["want"].is_number());
  }
  const std::string text = show_text(dump, {.site = "o_final"}, {});
  CHECK_THAT(text, ContainsSubstring("wrong: 33 of 1024 values, nan 32"));

  const DiffReport report = diff_against_reference(dump);
  for (const SiteReport& site : report.sites) {
    if (site.site == SiteId::o_final) CHECK(site.non_finite == 32);
  }
}

TEST_CASE("show judged: padding rows are shown and not counted") {
  Dump dump = synthetic_dump({.problem = {.len_q = 20, .len_kv = 32, .d = 32}, .br = 32, .bc = 32});
  const ShowOptions options = {.site = "l", .as = ShowAs::tile};
  testing::poison(tensor_of(dump, SiteId::l), slot_index(dump, SiteId::l, 0, 0, 19, 0));
  testing::poison(tensor_of(dump, SiteId::l), slot_index(dump, SiteId::l, 0, 0, 20, 0));
  const std::string text = show_text(dump, options, {});
  CHECK_THAT(text, ContainsSubstring("\nwrong: 1 of 80 values, unwritten 1, worst"));
  CHECK_THAT(lines_with(text, "19 ").at(0), ContainsSubstring(" 19 ") && ContainsSubstring("····"));
  CHECK_THAT(lines_with(text, "20 ").at(0), ContainsSubstring(" - ") && ContainsSubstring("····"));
}

TEST_CASE("show judged: a tile that holds locally and not in the chain shows the chain") {
  Dump dump = clean_dump();
  Tensor& s = tensor_of(dump, SiteId::s);
  // A score too high, and everything after it as if it were right: P and m follow.
  s.set(slot_index(dump, SiteId::s, 0, 0, 3, 5), 30);
  const json local = json::parse(show_json(dump, {.site = "s", .tile = 0}));
  CHECK(local["judgement"] == "local");
  const json k = json::parse(show_json(dump, {.site = "k", .tile = 0}));
  CHECK(k["judgement"] == nullptr);
  CHECK(k["values"][0]["verdict"] == nullptr);
  // m was computed from the right score: wrong for what it received, right in the chain.
  CHECK(json::parse(show_json(dump, {.site = "m", .tile = 0}))["judgement"] == "local");

  Dump chain = clean_dump();
  Tensor& q = tensor_of(chain, SiteId::q_smem);
  for (std::int64_t i = 0; i < q.size(); ++i) q.set(i, 0.0);
  Tensor& zero = tensor_of(chain, SiteId::s);
  for (std::int64_t i = 0; i < zero.size(); ++i) zero.set(i, 0.0);
  CHECK(json::parse(show_json(chain, {.site = "s", .tile = 0}))["judgement"] == "chain");
}

TEST_CASE("show judged: registers as rows and columns, of the lanes the one that is furthest off") {
  Dump dump = clean_dump();
  Tensor& m = tensor_of(dump, SiteId::m);
  m.set(slot_index(dump, SiteId::m, 0, 1, 3, 0, 2), -7);  // the third of the row's four lanes
  const std::string column = show_text(dump, {.site = "m", .tile = 1, .as = ShowAs::tile}, {});
  CHECK(lines_with(column, "3 ").size() == 1);
  CHECK_THAT(lines_with(column, "3 ").at(0), ContainsSubstring(" -7 "));
  CHECK(lines_of(column).size() == 5 + 2 + 32);
  const std::string half =
      show_text(dump, {.site = "m", .tile = 1, .warp = 1, .as = ShowAs::tile}, {});
  CHECK(lines_of(half).size() == 5 + 2 + 16);
  CHECK(lines_with(half, "16 ").size() == 1);
  const std::string matrix = show_text(dump, {.site = "s", .as = ShowAs::tile}, {.width = 400});
  CHECK_THAT(matrix, ContainsSubstring("         31\n"));
  CHECK(lines_with(matrix, "31").size() == 1);
}

TEST_CASE("show judged: a heat map has a cell per element and fits the window") {
  Dump dump = clean_dump();
  Tensor& s = tensor_of(dump, SiteId::s);
  const auto at = [&](int row, int col) { return slot_index(dump, SiteId::s, 0, 1, row, col); };
  s.set(at(2, 0), NAN);
  s.set(at(2, 1), INFINITY);
  testing::poison(s, at(2, 2));
  s.set(at(2, 3), 1e30);
  const ShowOptions options = {.site = "s", .tile = 1, .as = ShowAs::heat};
  const std::string text = show_text(dump, options, {});
  const std::string row = lines_with(text, "2 ").at(0);
  CHECK(row.substr(0, 10) == "    2 NI?9");
  CHECK(row.size() == 6 + 32);
  CHECK(row.find_first_not_of(".:", 10) == row.npos);
  CHECK_THAT(text, ContainsSubstring("9 more  I inf  N nan  ? unwritten"));
  CHECK(text.find('\x1b') == text.npos);

  const std::string small = show_text(dump, options, {.colour = true, .width = 22, .height = 13});
  CHECK_THAT(small, ContainsSubstring("▀"));
  CHECK_THAT(small, ContainsSubstring("a cell is the worst of 4 x 2 elements"));
  CHECK(lines_of(small).size() <= 13);
  CHECK_THAT(testing::usage_error([&] { show_text(dump, {.site = "q", .as = ShowAs::heat}, {}); }),
             ContainsSubstring("not judged"));
}

TEST_CASE("show judged: watching a site is a line per tile, with the broken invariants") {
  Dump dump = clean_dump();
  const auto row_of_tile = [](const std::string& text, int tile) {
    return lines_with(text, std::to_string(tile) + " ").at(0);
  };
  const std::string clean = show_text(dump, {.site = "m", .watch = true}, {});
  CHECK(lines_of(clean).size() == 3 + 2 + 3);
  CHECK(clean.find("row ") == clean.npos);

  Tensor& m = tensor_of(dump, SiteId::m);
  for (int copy = 0; copy < 4; ++copy) m.set(slot_index(dump, SiteId::m, 0, 1, 4, 0, copy), -50);
  m.set(slot_index(dump, SiteId::m, 0, 2, 9, 0, 1), NAN);
  Tensor& l = tensor_of(dump, SiteId::l);
  for (int copy = 0; copy < 4; ++copy) l.set(slot_index(dump, SiteId::l, 0, 0, 5, 0, copy), -1);
  const std::string text = show_text(dump, {.site = "m", .watch = true}, {});
  CHECK_THAT(row_of_tile(text, 0), ContainsSubstring("l not above 0 in row 5"));
  CHECK_THAT(row_of_tile(text, 1), ContainsSubstring("m falls in row 4"));
  CHECK_THAT(row_of_tile(text, 2), ContainsSubstring("lanes disagree in row 9"));
  CHECK_THAT(row_of_tile(text, 2), ContainsSubstring("m is nan in row 9"));
  CHECK_THAT(row_of_tile(text, 2), ContainsSubstring("m_prev is not the m before in row 4"));

  // Row 4 is lane 16's register 0.
  const std::string lane = show_text(dump, {.site = "m", .warp = 0, .lane = 16, .watch = true}, {});
  CHECK_THAT(lane, ContainsSubstring("register 0: row 4 (query 4)\ntile"));
  CHECK_THAT(lane, ContainsSubstring("m falls"));
  CHECK_THAT(lane, ContainsSubstring(" alpha "));

  Tensor& p = tensor_of(dump, SiteId::p);
  p.set(slot_index(dump, SiteId::p, 0, 1, 6, 6), 1.5);
  CHECK_THAT(show_text(dump, {.site = "p", .watch = true}, {}),
             ContainsSubstring("p outside 0 to 1 in row 6"));
  const json tiles = json::parse(show_json(dump, {.site = "m", .watch = true}))["tiles"];
  REQUIRE(tiles.size() == 3);
  CHECK(tiles[1]["wrong"].get<int>() >= 4);
  CHECK(tiles[1]["broken"][0].get<std::string>().find("m falls") == 0);
}

TEST_CASE("show judged: outputs, shared memory and runs that did not end") {
  Dump dump = clean_dump();
  CHECK_THAT(show_text(dump, {.site = "o_final"}, {}), ContainsSubstring("right: 1024 of 1024"));
  CHECK_THAT(show_text(dump, {.site = "lse"}, {}), ContainsSubstring("right: 32 of 32"));
  CHECK_THAT(show_text(dump, {.site = "k_smem", .tile = 2}, {}),
             ContainsSubstring("right: 512 of 512 values, worst error 0 of"));
  CHECK_THAT(show_text(dump, {.site = "lse", .watch = true}, {}), ContainsSubstring("local  32"));
  dump.info.incomplete = "time-out";
  Tensor& o = tensor_of(dump, SiteId::o_final);
  for (std::int64_t i = 0; i < o.size(); ++i) testing::poison(o, i);
  const std::string text = show_text(dump, {.site = "o_final"}, {});
  CHECK_THAT(text, ContainsSubstring("the run did not end: time-out"));
  CHECK_THAT(text, ContainsSubstring("wrong: 1024 of 1024 values, unwritten 1024"));
  CHECK_THAT(text, ContainsSubstring("····"));

  // Query 0 of 32 sees no key of 16: the tiles may be left out.
  const Dump none = synthetic_dump(
      {.problem = {.len_q = 96, .len_kv = 32, .d = 32, .causal = true}, .br = 32, .bc = 32});
  CHECK_THAT(show_text(none, {.site = "m"}, {}), ContainsSubstring("not judged: no row of the"));
  CHECK_THAT(show_text(none, {.site = "m", .watch = true}, {}),
             ContainsSubstring("····") || ContainsSubstring("128"));
}

}  // namespace
}  // namespace lanescope
