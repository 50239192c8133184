#include "gates/run/sightings.h"

#include <algorithm>
#include <array>
#include <utility>

#include "debug/causes/row_subset.h"
#include "gates/process/shared_file.h"
#include "gates/run/known_numbers.h"
#include "gates/run/seen_numbers.h"
#include "gates/run/wrong_rows.h"

namespace lanescope {
namespace {

class Counting {
 public:
  Counting(const Problem& problem, const ptx::Lookout& lookout, const SeenNumbers& seen,
           const std::vector<std::int64_t>& rows)
      : p_(problem), lookout_(lookout), seen_(seen), rows_(rows) {}

  Sightings count() const {
    Sightings s;
    s.scores = best_of({Known::products, Known::scores, Known::scores_in_base_2, Known::exponents,
                        Known::natural_exponents});
    s.weights = best_of({Known::weights});
    s.sums = best_of({Known::inverses, Known::logarithms, Known::natural_logarithms,
                      Known::rounded_inverses, Known::rounded_logarithms,
                      Known::rounded_natural_logarithms});
    s.outputs = best_of({Known::outputs});
    const Sightings::Part last = best_of({Known::sums, Known::rounded_sums});
    s.lacks_sums = s.weights.complete() && !s.sums.any() && !last.any() &&
                   count(Known::rounded_sums).needed >= 8;
    count_rows(s);
    return s;
  }

 private:
  /// A kernel has its scores in one form.
  Sightings::Part best_of(std::initializer_list<Known> kinds) const {
    Sightings::Part best;
    for (const Known known : kinds) {
      const Sightings::Part part = count(known);
      const bool more = part.any() && part.seen * best.needed > best.seen * part.needed;
      if (more || best.needed == 0 || (part.any() && !best.any())) best = part;
    }
    return best;
  }

  Sightings::Part count(Known known) const {
    const auto kind = static_cast<std::size_t>(known);
    std::vector<bool> needed(lookout_.kinds[kind].elements);
    for (const ptx::KnownNumber& number : lookout_.kinds[kind].numbers) {
      needed[number.element] = true;
    }
    Sightings::Part part;
    const bool of_row = known >= Known::sums && known != Known::outputs;
    part.least = of_row ? 4 : 32;
    // Those that made fewer than a fourth of what the first made are by chance.
    for (const auto& [made, line] : seen_.kinds[kind].lines) {
      if (made >= seen_.kinds[kind].lines.front().first / 4) part.lines.push_back(line);
    }
    const std::int64_t per_row = of_row ? 1 : known == Known::outputs ? p_.d : p_.len_kv;
    Shares by_row(static_cast<std::size_t>(p_.len_q)), by_column(static_cast<std::size_t>(per_row));
    for (const std::int64_t row : rows_) {
      for (std::int64_t col = 0; col < per_row; ++col) {
        const std::int64_t at = row * per_row + col;
        if (!needed[static_cast<std::size_t>(at)]) continue;
        const bool has = seen_.kinds[kind].elements.has(at);
        for (Share* share : {&by_row[static_cast<std::size_t>(row % p_.len_q)],
                             &by_column[static_cast<std::size_t>(col)]}) {
          ++share->needed;
          share->seen += has;
        }
        ++part.needed;
        part.seen += has;
      }
    }
    if (part.incomplete()) {
      part.lacking = subset_of(by_column, known == Known::outputs ? "columns" : "keys");
      if (part.lacking.empty()) part.lacking = subset_of(by_row, "queries");
    }
    return part;
  }

  struct Share {
    std::int64_t needed = 0, seen = 0;
  };
  using Shares = std::vector<Share>;
  /// Which rows or columns lack theirs while the others have them; empty where that is no rule.
  static std::string subset_of(const Shares& shares, const char* what) {
    std::vector<std::int64_t> lacking, whole;
    for (std::size_t i = 0; i < shares.size(); ++i) {
      const auto& [needed, seen] = shares[i];
      if (needed == 0) continue;
      const bool lacks = 20 * seen < 19 * needed;
      if (lacks && 10 * seen > 9 * needed) return {};
      (lacks ? lacking : whole).push_back(static_cast<std::int64_t>(i));
    }
    return subset_text(what, lacking, whole, static_cast<std::int64_t>(shares.size()));
  }

  /// Whether a block read a row of Q (0), K (1) or V (2) that computes a row of O: one that wrote
  /// it, or any, where those read none of that (who combines the parts of others) or get what
  /// others read.
  bool was_read(int array, std::int64_t row, std::int64_t of_output) const {
    bool any = false, by_any = false;
    for (const auto& block : seen_.blocks) {
      const bool reads = block[static_cast<std::size_t>(array)].has(row);
      by_any = by_any || reads;
      if (seen_.multicasts || seen_.shares || !block[3].has(of_output)) continue;
      if (reads) return true;
      any = any || !block[static_cast<std::size_t>(array)].empty();
    }
    return !any && by_any;
  }
  /// Blocks write what others have summed up: of rows that see keys.
  bool writes_without_values() const {
    const auto writes = [&](const SeenNumbers::Block& block) {
      for (std::int64_t row = 0; row < p_.queries(); ++row) {
        if (block[3].has(row) && p_.visible_keys(row % p_.len_q) > 0) return true;
      }
      return false;
    };
    return std::ranges::any_of(seen_.blocks, [&](const SeenNumbers::Block& block) {
      return block[2].empty() && writes(block);
    });
  }
  /// Whether a block that writes a row of O reads a row of V.
  bool reads_itself(std::int64_t v_row, std::int64_t of_output) const {
    return std::any_of(seen_.blocks.begin(), seen_.blocks.end(),
                       [&](const SeenNumbers::Block& block) {
                         return block[3].has(of_output) && block[2].has(v_row);
                       });
  }
  /// Whether anybody read any of it where the caller has it: else it was copied before.
  bool is_read(std::size_t array) const {
    return std::any_of(seen_.blocks.begin(), seen_.blocks.end(),
                       [&](const SeenNumbers::Block& block) { return !block[array].empty(); });
  }
  /// Of the first wrong rows, which are enough to tell.
  void count_rows(Sightings& s) const {
    constexpr std::size_t most_rows = 64;
    const bool splits = seen_.shares && !seen_.multicasts;
    const bool reads_q = is_read(0), reads_k = is_read(1), reads_v = is_read(2);
    std::int64_t elsewhere = 0;
    for (std::size_t i = 0; i < std::min(rows_.size(), most_rows); ++i) {
      const std::int64_t head = rows_[i] / p_.len_q;
      const std::int64_t first =
          (head / p_.heads * p_.heads_kv + p_.kv_head(head % p_.heads)) * p_.len_kv;
      ++s.queries;
      s.unread_q += reads_q && !was_read(0, rows_[i], rows_[i]);
      for (std::int64_t key = 0; key < p_.visible_keys(rows_[i] % p_.len_q); ++key) {
        ++s.keys;
        s.unread_k += reads_k && !was_read(1, first + key, rows_[i]);
        s.unread_v += reads_v && !was_read(2, first + key, rows_[i]);
        elsewhere += splits && !reads_itself(first + key, rows_[i]);
      }
    }
    s.skips_input = (reads_q || reads_k || reads_v) && !(reads_q && reads_k && reads_v);
    s.reads_all = reads_q && reads_k && reads_v && s.queries > 0 && s.unread_q == 0 &&
                  s.unread_k == 0 && s.unread_v == 0;
    // The others of its cluster read the most of V: what they made of it meets in one of them.
    s.combines = (reads_v && writes_without_values()) || 4 * elsewhere > s.keys;
  }

  const Problem& p_;
  const ptx::Lookout& lookout_;
  const SeenNumbers& seen_;
  const std::vector<std::int64_t>& rows_;
};

std::string part_text(const char* what, const Sightings::Part& part) {
  std::string text = std::string(what) + " of the wrong rows: " + std::to_string(part.seen) +
                     " of " + std::to_string(part.needed) + " were made right, at ";
  for (std::size_t i = 0; i < part.lines.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == part.lines.size() ? " and " : ", ") + part.lines[i];
  }
  if (!part.lacking.empty()) text += "; it lacks those of " + part.lacking;
  return text;
}

}  // namespace

bool Sightings::allows(Stage stage) const {
  if (outputs.complete()) {
    // Keys too many may have no V.
    if (sums.complete() || log_sums) return stage == Stage::epilogue || stage == Stage::combine;
    return stage != Stage::load && stage != Stage::pv;
  }
  if (log_sums) return stage != Stage::qk;
  if (scores.incomplete()) return stage == Stage::load || stage == Stage::qk;
  // What keys a row sees is qk's: a mask leaves scores as they are.
  // Parts that are put together have maxima of their own, of any keys.
  if (weights.incomplete())
    return stage == Stage::qk || stage == Stage::softmax || stage == Stage::combine;
  if (made_weights()) return stage != Stage::qk;
  if (lacks_sums || (weights.complete() && sums.incomplete())) {
    return stage != Stage::load && stage != Stage::pv && !(lacks_sums && stage == Stage::epilogue);
  }
  return true;
}

std::optional<Stage> Sightings::storing_stage() const {
  if (!made_scores()) return std::nullopt;
  return combines ? Stage::combine : Stage::epilogue;
}

std::optional<Stage> Sightings::stage() const {
  const Stage behind = combines ? Stage::combine : Stage::epilogue;
  if (outputs.complete()) return sums.complete() || log_sums ? behind : Stage::softmax;
  if (lacks_rows()) return Stage::load;
  if (log_sums) return combines ? Stage::combine : Stage::pv;
  if (scores.incomplete()) return Stage::qk;
  if (weights.incomplete()) return Stage::softmax;
  if (lacks_sums || (weights.complete() && sums.incomplete())) {
    return combines ? Stage::combine : Stage::softmax;
  }
  if (made_weights() || (scores.complete() && sums.complete())) {
    return combines ? Stage::combine : Stage::pv;
  }
  if (scores.complete() && sums.none()) return combines ? Stage::combine : Stage::softmax;
  if (scores.none() && weights.none()) return Stage::qk;
  return std::nullopt;
}

std::vector<std::string> Sightings::text() const {
  std::vector<std::string> lines;
  if (scores.any()) lines.push_back(part_text("scores", scores));
  if (weights.any()) lines.push_back(part_text("weights", weights));
  if (sums.any()) lines.push_back(part_text("inverses or logarithms of row sums", sums));
  if (lacks_sums) lines.push_back("row sums of the wrong rows: none was made right");
  if (outputs.any()) lines.push_back(part_text("sums of P·V", outputs));
  const auto add_unread = [&](const char* what, std::int64_t unread, std::int64_t all) {
    if (unread == 0) return;
    lines.push_back("rows of " + std::string(what) +
                    " that wrong rows need and no block read for "
                    "them: " +
                    std::to_string(unread) + " of " + std::to_string(all));
  };
  add_unread("Q", unread_q, queries);
  add_unread("K", unread_k, keys);
  add_unread("V", unread_v, keys);
  return lines;
}

std::optional<Sightings> look_for_numbers(const RunOptions& options, std::int64_t most_products) {
  std::optional<WrongRun> of = run_wrong(options, most_products);
  if (!of) return std::nullopt;
  auto& [run, dump, wrong] = *of;
  std::optional<Sightings> as_is;
  for (const ScaledQueries queries :
       {ScaledQueries::no, ScaledQueries::by_scale, ScaledQueries::to_base_2}) {
    ptx::Lookout lookout = lookout_for(dump.info.problem, inputs_of(dump), queries);
    const SharedFile file("lookout");
    lookout.file = file.number();
    run.request.lookout = &lookout;
    if (launch(*run.module, run.module_name, run.request).info.broke_off()) return std::nullopt;
    const SeenNumbers numbers = read_seen_numbers(file.path());
    if (numbers.blocks.empty()) return std::nullopt;
    Sightings seen = Counting(dump.info.problem, lookout, numbers, wrong.rows).count();
    seen.log_sums = wrong.log_sums;
    if (seen.scores.any()) return seen;
    if (!as_is) as_is = seen;
  }
  return as_is;
}

}  // namespace lanescope
