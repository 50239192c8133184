// Causes that explain the same values: which of them is named, and when it is certain.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <tuple>

#include "debug/causes/mask_rules.h"
#include "reference/elementary.h"
#include "tests/support/catch.h"
#include "tests/support/diagnosed.h"

namespace lanescope {
namespace {

using Catch::Matchers::ContainsSubstring;
using reference::Array;
using testing::change;
using testing::diagnosis_of;
using testing::held;
using testing::joined;
using testing::synthetic_dump;
using testing::tensor_of;

/// Every element of an output becomes value(row, col).
void set_output(Dump& dump, SiteId id, const std::function<double(int, int)>& value) {
  Tensor& tensor = tensor_of(dump, id);
  const auto cols = static_cast<int>(id == SiteId::lse ? 1 : dump.info.problem.d);
  for (std::int64_t i = 0; i < tensor.size(); ++i) {
    tensor.set(i, value(static_cast<int>(i) / cols, static_cast<int>(i) % cols));
  }
}

bool is_certain(const Diagnosis& diagnosis, Cause cause) {
  return diagnosis.cause == cause && diagnosis.certain && diagnosis.rivals.empty();
}

/// The cause, the evidence, the rivals.
std::string told(const Diagnosis& diagnosis) {
  std::string text = std::string(name_of(diagnosis.cause)) + "\n" + joined(diagnosis.evidence);
  for (const Finding& rival : diagnosis.rivals) {
    text += std::string("or ") + name_of(rival.cause) + "\n";
  }
  return text;
}

/// A dump whose scores of all blocks and tiles are masked by `sees`, in place of the right mask.
Dump masked(const Problem& problem, const std::function<bool(int query, int key)>& sees) {
  Dump dump = synthetic_dump({.problem = problem});
  const auto& info = dump.info;
  for (std::int64_t block = 0; block < info.block_count(); ++block) {
    const BlockPlace place = info.place(block);
    for (std::int64_t tile = 0; tile < info.kv_tiles(); ++tile) {
      if (SiteSlots(dump, *dump.find_site("s")).untouched(block, tile)) continue;
      const Array q = held(dump, SiteId::q_smem, block, 0, info.rows(place));
      const Array k = held(dump, SiteId::k_smem, block, tile, info.bc);
      const Array right = held(dump, SiteId::s, block, tile, info.rows(place));
      const double factor = reference::log2_e / std::sqrt(static_cast<double>(problem.d));
      change(dump, SiteId::s, block, tile, [&](int row, int col) -> double {
        if (row >= right.rows()) return 0;
        const int key = static_cast<int>(info.key_of(place, tile)) + col;
        if (!sees(static_cast<int>(info.query_of(place, row)), key)) return -reference::infinity;
        if (std::isfinite(right(row, col))) return right(row, col);
        double dot = 0;
        for (reference::Index i = 0; i < q.cols(); ++i) dot += q(row, i) * k(col, i);
        return static_cast<float>(factor * dot);
      });
    }
  }
  return dump;
}

constexpr Problem ragged{1, 1, 1, 32, 37, 32, false}, causal{1, 1, 1, 70, 70, 32, true},
    fewer_queries{1, 1, 1, 60, 70, 32, true};

TEST_CASE("rivals: O that nobody cleared, and padding that nobody wrote") {
  Dump dump = synthetic_dump({.problem = {1, 1, 1, 64, 96, 64, false}});
  for (std::int64_t tile = 0; tile < dump.info.kv_tiles(); ++tile) {
    change(dump, SiteId::o, 0, tile, [](int, int) { return std::nan(""); });
  }
  Diagnosis diagnosis = diagnosis_of(dump);
  INFO(joined(diagnosis.evidence));
  CHECK(diagnosis.first->site == SiteId::o);
  refute_unwritten_reads(diagnosis);
  CHECK(diagnosis.cause == Cause::accumulator_not_cleared);
  CHECK_FALSE(diagnosis.certain);
  for (const Finding& suspect : diagnosis.suspects) CHECK_FALSE(suspect.reads_unwritten);
}

TEST_CASE("a mask is named by all scores, the few that tell masks apart among them") {
  struct Case {
    Problem problem;
    std::function<bool(int, int)> sees;
    Cause cause;
    const char* words;
  };
  const Case cases[] = {
      {causal, [](int query, int key) { return key < 70 && key <= query + query % 32 / 8 * 8; },
       Cause::mask_misaligned, "rows before a group of 8 count twice"},
      {causal, [](int query, int key) { return key < 70 && key <= query - query % 32 / 16 * 8; },
       Cause::mask_misaligned, "rows before a group of 16 count as 1 of 2"},
      {{1, 1, 1, 72, 64, 32, true},
       [](int query, int key) { return key % 32 <= query - 8; },
       Cause::mask_misaligned,
       "counted from the tile's first"},
      {causal, [](int query, int key) { return key - key / 32 * 16 <= query; },
       Cause::mask_misaligned, "the keys of tile 1 are counted from 16"},
      {causal, [](int query, int key) { return key <= query + 2; }, Cause::mask_off_by_one, "+ 2"},
      // In the block's first tile as if nothing were masked: its other tiles tell.
      {fewer_queries, [](int query, int key) { return key < 70 && key <= query / 32 * 32 + 41; },
       Cause::causal_mask_missing, "all rows of a block are masked as its last"},
      {fewer_queries, [](int query, int key) { return key <= query / 32 * 32 + 10; },
       Cause::mask_misaligned, "all rows of a block are masked as its first"},
      {fewer_queries, [](int query, int key) { return key < 70 && key <= query / 4 * 4 + 13; },
       Cause::mask_misaligned, "all rows of a group of 4 are masked as its last"},
      {fewer_queries, [](int query, int key) { return key <= query / 2 * 2 + 10; },
       Cause::mask_misaligned, "all rows of a group of 2 are masked as its first"},
      // All but the first row see all: a rule that has that row wrong is another one.
      {{1, 1, 1, 32, 64, 32, true},
       [](int query, int key) { return query > 0 || key <= 32; },
       Cause::causal_mask_missing,
       "should be masked"},
      // Of each row, some of the keys behind it.
      {{1, 1, 1, 32, 64, 32, true},
       [](int query, int key) { return key <= query + 32 || (key * 7 + query) % 5 == 0; },
       Cause::mask_wrong,
       "should be masked"},
  };
  for (const Case& c : cases) {
    const Diagnosis diagnosis = diagnosis_of(masked(c.problem, c.sees));
    INFO(told(diagnosis));
    // That no rule is known, is no cause to be certain of.
    CHECK(is_certain(diagnosis, c.cause) == (c.cause != Cause::mask_wrong));
    CHECK(diagnosis.cause == c.cause);
    CHECK_THAT(told(diagnosis), Catch::Matchers::ContainsSubstring(c.words));
  }
}

TEST_CASE("masks that come to the same are rivals until runs that are right refute them") {
  // Nothing is masked at the end: no mask, or one whose keys are counted from the tile's first.
  const auto all = [](int, int) { return true; };
  Diagnosis diagnosis = diagnosis_of(masked(ragged, all));
  INFO(told(diagnosis));
  CHECK(diagnosis.cause == Cause::tail_mask_missing);
  REQUIRE_FALSE(diagnosis.rivals.empty());
  // What is masked with 0 comes to the same where keys beyond the end are zeros.
  const auto is_value = [](const Finding& rival) { return rival.cause == Cause::mask_value; };
  CHECK(std::ranges::any_of(diagnosis.rivals, is_value));
  const DumpInfo right = synthetic_dump({.problem = causal}).info;
  refute(diagnosis, right);
  INFO(told(diagnosis));
  CHECK(is_certain(diagnosis, Cause::tail_mask_missing));

  // Rows that see 16 keys more, in tiles of 32: as many as if they saw all.
  const auto half_twice = [](int query, int key) {
    return key < 70 && key <= query + query % 32 / 16 * 16;
  };
  diagnosis = diagnosis_of(masked(causal, half_twice));
  CHECK_FALSE(diagnosis.rivals.empty());
  CHECK_THAT(told(diagnosis), Catch::Matchers::ContainsSubstring("not applied from row 16"));
  CHECK_THAT(told(diagnosis), Catch::Matchers::ContainsSubstring("mask_misaligned"));

  // The cause itself is refuted: the best rival takes its place.
  diagnosis = diagnosis_of(masked(ragged, all));
  diagnosis.shows = [](const DumpInfo&) { return true; };
  std::erase_if(diagnosis.rivals, is_value);
  for (Finding& rival : diagnosis.rivals) rival.shows = {};
  refute(diagnosis, right);
  CHECK(is_certain(diagnosis, Cause::mask_misaligned));
}

TEST_CASE("a mask shows in tiles that a block visits alone") {
  DumpInfo info = synthetic_dump({.problem = fewer_queries}).info;
  for (const MaskRule& rule : mask_rules(info)) {
    INFO(rule.text);
    // Behind the last key that a row sees, there is none that the causal mask would let through.
    CHECK(rule.shows(info) == (rule.cause != Cause::tail_mask_missing));
  }
  // Splits that have no key visit no tile.
  info = synthetic_dump({.problem = Problem{1, 1, 1, 32, 64, 32, false}}).info;
  info.splits = 4;
  const MaskRule no_end = mask_rules(info).front();
  REQUIRE(no_end.cause == Cause::tail_mask_missing);
  CHECK_FALSE(no_end.shows(info));
  info.problem.len_kv = 60;
  CHECK(no_end.shows(info));
}

constexpr Problem three_tiles{1, 1, 1, 32, 96, 32, false};

TEST_CASE("zeros are explained by the tiles where they are none") {
  // At tile 0, alpha is 0: so is whatever it is multiplied with.
  Dump dump = synthetic_dump({.problem = three_tiles});
  Array l = Array::Zero(32, 1);
  for (std::int64_t tile = 0; tile < 3; ++tile) {
    const auto of = [&](SiteId id) { return held(dump, id, 0, tile, 32); };
    const Array p = (of(SiteId::s) - of(SiteId::m)).map([](double x) { return std::exp2(x); });
    l = of(SiteId::alpha) * (l + p.row_sums());
    change(dump, SiteId::l, 0, tile, [&](int row, int) { return l(row); });
  }
  Diagnosis diagnosis = diagnosis_of(dump);
  INFO(told(diagnosis));
  CHECK(is_certain(diagnosis, Cause::rescaled_twice));

  // Zeros in all tiles: any operand may have been zero.
  dump = synthetic_dump({.problem = three_tiles});
  for (std::int64_t tile = 0; tile < 3; ++tile) {
    change(dump, SiteId::p, 0, tile, [](int, int) { return 0; });
  }
  diagnosis = diagnosis_of(dump);
  INFO(told(diagnosis));
  CHECK_FALSE(diagnosis.certain);
}

TEST_CASE("an alpha that is 1 at every tile is not that of the tile before") {
  Dump dump = synthetic_dump({.problem = three_tiles});
  for (std::int64_t tile = 0; tile < 3; ++tile) {
    change(dump, SiteId::alpha, 0, tile, [](int, int) { return 1; });
  }
  const Diagnosis diagnosis = diagnosis_of(dump);
  INFO(told(diagnosis));
  CHECK(is_certain(diagnosis, Cause::not_rescaled));
}

TEST_CASE("values that stand twice were read twice, not exchanged") {
  Dump dump = synthetic_dump({.problem = three_tiles});
  const Array k = held(dump, SiteId::k_smem, 0, 1, 32);
  change(dump, SiteId::k_smem, 0, 1, [&](int row, int col) { return k(row, col % 16); });
  Diagnosis diagnosis = diagnosis_of(dump);
  INFO(told(diagnosis));
  CHECK(diagnosis.cause == Cause::wrong_source);
  change(dump, SiteId::k_smem, 0, 1, [&](int row, int col) { return k(row, col ^ 16); });
  diagnosis = diagnosis_of(dump);
  INFO(told(diagnosis));
  CHECK(diagnosis.cause == Cause::permuted);
}

TEST_CASE("a row of zeros does not make a stride") {
  Dump dump = synthetic_dump({.problem = ragged});
  const Array k = held(dump, SiteId::k_smem, 0, 1, 32);
  change(dump, SiteId::k_smem, 0, 1, [&](int row, int col) { return row == 4 ? 0 : k(row, col); });
  const Diagnosis diagnosis = diagnosis_of(dump);
  INFO(told(diagnosis));
  CHECK(diagnosis.cause == Cause::written_zero);
  CHECK_FALSE(diagnosis.certain);
}

TEST_CASE("sums of the epilogue with other factors, known or not") {
  using reference::ln_2;
  const Dump right = synthetic_dump({.problem = three_tiles});
  const Array m = held(right, SiteId::m, 0, 2, 32), l = held(right, SiteId::l, 0, 2, 32),
              o = held(right, SiteId::o, 0, 2, 32);
  const auto check = [&](SiteId site, const std::function<double(int, int)>& value, Cause cause,
                         const std::string& words) {
    Dump dump = right;
    set_output(dump, site, value);
    const Diagnosis diagnosis = diagnosis_of(dump);
    INFO(told(diagnosis));
    CHECK(is_certain(diagnosis, cause));
    CHECK_THAT(told(diagnosis), Catch::Matchers::ContainsSubstring(words));
  };
  const auto lse = [&](double x, double y) {
    return [&m, &l, x, y](int row, int) { return x * m(row) + y * std::log2(l(row)); };
  };
  check(SiteId::lse, lse(0, ln_2), Cause::lse_without_maximum, "lse = ln 2 log2 l");
  check(SiteId::lse, lse(ln_2, 0), Cause::lse_without_sum, "lse = ln 2 m");
  check(SiteId::lse, lse(1, 1), Cause::wrong_base, "lse = m + log2 l");
  check(SiteId::lse, lse(ln_2 * ln_2, ln_2), Cause::wrong_base, "lse = ln 2 ln 2 m");
  check(SiteId::lse, lse(ln_2 / std::sqrt(32.0), ln_2), Cause::wrong_scale, "m scaled twice");
  check(SiteId::lse, lse(0.37, ln_2), Cause::wrong_formula, "lse = 0.37");
  check(
      SiteId::lse, [&](int row, int) { return (m(row) + std::log2(l(row))) * ln_2 + 0.5; },
      Cause::wrong_formula, "off by 0.5");
  check(
      SiteId::lse, [&](int row, int) { return (l(row) + std::log2(m(row))) * ln_2; },
      Cause::wrong_formula, "m and l are exchanged");
  const auto output = [&](double x, double y) {
    return [&l, &o, x, y](int row, int col) { return o(row, col) / (x * l(row) + y); };
  };
  check(SiteId::o_final, output(0, 1), Cause::not_normalised, "divided by 1, not by l");
  check(SiteId::o_final, output(1, 1), Cause::wrong_formula, "divided by 1 + l");
  check(
      SiteId::o_final, [&](int row, int col) { return o(row, col) / (col % 2 == 0 ? 1 : l(row)); },
      Cause::not_normalised, "in columns whose bit 0 is not set");
  check(
      SiteId::o_final, [&](int row, int col) { return o(row ^ 1, col) / l(row); },
      Cause::operand_of_other_row, "row i xor 1");
}

TEST_CASE("a sum that each lane keeps for itself adds up to the row's") {
  Dump dump = synthetic_dump({.problem = three_tiles});
  const Array l = held(dump, SiteId::l, 0, 2, 32), o = held(dump, SiteId::o, 0, 2, 32);
  constexpr double share[] = {0.1, 0.2, 0.3, 0.4};  // of the lanes of a row, two columns each
  const auto divide = [&](double more) {
    set_output(dump, SiteId::o_final, [&](int row, int col) {
      return o(row, col) / (l(row) * (share[col % 8 / 2] + more));
    });
    return diagnosis_of(dump);
  };
  Diagnosis diagnosis = divide(0);
  INFO(told(diagnosis));
  CHECK(is_certain(diagnosis, Cause::incomplete_reduction));
  diagnosis = divide(0.05);
  INFO(told(diagnosis));
  CHECK(diagnosis.cause != Cause::incomplete_reduction);
}

TEST_CASE("a lane that has a row alone divides by no part of its sum") {
  Dump dump = synthetic_dump({.problem = three_tiles, .products = Products::fp32_fma});
  const Array l = held(dump, SiteId::l, 0, 2, 32), o = held(dump, SiteId::o, 0, 2, 32);
  set_output(dump, SiteId::o_final,
             [&](int row, int col) { return o(row, col) / (l(row) + 0.01); });
  const Diagnosis diagnosis = diagnosis_of(dump);
  INFO(told(diagnosis));
  CHECK(diagnosis.cause == Cause::wrong_formula);
}

TEST_CASE("values of another site, each another one, say less than the formula") {
  Dump dump = synthetic_dump({.problem = three_tiles});
  const Array s = held(dump, SiteId::s, 0, 1, 32);
  change(dump, SiteId::m, 0, 1, [&](int row, int) { return s.row_maxima()(row); });
  const Diagnosis diagnosis = diagnosis_of(dump);
  INFO(told(diagnosis));
  CHECK(diagnosis.cause == Cause::accumulator_lost);
}

TEST_CASE("maxima that follow some rises alone follow those of other rows") {
  Dump dump = synthetic_dump({.problem = three_tiles});
  dump.info.rescale.above = 1;
  const Array before = held(dump, SiteId::m, 0, 0, 32), s = held(dump, SiteId::s, 0, 1, 32);
  int rises = 0, stays = 0;
  change(dump, SiteId::m, 0, 1, [&](int row, int) {
    const double top = s.row_maxima()(row);
    bool follows = top > before(row) + 1;
    if (row % 2 == 0 && top > before(row)) {
      ++(follows ? stays : rises);
      follows = !follows;
    }
    return follows ? top : before(row);
  });
  REQUIRE(rises > 0);
  REQUIRE(stays > 0);
  const Diagnosis diagnosis = diagnosis_of(dump);
  INFO(told(diagnosis));
  CHECK(diagnosis.cause == Cause::operand_of_other_row);
  CHECK_THAT(told(diagnosis), ContainsSubstring("the other one of m_prev and the maximum"));
}

TEST_CASE("maxima that stay, or follow, in some rows are those of another limit") {
  // Rises by more than 1 count, and those by more than `limit` are followed.
  const auto with_limit = [](double limit) {
    Dump dump = synthetic_dump({.problem = three_tiles});
    dump.info.rescale.above = 1;
    for (const int tile : {1, 2}) {
      const Array before = held(dump, SiteId::m, 0, tile - 1, 32),
                  s = held(dump, SiteId::s, 0, tile, 32);
      change(dump, SiteId::m_prev, 0, tile, [&](int row, int) { return before(row); });
      change(dump, SiteId::m, 0, tile, [&](int row, int) {
        const double top = s.row_maxima()(row);
        return top > before(row) + limit ? top : before(row);
      });
    }
    return diagnosis_of(dump);
  };
  for (const auto& [limit, words, cause] : {std::tuple{1.5, "stays m_prev", Cause::never_updated},
                                            {0.5, "follows", Cause::wrong_formula}}) {
    const Diagnosis diagnosis = with_limit(limit);
    INFO(told(diagnosis));
    CHECK(diagnosis.cause == cause);
    CHECK_THAT(told(diagnosis), ContainsSubstring(std::string("m ") + words + " in "));
  }
}

TEST_CASE("a maximum that is not set back between blocks of rows is that of the block before") {
  Dump dump = synthetic_dump({.problem = {1, 2, 2, 64, 96, 32, false}});
  const Array before = held(dump, SiteId::m, 1, 2, 32);
  change(dump, SiteId::m_prev, 3, 0, [&](int row, int) { return before(row); });
  const Diagnosis diagnosis = diagnosis_of(dump);
  INFO(told(diagnosis));
  CHECK(is_certain(diagnosis, Cause::accumulator_not_cleared));
  CHECK_THAT(told(diagnosis), ContainsSubstring("of block 1 ended with"));
}

TEST_CASE("chunks of V that were read from elsewhere in their row") {
  const Problem problem{1, 1, 1, 96, 32, 32, false};
  Dump dump = synthetic_dump({.problem = problem});
  for (std::int64_t block = 0; block < 3; ++block) {
    const Array p = held(dump, SiteId::p, block, 0, 32),
                v = held(dump, SiteId::v_smem, block, 0, 32);
    Array read = v;
    for (reference::Index row = 0; row < 32; ++row) {
      for (reference::Index col = 0; col < 32; ++col) {
        read(row, col) = v(row, col ^ (row % 4 * 8));
      }
    }
    const Array o = product(p, read);
    change(dump, SiteId::o, block, 0, [&](int row, int col) { return o(row, col); });
  }
  const Diagnosis diagnosis = diagnosis_of(dump);
  INFO(told(diagnosis));
  CHECK(is_certain(diagnosis, Cause::permuted));
  CHECK_THAT(told(diagnosis), Catch::Matchers::ContainsSubstring("chunks of 8"));
}

TEST_CASE("weights of one key that meet two, of others in other columns") {
  const Problem problem{1, 1, 1, 96, 32, 32, false};
  const auto diagnosed = [&](int bit) {
    Dump dump = synthetic_dump({.problem = problem});
    for (std::int64_t block = 0; block < 3; ++block) {
      const Array p = held(dump, SiteId::p, block, 0, 32),
                  v = held(dump, SiteId::v_smem, block, 0, 32);
      Array o = held(dump, SiteId::o, block, 0, 32);
      for (reference::Index row = 0; row < 32; ++row) {
        for (reference::Index col = 0; col < 32; ++col) {
          o(row, col) = 0;
          for (int key = 0; key < 32; ++key) {
            o(row, col) += p(row, col < 16 ? key & ~bit : key | bit) * v(key, col);
          }
        }
      }
      change(dump, SiteId::o, block, 0, [&](int row, int col) { return o(row, col); });
    }
    return diagnosis_of(dump);
  };
  for (const int bit : {16, 4}) {
    const Diagnosis diagnosis = diagnosed(bit);
    INFO(told(diagnosis));
    CHECK(is_certain(diagnosis, Cause::contribution_repeated));
    CHECK_THAT(told(diagnosis),
               Catch::Matchers::ContainsSubstring("differ by " + std::to_string(bit)));
  }
}

TEST_CASE("a tile that is visited again after the last one") {
  const Problem problem{1, 1, 1, 32, 64, 32, false};
  Dump dump = synthetic_dump({.problem = problem});
  const Array p = held(dump, SiteId::p, 0, 1, 32), v = held(dump, SiteId::v_smem, 0, 1, 32),
              o = held(dump, SiteId::o, 0, 1, 32), l = held(dump, SiteId::l, 0, 1, 32);
  const Array more = product(p, v), sum = p.row_sums();
  set_output(dump, SiteId::o_final, [&](int row, int col) {
    return (o(row, col) + more(row, col)) / (l(row) + sum(row));
  });
  const Diagnosis diagnosis = diagnosis_of(dump);
  INFO(told(diagnosis));
  CHECK(is_certain(diagnosis, Cause::contribution_repeated));
  CHECK_THAT(told(diagnosis), Catch::Matchers::ContainsSubstring("tile 1 is visited again"));
  CHECK(diagnosis.first->stage == Stage::load);
}

TEST_CASE("what is written twice while as much is never written is stored at the wrong place") {
  const auto item = [](simt::Kind kind, std::int64_t count, int bytes) {
    CheckReport::Item item;
    item.finding.kind = kind;
    item.finding.count = count;
    item.finding.bytes = bytes;
    item.region = "o";
    item.site = SiteId::o_final;
    return item;
  };
  CheckReport report;
  report.items = {item(simt::Kind::written_twice, 256, 16),
                  item(simt::Kind::never_written, 2048, 2)};
  CHECK(diagnose(report).cause == Cause::misplaced);
  report.items[1].finding.count = 2000;
  CHECK(diagnose(report).cause == Cause::written_twice);
}

}  // namespace
}  // namespace lanescope
