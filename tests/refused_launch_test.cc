// A kernel that never ran.
#include <string>

#include "debug/causes/diagnose.h"
#include "tests/support/catch.h"

namespace lanescope {
namespace {

const std::string invalid = "running the kernel: invalid argument (cudaErrorInvalidValue)";
const std::string refused = ": the launch was refused: blocks of 2048 threads";

}  // namespace

TEST_CASE("refused launches: by the machine's words, or an error that launches alone have") {
  const auto cause_of = [](const std::string& why) { return cause_of_end(Stop::Kind::crash, why); };
  CHECK(cause_of(invalid + refused) == Cause::launch_refused);
  CHECK(cause_of("too many resources requested for launch (cudaErrorLaunchOutOfResources)") ==
        Cause::launch_refused);
  CHECK(cause_of(invalid) == Cause::crash);  // of whatever call
}

TEST_CASE("an arrival too many of a thread that has arrived in the phase is its second") {
  const std::string too_many = "one arrival too many: full[0]: 1 of 1 arrivals have come: thread 0";
  const auto cause_of = [](const std::string& why) { return cause_of_end(Stop::Kind::rule, why); };
  CHECK(cause_of(too_many) == Cause::machine_rule);
  CHECK(cause_of(too_many + "; the same thread has arrived in it") == Cause::double_arrival);
}

TEST_CASE("refused launches: what others read in vain of what it would have written") {
  CheckReport report;
  report.items.resize(1);
  report.items[0].finding.kind = simt::Kind::uninitialised_read;
  CHECK(diagnose(report).cause == Cause::uninitialised_read);
  report.fault = invalid + refused;
  const Diagnosis diagnosis = diagnose(report);
  CHECK(diagnosis.cause == Cause::launch_refused);
  CHECK(diagnosis.memory.empty());
}

}  // namespace lanescope
