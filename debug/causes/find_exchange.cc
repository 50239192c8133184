#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "debug/causes/detectors.h"
#include "debug/causes/phrases.h"

// Who computes a place by a wrong bit of a lane or of an index exchanges neighbours: all that is
// wrong belongs where the row, the column or both differ in one bit. Of narrow types any value
// alone is found in many places; a rule for all of them is not by chance.

namespace lanescope {
namespace {

using TilePlace = std::pair<int, int>;  ///< row, column

constexpr int fewest_exchanged = 12;  ///< of few values in all, one in ten fits anywhere

/// What an exchange explains, if all that is wrong.
struct Exchange {
  int told = 0;        ///< numbers that are wrong and belong to the partner
  bool mutual = true;  ///< the partners are wrong, too, or the same number
  const Element* first = nullptr;
};

std::optional<Exchange> exchange_of(const Scene& scene,
                                    const std::map<TilePlace, const Element*>& places, int row_bit,
                                    int col_bit) {
  Exchange exchange;
  for (const Element& e : scene.elements()) {
    if (!e.wrong) continue;
    const auto partner = places.find({e.row ^ row_bit, e.col ^ col_bit});
    if (partner == places.end() || e.unwritten) return std::nullopt;
    const Element& from = *partner->second;
    if (!scene.fits(from.row, from.col, e.got, from.want)) return std::nullopt;
    exchange.told += std::isfinite(e.got) && e.got != 0;
    exchange.mutual = exchange.mutual && (from.wrong || from.want == e.want);
    if (!exchange.first) exchange.first = &e;
  }
  return exchange.told >= fewest_exchanged ? std::optional(exchange) : std::nullopt;
}

std::string rule_text(int row_bit, int col_bit) {
  std::string text;
  if (row_bit > 0) text = "row i xor " + std::to_string(row_bit);
  if (col_bit > 0) text += (text.empty() ? "" : ", ") + ("column j xor " + std::to_string(col_bit));
  return text;
}

}  // namespace

void find_exchange(const Scene& scene, Findings& findings) {
  const bool is_known =
      std::ranges::any_of(findings, [](const Finding& finding) { return finding.certain(); });
  // Parts of rows of the outputs that hold another's may be of what they were made of.
  if (is_known || scene.at_end() || scene.wrong_count() < fewest_exchanged || scene.cols() <= 1)
    return;
  std::map<TilePlace, const Element*> places;
  for (const Element& e : scene.elements()) places.emplace(TilePlace{e.row, e.col}, &e);
  for (int row_bit = 0; row_bit < 128; row_bit = row_bit == 0 ? 1 : 2 * row_bit) {
    for (int col_bit = 0; col_bit < 128; col_bit = col_bit == 0 ? 1 : 2 * col_bit) {
      if (row_bit == 0 && col_bit == 0) continue;
      const auto exchange = exchange_of(scene, places, row_bit, col_bit);
      if (!exchange) continue;
      const bool is_loaded = scene.site() <= SiteId::v_smem;
      Finding finding{!exchange->mutual && is_loaded ? Cause::wrong_source : Cause::permuted, 1};
      const Element& e = *exchange->first;
      finding.evidence = {
          element_text(name_of(scene.site()), e.row, e.col, scene.cols()) +
              " holds what belongs to " +
              element_text(name_of(scene.site()), e.row ^ row_bit, e.col ^ col_bit, scene.cols()),
          "all that is wrong belongs to " + rule_text(row_bit, col_bit)};
      findings.push_back(finding);
      return;
    }
  }
}

}  // namespace lanescope
