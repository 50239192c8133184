#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "debug/ptx/global_memory.h"
#include "debug/ptx/history.h"
#include "debug/ptx/terms.h"

namespace lanescope::ptx {

/// A number that a kernel should come to on its way, for an element of its kind: for the score of a
/// query and a key, say.
struct KnownNumber {
  float value;
  std::uint32_t element;
};

/// Numbers of a kind, by their value; an element may have several, of which one will do. A number
/// of the kernel is one of them where it is within `absolute` + `relative` · |value| of it.
struct KnownKind {
  std::vector<KnownNumber> numbers;
  std::uint32_t elements = 0;
  double absolute = 0, relative = 0;
  bool is_last = false;  ///< what an instruction makes last in a lane of a block counts alone
};

/// The rows of an array as the program has it.
struct KnownRows {
  const std::byte* begin = nullptr;
  std::size_t bytes = 0, row_bytes = 1;
};

/// What is looked for in a run, and the file that takes what was seen: read_seen_numbers
/// (gates/run/seen_numbers.h) reads it.
struct Lookout {
  std::vector<KnownKind> kinds;
  std::array<KnownRows, 4> rows;  ///< of Q, K and V, which are read, and of O, which is written
  /// Not numbers are looked for, but terms are followed (ptx/provenance.h): of this attention.
  std::optional<Terms::Sides> terms;
  KnownRows log_sums;  ///< written as well
  int file = -1;
};

/// Lines of a kernel that come to rows of Q, K, V, O and the log-sum-exp.
using RowLines = std::array<std::vector<std::string>, 5>;

/// Looks at every f32 number that instructions of the last launch made for those that are known. An
/// instruction makes numbers of a kind where many more of its results are known than are by chance,
/// which is what happens to its results a little off. Writes per kind the elements that such
/// instructions came to, and their lines; per block the rows that it read and wrote; whether blocks
/// get rows that others read, or come to each other's shared memory; the lines that come to each
/// array's rows.
void look_out(const History& history, const GlobalMemory& memory, const Lookout& lookout);

}  // namespace lanescope::ptx
