// The words of a launch description.

#include "gates/module/launch_words.h"

#include <string>

#include "reference/error.h"
#include "tests/support/catch.h"

using namespace lanescope;
using Catch::Matchers::ContainsSubstring;

namespace {

LaunchWords words() {
  LaunchWords words;
  words.numbers = {{"len_q", 100}, {"heads", 8}, {"scale", 0.125}};
  words.of_words["stride"] = [](const std::string& word, double side) {
    if (word != "q") throw UsageError("stride of " + word);
    return 1000 + side;
  };
  return words;
}

std::string error_of(const std::string& text) {
  try {
    evaluate(text, words());
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("launch words: numbers, words, functions") {
  const std::pair<const char*, double> cases[] = {
      {"128", 128},
      {"  len_q ", 100},
      {"cdiv(len_q, 64)", 2},
      {"cdiv(128, 64)", 2},
      {"4 * heads * len_q", 3200},
      {"2 + 3 * 4 - 1", 13},
      {"(2 + 3) * -4", -20},
      {"len_q / 8", 12.5},
      {"len_q % 64", 36},
      {"len_q % 64 == 0", 0},
      {"len_q == 100", 1},
      {"heads != 8", 0},
      {"heads <= 8", 1},
      {"heads < 8", 0},
      {"heads >= 9", 0},
      {"heads > 7", 1},
      {"min(len_q, 64) + max(heads, 9)", 73},
      {"stride(q, 1 + 1)", 1002},
      {"scale * 1.5", 0.1875},
      {"1e3", 1000},
  };
  for (const auto& [text, value] : cases) {
    INFO(text);
    CHECK(evaluate(text, words()) == value);
  }
  CHECK(split_call(" scratch(4 * len_q) ") ==
        std::pair<std::string_view, std::string_view>("scratch", "4 * len_q"));
  CHECK(split_call("len_q").first.empty());
  CHECK(split_call("2 * (3)").first.empty());
}

TEST_CASE("launch words: calls and lists are taken apart") {
  using Call = std::pair<std::string_view, std::string_view>;
  CHECK(split_call(" i32(batch, f(1, 2), 3) ") == Call("i32", "batch, f(1, 2), 3"));
  CHECK(split_call("32(1)") == Call());
  CHECK(split_call("scratch") == Call());
  CHECK(split_list("a, f(b, c),d") == std::vector<std::string>{"a", "f(b, c)", "d"});
  CHECK(split_list("") == std::vector<std::string>{""});
}

TEST_CASE("launch words: what is none is an error that quotes it") {
  CHECK_THAT(error_of("len_k"), ContainsSubstring("\"len_k\": there is no word 'len_k'; words: "
                                                  "heads, len_q, scale"));
  CHECK_THAT(error_of("len_q +"), ContainsSubstring("a number or a word is expected"));
  CHECK_THAT(error_of("len_q 2"), ContainsSubstring("'2' is not understood"));
  CHECK_THAT(error_of("cdiv(3)"), ContainsSubstring("',' is missing"));
  CHECK_THAT(error_of("pow(2, 3)"), ContainsSubstring("there is no function 'pow'"));
  CHECK_THAT(error_of("(2"), ContainsSubstring("')' is missing"));
  CHECK_THAT(error_of("2 / (heads - 8)"), ContainsSubstring("a quotient of 0"));
  CHECK_THAT(error_of("2 % 0"), ContainsSubstring("a remainder of 0"));
  CHECK_THAT(error_of("stride(z, 0)"), ContainsSubstring("stride of z"));
  CHECK_THAT(error_of(""), ContainsSubstring("is expected"));
  CHECK_THAT(error_of(std::string(1000, '(')), ContainsSubstring("deeper than 64"));
  CHECK_THAT(error_of(std::string(100000, '-') + "1"), ContainsSubstring("deeper than 64"));
}
