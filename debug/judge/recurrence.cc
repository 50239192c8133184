#include "debug/judge/recurrence.h"

#include <algorithm>
#include <cmath>

#include "debug/text/text.h"

namespace lanescope {
namespace {

using Query = Recurrence::Query;
using Unit = Recurrence::Unit;
using Divided = Recurrence::Divided;
using Partials = Recurrence::Partials;

std::string unit_text(Unit unit) {
  return unit == Unit::raw      ? "in units of the raw scores Q.K"
         : unit == Unit::base_e ? "in base e"
                                : "in base 2";
}

}  // namespace

bool Recurrence::differs() const { return !differences().empty(); }

bool Recurrence::is_settled() const {
  const Decision* const one = decision();
  return !kept || (one && std::isfinite(one->taken_from) && one->kept_up_to <= highest_threshold);
}

const Recurrence::Decision* Recurrence::decision() const {
  const auto found = std::find_if(decisions.begin(), decisions.end(),
                                  [](const Decision& each) { return each.holds(); });
  return found == decisions.end() ? nullptr : &*found;
}

bool Recurrence::agrees(const Recurrence& other) const {
  const auto both = [](auto a, auto b, auto usual) { return a == b || a == usual || b == usual; };
  Recurrence together = *this;
  together.merge(other);
  return both(query, other.query, Query::plain) && both(scores, other.scores, Unit::base_2) &&
         both(maximum, other.maximum, Unit::base_2) &&
         both(rows_per_maximum, other.rows_per_maximum, 1) &&
         both(tiles_per_maximum, other.tiles_per_maximum, 1) && both(chains, other.chains, 1) &&
         both(start, other.start, -std::numeric_limits<double>::infinity()) &&
         (above == 0 || other.above == 0 || std::abs(above - other.above) <= 1e-3) &&
         both(divided, other.divided, Divided::at_the_end) &&
         both(partials, other.partials, Partials::plain) &&
         both(output_of_first_maximum, other.output_of_first_maximum, false) &&
         (!together.kept || together.decision());
}

void Recurrence::merge(const Recurrence& other) {
  if (query == Query::plain) query = other.query;
  if (scores == Unit::base_2) scores = other.scores;
  if (maximum == Unit::base_2) maximum = other.maximum;
  rows_per_maximum = std::max(rows_per_maximum, other.rows_per_maximum);
  tiles_per_maximum = std::max(tiles_per_maximum, other.tiles_per_maximum);
  chains = std::max(chains, other.chains);
  keys_per_chain = std::max(keys_per_chain, other.keys_per_chain);
  start = std::fmax(start, other.start);
  kept = kept || other.kept;
  if (above == 0) above = other.above;
  merge(other.decisions);
  sum_of_lanes = sum_of_lanes || other.sum_of_lanes;
  sum_of_rounded = sum_of_rounded || other.sum_of_rounded;
  first_alpha = first_alpha || other.first_alpha;
  if (divided == Divided::at_the_end) divided = other.divided;
  if (partials == Partials::plain) partials = other.partials;
  output_of_first_maximum = output_of_first_maximum || other.output_of_first_maximum;
  counts_visits = counts_visits || other.counts_visits;
  ex2_error = std::max(ex2_error, other.ex2_error);
  if (other.order.size() > order.size()) order = other.order;
}

void Recurrence::merge(const std::vector<Decision>& seen) {
  if (decisions.empty()) decisions = seen;
  if (seen.empty()) return;
  std::erase_if(decisions, [&](Decision& own) {
    const auto other = std::find_if(seen.begin(), seen.end(), [&](const Decision& each) {
      return each.rows == own.rows && each.apart == own.apart;
    });
    if (other == seen.end()) return true;
    own.kept_up_to = std::max(own.kept_up_to, other->kept_up_to);
    own.taken_from = std::min(own.taken_from, other->taken_from);
    return false;
  });
}

std::vector<std::string> Recurrence::differences() const {
  std::vector<std::string> lines;
  const auto add = [&](const std::string& line) { lines.push_back(line); };
  if (query != Query::plain) {
    add(std::string("qk / s: Q is multiplied by the scale") +
        (query == Query::rounded_base_2 ? " and log2(e)" : "") +
        ", and rounded to the inputs' type, before Q.K");
  }
  if (scores != Unit::base_2) add("qk / s: " + unit_text(scores));
  if (maximum != Unit::base_2) add("softmax / m: " + unit_text(maximum));
  if (std::isfinite(start)) add("softmax / m: starts from " + number_text(start, 3));
  if (rows_per_maximum > 1) {
    add("softmax / m: the maximum of " + std::to_string(rows_per_maximum) + " rows");
  }
  if (above != 0) {
    add("softmax / m: the maximum " + std::string(above > 0 ? "plus " : "minus ") +
        number_text(std::abs(above), 3) + ", base 2");
  }
  if (tiles_per_maximum > 1) {
    add("softmax / m: " + std::to_string(tiles_per_maximum) +
        " tiles in a step take the maximum of all of them");
  }
  if (chains > 1) {
    add("softmax / m_prev: every tile goes on from the one " + std::to_string(chains) +
        " before it; the " + std::to_string(chains) + " sums are put together at the end");
  }
  if (kept) {
    const Decision one = decision() ? *decision() : Decision{};
    add("softmax / m: kept until it rises by more than a threshold (kept at " +
        number_text(one.kept_up_to, 3) +
        (std::isfinite(one.taken_from) ? ", taken at " + number_text(one.taken_from, 3) : "") +
        ", base 2" +
        (one.rows == 1
             ? ")"
             : "; rows decide together, " + std::to_string(one.rows) + " for instance" +
                   (one.apart > 1 ? " that are " + std::to_string(one.apart) + " apart)" : ")")));
  }
  if (ex2_error > 0) {
    add("softmax / p: 2^x is an approximation, of a relative error below " +
        number_text(ex2_error, 2));
  }
  if (first_alpha) add("softmax / alpha: not 0 in rows that have seen no key, whose sums are 0");
  if (sum_of_rounded) add("softmax / l: sums P as P.V takes it, rounded");
  if (sum_of_lanes) add("softmax / l: each lane has a part of the row sum");
  if (divided == Divided::output) add("pv / o: divided by l in every tile");
  if (divided == Divided::weights) add("softmax / p, pv / o: divided by l in every tile");
  if (output_of_first_maximum) {
    add("pv / o: relative to the first maximum of its row; P.V is brought to it");
  }
  if (partials == Partials::divided) add("epilogue / o_partial: divided by l of the split");
  if (partials == Partials::shifted) {
    add("epilogue / m_partial: another number than the maximum, m + log2 l for instance; l_partial "
        "and o_partial are relative to it");
  }
  if (!order.empty()) {
    const bool down = std::is_sorted(order.rbegin(), order.rend());
    std::string text;
    for (const std::int64_t tile : order) text += (text.empty() ? "" : ", ") + std::to_string(tile);
    add(down ? "the tiles are visited from the last to the first"
             : "the tiles are visited in the order " + text);
  }
  if (counts_visits) add("trace: the number of a tile is that of the visit, not its place in K");
  return lines;
}

}  // namespace lanescope
