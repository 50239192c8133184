#include "gates/run/term_rows.h"

#include <algorithm>

namespace lanescope {

std::string TermRows::keys_text(const Set& set) const {
  std::string text;
  std::size_t shown = 0;
  for (const auto& [from, to] : set) {
    if (shown++ == 4) return text + ", ...";
    text += (text.empty() ? "" : ", ") + std::to_string(from % p_.len_kv);
    if (to > from) text += " to " + std::to_string(to % p_.len_kv);
  }
  return text;
}

std::string TermRows::row_text(std::int64_t row) const {
  return "query " + std::to_string(row % p_.len_q) + " of head " +
         std::to_string(head_of(row) % p_.heads) + ", batch " +
         std::to_string(head_of(row) / p_.heads);
}

std::string TermRows::key_text(std::int64_t key) const {
  const std::int64_t head = key / p_.len_kv;
  return "key " + std::to_string(key % p_.len_kv) + " of head " +
         std::to_string(head % p_.heads_kv) + ", batch " + std::to_string(head / p_.heads_kv);
}

std::string TermRows::term_text(const Term& term) const {
  if (term.kind == "q") {
    return "Q of " + row_text(term.row) + ", column " + std::to_string(term.column);
  }
  if (term.is_input()) {
    return std::string(term.kind == "k" ? "K" : "V") + " of " + key_text(term.row) + ", column " +
           std::to_string(term.column);
  }
  if (term.kind == "score" || term.kind == "weight" || term.kind == "difference") {
    std::string text =
        (term.kind == "score" ? "the score of " : "the weight of ") + row_text(term.row);
    if (term.key >= 0) text += " and " + key_text(term.key);
    if (term.kind != "score" && term.b.kind == Unit::Kind::score) {
      text += ", relative to that of key " + std::to_string(term.b.key % p_.len_kv);
    }
    return text;
  }
  if (term.kind == "output" || term.kind == "sum" || term.kind == "inverse") {
    const std::string of = term.kind == "output" ? "P·V" : term.kind == "sum" ? "l" : "1 / l";
    std::string text = of + " of " + row_text(term.row) + " over keys " + keys_text(term.set);
    if (term.b.kind == Unit::Kind::score) {
      text += ", relative to the score of key " + std::to_string(term.b.key % p_.len_kv);
    }
    return text;
  }
  return term.kind;
}

bool TermRows::lacks_all_scores(std::int64_t row) const {
  const Set want = visible(row);
  const auto at = all_.scored.find(row);
  const bool has_some = at != all_.scored.end() && without(want, at->second[0]) != want;
  return !want.empty() && !has_some && !all_.scored.empty();
}

std::int64_t TermRows::times_scored(std::int64_t row, std::int64_t key) const {
  const auto at = all_.scored.find(row);
  if (at == all_.scored.end()) return 0;
  return std::count_if(at->second.begin(), at->second.end(),
                       [&](const Set& keys) { return has(keys, key); });
}

bool TermRows::are_whole() const {
  return std::all_of(wrong_.begin(), wrong_.end(), [&](std::int64_t row) {
    bool whole = true, any = false;
    each_output(row, [&](const Provenance::Output& output, bool lse) {
      any = true;
      whole =
          whole && output.term.row == row && output.meetings.empty() &&
          (lse ? output.term.kind == "log_sum" && output.term.a.keys == visible(row)
               : output.term.kind == "output" && output.term.set == visible(row) &&
                     output.values == visible(row) && output.term.b.kind == Unit::Kind::log_sum &&
                     output.term.b.keys == visible(row));
    });
    return any && whole;
  });
}

}  // namespace lanescope
