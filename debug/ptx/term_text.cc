#include "debug/ptx/term_text.h"

namespace lanescope::ptx {
namespace {

std::string text_of(const Terms& terms, const TermUnit& unit) {
  if (unit.is_none()) return "-";
  if (unit.is_score()) return std::to_string(unit.row) + ":" + std::to_string(unit.key());
  return std::to_string(unit.row) + "{" + terms.sets().text(unit.set()) + "}";
}

}  // namespace

std::string text_of(const Terms& terms, TermId id, bool of_column) {
  if (id == no_term) return "-";
  if (Terms::is_input(id)) {
    const InputElement e = terms.element(id);
    return std::string(1, "qkv"[e.array]) + "/" + std::to_string(e.row) + "/" +
           std::to_string(e.column);
  }
  const Term& term = terms[id];
  static constexpr const char* names[] = {"unknown", "score",   "difference", "weight",
                                          "sum",     "inverse", "logarithm",  "log_sum",
                                          "output",  "quotient"};
  const bool has_key = term.kind == TermKind::score || term.kind == TermKind::difference ||
                       term.kind == TermKind::weight || term.kind == TermKind::log_sum;
  return std::string(names[static_cast<int>(term.kind)]) + "/" +
         (has_key ? text_of(terms, term.a) : std::to_string(term.a.row)) + "/" +
         text_of(terms, term.b) + "/" + terms.sets().text(term.set) + "/" +
         std::to_string(of_column ? term.column : 0);
}

}  // namespace lanescope::ptx
