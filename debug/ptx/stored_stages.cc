#include "debug/ptx/stored_stages.h"

namespace lanescope::ptx {
namespace {

constexpr std::size_t word = 4;  // bytes

}  // namespace

/// What is stored is of the stage that made it.
void StoredStages::note(const Terms& terms, const History::Run& run, const std::byte* at, TermId id,
                        bool is_maximum) {
  if (!run.holds(at) || id <= constant_term || (first_ && first_ != &run)) return;
  first_ = &run;
  Stage stage = Stage::softmax;
  if (Terms::is_input(id)) {
    stage = Stage::load;
  } else if (terms[id].kind == TermKind::unknown) {
    return;
  } else if (terms.is_score(id) && !is_maximum) {
    stage = Stage::qk;
  } else if (terms.is_output(id)) {
    stage = Stage::pv;
  }
  stages_.insert_or_assign(static_cast<std::size_t>(at - run.shared) / word, stage);
}

std::string StoredStages::text() const {
  std::string text;
  if (!first_) return text;
  for (const SharedRoom& room : first_->program->shared_rooms) {
    text += "variable " + std::to_string(room.at) + " " + std::to_string(room.bytes) + "\n";
  }
  for (auto at = stages_.begin(); at != stages_.end();) {
    const auto [first, stage] = *at;
    std::size_t end = first;
    for (; at != stages_.end() && at->first == end && at->second == stage; ++at) ++end;
    text += "stored " + std::to_string(first * word) + " " + std::to_string(end * word) + " " +
            std::to_string(static_cast<int>(stage)) + "\n";
  }
  return text;
}

}  // namespace lanescope::ptx
