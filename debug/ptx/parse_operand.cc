#include <algorithm>
#include <bit>
#include <charconv>
#include <string>
#include <utility>

#include "debug/ptx/parser.h"
#include "debug/text/text.h"

namespace lanescope::ptx {
namespace {

bool is_special(std::string_view name) {
  static constexpr std::string_view heads[] = {"%tid",
                                               "%ntid",
                                               "%laneid",
                                               "%warpid",
                                               "%nwarpid",
                                               "%ctaid",
                                               "%nctaid",
                                               "%smid",
                                               "%nsmid",
                                               "%gridid",
                                               "%clusterid",
                                               "%nclusterid",
                                               "%cluster_",
                                               "%is_explicit_cluster",
                                               "%lanemask_",
                                               "%clock",
                                               "%clock64",
                                               "%clock_hi",
                                               "%pm",
                                               "%envreg",
                                               "%globaltimer",
                                               "%reserved_smem_",
                                               "%total_smem_size",
                                               "%aggr_smem_size",
                                               "%dynamic_smem_size",
                                               "%current_graph_exec"};
  for (const std::string_view head : heads) {
    if (name.starts_with(head)) return true;
  }
  return name == "WARP_SZ";
}

}  // namespace

int Parser::find_register(std::string_view name) const {
  if (const int* family = find(&Scope::families, name, scope_)) {
    const RegisterFamily& found = function_->registers[static_cast<std::size_t>(*family)];
    if (!found.numbered) return found.first;
  }
  const std::size_t digits = name.find_last_not_of("0123456789") + 1;
  if (digits == 0 || digits >= name.size() || name.size() - digits > 7) return -1;
  // %f12 may be number 2 of %f1<...>: the longest name that is declared counts.
  for (std::size_t end = name.size() - 1; end >= digits; --end) {
    const int* family = find(&Scope::families, name.substr(0, end), scope_);
    if (!family) continue;
    const RegisterFamily& found = function_->registers[static_cast<std::size_t>(*family)];
    int number = 0;
    std::from_chars(name.data() + end, name.data() + name.size(), number);
    if (found.in_pairs) number *= 2;
    if (found.numbered && number < found.count) return found.first + number;
  }
  return -1;
}

Operand Parser::read_operand() {
  Operand operand = read_part();
  if (!lexer_.accept('|')) return operand;
  Operand pair;
  pair.kind = Operand::Kind::pair;
  pair.parts.push_back(std::move(operand));
  pair.parts.push_back(read_part());
  return pair;
}

Operand Parser::read_part() {
  if (lexer_.accept('{')) {
    Operand vector;
    vector.kind = Operand::Kind::vector;
    vector.parts = read_list('}');
    return vector;
  }
  if (lexer_.accept('(')) {
    Operand list;
    list.kind = Operand::Kind::vector;
    list.parts = read_list(')');
    return list;
  }
  if (lexer_.accept('[')) return read_address();
  if (lexer_.accept('!')) {
    Operand operand = read_name(lexer_.expect_word("a predicate"));
    operand.negated = true;
    return operand;
  }
  if (lexer_.accept('-')) return read_number(true);
  if (lexer_.token().kind == Token::Kind::number) return read_number(false);
  return read_name(lexer_.expect_word("an operand"));
}

std::vector<Operand> Parser::read_list(char end) {
  std::vector<Operand> parts;
  while (!lexer_.accept(end)) {
    if (!parts.empty()) lexer_.expect(',');
    if (lexer_.accept('-')) {
      parts.push_back(read_number(true));
    } else if (lexer_.token().kind == Token::Kind::number) {
      parts.push_back(read_number(false));
    } else {
      parts.push_back(read_name(lexer_.expect_word("an operand")));
    }
  }
  return parts;
}

std::int64_t Parser::read_offset() {
  std::int64_t offset = 0;
  while (lexer_.accept('+')) offset += lexer_.expect_integer("an offset");
  if (lexer_.token().is('-')) offset += lexer_.expect_integer("an offset");
  return offset;
}

/// [base + offset], or with coordinates and the like behind a comma.
Operand Parser::read_address() {
  Operand address;
  address.kind = Operand::Kind::address;
  Operand base;
  if (lexer_.token().kind == Token::Kind::word) {
    base = read_name(lexer_.take().text);
    address.offset = std::exchange(base.offset, 0) + read_offset();
  } else {
    base.kind = Operand::Kind::integer;
    base.bits = static_cast<std::uint64_t>(lexer_.expect_integer("an address") + read_offset());
  }
  address.parts.push_back(std::move(base));
  while (lexer_.accept(',')) address.parts.push_back(read_part());
  lexer_.expect(']');
  return address;
}

Operand Parser::read_name(std::string_view name) {
  Operand operand;
  operand.name = name;
  if (name == "_") return operand;
  operand.index = find_register(name);
  if (operand.index >= 0) {
    operand.kind = Operand::Kind::reg;
    if (!function_->family_of(operand.index).in_pairs) return operand;
    Operand pair;
    pair.kind = Operand::Kind::vector;
    pair.parts = {operand, operand};
    ++pair.parts[1].index;
    return pair;
  }
  if (const std::size_t dot = name.rfind('.'); dot != std::string_view::npos) {
    if (const int base = find_register(name.substr(0, dot)); base >= 0) {
      operand.kind = Operand::Kind::reg;
      operand.index = base;
      operand.name = name.substr(0, dot);
      Operand part;
      part.kind = Operand::Kind::part;
      part.name = name.substr(dot + 1);
      part.parts.push_back(std::move(operand));
      return part;
    }
  }
  if (name[0] == '%' || name == "WARP_SZ") {
    if (!is_special(name)) lexer_.fail("there is no register " + printable(name));
    operand.kind = Operand::Kind::special;
    return operand;
  }
  if (const int* variable = find(&Scope::variables, name, scope_)) {
    operand.kind = Operand::Kind::variable;
    operand.index = *variable;
  } else {
    operand.kind = Operand::Kind::symbol;
  }
  if (lexer_.token().is('+') || lexer_.token().is('-')) operand.offset = read_offset();
  return operand;
}

/// A whole number; 0f3f800000, 0d3ff0000000000000; 1.5.
Operand Parser::read_number(bool negative) {
  const Token token = lexer_.take();
  const std::string_view text = token.text;
  Operand operand;
  operand.kind = Operand::Kind::integer;
  const bool real = text.size() > 1 && text[0] == '0' &&
                    std::string_view("fFdD").find(text[1]) != std::string_view::npos;
  const auto bad = [&] { lexer_.fail_at(token.line, "'" + printable(text) + "' is no number"); };
  if (token.kind != Token::Kind::number) bad();
  if (real) {
    const bool single = text[1] == 'f' || text[1] == 'F';
    const auto [end, error] =
        std::from_chars(text.data() + 2, text.data() + text.size(), operand.bits, 16);
    if (error != std::errc() || end != text.data() + text.size() ||
        text.size() != (single ? 10u : 18u)) {
      bad();
    }
    operand.kind = single ? Operand::Kind::real32 : Operand::Kind::real64;
    if (negative) operand.bits ^= std::uint64_t{1} << (single ? 31 : 63);
    return operand;
  }
  if (text.find('.') != std::string_view::npos ||
      (!text.starts_with("0x") && !text.starts_with("0X") &&
       text.find_first_of("eE") != std::string_view::npos)) {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) bad();
    operand.kind = Operand::Kind::real64;
    operand.bits = std::bit_cast<std::uint64_t>(negative ? -value : value);
    return operand;
  }
  if (!parse_integer(text, operand.bits)) bad();
  if (negative) operand.bits = 0 - operand.bits;
  return operand;
}

}  // namespace lanescope::ptx
