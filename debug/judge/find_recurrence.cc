#include "debug/judge/find_recurrence.h"

#include <algorithm>
#include <cmath>

#include "debug/judge/compare.h"
#include "debug/judge/recurrence_candidates.h"
#include "debug/judge/recurrence_rules.h"
#include "reference/elementary.h"

namespace lanescope {
namespace {

using Unit = Recurrence::Unit;
using Divided = Recurrence::Divided;

/// Of 2^x, for kernels that compute it by a polynomial: a quarter of what rounding P to f16 does.
constexpr double rough_ex2 = 0x1p-13;

/// The sites whose values a recurrence does not make hold, but for those of K and V where `loads`
/// are looked at apart. What is stored may be off by what an approximate 2^x brings about, which is
/// judged apart.
bool others_hold(const DiffReport& report, bool loads) {
  return std::none_of(report.sites.begin(), report.sites.end(), [&](const SiteReport& site) {
    if (site.failed == 0) return false;
    if (loads && (site.site == SiteId::k_smem || site.site == SiteId::v_smem)) return false;
    return !is_output(site.site) && !is_partial(site.site) &&
           (site.site < SiteId::s || site.site > SiteId::o);
  });
}

/// Whether nothing of the softmax differs from the reference's, given what it received.
bool softmax_holds(const DiffReport& report) {
  return std::none_of(report.sites.begin(), report.sites.end(), [](const SiteReport& site) {
    return site.failed > 0 && site.judgement == Judgement::local && site.site >= SiteId::m_prev &&
           site.site <= SiteId::l;
  });
}

bool partials_differ(const DiffReport& report) {
  return std::any_of(report.sites.begin(), report.sites.end(), [](const SiteReport& site) {
    return is_partial(site.site) && site.failed > 0;
  });
}

/// Whether what is stored is right, 2^x being off by `error`: the weights of a row are off by no
/// more, its sum neither, so o by twice that of the largest value, lse by its logarithm.
bool outputs_hold(const Judge& judge, double error) {
  const Dump& dump = judge.dump();
  const DumpInfo& info = dump.info;
  if (!stores_outputs(judge.gate())) return true;
  double largest = 0;
  const Tensor& v = judge.inputs().v;
  for (std::int64_t i = 0; i < v.size(); ++i) largest = std::fmax(largest, std::abs(v.at(i)));
  bool holds = true;
  for (std::int64_t row_tile = 0; holds && row_tile < info.row_tiles(); ++row_tile) {
    const std::int64_t block = row_tile * info.splits;
    const double factor = judge.reference_of(block).output_factor().value;
    judge.judge(row_tile, [&](SiteId site, std::int64_t, std::int64_t, Judgement judgement,
                              const reference::Bounded& want) {
      if (!is_output(site) || judgement != Judgement::chain) return;
      const Tensor& tensor = *dump.find(name_of(site));
      const std::int64_t cols = want.value.cols();
      const std::int64_t first = info.first_q_row(info.place(block)) * cols;
      const double more = site == SiteId::lse ? 2 * error : 2.5 * error * largest * factor;
      for (std::int64_t row = 0; row < want.value.rows(); ++row) {
        for (std::int64_t col = 0; col < cols; ++col) {
          const std::int64_t index = first + row * cols + col;
          const double bound = want.error(row, col) + more;
          holds = holds && !is_unwritten(tensor, index) &&
                  compare(tensor.at(index), want.value(row, col), bound).holds;
        }
      }
    });
  }
  return holds;
}

class RecurrenceSearch {
 public:
  RecurrenceSearch(const Judge& judge, std::vector<std::vector<Visit>> blocks,
                   Recurrence::Partials partials, bool counts_visits)
      : judge_(judge),
        blocks_(std::move(blocks)),
        partials_(partials),
        counts_visits_(counts_visits) {}

  /// That of the whole run.
  std::optional<Recurrence> run() const {
    return search([](const Candidate&) { return true; },
                  [this](const Candidate& candidate, Recurrence& r) {
                    return follows(candidate.order, r) && rest_follows(candidate.order, r, true);
                  });
  }
  /// That of the softmax alone: what could be wrong by itself is none (a maximum that is not that
  /// of the row), nor an order that is known of one block alone.
  std::optional<Recurrence> run_softmax() const {
    const auto is_plain = [](const Candidate& c) {
      return c.scores == Unit::base_2 && c.maximum == Unit::base_2 && c.rows == 1 && c.tiles == 1 &&
             c.chains == 1 && !c.above && c.order != TileOrder::of_sums;
    };
    const auto all = search(is_plain, [this](const Candidate& candidate, Recurrence& r) {
      return follows(candidate.order, r) && rest_follows(candidate.order, r, false) &&
             (!r.kept || r.decision()->kept_up_to <= Recurrence::highest_threshold);
    });
    if (all) return all;
    return search(is_plain, [this](const Candidate& candidate, Recurrence& r) {
      r.of_maxima = true;
      return !candidate.kept && follows(candidate.order, r) && set_order(candidate.order, r);
    });
  }

 private:
  template <class IsTried, class Follows>
  std::optional<Recurrence> search(const IsTried& is_tried, const Follows& all_follows) const {
    for (const Candidate& candidate : candidates(judge_.dump().info)) {
      if (!is_tried(candidate)) continue;
      Recurrence r;
      r.scores = candidate.scores;
      r.maximum = candidate.maximum;
      r.rows_per_maximum = candidate.rows;
      r.kept = candidate.kept;
      r.tiles_per_maximum = candidate.tiles;
      r.chains = candidate.chains;
      r.partials = partials_;
      r.counts_visits = counts_visits_;
      if (candidate.above && !set_above(candidate.order, r)) continue;
      if (all_follows(candidate, r) && r.differs()) return r;
    }
    return std::nullopt;
  }

  /// What s and m of the block at `first` visit are multiplied by to be in base 2.
  struct Factors {
    double scores, maximum;
  };
  Factors factors(const Recurrence& r) const {
    const reference::OnlineBlock block = judge_.reference_of(judge_.dump().info.blocks.begin);
    const double by_site = block.softmax_factor().value;
    const Units units{block.score_factor().value * by_site};
    return {units.of(r.scores) * by_site, units.of(r.maximum)};
  }

  std::vector<Visit> ordered(const std::vector<Visit>& visits, TileOrder order,
                             double maximum) const {
    if (order == TileOrder::upwards) return visits;
    if (order == TileOrder::of_sums) return in_order_of_sums(visits, maximum);
    return {visits.rbegin(), visits.rend()};
  }

  /// The visits of each chain: of every n-th tile.
  static std::vector<std::vector<Visit>> chains_of(const std::vector<Visit>& visits, int number) {
    std::vector<std::vector<Visit>> chains(
        std::min(static_cast<std::size_t>(number), visits.size()));
    for (std::size_t i = 0; i < visits.size(); ++i) chains[i % chains.size()].push_back(visits[i]);
    return chains;
  }

  /// The visits of all chains, in their order.
  std::vector<std::vector<Visit>> chains(TileOrder order, const Recurrence& r) const {
    std::vector<std::vector<Visit>> all;
    for (const std::vector<Visit>& visits : blocks_) {
      for (std::vector<Visit>& chain :
           chains_of(ordered(visits, order, factors(r).maximum), r.chains)) {
        all.push_back(std::move(chain));
      }
    }
    return all;
  }

  /// Fills in how far m is above the maximum; false where it is not, or too far: P must neither
  /// overflow nor vanish.
  bool set_above(TileOrder order, Recurrence& r) const {
    const Factors factor = factors(r);
    for (const std::vector<Visit>& chain : chains(order, r)) {
      if (r.above == 0) r.above = above_of(chain, factor.scores, factor.maximum);
    }
    return std::abs(r.above) >= Recurrence::lowest_above &&
           std::abs(r.above) <= Recurrence::highest_threshold;
  }

  /// Whether m does.
  bool follows(TileOrder order, Recurrence& r) const {
    const Factors factor = factors(r);
    for (const std::vector<Visit>& chain : chains(order, r)) {
      if (!maxima_hold(chain, factor.scores, factor.maximum, r)) return false;
    }
    return !r.kept || (r.decision() && r.decision()->kept_up_to > 0);
  }

  /// Fills in the order of the tiles; false where no block shows it.
  bool set_order(TileOrder order, Recurrence& r) const {
    for (const std::vector<Visit>& visits : chains(order, r)) {
      std::vector<std::int64_t> tiles;
      for (const Visit& visit : visits) tiles.push_back(visit.tile);
      if (!std::is_sorted(tiles.begin(), tiles.end()) && tiles.size() > r.order.size()) {
        r.order = tiles;
      }
    }
    return order == TileOrder::upwards || !r.order.empty();
  }

  /// Whether alpha, p and l do; and, where `whole`, scores and outputs are right.
  bool rest_follows(TileOrder order, Recurrence& r, bool whole) const {
    const Factors factor = factors(r);
    const double by_site = judge_.reference_of(0).softmax_factor().value;
    for (const std::vector<Visit>& visits : blocks_) {
      if (whole && !scores_hold(visits, factor.scores / by_site)) return false;
    }
    if (!set_order(order, r)) return false;
    const std::vector<std::vector<Visit>> blocks = chains(order, r);
    for (const double error : {0.0, rough_ex2}) {
      RestHolds holds;
      for (const std::vector<Visit>& visits : blocks) {
        rest_holds(judge_, visits, factor.scores, factor.maximum, error, holds);
      }
      r.ex2_error = error;
      r.first_alpha = holds.first_alpha;
      if (!take_sum(holds, r) || !(whole ? take_outputs(holds, r) : holds.weights[0])) continue;
      if (!whole) return true;
      const int bits = format_of(judge_.walk().arithmetic.p_type).fraction_bits;
      const double of_sum = r.sum_of_rounded ? std::ldexp(1.0, -bits - 1) : 0;
      // Weights of partials from m + log2 l are rounded as that is.
      const double of_partials = r.partials == Recurrence::Partials::plain ? 0 : 0x1p-20;
      if (outputs_hold(judge_, error + of_sum + of_partials)) return true;
    }
    return false;
  }

  /// The simplest of the sums that hold.
  static bool take_sum(const RestHolds& holds, Recurrence& r) {
    const bool* const sum = std::find(std::begin(holds.sums), std::end(holds.sums), true);
    if (sum == std::end(holds.sums)) return false;
    r.sum_of_lanes = sum == holds.sums + 1;
    r.sum_of_rounded = sum == holds.sums + 2;
    return true;
  }
  /// The same of o, and of P that it is made of.
  static bool take_outputs(const RestHolds& holds, Recurrence& r) {
    const bool plain[] = {
        holds.weights[0] && holds.outputs[0], holds.weights[0] && holds.outputs[1],
        holds.weights[1] && holds.outputs[2], holds.weights[0] && holds.outputs[3]};
    const auto found = std::find(std::begin(plain), std::end(plain), true);
    if (found == std::end(plain)) return false;
    r.output_of_first_maximum = found == plain + 3;
    r.divided =
        r.output_of_first_maximum ? Divided::at_the_end : static_cast<Divided>(found - plain);
    return true;
  }

  const Judge& judge_;
  std::vector<std::vector<Visit>> blocks_;
  Recurrence::Partials partials_;
  bool counts_visits_;
};

/// Of all blocks that have any; nothing where one of them is not known.
std::optional<std::vector<std::vector<Visit>>> visits_of_blocks(const Judge& judge, bool counted) {
  const Range& range = judge.dump().info.blocks;
  std::vector<std::vector<Visit>> blocks;
  for (std::int64_t block = range.begin; block < range.end; ++block) {
    auto visits = visits_of(judge, block, counted);
    if (!visits) return std::nullopt;
    if (!visits->empty()) blocks.push_back(std::move(*visits));
  }
  return blocks;
}

}  // namespace

std::optional<Recurrence> find_recurrence(const Dump& dump, const DiffReport& report) {
  const Judge judge(dump);
  const DumpInfo& info = dump.info;
  const bool has_softmax = judge.gate() == Gate::fused || judge.gate() == Gate::softmax_only;
  const bool whole = info.tiles == Range{0, info.kv_tiles()} && info.incomplete.empty();
  if (!has_softmax || !whole || info.blocks.count() == 0 || !others_hold(report, true) ||
      judge.lacks_outputs()) {
    return std::nullopt;
  }
  if (info.rescale.above > 0) return std::nullopt;  // a kernel is held to what it declares
  const bool counts_visits = !others_hold(report, false);
  if (counts_visits && !loads_count_visits(judge)) return std::nullopt;
  auto blocks = visits_of_blocks(judge, counts_visits);
  if (!blocks || blocks->empty()) return std::nullopt;
  Recurrence::Partials partials = Recurrence::Partials::plain;
  if (partials_differ(report)) {
    const auto held = partials_held(judge);
    if (!held) return std::nullopt;
    partials = *held;
  }
  return RecurrenceSearch(judge, std::move(*blocks), partials, counts_visits).run();
}

std::optional<Recurrence> follow_softmax(const Dump& dump, const DiffReport& report) {
  const Judge judge(dump);
  const DumpInfo& info = dump.info;
  const bool whole = info.tiles == Range{0, info.kv_tiles()} && info.incomplete.empty();
  if (judge.gate() != Gate::fused || !whole || info.blocks.count() == 0 || info.rescale.above > 0 ||
      softmax_holds(report)) {
    return std::nullopt;
  }
  const auto blocks = visits_of_blocks(judge, false);
  if (!blocks || blocks->empty()) return std::nullopt;
  return RecurrenceSearch(judge, *blocks, Recurrence::Partials::plain, false).run_softmax();
}

}  // namespace lanescope
