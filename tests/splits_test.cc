// Kernels in two passes: how the problem is cut, what dumps and reports say of it, and how the
// combine pass is judged.

#include <cmath>
#include <filesystem>
#include <string>

#include "debug/causes/diagnose.h"
#include "debug/report/report.h"
#include "debug/show/show.h"
#include "gates/run/partition.h"
#include "gates/run/run_options.h"
#include "reference/error.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "tests/support/verdict.h"

namespace lanescope {
namespace {

using Catch::Matchers::ContainsSubstring;
using reference::Array;
using testing::report_of;

RunOptions options_for(const std::string& kernel, Gate gate, const std::string& shape) {
  RunOptions options;
  options.kernel = kernel;
  options.gate = name_of(gate);
  options.backend = "sim";
  options.shape = shape;
  return options;
}

Dump dump_of(const RunOptions& options) {
  const PreparedRun run = prepare(options);
  return launch(*run.module, run.module_name, run.request);
}

/// Two groups of four heads, three queries each: a tile of 12 rows per group, in three splits.
Dump decoding(Gate gate = Gate::fused, std::int64_t splits = 3) {
  RunOptions options = options_for("splitk", gate, "h=8,hkv=2,s=3,skv=200,d=64");
  options.splits = splits;
  return dump_of(options);
}

Tensor& tensor_of(Dump& dump, const char* name) { return const_cast<Tensor&>(*dump.find(name)); }

/// [split][rows, cols] of a partial of row tile 0.
std::vector<Array> partials(const Dump& dump, SiteId id) {
  const SiteSlots slots(dump, *dump.find_site(name_of(id)));
  std::vector<Array> all;
  for (int split = 0; split < dump.info.splits; ++split) {
    all.push_back(slots.elements(split, 0, dump.info.rows(dump.info.place(0))));
  }
  return all;
}

TEST_CASE("splits: how many there are, and which heads share a tile", "[quick]") {
  Module module{};
  module.kernel = "two_passes";
  module.br = 16;
  module.bc = 32;
  module.combines = true;
  const auto partition = [&](const Problem& problem, std::optional<std::int64_t> splits = {}) {
    const Partition p = partition_of(module, problem, splits);
    return std::pair(p.splits, p.heads_per_tile);
  };
  using Pair = std::pair<std::int64_t, std::int64_t>;
  CHECK(partition({1, 32, 32, 1, 65536, 128, false}) == Pair(16, 1));
  CHECK(partition({8, 32, 32, 1, 16384, 128, false}) == Pair(2, 1));
  CHECK(partition({1, 32, 8, 1, 65536, 128, false}) == Pair(66, 4));
  CHECK(partition({1, 8, 8, 4096, 4096, 128, true}) == Pair(1, 1));
  CHECK(partition({1, 1, 1, 1, 1, 64, false}) == Pair(1, 1));
  CHECK(partition({1, 1, 1, 1, 320, 64, false}) == Pair(5, 1));
  CHECK(partition({1, 4, 2, 15, 320, 64, false}) == Pair(5, 2));
  CHECK(partition({1, 4, 2, 16, 320, 64, false}) == Pair(5, 1));
  CHECK(partition({1, 1, 1, 1, 320, 64, false}, 99) == Pair(99, 1));
  CHECK_THROWS_AS(partition({1, 1, 1, 1, 320, 64, false}, 0), UsageError);
  CHECK_THROWS_AS(partition({1, 1, 1, 1, 320, 64, false}, 1 << 30), UsageError);
  module.combines = false;
  CHECK(partition({1, 4, 2, 1, 320, 64, false}) == Pair(1, 1));
  CHECK_THROWS_AS(partition({1, 1, 1, 1, 320, 64, false}, 1), UsageError);
}

TEST_CASE("splits: blocks, rows and keys of a dump") {
  const Dump dump = decoding();
  const DumpInfo& info = dump.info;
  CHECK(info.splits == 3);
  CHECK(info.heads_per_tile == 4);
  CHECK(info.block_count() == 6);
  CHECK(info.kv_tiles() == 3);  // of seven
  const BlockPlace place = info.place(5);
  CHECK(place.head == 4);
  CHECK(place.split == 2);
  CHECK(info.rows(place) == 12);
  CHECK(info.head_of(place, 7) == 6);
  CHECK(info.query_of(place, 7) == 1);
  CHECK(info.key_of(place, 0) == 192);
  CHECK(dump.find("o_partial")->dims == std::vector<std::int64_t>{6, 1, 16, 64});
  CHECK(dump.find("m_partial")->dims == std::vector<std::int64_t>{6, 1, 16, 1});

  const testing::TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "x.safetensors";
  write_dump(dump, path);
  const Dump read = read_dump(path);
  CHECK(read.info.splits == 3);
  CHECK(read.info.heads_per_tile == 4);
  for (const BitReport& report : diff_dumps(dump, read)) CHECK(report.differing == 0);
  RunOptions options = options_for("splitk", Gate::fused, "h=8,hkv=2,s=3,skv=200,d=64");
  options.splits = 2;
  for (const BitReport& report : diff_dumps(dump, dump_of(options))) {  // by value
    INFO(report.name);
    CHECK((report.compared > 0) == (report.name == "o_final" || report.name == "lse"));
    CHECK(report.differing == 0);
  }

  ShowOptions show{.site = "m_partial", .block = 5};
  CHECK_THAT(show_text(dump, show, {}),
             ContainsSubstring("block 5 (batch 0, heads 4..7, queries from 0, split 2)"));
  show = {.site = "k", .block = 5};
  CHECK_THAT(show_text(dump, show, {}), ContainsSubstring("tile 0 (keys from 192)"));
  show.site = "o_final";
  CHECK_THAT(show_json(dump, show), ContainsSubstring("\"head\": 4"));
}

TEST_CASE("splits: a wrong partial is the partial's fault, not the combine pass's") {
  Dump dump = decoding();
  Tensor& o = tensor_of(dump, "o_partial");
  const std::int64_t index = (2 * 16 + 5) * 64 + 9;  // block 2, row 5, column 9
  o.set(index, o.at(index) + 1);
  const DiffReport report = diff_against_reference(dump);
  REQUIRE(report.first);
  CHECK(report.first->site == SiteId::o_partial);
  CHECK(report.first->block == 2);
  CHECK(report.first->row == 5);
  CHECK(report.first->head == 1);
  CHECK(report.first->query == 2);
  CHECK(report_of(report, SiteId::o_partial, Judgement::local)->failed == 1);
  CHECK(report_of(report, SiteId::o_partial, Judgement::chain)->failed == 1);
  CHECK(report_of(report, SiteId::o_final, Judgement::chain)->failed == 0);
  // What the combine pass received would have given another output than the one in the dump.
  CHECK(report_of(report, SiteId::o_final, Judgement::local)->failed == 1);
}

TEST_CASE("splits: partials in another form stand for the same") {
  using Partials = Recurrence::Partials;
  for (const Partials form : {Partials::plain, Partials::divided, Partials::shifted}) {
    Dump dump = decoding();
    Tensor &o = tensor_of(dump, "o_partial"), &m = tensor_of(dump, "m_partial"),
           &l = tensor_of(dump, "l_partial");
    for (std::int64_t row = 0; row < l.size(); ++row) {
      const double sum = l.at(row);
      if (!(sum > 0)) continue;
      // Plain: a part that is divided while nothing tells whoever reads it is a fault.
      const std::int64_t end = form == Partials::plain ? row * 64 + 1 : (row + 1) * 64;
      for (std::int64_t i = row * 64; i < end; ++i) o.set(i, o.at(i) / sum);
      if (form != Partials::shifted) continue;
      m.set(row, m.at(row) + std::log2(sum));
      l.set(row, 1);
    }
    const DiffReport report = diff_against_reference(dump);
    CHECK_FALSE(report.match);
    CHECK(report.recurrence.has_value() == (form != Partials::plain));
    if (report.recurrence) CHECK(report.recurrence->partials == form);
  }
}

TEST_CASE("splits: a dump of some blocks only is judged as far as it goes") {
  RunOptions options = options_for("splitk", Gate::fused, "h=2,s=40,skv=200,d=64");
  options.splits = 3;
  options.where = "block=4,tile=0";
  const DiffReport report = diff_against_reference(dump_of(options));
  CHECK(report.match);
  CHECK(report_of(report, SiteId::o_partial, Judgement::chain)->compared == 16 * 64);
  CHECK(report_of(report, SiteId::o_final, Judgement::chain)->compared == 80 * 64);
  CHECK(report_of(report, SiteId::o_final, Judgement::local) == nullptr);
}

TEST_CASE("splits: partials that are stored from elsewhere, or of more keys than the split has") {
  Dump odd = decoding();
  Tensor& stored = tensor_of(odd, "o_partial");
  for (std::int64_t row = 0; row < 6 * 16; ++row) {
    for (std::int64_t col = 1; col < 64 && row % 16 >= 8; col += 2) {
      stored.set(row * 64 + col, stored.at(row * 64 + col - 1));
    }
  }
  CHECK(diagnose(odd, diff_against_reference(odd)).cause == Cause::permuted);

  // Each part at the place of the next one of its row tile, and of the other row tile.
  for (const std::int64_t parts : {1, 3}) {
    Dump moved = decoding();
    for (const char* const name : {"o_partial", "m_partial", "l_partial"}) {
      const Tensor from = tensor_of(moved, name);
      Tensor& to = tensor_of(moved, name);
      for (std::int64_t i = 0; i < to.size(); ++i) {
        to.set(i, from.at((i + parts * (to.size() / 6)) % to.size()));
      }
    }
    CHECK(diagnose(moved, diff_against_reference(moved)).cause == Cause::misplaced);
  }

  // The first of three splits goes on to the last key: it holds all of them.
  Dump whole = decoding();
  const auto o = partials(whole, SiteId::o_partial), m = partials(whole, SiteId::m_partial),
             l = partials(whole, SiteId::l_partial);
  const Array top = m[0].max(m[1]).max(m[2]);
  Array sum = Array::Zero(12, 1), out = Array::Zero(12, 64);
  for (std::size_t i = 0; i < 3; ++i) {
    const Array weight = Array(m[i] - top).map([](double x) { return std::exp2(x); });
    sum += l[i] * weight;
    out += o[i] * weight;
  }
  for (int row = 0; row < 12; ++row) {
    tensor_of(whole, "m_partial").set(row, top(row));
    tensor_of(whole, "l_partial").set(row, sum(row));
    for (int col = 0; col < 64; ++col) {
      tensor_of(whole, "o_partial").set(row * 64 + col, out(row, col));
    }
  }
  const Diagnosis diagnosis = diagnose(whole, diff_against_reference(whole));
  CHECK(diagnosis.cause == Cause::contribution_repeated);
  CHECK(diagnosis.certain);
  CHECK(diagnosis.first->stage == Stage::load);
}

TEST_CASE("splits: what a wrong combine pass did is named") {
  for (const Gate gate : {Gate::fused, Gate::combine_only}) {
    const Dump clean = decoding(gate);
    const auto o = partials(clean, SiteId::o_partial), m = partials(clean, SiteId::m_partial),
               l = partials(clean, SiteId::l_partial);
    const Array top = m[0].max(m[1]).max(m[2]);
    const auto weight = [&](std::size_t i, double base) -> Array {
      return (m[i] - top).map([=](double x) { return std::pow(base, x); });
    };
    Array sum = Array::Zero(12, 1);
    for (std::size_t i = 0; i < 3; ++i) sum += l[i] * weight(i, 2);
    const auto named = [&](const std::function<Array(std::size_t)>& factor) {
      Dump dump = clean;
      Array out = Array::Zero(12, 64);
      for (std::size_t i = 0; i < 3; ++i) out += o[i] * (factor(i) / sum);
      Tensor& o_final = tensor_of(dump, "o_final");
      for (int row = 0; row < 12; ++row) {
        for (int col = 0; col < 64; ++col) o_final.set(row * 64 + col, out(row, col));
      }
      const Diagnosis diagnosis = diagnose(dump, diff_against_reference(dump));
      REQUIRE(diagnosis.first);
      return std::string(name_of(diagnosis.first->stage)) + " " + name_of(diagnosis.first->site) +
             " " + name_of(diagnosis.cause) + (diagnosis.certain ? "" : "?");
    };
    const Array one = Array::Ones(12, 1);
    CHECK(named([&](std::size_t i) { return Array(l[i] * weight(i, 2)); }) ==
          "combine o_final weighted_by_sum");
    CHECK(named([&](std::size_t i) { return Array(weight(i, 2) / l[i]); }) ==
          "combine o_final normalised_twice");
    CHECK(named([&](std::size_t) { return one; }) == "combine o_final not_rescaled");
    CHECK(named([&](std::size_t i) { return weight(i, 4); }) == "combine o_final rescaled_twice");
    CHECK(named([&](std::size_t i) { return weight(i, std::exp(1.0)); }) ==
          "combine o_final wrong_base");
    // d = 64: the scale is 1/8, and 1/8 log2(e) of scores in base 2.
    for (const double scale : {0.125, 0.125 / std::log(2.0)}) {
      CHECK(named([&](std::size_t i) { return weight(i, std::exp2(scale)); }) ==
            "combine o_final scale_repeated");
    }
    CHECK(named([&](std::size_t i) { return Array(weight(i, 2) * (i != 1)); }) ==
          "combine o_final contribution_missing");
    CHECK(named([&](std::size_t i) { return Array(weight(i, 2) * (i == 2 ? 2 : 1)); }) ==
          "combine o_final contribution_repeated");
    const Array sum_of_two = l[0] * weight(0, 2) + l[1] * weight(1, 2) + l[0] * weight(2, 2);
    CHECK(named([&](std::size_t i) { return Array(weight(i, 2) * (sum / sum_of_two)); }) ==
          "combine o_final wrong_source");
    CHECK(named([&](std::size_t i) { return Array(weight(i, 2) * (i == 2)); }) ==
          "combine o_final accumulator_lost");
    CHECK(named([&](std::size_t i) { return Array(weight(i, 2) * sum); }) ==
          "combine o_final not_normalised");
    // l of the first split in the place of each one's.
    Array of_first = 0 * sum;
    for (std::size_t i = 0; i < 3; ++i) of_first += l[0] * weight(i, 2);
    CHECK(named([&](std::size_t i) { return Array(weight(i, 2) * (sum / of_first)); }) ==
          "combine o_final wrong_source");
    // Nothing is named that does not hold.
    CHECK(named([&](std::size_t i) { return Array(weight(i, 2) + 0.3 * double(i)); }) ==
          "combine o_final unexplained?");
  }
}

TEST_CASE(
    "splits: NaN of a part without keys is -inf - (-inf) where nothing goes before it alone") {
  const auto named = [](const std::string& shape, std::int64_t without) {
    RunOptions options = options_for("splitk", Gate::fused, shape);
    options.splits = 2;
    options.causal = true;
    Dump dump = dump_of(options);
    Tensor& o = tensor_of(dump, "o_final");
    Tensor& lse = tensor_of(dump, "lse");
    for (std::int64_t i = 0; i < without * 64; ++i) o.set(i, std::nan(""));
    for (std::int64_t i = 0; i < without; ++i) lse.set(i, std::nan(""));
    const Diagnosis diagnosis = diagnose(dump, diff_against_reference(dump));
    return name_of(diagnosis.cause) + std::string(diagnosis.certain ? "" : "?");
  };
  // Rows that see no key; and such that see none of the second split: relative to its maximum, the
  // weight of the first is infinite.
  CHECK(named("h=1,s=96,skv=64,d=64", 16) == "masked_row_unguarded");
  CHECK(named("h=1,s=64,d=64", 16) == "overflow");
}

TEST_CASE("splits: a loop over them that ends early, or begins anew") {
  const Dump clean = decoding(Gate::fused, 4);
  const auto o = partials(clean, SiteId::o_partial), m = partials(clean, SiteId::m_partial),
             l = partials(clean, SiteId::l_partial);
  const Array top = m[0].max(m[1]).max(m[2]).max(m[3]);
  const auto named = [&](std::initializer_list<std::size_t> taken) {
    Dump dump = clean;
    Array out = Array::Zero(12, 64), sum = Array::Zero(12, 1);
    for (const std::size_t i : taken) {
      const Array weight = (m[i] - top).map([](double x) { return std::exp2(x); });
      out += o[i] * weight;
      sum += l[i] * weight;
    }
    Tensor& o_final = tensor_of(dump, "o_final");
    for (int row = 0; row < 12; ++row) {
      for (int col = 0; col < 64; ++col) o_final.set(row * 64 + col, out(row, col) / sum(row));
    }
    const Diagnosis diagnosis = diagnose(dump, diff_against_reference(dump));
    return name_of(diagnosis.cause) + std::string(diagnosis.certain ? "" : "?");
  };
  CHECK(named({0, 1}) == "contribution_missing");
  // Two at a time, O or m by its number among these.
  const auto by_number = [&](bool of_weight) {
    Dump dump = clean;
    Array out = Array::Zero(12, 64), sum = Array::Zero(12, 1);
    for (std::size_t i = 0; i < 4; ++i) {
      const Array weight =
          (m[of_weight ? i % 2 : i] - top).map([](double x) { return std::exp2(x); });
      out += o[of_weight ? i : i % 2] * weight;
      sum += l[i] * weight;
    }
    for (int row = 0; row < 12; ++row) {
      for (int col = 0; col < 64; ++col) {
        tensor_of(dump, "o_final").set(row * 64 + col, out(row, col) / sum(row));
      }
    }
    return diagnose(dump, diff_against_reference(dump)).cause;
  };
  CHECK(by_number(false) == Cause::wrong_source);
  CHECK(by_number(true) == Cause::wrong_source);
  // A lane per split: those without bit 1 sum up splits 0 and 1, the others 2 and 3.
  Dump butterfly = clean;
  Array out = Array::Zero(12, 64), sums[2] = {Array::Zero(12, 1), Array::Zero(12, 1)};
  for (std::size_t i = 0; i < 4; ++i) {
    const Array weight = (m[i] - top).map([](double x) { return std::exp2(x); });
    out += o[i] * weight;
    sums[i / 2] += l[i] * weight;
  }
  for (int row = 0; row < 12; ++row) {
    for (int col = 0; col < 64; ++col) {
      tensor_of(butterfly, "o_final").set(row * 64 + col, out(row, col) / sums[col / 4 % 2](row));
    }
  }
  const Diagnosis of_lanes = diagnose(butterfly, diff_against_reference(butterfly));
  CHECK((of_lanes.cause == Cause::incomplete_reduction && of_lanes.certain));
  CHECK(named({0, 1, 2, 0}) == "contribution_repeated");
  // Of five, four at a time, three are still there in the last round.
  const Dump odd = decoding(Gate::fused, 5);
  Dump again = odd;
  const auto o5 = partials(odd, SiteId::o_partial), m5 = partials(odd, SiteId::m_partial),
             l5 = partials(odd, SiteId::l_partial);
  Array out5 = Array::Zero(12, 64), sum5 = Array::Zero(12, 1);
  for (const std::size_t i : {0, 1, 2, 3, 4, 1, 2, 3}) {
    const Array weight = (m5[i] - m5[0]).map([](double x) { return std::exp2(x); });
    out5 += o5[i] * weight;
    sum5 += l5[i] * weight;
  }
  for (int row = 0; row < 12; ++row) {
    for (int col = 0; col < 64; ++col) {
      tensor_of(again, "o_final").set(row * 64 + col, out5(row, col) / sum5(row));
    }
  }
  const Diagnosis of_round = diagnose(again, diff_against_reference(again));
  CHECK((of_round.cause == Cause::contribution_repeated && of_round.certain));
  // All that are taken count twice, which O does not tell.
  CHECK(named({0, 1, 0, 1}) == "contribution_missing");
}

}  // namespace
}  // namespace lanescope
