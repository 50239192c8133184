#include "debug/ptx/number_origins.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "debug/ptx/program.h"

namespace lanescope::ptx {
namespace {

bool is_followed(Type type) {
  return type == Type::f32 || type == Type::f16 || type == Type::f16x2 || type == Type::bf16 ||
         type == Type::bf16x2;
}

}  // namespace

void describe_numbers(Instruction& in, std::string_view opcode, std::size_t operands) {
  const std::string_view base = opcode.substr(0, opcode.find('.'));
  const std::size_t last = opcode.rfind('.');
  if (!in.lanes || last == opcode.npos || operands < 2 || operands > 4) return;
  const auto from = parse_type(opcode.substr(last + 1));
  if (!from) return;
  static constexpr std::string_view arithmetic[] = {"add", "sub",  "mul",   "fma", "mad", "div",
                                                    "rcp", "sqrt", "rsqrt", "ex2", "lg2", "min",
                                                    "max", "neg",  "abs",   "sin", "cos"};
  if (in.moves || in.selects) {
    if (bits_of(*from) != 32) return;
    in.makes = in.takes = Type::f32;
    in.number_count = in.moves ? 1 : 2;
    return;
  }
  if (std::find(std::begin(arithmetic), std::end(arithmetic), base) != std::end(arithmetic)) {
    in.makes = in.takes = *from;
  } else if (base == "cvt") {
    const std::string_view rest = opcode.substr(0, last);
    const auto to = parse_type(rest.substr(rest.rfind('.') + 1));
    if (!to) return;
    in.makes = *to;
    in.takes = *from;
  }
  const bool known = is_followed(in.makes) && is_followed(in.takes);
  if (!known) in.makes = in.takes = Type::pred;
  in.number_count = known ? static_cast<std::uint8_t>(operands - 1) : 0;
}

std::uint32_t NumberOrigins::add(const NumberStep& step, std::uint32_t from) {
  if (is_full()) return 0;
  nodes_.push_back({step, from});
  return static_cast<std::uint32_t>(nodes_.size());
}

std::uint32_t NumberOrigins::maker_of(std::uint32_t node) const {
  const Node* at = &nodes_[node - 1];
  while (at->from != 0 && std::isnan(value(at->from))) at = &nodes_[at->from - 1];
  return at->step.instruction;
}

std::vector<NumberStep> NumberOrigins::way_to(std::uint32_t node) const {
  std::vector<NumberStep> way;
  for (; node != 0; node = nodes_[node - 1].from) way.push_back(nodes_[node - 1].step);
  return way;
}

void NumberOrigins::store(std::size_t offset, std::uint32_t node) {
  if (node != 0) {
    shared_[offset / 4] = node;
  } else if (!shared_.empty()) {
    shared_.erase(offset / 4);
  }
}

std::uint32_t NumberOrigins::load(std::size_t offset) const {
  const auto at = shared_.find(offset / 4);
  return at == shared_.end() ? 0 : at->second;
}

}  // namespace lanescope::ptx
