#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "debug/dump/dump.h"
#include "debug/judge/diff.h"
#include "debug/text/text.h"

namespace lanescope {

/// How reports name what a slot is judged against.
constexpr const char* name_of(Judgement judgement) {
  return judgement == Judgement::local ? "local" : "chain";
}

/// The diff of `dump` against the reference as text for people, at most style.width columns wide:
/// what ran, one line per site and judgement, for a divergence everything about its first element
/// and how to look at it, and the verdict as the last line.
/// `path`: where the dump lies, for the command to go on with; empty where it was not kept.
std::string diff_text(const Dump& dump, const DiffReport& report, const Style& style,
                      std::string_view path = {});

/// The same for programs, one JSON object:
///   schema    json_schema (debug/text/json.h), first in every result for programs
///   kernel gate backend device module dtype input seed incomplete   as in the dump
///   shape     {batch, heads, heads_kv, len_q, len_kv, d, causal};  tile: {br, bc, head_dim}
///   verdict   "match", "variant", "diverged" or "unsettled" (debug/judge/README.md)
///   recurrence  [string]: how it differs from the reference's, where outputs are right
///   rounded_operands  [string]: of a kernel of f32, which of its operands have fewer bits
///   first     the first divergence, or null: {stage, site, judgement, tile, block, batch, head,
///             query, key, warp, lane, reg, row, col, got, want, bound, unwritten}; an index that
///             does not apply is null, and so is `got` of an unwritten slot
///   sites     [{site, stage, judgement, compared, failed, vacuous, unwritten, non_finite,
///   max_error,
///             max_error_over_bound, first, worst}]
///   rows      the worst rows of the output: [{batch, head, query, max_error, error_over_bound}]
///   untold    [{site, values}]: values about which no comparison said anything
///   warnings, contradictions, unchecked   [string]
/// Numbers that JSON does not have are the strings "inf", "-inf" and "nan".
std::string diff_json(const DumpInfo& info, const DiffReport& report);

/// Whether two dumps are the same: every value that was compared, and there is at least one.
bool same_bits(const std::vector<BitReport>& reports);

/// The comparison of two dumps, bit for bit, as text: the last line is the verdict.
std::string bits_text(const Dump& a, const Dump& b, const std::vector<BitReport>& reports,
                      const Style& style);

/// The same as one JSON object: {kernel, gate, shape, a: {backend, device, module}, b: {...},
/// verdict, first: {tensor, ...} or null, tensors: [{tensor, compared, differing, first}]}; `first`
/// is like that of diff_json, `want` from a and `got` from b, without stage, site and bound.
std::string bits_json(const DumpInfo& a, const DumpInfo& b, const std::vector<BitReport>& reports);

}  // namespace lanescope
