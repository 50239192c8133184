#include "debug/judge/verdict_change.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <stdexcept>
#include <variant>

#include "debug/text/json.h"
#include "reference/error.h"

namespace lanescope {
namespace {

/// The entry of `report` for the same site and judgement, null where there is none.
Json same_site(const Json& report, const Json& site) {
  if (report.is_null()) return nullptr;
  for (const Json& candidate : report["sites"]) {
    if (candidate["site"] == site["site"] && candidate["judgement"] == site["judgement"]) {
      return candidate;
    }
  }
  return nullptr;
}

std::int64_t failed(const Json& site) { return site.is_null() ? 0 : site["failed"].integer(); }

/// "softmax / m, local, tile 0, block 2, warp 0, lane 5, register 1", or "nothing".
std::string place_text(const Json& first) {
  if (first.is_null()) return "nothing";
  std::string text =
      first["stage"].text() + " / " + first["site"].text() + " (" + first["judgement"].text() + ")";
  const auto part = [&](const char* key, const char* name) {
    if (first[key].is_null()) return;
    text += std::string(", ") + name + " " + std::to_string(first[key].integer());
  };
  part("tile", "tile");
  part("block", "block");
  part("warp", "warp");
  part("lane", "lane");
  part("reg", "register");
  if (first["reg"].is_null()) {
    part("row", "row");
    part("col", "column");
  }
  return text;
}

/// What `read` makes of reports, unless they are none.
template <class Read>
auto read_reports(const Read& read) {
  try {
    return read();
  } catch (const std::logic_error&) {  // of a member that is not there
  } catch (const std::bad_variant_access&) {
  }
  throw UsageError(
      "what `diff` says is no verdict that this program knows: has lanescope been built anew? "
      "Start again");
}

Json change_of(const Json& before, const Json& now) {
  Json newly_wrong = Json::array(), newly_right = newly_wrong, still_wrong = newly_wrong,
       warnings = newly_wrong;
  for (const Json& site : now["sites"]) {
    const std::int64_t then = failed(same_site(before, site)), today = failed(site);
    if (then == 0 && today == 0) continue;
    const Json entry = {{"stage", site["stage"]},         {"site", site["site"]},
                        {"judgement", site["judgement"]}, {"failed", today},
                        {"compared", site["compared"]},   {"before", then}};
    (today == 0 ? newly_right : then == 0 ? newly_wrong : still_wrong).push_back(entry);
  }
  for (const Json& warning : now["warnings"]) {
    const bool known = !before.is_null() &&
                       std::find(before["warnings"].begin(), before["warnings"].end(), warning) !=
                           before["warnings"].end();
    if (!known) warnings.push_back(warning);
  }
  return {
      {"verdict", now["verdict"]},  {"newly_wrong", newly_wrong},
      {"newly_right", newly_right}, {"still_wrong", still_wrong},
      {"first", now["first"]},      {"first_before", before.is_null() ? Json() : before["first"]},
      {"warnings", warnings}};
}

std::string text_of(const Json& change, const Style& style) {
  Page page(style);
  struct Kind {
    const char *key, *words;
    Colour colour;
  };
  constexpr std::array kinds = {Kind{"newly_wrong", "newly wrong", Colour::red},
                                Kind{"newly_right", "newly right", Colour::green},
                                Kind{"still_wrong", "still wrong", Colour::yellow}};
  std::vector<std::vector<std::string>> rows;
  std::vector<Colour> colours;
  for (const Kind& kind : kinds) {
    for (const Json& site : change[kind.key]) {
      const std::int64_t then = site["before"].integer(), today = failed(site);
      rows.push_back({std::string("  ") + kind.words,
                      site["stage"].text() + " / " + site["site"].text(), site["judgement"].text(),
                      std::to_string(today) + " of " + std::to_string(site["compared"].integer()) +
                          (then != today ? ", was " + std::to_string(then) : "")});
      colours.push_back(kind.colour);
    }
  }
  const std::vector<std::string> lines = table_lines(rows, 4);
  for (std::size_t i = 0; i < lines.size(); ++i) page.line(lines[i], colours[i]);
  for (const Json& warning : change["warnings"]) {
    page.whole("  warning: " + warning.text(), Colour::yellow);
  }
  const std::string first = place_text(change["first"]), then = place_text(change["first_before"]);
  if (!change["first_before"].is_null() && first != then) {
    page.whole("  first divergence moved from " + then + " to " + first);
  }
  const std::string& verdict = change["verdict"].text();
  const Colour colour = verdict == "match" || verdict == "variant" ? Colour::green
                        : verdict == "unsettled"                   ? Colour::yellow
                                                                   : Colour::red;
  page.whole(change["first"].is_null() ? verdict : verdict + ": " + first, colour);
  return page.text();
}

}  // namespace

Json verdict_change(const Json& before, const Json& now) {
  return read_reports([&] { return change_of(before, now); });
}

std::string change_text(const Json& change, const Style& style) {
  return read_reports([&] { return text_of(change, style); });
}

}  // namespace lanescope
