#include "debug/ptx/term_actions.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <vector>

namespace lanescope::ptx {
namespace {

struct Row {
  std::string_view base;
  TermAction action;
};
constexpr Row of_floats[] = {
    {"add", TermAction::add},       {"sub", TermAction::subtract}, {"mul", TermAction::multiply},
    {"fma", TermAction::fuse},      {"mad", TermAction::fuse},     {"max", TermAction::choose},
    {"min", TermAction::choose},    {"neg", TermAction::negate},   {"abs", TermAction::copy},
    {"div", TermAction::divide},    {"rcp", TermAction::invert},   {"ex2", TermAction::exponential},
    {"lg2", TermAction::logarithm}, {"tanh", TermAction::copy},
};
constexpr Row of_whole_numbers[] = {
    {"max", TermAction::choose},   {"min", TermAction::choose},   {"add", TermAction::exponent},
    {"sub", TermAction::exponent}, {"mad", TermAction::exponent},
};
constexpr std::string_view of_bits[] = {"and", "or",  "xor",  "lop3", "shl",
                                        "shr", "shf", "prmt", "bfe",  "bfi"};

std::vector<Type> types_of(std::string_view opcode) {
  std::vector<Type> types;
  for (std::size_t at = opcode.find('.'); at != opcode.npos;) {
    const std::size_t end = opcode.find('.', at + 1);
    if (const auto type = parse_type(opcode.substr(at + 1, end - at - 1))) types.push_back(*type);
    at = end;
  }
  return types;
}

std::uint8_t numbers_in(Type type) {
  const bool two =
      type == Type::f16x2 || type == Type::bf16x2 || type == Type::e4m3x2 || type == Type::e5m2x2;
  return two ? 2 : 1;
}

/// Registers of .b8 have 16 bits at least.
std::uint8_t bytes_in(Type type) { return static_cast<std::uint8_t>(std::max(2, bytes_of(type))); }

TermStep conversion(const std::vector<Type>& types) {
  const Type to = types[types.size() - 2], from = types.back();
  TermStep step{TermAction::convert, bytes_in(to), bytes_in(from), 1};
  if (numbers_in(to) == 2) {
    step.numbers = 2;
    step.action = numbers_in(from) == 2 ? TermAction::convert_halves : TermAction::convert_pair;
  }
  if (!is_float(to) && !is_float(from)) step.action = TermAction::bits;
  return step;
}

}  // namespace

TermStep term_step(std::string_view opcode, int packs, int parts) {
  const std::string_view base = opcode.substr(0, opcode.find('.'));
  const std::vector<Type> types = types_of(opcode);
  if (types.empty() || types.back() == Type::pred) return {};
  const Type type = types.back();
  // Of a product of matrices the first type is that of its results, too.
  TermStep step{TermAction::forget, bytes_in(type), bytes_in(type), numbers_in(type),
                types.front()};
  if (packs != 0) {
    step.action = packs == 1 ? TermAction::pack : TermAction::part;
    (packs == 1 ? step.from : step.to) = static_cast<std::uint8_t>(bytes_in(type) / parts);
    return step;
  }
  if (base == "mov") step.action = TermAction::copy;
  if (base == "selp") step.action = TermAction::select;
  if (base == "cvt" && types.size() >= 2) return conversion(types);
  if (std::find(std::begin(of_bits), std::end(of_bits), base) != std::end(of_bits)) {
    step.action = TermAction::bits;
  }
  const auto look_up = [&](const auto& rows) {
    const auto row = std::find_if(std::begin(rows), std::end(rows),
                                  [&](const Row& known) { return known.base == base; });
    if (row != std::end(rows)) step.action = row->action;
  };
  if (is_float(type)) {
    look_up(of_floats);
  } else if (type == Type::s32 || type == Type::u32) {
    look_up(of_whole_numbers);
  }
  return step;
}

}  // namespace lanescope::ptx
