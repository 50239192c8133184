#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lanescope {

/// What stands for numbers in a launch description (gates/module/launch_description.h):
/// "cdiv(len_q, 64)", "4 * heads * len_q", "len_q % 64 == 0".
struct LaunchWords {
  std::map<std::string, double, std::less<>> numbers;  ///< "len_q", ...
  /// Functions of one word and one number: "stride(q, 2)".
  std::map<std::string, std::function<double(const std::string& word, double)>, std::less<>>
      of_words;
};

/// The number that `text` is: sums, products, quotients, remainders and comparisons (1 or 0) of
/// numbers and words, cdiv(a, b) (the quotient, rounded up), min(a, b), max(a, b), and `words`.
/// Numbers are doubles: whole up to 2^53. Throws UsageError, which quotes the text.
double evaluate(std::string_view text, const LaunchWords& words);

/// The parts of "a, f(b, c), d", between the commas that are in no parentheses, without the blanks
/// before them.
std::vector<std::string> split_list(std::string_view text);

/// "name" and "inside" where the whole text is "name(inside)"; else the first is empty.
std::pair<std::string_view, std::string_view> split_call(std::string_view text);

}  // namespace lanescope
