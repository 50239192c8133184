#include "gates/run/locate_numbers.h"

#include <algorithm>
#include <optional>
#include <string>

#include "gates/run/sightings.h"
#include "reference/error.h"

namespace lanescope {
namespace {

/// Causes by which rows of an input are taken for others, in memory or out of it.
bool takes_other_rows(Cause cause) {
  return cause == Cause::wrong_source || cause == Cause::stale_operand ||
         cause == Cause::wrong_stride || cause == Cause::wrong_head || cause == Cause::tile_skipped;
}

/// Causes by which weights that were right go wrong behind that, or where numbers that are not
/// finite are made, which is known.
bool changes_weights(Cause cause) {
  return cause == Cause::precision_lost || cause == Cause::wrong_type || cause == Cause::overflow ||
         cause == Cause::non_finite || cause == Cause::masked_row_unguarded ||
         cause == Cause::divided_by_zero;
}

/// Causes by which right numbers are made, and meet others than they should.
bool moves_numbers(Cause cause) {
  return cause == Cause::permuted || cause == Cause::operand_of_other_row ||
         cause == Cause::transposed || cause == Cause::misplaced || takes_other_rows(cause);
}

/// Causes by which a scale of an input is not the one: numbers are seen without them.
bool is_of_input_scale(Cause cause) {
  return cause == Cause::scale_missing || cause == Cause::scale_repeated ||
         cause == Cause::scale_of_other_head;
}

/// Causes by which keys are left out that a row sees.
bool loses_keys(Cause cause) {
  return cause == Cause::tile_skipped || cause == Cause::contribution_missing;
}

/// Whether what was seen does not go together with a flaw in `stage`.
bool refutes(const Sightings& seen, Cause cause, Stage stage) {
  if (loses_keys(cause)) return seen.made_scores();
  if (is_of_input_scale(cause)) return false;
  return !moves_numbers(cause) && (seen.lacks_rows() || !seen.allows(stage));
}

void settle_stage(const Sightings& seen, Diagnosis& diagnosis) {
  Stage& stage = diagnosis.first->stage;
  const bool unexplained = diagnosis.cause == Cause::unexplained;
  const auto named = std::ranges::find(diagnosis.flaws, diagnosis.cause, &Finding::cause);
  const std::optional<Stage> taker =
      named == diagnosis.flaws.end() ? std::nullopt : taker_of(named->flaw);
  const bool of_pass = named != diagnosis.flaws.end() && named->of_pass;
  const bool moves_rows = moves_numbers(diagnosis.cause) && diagnosis.cause != Cause::wrong_head &&
                          diagnosis.cause != Cause::wrong_stride;
  if (diagnosis.cause == Cause::never_written && seen.storing_stage()) {
    stage = *seen.storing_stage();
  } else if (moves_rows && stage == Stage::load && seen.reads_all && taker) {
    stage = *taker;  // nothing was left out as the tiles were filled
    diagnosis.stage_certain = false;
  } else if (takes_other_rows(diagnosis.cause) && seen.lacks_rows()) {
    stage = Stage::load;  // what was never read is nobody else's
  } else if (diagnosis.cause == Cause::written_zero && !diagnosis.certain &&
             seen.outputs.complete() && seen.sums.none()) {
    stage = Stage::softmax;  // O is there, and no sum to divide it by
  } else if (loses_keys(diagnosis.cause) && seen.combines && seen.made_scores()) {
    stage = Stage::combine;  // blocks of their own had all keys
  } else if (moves_numbers(diagnosis.cause) || !seen.stage() || of_pass ||
             diagnosis.cause == Cause::never_updated || is_of_input_scale(diagnosis.cause)) {
    return;  // weights may be right all the same
  } else if (stage == Stage::softmax && seen.made_weights() && !changes_weights(diagnosis.cause)) {
    stage = *seen.stage();  // it is a flaw of what is done with them
  } else if (unexplained || !seen.allows(stage)) {
    stage = *seen.stage();
    diagnosis.certain = false;
  }
}

/// In the first problem in which anything can be seen, and all inputs are read where the caller has
/// them; a kernel that failed on a GPU may be none for the SIMT machine.
std::optional<Sightings> look_in(const std::vector<RunOptions>& failed) {
  // A second, or some; more where that is needed.
  constexpr std::int64_t few = std::int64_t{3} << 18, some = std::int64_t{1} << 21,
                         many = std::int64_t{1} << 24;
  std::optional<Sightings> first;
  std::vector<const RunOptions*> looked_in;
  try {
    for (const std::int64_t most_products : {few, some, many}) {
      if (most_products == many && !first) break;
      for (const RunOptions& options : failed) {
        if (std::ranges::find(looked_in, &options) != looked_in.end()) continue;
        std::optional<Sightings> seen = look_for_numbers(options, most_products);
        if (!seen) continue;
        if (!seen->skips_input) return seen;
        looked_in.push_back(&options);
        if (!first) first = std::move(seen);
      }
    }
  } catch (const Error&) {
    return first;
  }
  return first;
}

}  // namespace

std::optional<Stage> taker_of(const std::string& flaw) {
  const bool q = flaw.find('Q') != flaw.npos, k = flaw.find('K') != flaw.npos,
             v = flaw.find('V') != flaw.npos;
  if (v && !q && !k) return Stage::pv;
  if (v || q == k) return std::nullopt;
  return Stage::qk;
}

SeenWays tell_numbers(const std::vector<RunOptions>& failed, Location& location) {
  const std::optional<Sightings> seen = look_in(failed);
  if (!seen) return {};
  Diagnosis& diagnosis = *location.diagnosis;
  // Where the log-sum-exp alone is wrong, O is right, and all that it is made of.
  const bool tells = diagnosis.first && diagnosis.first->site != SiteId::lse;
  const std::optional<Stage> other = seen->stage();
  if (tells && other && refutes(*seen, diagnosis.cause, diagnosis.first->stage)) {
    name_flaw_in(diagnosis, *other);
  }
  for (const std::string& line : seen->text()) diagnosis.evidence.push_back(line);
  if (!tells) return {.combines = seen->combines};
  settle_stage(*seen, diagnosis);
  return {seen->lacks_rows(), seen->combines, seen->scores.incomplete()};
}

}  // namespace lanescope
