#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <utility>

#include "debug/ptx/parser.h"
#include "debug/text/text.h"

namespace lanescope::ptx {
namespace {

constexpr std::uint64_t most_variable_bytes = std::uint64_t{1} << 30;

}  // namespace

/// [.attribute(.managed)] [.align n] [.v2] .type [.ptr ...] name[n][m] [= initial]; the space is
/// read already.
Variable Parser::read_variable(Space space) {
  Variable variable;
  variable.space = space;
  std::optional<Type> type;
  std::uint64_t vector = 1, align = 0;
  while (!type) {
    const std::string_view word = lexer_.expect_word("a type");
    if (word == ".align") {
      align = static_cast<std::uint64_t>(lexer_.expect_integer("an alignment"));
      if (!std::has_single_bit(align) || align > 1 << 16) {
        lexer_.fail("an alignment is a power of two up to 65536");
      }
    } else if (word == ".attribute") {  // .managed: all memory is the host's, too
      lexer_.expect('(');
      lexer_.expect_word("an attribute");
      lexer_.expect(')');
    } else if (word == ".v2" || word == ".v4") {
      vector = word == ".v2" ? 2 : 4;
    } else if (word == ".texref" || word == ".samplerref" || word == ".surfref") {
      lexer_.fail(std::string(word) + ": textures are not executed");
    } else {
      type = parse_type(word.substr(1));
      if (!type || word[0] != '.')
        lexer_.fail("'" + printable(word) + "' is no type of a variable");
    }
  }
  if (lexer_.accept(".ptr")) {  // what a parameter points to
    while (lexer_.token().kind == Token::Kind::word && lexer_.token().text[0] == '.') {
      if (lexer_.take().text == ".align") lexer_.expect_integer("an alignment");
    }
  }
  variable.type = *type;
  variable.name = lexer_.expect_word("the name of a variable");
  variable.bytes = static_cast<std::uint64_t>(bytes_of(*type)) * vector;
  variable.align = align != 0 ? align : variable.bytes;
  read_sizes(variable);
  if (lexer_.accept('=')) read_initial(variable);
  return variable;
}

/// [n][m] behind the name of a variable that has the bytes of one element.
void Parser::read_sizes(Variable& variable) {
  while (lexer_.accept('[')) {
    if (lexer_.accept(']')) {
      variable.unsized = true;
      continue;
    }
    const std::int64_t count = lexer_.expect_integer("a number of elements");
    if (count < 0 || __builtin_mul_overflow(variable.bytes, static_cast<std::uint64_t>(count),
                                            &variable.bytes)) {
      lexer_.fail("an array of " + std::to_string(count) + " elements");
    }
    lexer_.expect(']');
  }
  if (variable.bytes > most_variable_bytes) {
    lexer_.fail("the variable " + printable(variable.name) + " is larger than 1 GiB");
  }
  if (variable.unsized) variable.bytes = 0;
}

/// A value, or {values}, which say how large an array without a size is.
void Parser::read_initial(Variable& variable) {
  if (!lexer_.token().is('{')) return read_value(variable, variable.type, 0);
  // Of an array of arrays the braces say nothing that the order does not.
  const auto element = static_cast<std::uint64_t>(bytes_of(variable.type));
  std::uint64_t at = 0;
  int depth = 0;
  do {
    if (lexer_.accept('{')) {
      ++depth;
    } else if (lexer_.accept('}')) {
      --depth;
    } else if (!lexer_.accept(',')) {
      if (variable.unsized) variable.bytes = std::max(variable.bytes, at + element);
      read_value(variable, variable.type, at);
      at += element;
    }
  } while (depth > 0);
  variable.unsized = false;
}

/// A number, or the address of a variable: name, name + 4, generic(name), generic(name) + 4.
void Parser::read_value(Variable& variable, Type element, std::uint64_t at) {
  const auto bytes = static_cast<std::uint64_t>(bytes_of(element));
  if (at + bytes > variable.bytes) lexer_.fail("more values than the variable has elements");
  variable.initial.resize(std::max<std::uint64_t>(variable.initial.size(), at + bytes));
  if (lexer_.token().kind == Token::Kind::word) {
    Variable::Address address{at, std::string(lexer_.take().text), 0, false};
    if (bytes != 8) lexer_.fail("an address has 64 bits");
    if (address.of == "generic") {
      lexer_.expect('(');
      address.of = lexer_.expect_word("the name of a variable");
      lexer_.expect(')');
      address.generic = true;
    }
    if (lexer_.accept('+')) address.offset = lexer_.expect_integer("an offset");
    variable.addresses.push_back(std::move(address));
    return;
  }
  const bool negative = lexer_.accept('-');
  const Operand number = read_number(negative);
  std::uint64_t bits = number.bits;
  if (number.kind == Operand::Kind::real64 && element == Type::f32) {
    bits = std::bit_cast<std::uint32_t>(static_cast<float>(std::bit_cast<double>(bits)));
  }
  std::memcpy(&variable.initial[at], &bits, bytes);
}

}  // namespace lanescope::ptx
