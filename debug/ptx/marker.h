#pragma once

#include <string_view>

#include "debug/ptx/syntax.h"
#include "reference/marker_words.h"

namespace lanescope::ptx {

/// Whether a statement is a marker: a comment, which ptxas does not see, so that whatever is said
/// of the code holds as if it were not there.
inline bool is_marker(const Statement& statement) {
  return statement.opcode.starts_with(marker_word);
}

/// Whether it may replace a register's value: the last operand.
inline bool is_injection(const Statement& statement) {
  std::string_view words = statement.opcode;
  const auto marker = take_marker(words);
  return marker && marker->kind == Marker::Kind::inject;
}

}  // namespace lanescope::ptx
