#include "gates/module/shared_scratch.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "debug/text/text.h"
#include "reference/error.h"

namespace lanescope {

double whole_number(const std::string& text, const LaunchWords& words, double most) {
  const double value = evaluate(text, words);
  if (value != std::floor(value) || !(std::fabs(value) <= most)) {
    throw UsageError("\"" + printable(text, 120) + "\" is " + number_text(value, 6) +
                     ", no whole number of its range");
  }
  return value;
}

std::uint64_t SharedScratch::of_bytes(double bytes, const void* from) {
  void* memory = allocate_(static_cast<std::size_t>(bytes), from);
  if (!memory) throw UsageError("there is no memory for scratch of " + number_text(bytes, 12));
  return reinterpret_cast<std::uint64_t>(memory);
}

std::uint64_t SharedScratch::of_words(std::string_view inside, const LaunchWords& words) {
  const std::vector<std::string> parts = split_list(inside);
  constexpr double most = 0x1p40;
  const double bytes = std::max(1.0, whole_number(parts.back(), words, most));
  if (parts.size() == 1) return of_bytes(bytes);
  if (parts.size() > 2) {
    throw UsageError("\"" + printable(inside, 120) + "\" is not: a name, how many bytes");
  }
  const auto [known, is_new] = named_.try_emplace(parts[0], Named{0, bytes});
  if (is_new) known->second.at = of_bytes(bytes);
  if (bytes > known->second.bytes) {
    throw UsageError("scratch of " + printable(parts[0], 120) + " has " +
                     number_text(known->second.bytes, 12) + " bytes, and later " +
                     number_text(bytes, 12));
  }
  return known->second.at;
}

}  // namespace lanescope
