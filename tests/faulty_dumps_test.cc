// What is said of faults that are put into dumps.
#include <cmath>
#include <numbers>

#include "debug/judge/last_sites.h"
#include "tests/support/catch.h"
#include "tests/support/diagnosed.h"

namespace lanescope {
namespace {

using testing::change;
using testing::diagnosis_of;
using testing::Fault;
using testing::held;
using testing::joined;
using testing::named;
using testing::poison;
using testing::slot_index;
using testing::synthetic_dump;
using testing::tensor_of;

const Problem one_tile{1, 1, 1, 32, 32, 32, false};
const Problem three_tiles{1, 1, 1, 32, 96, 32, false};

TEST_CASE("locate: faults of an emulated kernel") {
  const std::pair<Fault, std::string> expected[] = {
      {Fault::wrong_scale, "qk s wrong_scale"},
      // In the next tile it is that of the scores before.
      {Fault::stale_maximum, "softmax m never_updated?"},
      {Fault::missing_rescale, "pv o not_rescaled"},
      {Fault::dropped_key, "pv o contribution_missing"},
      {Fault::l_twice, "epilogue o_final normalised_twice"},
      {Fault::raw_maximum, "softmax p wrong_scale"},
      {Fault::one_pass, "softmax p not_rescaled"},
      {Fault::tile_left_out, "qk s tile_skipped"},
      {Fault::column_alpha, "pv o operand_of_other_row"},
  };
  for (const Products products : {Products::tensor_core, Products::fp32_fma}) {
    for (const auto& [fault, text] : expected) {
      const Dump dump =
          synthetic_dump({.problem = three_tiles, .products = products, .fault = fault});
      const Diagnosis diagnosis = diagnosis_of(dump);
      INFO(joined(diagnosis.evidence));
      CHECK(named(diagnosis) == text);
    }
  }
}

TEST_CASE("locate: what O is made of P that was traced before it was rounded") {
  const auto dump_with = [](Fault fault) {
    return synthetic_dump({.problem = three_tiles, .fault = fault, .unrounded_p = true});
  };
  CHECK(diff_against_reference(dump_with(Fault::none)).match);
  for (const auto& [fault, text] : {std::pair{Fault::missing_rescale, "pv o not_rescaled"},
                                    {Fault::column_alpha, "pv o operand_of_other_row"}}) {
    CHECK(named(diagnosis_of(dump_with(fault))) == text);
  }
}

// P of 10^-7 is as good as 0 where its bound is larger.
TEST_CASE("locate: what is no more than its bound says of no formula that it is that") {
  Dump dump = synthetic_dump({.problem = one_tile});
  Tensor& p = tensor_of(dump, SiteId::p);
  for (std::int64_t i = 0; i < p.size(); ++i) p.set(i, p.at(i) * 0x1p-18);
  const Diagnosis diagnosis = diagnosis_of(dump);
  INFO(joined(diagnosis.evidence));
  CHECK(diagnosis.first->site == SiteId::p);
  CHECK_FALSE(diagnosis.certain);
}

TEST_CASE(
    "locate: bits of P that are taken for another type are next to nothing, and so is alpha") {
  Dump dump = synthetic_dump({.problem = one_tile, .dtype = ElementType::bf16});
  change(dump, SiteId::p, 0, 0, [right = held(dump, SiteId::p, 0, 0, 32)](int row, int col) {
    return value_of(ElementType::bf16, round_to(ElementType::f16, right(row, col)));
  });
  const Diagnosis diagnosis = diagnosis_of(dump);
  INFO(joined(diagnosis.evidence));
  CHECK((diagnosis.first->site == SiteId::p && diagnosis.cause == Cause::wrong_type));
}

TEST_CASE("locate: panels of an operand that are read at another distance") {
  const Dump dump =
      synthetic_dump({.problem = {1, 1, 1, 32, 64, 128, false}, .fault = Fault::panels_of_q});
  const Diagnosis diagnosis = diagnosis_of(dump);
  INFO(joined(diagnosis.evidence));
  CHECK(named(diagnosis) == "qk s wrong_stride");
}

TEST_CASE("locate: zeros beyond the end beside masked scores are those of keys that are none") {
  const auto cause_of = [](int unmasked) {
    Dump dump = synthetic_dump({.problem = {1, 1, 1, 32, 20, 32, false}});
    const reference::Array s = held(dump, SiteId::s, 0, 0, 32);
    change(dump, SiteId::s, 0, 0,
           [&](int r, int c) { return c >= 20 && c < 20 + unmasked ? 0 : s(r, c); });
    return diagnosis_of(dump).cause;
  };
  CHECK(cause_of(12) == Cause::tail_mask_missing);
  CHECK(cause_of(5) == Cause::mask_wrong);
}

TEST_CASE("locate: scores of columns that count again in the place of others") {
  // More columns than keys: the product cannot be solved for what it was made of.
  const Problem wide{1, 1, 1, 32, 32, 128, false};
  Dump dump = synthetic_dump({.problem = wide});
  const reference::Array q = held(dump, SiteId::q_smem, 0, 0, 32),
                         k = held(dump, SiteId::k_smem, 0, 0, 32);
  const double factor = std::numbers::log2e / std::sqrt(128.0);
  const auto score = [&](int row, int col, int columns_of_q, int columns_of_k) {
    double sum = 0;
    for (int c = 0; c < 128; ++c) sum += q(row, c % columns_of_q) * k(col, c % columns_of_k);
    return factor * sum;
  };
  change(dump, SiteId::s, 0, 0, [&](int r, int c) { return score(r, c, 64, 64); });
  CHECK(named(diagnosis_of(dump)) == "qk s contribution_repeated");
  change(dump, SiteId::s, 0, 0, [&](int r, int c) { return score(r, c, 128, 32); });
  CHECK(named(diagnosis_of(dump)) == "qk s wrong_source");
}

// Columns 1, 3, ... of P are left out of l, which nothing but the outputs shows.
TEST_CASE("locate: l that a kernel does not show") {
  Dump dump = synthetic_dump({.problem = three_tiles, .fault = Fault::half_of_l});
  CHECK(named(diagnosis_of(dump)) == "softmax l incomplete_reduction");
  std::erase_if(dump.info.sites, [](const DumpSite& entry) { return entry.site.id == SiteId::l; });
  std::erase_if(dump.tensors, [](const Dump::Entry& entry) { return entry.name == "l"; });
  CHECK(named(diagnosis_of(dump)) == "softmax o_final contribution_missing");
}

TEST_CASE("locate: slots that were never written, and zeros") {
  Dump dump = synthetic_dump({.problem = three_tiles});
  poison(tensor_of(dump, SiteId::alpha), slot_index(dump, SiteId::alpha, 0, 1, 3, 0));
  CHECK(named(diagnosis_of(dump)) == "softmax alpha never_written");

  dump = synthetic_dump({.problem = three_tiles});
  const auto poison_tile = [&](const DumpSite& entry, std::int64_t tile) {
    const SiteSlots slots(dump, entry);
    for (std::int64_t slot = 0; slot < slots.count(); ++slot) {
      poison(tensor_of(dump, entry.site.id), slots.first(0, tile) + slot);
    }
  };
  for (const DumpSite& entry : dump.info.sites) {
    if (entry.site.per_tile) poison_tile(entry, 2);
  }
  CHECK(named(diagnosis_of(dump)) == "load k_smem tile_skipped");

  // Q alone, and Q of a block that comes to no tile.
  dump = synthetic_dump({.problem = three_tiles});
  poison_tile(*dump.find_site("q_smem"), 0);
  CHECK(named(diagnosis_of(dump)) == "load q_smem never_written");
  for (const DumpSite& entry : dump.info.sites) {
    for (std::int64_t tile = 0; entry.site.per_tile && tile < 3; ++tile) poison_tile(entry, tile);
  }
  CHECK(named(diagnosis_of(dump)) == "load q_smem tile_skipped");
  // Rows that no block took have no outputs.
  for (const SiteId id : {SiteId::o_final, SiteId::lse}) {
    Tensor& output = tensor_of(dump, id);
    for (std::int64_t i = 0; i < output.size(); ++i) poison(output, i);
  }
  CHECK(named(diagnosis_of(dump)) == "load q_smem never_written");

  dump = synthetic_dump({.problem = three_tiles});
  change(dump, SiteId::p, 0, 1, [](int, int) { return 0; });
  CHECK(named(diagnosis_of(dump)) == "softmax p written_zero?");

  // alpha is 0 in the first tile, and stays so; or is set to 0 in a later one.
  dump = synthetic_dump({.problem = three_tiles});
  const auto vanish = [&](std::int64_t tile) {
    change(dump, SiteId::alpha, 0, tile, [](int, int) { return 0; });
  };
  vanish(2);
  CHECK(named(diagnosis_of(dump)) == "softmax alpha written_zero?");
  vanish(1);
  CHECK(named(diagnosis_of(dump)) == "softmax alpha never_updated?");

  // O of some columns, to which no tile adds anything; and of others that a later tile sets to 0.
  dump = synthetic_dump({.problem = three_tiles});
  const auto hide_columns = [](Dump& dump, std::int64_t tile) {
    const reference::Array o = held(dump, SiteId::o, 0, tile, 32);
    change(dump, SiteId::o, 0, tile, [&](int row, int col) { return col < 20 ? o(row, col) : 0; });
  };
  for (const std::int64_t tile : {0, 1, 2}) hide_columns(dump, tile);
  const Diagnosis stays = diagnosis_of(dump);
  CHECK(named(stays) == "pv o never_updated?");
  CHECK_THAT(joined(stays.evidence), Catch::Matchers::ContainsSubstring("columns 20..31"));
  dump = synthetic_dump({.problem = three_tiles});
  hide_columns(dump, 1);
  CHECK(named(diagnosis_of(dump)) == "pv o written_zero?");

  // A log-sum-exp that is never below 0, and one that is 0 whatever it should be.
  for (const char* const input : {"low", "random"}) {
    dump = synthetic_dump({.problem = three_tiles, .input = input});
    Tensor& lse = tensor_of(dump, SiteId::lse);
    for (std::int64_t i = 0; i < lse.size(); ++i) lse.set(i, 0);
    CHECK(named(diagnosis_of(dump)) ==
          (input == std::string("low") ? "epilogue lse clamped?" : "epilogue lse written_zero?"));
  }
}

TEST_CASE("locate: a loop that comes to a tile twice and leaves another out; scores that stay") {
  Dump dump = synthetic_dump({.problem = three_tiles});
  const reference::Array m = held(dump, SiteId::m, 0, 1, 32);
  change(dump, SiteId::m_prev, 0, 1, [&](int row, int) { return m(row); });
  CHECK(diagnosis_of(dump).cause != Cause::tile_skipped);
  for (const DumpSite& entry : dump.info.sites) {
    if (!entry.site.per_tile) continue;
    const SiteSlots slots(dump, entry);
    for (std::int64_t slot = 0; slot < slots.count(); ++slot) {
      poison(tensor_of(dump, entry.site.id), slots.first(0, 2) + slot);
    }
  }
  CHECK(named(diagnosis_of(dump)) == "load m_prev tile_skipped");

  // Rows of a warp that sees no key of the tile hold the scores of the tile before.
  dump = synthetic_dump({.problem = {1, 1, 1, 32, 96, 32, true}, .br = 32});
  const reference::Array s = held(dump, SiteId::s, 0, 2, 32),
                         before = held(dump, SiteId::s, 0, 1, 32);
  change(dump, SiteId::s, 0, 2,
         [&](int row, int col) { return row < 16 ? before(row, col) : s(row, col); });
  CHECK(named(diagnosis_of(dump)) == "qk s stale_value");
}

TEST_CASE("locate: one lane of a row that disagrees") {
  Dump dump = synthetic_dump({.problem = three_tiles});
  tensor_of(dump, SiteId::m).set(slot_index(dump, SiteId::m, 0, 0, 5, 0, 2), 17.25);
  const Diagnosis diagnosis = diagnosis_of(dump);
  CHECK(named(diagnosis) == "softmax m lanes_disagree");
  CHECK_THAT(joined(diagnosis.evidence), Catch::Matchers::ContainsSubstring("row 5"));
  CHECK_THAT(joined(diagnosis.evidence), Catch::Matchers::ContainsSubstring("17.25"));
}

TEST_CASE("locate: the first NaN, with its operands") {
  Dump dump = synthetic_dump({.problem = {1, 1, 1, 64, 32, 32, true}, .br = 64});
  // Query 0 sees no key: alpha = 2^(-inf - -inf).
  for (int copy = 0; copy < 4; ++copy) {
    tensor_of(dump, SiteId::alpha)
        .set(slot_index(dump, SiteId::alpha, 0, 0, 0, 0, copy), std::nan(""));
  }
  const Diagnosis diagnosis = diagnosis_of(dump);
  INFO(joined(diagnosis.evidence));
  CHECK(named(diagnosis) == "softmax alpha masked_row_unguarded");
  CHECK_THAT(joined(diagnosis.evidence), Catch::Matchers::ContainsSubstring("m_prev[0] = -inf"));
}

TEST_CASE("locate: O that is NaN of operands that are numbers started from what was there") {
  Dump dump = synthetic_dump({.problem = three_tiles});
  const reference::Array o = held(dump, SiteId::o, 0, 0, 32);
  change(dump, SiteId::o, 0, 0,
         [&](int row, int col) { return row % 5 == 1 ? std::nan("") : o(row, col); });
  CHECK(named(diagnosis_of(dump)) == "pv o accumulator_not_cleared?");
  // Of a tile that comes later, what was there is what the ones before left.
  dump = synthetic_dump({.problem = three_tiles});
  const reference::Array then = held(dump, SiteId::o, 0, 1, 32);
  change(dump, SiteId::o, 0, 1,
         [&](int row, int col) { return row % 5 == 1 ? std::nan("") : then(row, col); });
  CHECK(diagnosis_of(dump).cause == Cause::non_finite);
}

TEST_CASE("locate: registers that nobody sets before the first tile") {
  // l, of rows that see no key too, where NaN could come from -inf - (-inf).
  Dump dump = synthetic_dump({.problem = {1, 1, 1, 64, 32, 32, true}, .br = 64});
  change(dump, SiteId::l, 0, 0, [](int, int) { return std::nan(""); });
  CHECK(named(diagnosis_of(dump)) == "softmax l accumulator_not_cleared");
  // m, which goes to m_prev as it is: a site that no tile writes is another fault.
  const auto without_start = [](const Problem& problem, std::int64_t tiles) {
    Dump dump = synthetic_dump({.problem = problem});
    const SiteSlots slots(dump, *dump.find_site("m_prev"));
    for (std::int64_t tile = 0; tile < tiles; ++tile) {
      for (std::int64_t slot = 0; slot < slots.count(); ++slot) {
        poison(tensor_of(dump, SiteId::m_prev), slots.first(0, tile) + slot);
      }
    }
    return named(diagnosis_of(dump));
  };
  CHECK(without_start(three_tiles, 1) == "softmax m_prev uninitialised_register");
  CHECK(without_start(three_tiles, 3) == "softmax m_prev never_written");
  CHECK(without_start({1, 1, 1, 32, 32, 32, false}, 1) == "softmax m_prev never_written?");
}

TEST_CASE("locate: a row of O that is NaN in part was not divided by zero") {
  Dump dump = synthetic_dump({.problem = {1, 1, 1, 64, 32, 32, true}, .br = 64});
  Tensor& o = tensor_of(dump, SiteId::o_final);
  // Query 0 sees no key.
  o.set(3, std::nan(""));
  CHECK(diagnosis_of(dump).cause == Cause::non_finite);
  for (std::int64_t col = 0; col < o.dims.back(); ++col) o.set(col, std::nan(""));
  CHECK(named(diagnosis_of(dump)) == "epilogue o_final divided_by_zero");
}

TEST_CASE("locate: a maximum that is held in an integer, or starts at 0") {
  const auto with_m_as = [](double (*whole)(double)) {
    Dump dump = synthetic_dump({.problem = three_tiles});
    for (std::int64_t tile = 0; tile < 3; ++tile) {
      const reference::Array s = held(dump, SiteId::s, 0, tile, 32);
      const reference::Array m = held(dump, SiteId::m, 0, tile, 32);
      change(dump, SiteId::p, 0, tile,
             [&](int row, int col) { return std::exp2(s(row, col) - whole(m(row, 0))); });
    }
    return named(diagnosis_of(dump));
  };
  CHECK(with_m_as([](double x) { return std::trunc(x); }) == "softmax p precision_lost");
  CHECK(with_m_as([](double x) { return std::floor(x); }) == "softmax p precision_lost");
  CHECK(with_m_as([](double x) { return std::nearbyint(x); }) == "softmax p precision_lost");
  Dump dump = synthetic_dump({.problem = three_tiles});
  change(dump, SiteId::m_prev, 0, 0, [](int, int) { return 0; });
  CHECK(named(diagnosis_of(dump)) == "softmax m_prev clamped");
  // l starts at 1 beside it: an attention sink.
  const reference::Array m = held(dump, SiteId::m, 0, 0, 32), l = held(dump, SiteId::l, 0, 0, 32);
  change(dump, SiteId::l, 0, 0, [&](int row, int) { return l(row, 0) + std::exp2(-m(row, 0)); });
  const Diagnosis sink = diagnosis_of(dump);
  CHECK(named(sink) == "softmax m_prev wrong_formula");
  CHECK_THAT(joined(sink.evidence), Catch::Matchers::ContainsSubstring("and l at 1"));
}

TEST_CASE("locate: a formula that fits the first tile alone is none") {
  Dump dump = synthetic_dump({.problem = three_tiles});
  for (std::int64_t tile = 0; tile < 3; ++tile) {
    const reference::Array s = held(dump, SiteId::s, 0, tile, 32);
    const reference::Array m = held(dump, SiteId::m, 0, tile, 32);
    // In the first tile as if m were that of before it.
    change(dump, SiteId::p, 0, tile, [&](int row, int col) {
      return std::exp2(s(row, col) - (tile == 0 ? 0 : 0.9 * m(row, 0)));
    });
  }
  CHECK_FALSE(diagnosis_of(dump).certain);
}

TEST_CASE("locate: rows of another head are those of no other tile") {
  const Problem problem{1, 2, 2, 32, 96, 32, false};
  const auto with_rows_of = [&](int head, int first) {
    Dump dump = synthetic_dump({.problem = problem});
    const Tensor& k = *dump.find("k");
    change(dump, SiteId::k_smem, 1, 0, [&](int row, int col) {
      return k.at(((head * problem.len_kv + first + row) * problem.d) + col);
    });
    return named(diagnosis_of(dump));
  };
  // Heads as far apart as rows of Q, then the next tile.
  CHECK(with_rows_of(0, 32) == "load k_smem wrong_source");
  CHECK(with_rows_of(1, 32) == "load k_smem stale_operand");
  CHECK(with_rows_of(0, 0) == "load k_smem wrong_head");
}

TEST_CASE("locate: right values in wrong places") {
  const auto moved = [](SiteId id, const std::function<std::pair<int, int>(int, int)>& from) {
    Dump dump = synthetic_dump({.problem = one_tile});
    const reference::Array right = held(dump, id, 0, 0, 32);
    change(dump, id, 0, 0, [&](int row, int col) {
      const auto [r, c] = from(row, col);
      return right(r, c);
    });
    return diagnosis_of(dump);
  };
  using Place = std::pair<int, int>;
  const auto check = [](const Diagnosis& diagnosis, const std::string& name,
                        const std::string& evidence) {
    CHECK(named(diagnosis) == name);
    CHECK_THAT(joined(diagnosis.evidence), Catch::Matchers::ContainsSubstring(evidence));
  };
  check(moved(SiteId::s, [](int r, int c) { return Place{r, c ^ 1}; }), "qk s permuted", "xor 1");
  check(moved(SiteId::s,
              [](int r, int c) {
                return Place{r ^ 8, c};
              }),
        "qk s permuted", "row i xor 8");
  check(moved(SiteId::s, [](int r, int c) { return Place{c, r}; }), "qk s transposed", "exchanged");
  check(moved(SiteId::q_smem,
              [](int r, int c) {
                return Place{r, c ^ ((r % 4) * 8)};
              }),
        "load q_smem permuted", "chunk");
  check(moved(SiteId::k_smem,
              [](int r, int c) {
                return Place{(r + 1) % 32, c};
              }),
        "load k_smem permuted", "row");
  // Those of some stand in the place of others, too.
  check(moved(SiteId::k_smem,
              [](int r, int c) {
                return Place{r, c & ~2};
              }),
        "load k_smem wrong_source", "column");
  // Whole rows of the outputs.
  Dump dump = synthetic_dump({.problem = one_tile});
  const Tensor right = *dump.find("o_final");
  Tensor& o = tensor_of(dump, SiteId::o_final);
  const std::int64_t d = o.dims.back(), rows = o.size() / d;
  for (std::int64_t i = 0; i < o.size(); ++i) {
    const std::int64_t row = (i / d + 5) % rows;
    o.set(i, right.at(row * d + i % d));
  }
  check(diagnosis_of(dump), "epilogue o_final misplaced", "row 0 holds what belongs to row 5");
}

TEST_CASE("locate: lanes that count their registers wrongly, of narrow types, too") {
  // A lane holds four columns of a row of the upper half and of one of the lower half: register
  // 4 h + c, taken for register 2 h + c.
  const Problem wide{1, 1, 1, 32, 32, 64, false};
  for (const ElementType dtype : {ElementType::f16, ElementType::bf16}) {
    Dump dump = synthetic_dump({.problem = wide, .dtype = dtype});
    const Tensor right = *dump.find("o_final");
    Tensor& o = tensor_of(dump, SiteId::o_final);
    for (int i = 0; i < o.size(); ++i) {
      const int row = i / 64, col = i % 64, reg = row / 16 * 2 + col % 4;
      o.set(i, right.at((row % 16 + reg / 4 * 16) * 64 + col / 4 * 4 + reg % 4));
    }
    const Diagnosis diagnosis = diagnosis_of(dump);
    INFO(name_of(dtype) << " " << joined(diagnosis.evidence));
    CHECK(named(diagnosis) == "epilogue o_final permuted");
  }
}

TEST_CASE("locate: no detector explains noise") {
  for (const SiteId id :
       {SiteId::k_smem, SiteId::s, SiteId::m, SiteId::alpha, SiteId::p, SiteId::l, SiteId::o}) {
    Dump dump = synthetic_dump({.problem = three_tiles});
    const reference::Array right = held(dump, id, 0, 1, 32);
    std::uint32_t state = 1;
    const int cols = static_cast<int>(right.cols());
    reference::Array noisy = right;
    for (int row = 0; row < right.rows(); ++row) {
      for (int col = 0; col < cols; ++col) {
        state = state * 1664525u + 1013904223u;
        noisy(row, col) += 0.25 + state / 4294967296.0;
      }
    }
    change(dump, id, 0, 1, [&](int row, int col) { return noisy(row, col); });
    const Diagnosis diagnosis = diagnosis_of(dump);
    INFO(name_of(id) << "\n" << joined(diagnosis.evidence));
    CHECK(diagnosis.cause == Cause::unexplained);
    CHECK_FALSE(diagnosis.certain);
  }
}

TEST_CASE("locate: a broken rule of the machine is a cause by itself") {
  Dump dump = synthetic_dump({.problem = one_tile});
  dump.info.incomplete = "block 0: lanes wait at different barriers";
  const Diagnosis diagnosis = diagnosis_of(dump);
  CHECK(diagnosis.cause == Cause::machine_rule);
  CHECK(diagnosis.certain);
  dump.info.incomplete =
      "block 0: lane 16 of warp 0, ldmatrix at k.h:5: misaligned address: a multiple of 16 is "
      "needed";
  CHECK(diagnosis_of(dump).cause == Cause::misaligned);
}

TEST_CASE("locate: who arrives once too often, or too early, is not certain") {
  Dump dump = synthetic_dump({.problem = one_tile});
  dump.info.incomplete =
      "block 0: lane 0 of warp 4, mbarrier.arrive: one arrival too many: of its phase 0 (parity 0) "
      "1 of 1 arrivals have come";
  const Diagnosis diagnosis = diagnosis_of(dump);
  CHECK(diagnosis.cause == Cause::machine_rule);
  CHECK_FALSE(diagnosis.certain);
  // Nor where the memory checker sees no more than that.
  CheckReport report;
  report.stop = Stop::Kind::rule;
  report.fault = dump.info.incomplete;
  CHECK(diagnose(report).cause == Cause::machine_rule);
  CHECK_FALSE(diagnose(report).certain);
  report.fault = "block 0: lanes wait at different barriers";
  CHECK(diagnose(report).certain);
}

TEST_CASE("locate: a place that is filled before all are done with it, by how the run ended") {
  Dump dump = synthetic_dump({.problem = one_tile});
  const auto cause_of = [&](const std::string& story) {
    dump.info.incomplete = "block 0: q_empty[0]: of its phase 8 (parity 0) " + story;
    return diagnosis_of(dump).cause;
  };
  CHECK(cause_of("0 of 1 arrivals have come; nobody waited for its last 8 phases: more arrive than "
                 "it counts") == Cause::operand_overwritten);
  CHECK(cause_of("0 of 1 arrivals have come; nobody waited for its last 2 phases: the last wait of "
                 "who arrives passed by a phase that is over") == Cause::wrong_phase);
  dump.info.incomplete =
      "block 0: empty: 0 of 1; nobody waited for its last 2 phases, in which the same threads "
      "arrive: they come too early, or more than once";
  CHECK(diagnosis_of(dump).cause == Cause::operand_overwritten);
  CHECK_FALSE(diagnosis_of(dump).certain);
  CHECK(cause_of("1 of 1 arrivals have come; it comes round to a place that is not free again") ==
        Cause::operand_overwritten);
  CHECK(cause_of("1 of 1 arrivals have come; it comes round to a place that is not free again: its "
                 "last wait passed by a phase that is over") == Cause::wrong_phase);
  CHECK(cause_of("0 of 1 arrivals have come; nobody waited for its phase 7, which is over") ==
        Cause::wrong_phase);
  CHECK(cause_of("0 of 1 arrivals have come") == Cause::machine_rule);
}

TEST_CASE("locate: lanes that have written all of an item are on their way to the next") {
  const Dump done = synthetic_dump({.problem = three_tiles});
  const auto next = place_behind_last_site(done, last_sites(done));
  REQUIRE(next);
  CHECK((next->site == SiteId::s && next->stage == Stage::qk));
  // Of the last tile, O is not there yet.
  Dump dump = synthetic_dump({.problem = three_tiles});
  const SiteSlots slots(dump, *dump.find_site("o"));
  for (std::int64_t slot = 0; slot < slots.count(); ++slot) {
    poison(tensor_of(dump, SiteId::o), slots.first(0, 2) + slot);
  }
  const auto before = place_behind_last_site(dump, last_sites(dump));
  REQUIRE(before);
  CHECK((before->site == SiteId::o && before->tile == 2));
}

TEST_CASE("locate: a deadlock is where those stand who wait, even if others came further") {
  Dump dump = synthetic_dump({.problem = three_tiles});
  for (const DumpSite& entry : dump.info.sites) {
    if (is_output(entry.site.id)) {
      Tensor& output = tensor_of(dump, entry.site.id);
      for (std::int64_t i = 0; i < output.size(); ++i) poison(output, i);
      continue;
    }
    const SiteSlots slots(dump, entry);
    for (std::int64_t tile = 0; tile < (entry.site.per_tile ? 3 : 1); ++tile) {
      for (std::int64_t slot = 0; slot < slots.count(); ++slot) {
        const bool is_last = tile == 2 && entry.site.id == SiteId::o;
        if (slots.holder(slot).warp != 0 && !is_last) continue;
        poison(tensor_of(dump, entry.site.id), slots.first(0, tile) + slot);
      }
    }
  }
  dump.info.incomplete =
      "block 0: deadlock: what lanes wait for never comes\n"
      "  warp 0 lanes 0-31 wait in barrier_sync at k.h:1 for barrier 1: 64 of 96 threads have come";
  const auto place = place_behind_last_site(dump, last_sites(dump));
  REQUIRE(place);
  CHECK((place->stage == Stage::load && place->warp == 0));
  // For a warp whose lanes wait for each other, the others wait.
  const auto waiting_warp = [&](const std::string& call) {
    dump.info.incomplete +=
        "\n  warp 1 lanes 0-3 wait in shfl at k.h:2, mask 0xffffffff\n  warp 1 lanes 4-31 wait "
        "in " +
        call;
    return place_behind_last_site(dump, last_sites(dump)).value().warp;
  };
  CHECK(waiting_warp("ballot at k.h:3, mask 0xffffffff") == 1);
  CHECK(waiting_warp("mbarrier_wait at k.h:4 for full[1]: 0 of 1 arrivals have come") == 0);
}

TEST_CASE("locate: who waits for mbarriers alone waits for tiles") {
  Dump dump = synthetic_dump({.problem = three_tiles});
  for (const DumpSite& entry : dump.info.sites) {
    const SiteSlots slots(dump, entry);
    for (std::int64_t tile = 0; tile < (entry.site.per_tile ? 3 : 1); ++tile) {
      if (tile == 0 && entry.site.id <= SiteId::s) continue;  // that is what they came to
      for (std::int64_t slot = 0; slot < slots.count(); ++slot) {
        poison(tensor_of(dump, entry.site.id), slots.first(0, tile) + slot);
      }
    }
  }
  const auto stage_of = [&](const std::string& second) {
    dump.info.incomplete =
        "block 0: deadlock\n  warp 0 lanes 0-31 wait in mbarrier_wait for a\n"
        "  warp 1 lanes 0-31 wait in " +
        second + " for b";
    dump.info.stop.kind = Stop::Kind::rule;
    return diagnosis_of(dump).first->stage;
  };
  CHECK(stage_of("mbarrier.try_wait.parity.shared.b64") == Stage::load);
  CHECK(stage_of("barrier_sync") == Stage::softmax);
  CHECK(stage_of("barrier_sync for c; nobody waited for its last 2 phases: more arrive") ==
        Stage::load);
  CHECK(*diagnosis_of(dump).end_stage == Stage::load);
}

TEST_CASE("locate: lanes wait in vain for those that wait where few have come") {
  const auto wait = [](const char* lanes, const char* in, const char* come) {
    return std::string("  ") + lanes + " wait in bar.sync at x.cu:7 in " + in + " for barrier " +
           come + " threads have come\n";
  };
  const std::string most = wait("warps 0-3 lanes 0-31", "qk", "1: 128 of 160"),
                    few = wait("warp 4 lanes 0-31", "load", "2: 32 of 160"),
                    in_warp = "  warp 5 lanes 0-15 wait in shfl.sync at x.cu:9 in pv\n";
  CHECK(stage_of_end("block 0: deadlock\n" + most + few) == Stage::load);
  CHECK(stage_of_end("block 0: deadlock\n" + few + most) == Stage::load);
  CHECK(stage_of_end("block 0: deadlock\n" + most + few + in_warp) == Stage::pv);
  CHECK(stage_of_end("block 0: deadlock\n" + most) == Stage::qk);
  // Who filled the tile before has gone.
  std::string gone = most;
  gone.replace(gone.size() - 1, 1,
               "; warp 4 has exited, which came before by bar.arrive at x.cu:5 in load\n");
  CHECK(stage_of_end("block 0: deadlock\n" + gone) == Stage::load);
  // The rest of the warp waits for a lane of it that waits for a tile.
  const std::string load = "  warps 0-3 lanes 0-31 wait in mbarrier.try_wait at x.cu:4 in load\n",
                    of_lane = "  warp 5 lanes 16 wait in mbarrier.try_wait at x.cu:5 in load\n";
  CHECK(stage_of_end("block 0: deadlock\n" + load + in_warp) == Stage::pv);
  CHECK(stage_of_end("block 0: deadlock\n" + load + in_warp + of_lane) == Stage::load);
  CHECK(!stage_of_end("block 0: deadlock\n"));
  // A loop that does not end is of its first stage, wherever lanes are in it.
  const std::string run = "  warps 0-2 lanes 0-31 run in mul.f32 at x.cu:20 in pv\n",
                    other = "  warp 3 lanes 0-31 run in fma.rn.f32 at x.cu:17 in qk\n";
  CHECK(stage_of_end("block 0:\n" + run + other) == Stage::qk);
  CHECK(stage_of_end("block 0:\n" + other + run) == Stage::qk);
}

TEST_CASE("locate: a phase that other bytes come in than it expects, though all arrive") {
  Dump dump = synthetic_dump({.problem = one_tile});
  const auto cause_with = [&](const std::string& arrivals_and_bytes) {
    dump.info.incomplete =
        "block 0: deadlock\n  warp 4 waits for v_full: of its phase 0 (parity 0) " +
        arrivals_and_bytes + " have come";
    return diagnosis_of(dump).cause;
  };
  CHECK(cause_with("1 of 1 arrivals and 8192 of 4096 expected bytes") == Cause::wrong_expect_tx);
  CHECK(cause_with("1 of 1 arrivals and 4096 of 8192 expected bytes") == Cause::wrong_expect_tx);
  // No copy brings any, or who would arrive does not.
  CHECK(cause_with("1 of 1 arrivals and 0 of 8192 expected bytes") == Cause::deadlock);
  CHECK(cause_with("0 of 1 arrivals and 4096 of 8192 expected bytes") == Cause::deadlock);
  CHECK(cause_with("1 of 1 arrivals and all") == Cause::deadlock);

  // A block of a cluster that is through does not send the rest; one that waits as well may.
  const auto cause_beside = [&](const char* other) {
    dump.info.incomplete = std::string("block 0: deadlock\n of block 0, rank 0 of its cluster:\n") +
                           "  warp 4 lanes 0-31 wait in " + other +
                           "\n of block 1, rank 1 of its cluster:\n  warp 4 lanes 0-31 wait in "
                           "mbarrier.try_wait for bar: of its phase 0 (parity 0) 1 of 1 arrivals "
                           "and 4096 of 8192 expected bytes have come\n";
    return diagnosis_of(dump).cause;
  };
  CHECK(cause_beside("barrier.cluster.wait for the cluster's barrier") == Cause::deadlock);
  CHECK(cause_beside("mbarrier.try_wait for bar: of its phase 0 (parity 0) 1 of 1 arrivals and "
                     "4096 of 8192 expected bytes have come") == Cause::wrong_expect_tx);
}

}  // namespace
}  // namespace lanescope
