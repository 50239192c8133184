#include "debug/ptx/whole_products.h"

#include <algorithm>
#include <string_view>

namespace lanescope::ptx {
namespace {

struct WholeNumber {
  std::string_view name;
  int bits;
  bool has_sign;
};
constexpr WholeNumber whole_numbers[] = {
    {"s8", 8, true}, {"u8", 8, false}, {"s4", 4, true}, {"u4", 4, false}, {"b1", 1, false}};

const WholeNumber* whole_number(std::string_view word) {
  const auto* at = std::find_if(std::begin(whole_numbers), std::end(whole_numbers),
                                [&](const WholeNumber& number) { return number.name == word; });
  return at == std::end(whole_numbers) ? nullptr : at;
}

}  // namespace

std::optional<WholeFactors> take_whole_factors(Decoder& d) {
  const WholeNumber *a = nullptr, *b = nullptr;
  for (const std::string_view word : d.modifiers.left()) {
    const WholeNumber* number = whole_number(word);
    if (number && a) b = number;
    if (number && !a) a = number;
  }
  if (!a) return std::nullopt;
  if (!b || a->bits != b->bits) d.fail("a and b are numbers of as many bits");
  d.modifiers.take(a->name);
  d.modifiers.take(b->name);
  WholeFactors factors{a->bits, a->has_sign, b->has_sign, false};
  if (factors.bits > 1) return factors;
  const int operation = d.modifiers.choose({"and", "xor"}, -1);
  if (operation < 0 || !d.modifiers.take("popc")) d.fail(".and.popc or .xor.popc is missing");
  factors.differs = operation == 1;
  return factors;
}

}  // namespace lanescope::ptx
