#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gates/run/known_numbers.h"

namespace lanescope {

/// A set as look_out (ptx/recognise.h) writes it: four numbers a digit.
class Marks {
 public:
  Marks() = default;
  explicit Marks(std::string digits) : digits_(std::move(digits)) {}
  bool empty() const { return digits_.find_first_not_of('0') == digits_.npos; }
  bool has(std::int64_t i) const {
    const auto at = static_cast<std::size_t>(i / 4);
    if (at >= digits_.size()) return false;
    const char digit = digits_[at];
    return (number_of(digit) >> i % 4 & 1) != 0;
  }
  void add(const Marks& other) {
    if (digits_.size() < other.digits_.size()) digits_.resize(other.digits_.size(), '0');
    for (std::size_t i = 0; i < other.digits_.size(); ++i) {
      const int both = number_of(digits_[i]) | number_of(other.digits_[i]);
      digits_[i] = "0123456789abcdef"[both];
    }
  }

 private:
  static int number_of(char digit) { return digit <= '9' ? digit - '0' : digit - 'a' + 10; }

  std::string digits_;
};

/// What look_out wrote, of all launches.
struct SeenNumbers {
  struct Kind {
    Marks elements;
    std::vector<std::pair<std::int64_t, std::string>> lines;  ///< how many first there, where
  };
  using Block = std::array<Marks, 4>;  ///< rows of Q, K, V that it read, of O that it wrote
  std::array<Kind, known_count> kinds;
  std::vector<Block> blocks;
  ptx::RowLines row_lines;  ///< that read those, or wrote them
  bool multicasts = false;  ///< blocks get rows that others read
  bool shares = false;      ///< blocks of a cluster come to each other's shared memory
};

/// Reads the file that look_out wrote.
SeenNumbers read_seen_numbers(const std::string& path);

}  // namespace lanescope
