#include "debug/text/nearest.h"

#include "tests/support/catch.h"

using namespace lanescope;

TEST_CASE("did you mean: one near name, and none where nothing is near") {
  const std::vector<std::string> names = {"list",  "run",          "diff",           "watch",
                                          "check", "softmax_only", "swapped_row_max"};
  const auto near = [&](std::string_view wrong) { return did_you_mean(wrong, names); };
  CHECK(near("dif") == " (did you mean diff?)");    // left out
  CHECK(near("difff") == " (did you mean diff?)");  // too many
  CHECK(near("duff") == " (did you mean diff?)");   // another
  CHECK(near("dfif") == " (did you mean diff?)");   // swapped
  CHECK(near("DIFF") == " (did you mean diff?)");
  CHECK(near("softmax") == " (did you mean softmax_only?)");
  CHECK(near("sofmax_onyl") == " (did you mean softmax_only?)");
  CHECK(near("swapedrowmax") == " (did you mean swapped_row_max?)");
  CHECK(near("rnu") == " (did you mean run?)");
  for (const char* far : {"", "d", "r", "nope", "fluff", "only", "difference", "x"})
    CHECK(near(far) == "");
  CHECK(near(std::string(100000, 'd')) == "");
  CHECK(did_you_mean("nma", {}) == "");
  CHECK(listed(names).starts_with("list, run, "));
}
