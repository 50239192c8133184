#pragma once

#include <functional>
#include <string>
#include <vector>

#include "debug/dump.h"
#include "debug/simt/checker.h"
#include "debug/text.h"
#include "reference/problem.h"

namespace lanescope {

/// What a run under the memory checker found.
struct CheckReport {
  std::string kernel, gate, module;
  Problem problem;
  int head_dim = 0;   ///< columns of the rows of o
  std::string fault;  ///< where the run did not end: why
  Stop::Kind stop = Stop::Kind::none;
  std::vector<std::string> warnings;
  struct Item {
    simt::Finding finding;
    std::string access_line, earlier_line;  ///< "kernels/mma.h:113"
    std::string region;                     ///< "shared memory", "o"; empty: none
    std::string element;                    ///< "q[3][17]", "o[batch 0][head 1][row 3][d 17]"
  };
  std::vector<Item> items;

  bool clean() const { return items.empty() && fault.empty(); }
};

/// The element of shared memory at an offset, e.g. "q[3][17]"; empty where there is none.
using SharedElement = std::function<std::string(std::int64_t offset)>;

/// Fills the items of `report` from what `checker` found.
void describe_findings(const simt::Checker& checker, const SharedElement& shared_element,
                       CheckReport& report);

/// The whole report for people; the last line is the verdict.
std::string check_text(const CheckReport& report, const Style& style);
/// {"kernel", "gate", "shape", "verdict": "clean"|"fault", "findings": [...]}.
std::string check_json(const CheckReport& report);

}  // namespace lanescope
