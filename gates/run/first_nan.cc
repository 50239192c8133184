#include "gates/run/first_nan.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "debug/causes/memory_findings.h"
#include "gates/run/check.h"
#include "reference/error.h"

namespace lanescope {
namespace {

bool may_have_empty_rows(const RunOptions& options) {
  if (options.input.ends_with(".safetensors")) return true;
  const Problem problem = parse_shape(options.preset, options.shape, options.causal);
  return problem.visible_keys(0) == 0;
}

struct Overflow {
  Stage stage;
  std::string line;  ///< of the source; empty: it has none
};

/// What makes the first infinity, where that is a sum or a product of finite numbers behind the
/// scores, or one of them in a narrower type: masked ones may be as large as numbers get.
std::optional<Overflow> first_overflow(const std::vector<std::string>& notes) {
  const std::string begin = "first infinity: ";
  for (const std::string& note : notes) {
    if (!note.starts_with(begin)) continue;
    const std::string opcode = note.substr(begin.size(), 3);
    const bool narrows = opcode == "cvt";
    const bool adds = opcode == "mul" || opcode == "fma" || opcode == "add" || opcode == "sub";
    const std::size_t operands = note.rfind(" of ");
    const bool finite = operands != note.npos && note.find("inf", operands) == note.npos &&
                        note.find("nan", operands) == note.npos;
    std::optional<Stage> stage = stage_named_in(note);
    if (narrows && stage == Stage::pv) stage = Stage::softmax;  // weights, on their way there
    if ((!adds && !narrows) || !finite || !stage || *stage < Stage::softmax) continue;
    const std::string words = " at ";
    const std::size_t at = note.find(words);
    const auto place =
        at == note.npos ? std::nullopt : place_in_source(note.substr(at + words.size()));
    return Overflow{*stage, place ? place->first + ":" + std::to_string(place->second) : ""};
  }
  return std::nullopt;
}

/// What follows from how the first NaN was made, where values say no more than that there is one.
/// `empty_rows`: there may be rows that see no key, whose sum is zero.
void name_by_origin(const simt::NanOrigin& nan, bool empty_rows, Diagnosis& values) {
  using Kind = simt::NanOrigin::Kind;
  if (nan.kind == Kind::none || !values.first || !is_output(values.first->site)) return;
  // A guard against a row sum of 0 makes zeros of NaN.
  const bool of_nan = !std::isfinite(values.first->got) || values.cause == Cause::non_finite ||
                      values.cause == Cause::written_zero ||
                      (values.cause == Cause::precision_lost && nan.kind == Kind::exponential);
  if (!of_nan) return;
  if (nan.stage) values.first->stage = *nan.stage;
  if (values.cause == Cause::precision_lost) {  // the nearest rounding to what is not finite
    values.first->stage = nan.stage.value_or(Stage::softmax);
    values.evidence.clear();
  }
  const Cause cause = nan.kind == Kind::difference ? Cause::masked_row_unguarded
                      : nan.kind == Kind::empty || (nan.kind == Kind::division && empty_rows)
                          ? Cause::divided_by_zero
                      : nan.kind == Kind::start ? Cause::stale_operand
                      : nan.kind == Kind::exponential || nan.kind == Kind::narrowing
                          ? Cause::overflow
                          : values.cause;
  if (nan.kind == Kind::exponential) {
    values.evidence.push_back(
        "2^x is infinite: what is subtracted from the scores is not the "
        "maximum that their row has so far");
  }
  if (nan.kind == Kind::start) {
    values.evidence.push_back(
        "what is subtracted from the scores is the -inf that their maximum starts from, not the "
        "maximum that their row has so far");
  }
  if (cause == values.cause) return;
  values.cause = cause;
  values.certain = false;  // others may follow
}

/// Whether an output is 0 as what is divided by an infinity is.
bool is_zero(const Diagnosis& values) {
  return values.first && is_output(values.first->site) && !values.first->unwritten &&
         values.first->got == 0 && values.cause == Cause::written_zero;
}

/// Where the first NaN is made of an infinity, or zeros may be, what that was made of.
void name_by_infinity(Location& location, Diagnosis& values) {
  if (!values.first || (values.cause != Cause::non_finite && !is_zero(values))) return;
  const std::optional<Overflow> overflow = first_overflow(location.first_nan);
  if (!overflow) return;
  values.cause = Cause::overflow;
  values.first->stage = overflow->stage;
  values.certain = false;
  if (!overflow->line.empty()) location.source = {overflow->line};
}

/// Where values are NaN, or 0, and nobody has asked the checker for it, which sees how they are
/// made.
void look_for_nan(RunOptions options, Location& location) {
  const Diagnosis& values = *location.diagnosis;
  const bool is_none =
      values.first && !values.first->unwritten && !std::isfinite(values.first->got);
  if ((!is_none && (values.sure() || !is_zero(values))) || !location.first_nan.empty() ||
      !values.memory.empty())
    return;
  options.backend = "sim";
  try {
    const CheckReport report = check_kernel(options);
    location.first_nan = report.notes;
    location.nan = report.nan;
  } catch (const Error&) {
    return;  // a kernel that the machine does not take
  }
}

}  // namespace

void tell_origin(const RunOptions& failed, Location& location) {
  Diagnosis& values = *location.diagnosis;
  const bool clean = std::ranges::any_of(
      location.runs, [](const LocateRun& run) { return run.checked && run.match; });
  const auto suspicion = std::ranges::find(values.evidence, suspects_memory);
  if (clean && suspicion != values.evidence.end()) values.evidence.erase(suspicion);
  // Where a row that sees no key makes one, values are sure of the cause, and not of the place.
  look_for_nan(failed, location);
  if (values.sure()) return;
  if (values.memory.empty()) {  // else the access comes before it
    name_by_origin(location.nan, may_have_empty_rows(failed), values);
    name_by_infinity(location, values);
    if (!location.nan.line.empty() && location.source.empty()) {
      location.source = {location.nan.line};
    }
  }
  values.evidence.insert(values.evidence.end(), location.first_nan.begin(),
                         location.first_nan.end());
}

}  // namespace lanescope
