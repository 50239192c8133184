#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "debug/ptx/history.h"
#include "debug/ptx/terms.h"

namespace lanescope::ptx {

/// Which stages put something into which words of shared memory, in the first block that does.
class StoredStages {
 public:
  /// A block puts a term there; a score as the maximum of others.
  void note(const Terms& terms, const History::Run& run, const std::byte* at, TermId id,
            bool is_maximum);
  /// Lines that read_provenance (gates/run/provenance.h) takes apart: ranges of the same stage, and
  /// the shared variables that they lie between.
  std::string text() const;

 private:
  const History::Run* first_ = nullptr;  ///< block that stored something in shared memory
  std::map<std::size_t, Stage> stages_;  ///< by words of that
};

}  // namespace lanescope::ptx
