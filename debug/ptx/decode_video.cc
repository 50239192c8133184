// PTX ISA, "SIMD Video Instructions", as they are written. CUDA's __vabsdiffu4 is vabsdiff4. The
// scalar ones are refused: what ptxas makes of their parts and of .sat is not what the PTX ISA
// says.

#include <algorithm>
#include <bit>
#include <iterator>
#include <string>
#include <string_view>

#include "debug/ptx/decoder.h"
#include "debug/ptx/video.h"

namespace lanescope::ptx {
namespace {

/// The register of an operand, and what of it is meant: "h10" of %r1.h10.
struct Selected {
  Operand base;
  std::string_view part;
};
Selected selected(const Decoder& d, std::size_t i) {
  const Operand& operand = d.operand(i);
  if (operand.kind != Operand::Kind::part) return {operand, {}};
  return {operand.parts[0], operand.name};
}

/// The elements that .h10 or .b3210 names, the first of them last: each below `most`.
std::uint16_t elements_of(const Decoder& d, std::string_view text, int count, int most,
                          std::uint16_t otherwise) {
  if (text.empty()) return otherwise;
  std::uint16_t digits = 0;
  bool good =
      text[0] == (count == 2 ? 'h' : 'b') && text.size() == static_cast<std::size_t>(count) + 1;
  for (const char c : text.substr(1)) {
    good = good && c >= '0' && c < '0' + most;
    digits = static_cast<std::uint16_t>(digits << 4 | (c - '0'));
  }
  if (!good) d.fail("it has no elements ." + std::string(text));
  return digits;
}
/// A bit for each element that .h1 or .b20 names.
std::uint16_t mask_of(const Decoder& d, std::string_view text, int count) {
  const int all = (1 << count) - 1;
  if (text.empty()) return static_cast<std::uint16_t>(all);
  int mask = 0;
  for (const char c : text.substr(1))
    mask |= c >= '0' && c < '0' + count ? 1 << (c - '0') : all + 1;
  if (text[0] != (count == 2 ? 'h' : 'b') || text.size() < 2 || mask > all) {
    d.fail("it has no elements ." + std::string(text));
  }
  return static_cast<std::uint16_t>(mask);
}

Type integer_type(Decoder& d) {
  const Type type = d.demand_type();
  if (type != Type::u32 && type != Type::s32) d.fail("it is for .u32 and .s32");
  return type;
}

void take_types(Decoder& d, VideoForm& form, bool compares) {
  if (!compares && is_signed(integer_type(d))) form.flags |= VideoForm::signed_result;
  if (is_signed(integer_type(d))) form.flags |= VideoForm::signed_a;
  if (is_signed(integer_type(d))) form.flags |= VideoForm::signed_b;
}

}  // namespace

bool decode_video(Decoder& d) {
  constexpr std::string_view names[] = {"vadd", "vsub",  "vabsdiff", "vmin",
                                        "vmax", "vavrg", "vset"};
  std::string_view base = d.modifiers.base();
  const int count = base.ends_with('2') ? 2 : base.ends_with('4') ? 4 : 0;
  if (count == 0) return false;
  base.remove_suffix(1);
  const auto* name = std::find(std::begin(names), std::end(names), base);
  if (name == std::end(names)) return false;
  VideoForm form;
  form.operation = static_cast<Video>(name - std::begin(names));
  const bool compares = base == "vset";
  if (compares) {
    const int which = d.modifiers.choose({"eq", "ne", "lt", "le", "gt", "ge"}, -1);
    if (which < 0) d.fail("the comparison is missing");
    form.operation = static_cast<Video>(static_cast<int>(Video::equal) + which);
  }
  take_types(d, form, compares);
  if (d.modifiers.take("sat")) form.flags |= VideoForm::saturates;
  if (d.modifiers.take("add")) form.flags |= VideoForm::adds;
  d.demand_operands(4);
  const Selected to = selected(d, 0), a = selected(d, 1), b = selected(d, 2);
  form.target = mask_of(d, to.part, count);
  form.a = elements_of(d, a.part, count, 2 * count, count == 2 ? 0x10 : 0x3210);
  form.b = elements_of(d, b.part, count, 2 * count, count == 2 ? 0x32 : 0x7654);
  d.in.immediate = std::bit_cast<std::int64_t>(form);
  d.in.d = d.result_of(to.base, 32);
  d.in.s[0] = d.source_of(a.base, Type::b32);
  d.in.s[1] = d.source_of(b.base, Type::b32);
  d.in.s[2] = d.source_of(selected(d, 3).base, Type::b32);
  d.in.lanes = simd_video(count);
  return true;
}

}  // namespace lanescope::ptx
