// What the compiler warned of, where values do not say what is wrong.
#include "gates/run/warned_index.h"

#include "gates/build/compile_errors.h"
#include "tests/support/catch.h"

namespace lanescope {
namespace {

TEST_CASE("an index beyond an array is named where its lines make what is wrong") {
  Location location;
  location.diagnosis.emplace();
  location.source = {"kernels/parts/mma_stages.h:53-79 (qk)", "kernels/x.h:88 (its seam)"};
  const auto cause_with = [&](const std::string& warning, bool certain) {
    location.diagnosis->cause = Cause::wrong_source;
    location.diagnosis->certain = certain;
    location.warnings = {warning};
    take_warned_index(location);
    return location.diagnosis->cause;
  };
  const std::string words = ": warning: array subscript 6 is above array bounds [-Warray-bounds]";
  CHECK(cause_with("kernels/parts/mma_stages.h:74:34" + words, false) == Cause::out_of_bounds);
  CHECK_FALSE(location.diagnosis->certain);
  CHECK(cause_with("kernels/x.h:88:1" + words, false) == Cause::out_of_bounds);
  // Elsewhere, of something else, or where values tell.
  CHECK(cause_with("kernels/parts/mma_stages.h:80:34" + words, false) == Cause::wrong_source);
  CHECK(cause_with("kernels/mma.h:74:34" + words, false) == Cause::wrong_source);
  CHECK(cause_with("kernels/x.h:88:1: warning: unused variable [-Wunused-variable]", false) ==
        Cause::wrong_source);
  CHECK(cause_with("kernels/x.h:88:1" + words, true) == Cause::wrong_source);
}

TEST_CASE("warnings of a kernel are kept, whoever's it is, and none of the program's own") {
  const std::string of_tree = "../kernels/mma.h:7:3: warning: array subscript 6",
                    of_user = "/home/user/k.h:7:3: warning: may be used uninitialized",
                    of_program = "../gates/module/module.h:7:3: warning: unused";
  const std::vector<std::string> kept =
      compile_warnings(of_tree + "\n" + of_user + "\n" + of_program + "\n");
  CHECK(kept == std::vector{of_tree.substr(3), of_user});
}

}  // namespace
}  // namespace lanescope
