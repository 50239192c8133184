#include <algorithm>
#include <bit>
#include <charconv>
#include <string>
#include <utility>

#include "debug/ptx/parser.h"
#include "debug/text/text.h"
#include "kernels/trace/marker_words.h"

namespace lanescope::ptx {
namespace {

/// Whether CUDA C++ has the instruction through asm statements alone, or intrinsics.
bool is_wrapped(std::string_view opcode) {
  constexpr std::string_view wrapped[] = {"ldmatrix", "stmatrix", "mma",       "wgmma",
                                          "cp",       "mbarrier", "setmaxnreg"};
  return std::find(std::begin(wrapped), std::end(wrapped), opcode.substr(0, opcode.find('.'))) !=
         std::end(wrapped);
}

constexpr int most_registers = 1 << 20;  // of a function
constexpr int most_scopes = 1 << 20;

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

template <class Names>
const typename Names::mapped_type* Parser::find(Names Scope::*names, std::string_view name,
                                                int scope) const {
  for (; scope >= 0; scope = scopes_[static_cast<std::size_t>(scope)].outer) {
    const auto& known = scopes_[static_cast<std::size_t>(scope)].*names;
    const auto at = known.find(name);
    if (at != known.end()) return &at->second;
  }
  return nullptr;
}

void Parser::read_body() {
  lexer_.take_markers();  // those before it are no part of it
  lexer_.expect('{');
  scopes_.assign(1, {});
  scope_ = 0;
  statement_scopes_.clear();
  target_names_.clear();
  target_scopes_.clear();
  location_ = -1;
  for (std::size_t i = 0; i < function_->variables.size(); ++i) {
    scopes_[0].variables[function_->variables[i].name] = static_cast<int>(i);
  }
  while (true) {
    for (const Token& comment : lexer_.take_markers()) read_marker(comment);
    if (lexer_.accept('{')) {
      if (scopes_.size() >= most_scopes) lexer_.fail("too many braces");
      scopes_.push_back({});
      scopes_.back().outer = scope_;
      scope_ = static_cast<int>(scopes_.size()) - 1;
    } else if (lexer_.accept('}')) {
      scope_ = scopes_[static_cast<std::size_t>(scope_)].outer;
      if (scope_ < 0) break;
    } else {
      read_statement();
    }
  }
  resolve_labels();
}

void Parser::read_statement() {
  if (lexer_.token().kind == Token::Kind::end) lexer_.expect('}');
  if (lexer_.accept(';')) return;
  Statement statement;
  statement.line = lexer_.token().line;
  const bool inline_asm = lexer_.token().inline_asm;
  if (lexer_.accept('@')) {
    statement.guard_negated = lexer_.accept('!');
    const std::string_view name = lexer_.expect_word("a predicate");
    statement.guard = find_register(name);
    if (statement.guard < 0) lexer_.fail("there is no register " + printable(name));
  }
  const std::string_view word = lexer_.expect_word("an instruction");
  if (word == ".reg") return read_registers();
  if (word == ".loc") return read_location();
  if (word == ".pragma") {
    if (lexer_.token().kind != Token::Kind::string) lexer_.fail("a string is expected");
    lexer_.take();
    while (lexer_.accept(',')) lexer_.take();
    return lexer_.expect(';');
  }
  if (const auto space = space_of_directive(word)) {
    declare(read_variable(*space));
    while (lexer_.accept(',')) lexer_.fail("one variable per directive");
    return lexer_.expect(';');
  }
  if (lexer_.accept(':')) return read_label(word);
  if (word[0] == '.') lexer_.fail("the directive " + printable(word) + " is not read here");
  statement.opcode = word;
  // What fat binaries hold has lost the comments that mark asm statements.
  statement.location = location_of_code(inline_asm || is_wrapped(word));
  if (!lexer_.token().is(';')) {
    do {
      statement.operands.push_back(read_operand());
    } while (lexer_.accept(','));
  }
  lexer_.expect(';');
  function_->statements.push_back(std::move(statement));
  statement_scopes_.push_back(scope_);
}

/// Where the code comes from. A function that wraps an instruction says less than where it is
/// called.
int Parser::location_of_code(bool wrapped) const {
  if (!wrapped || location_ < 0) return location_;
  const int caller = module_.locations[static_cast<std::size_t>(location_)].inlined_at;
  return caller >= 0 ? caller : location_;
}

/// lanescope trace s f32 %r1, %r2, %r3, %f1: a statement whose opcode is the words.
void Parser::read_marker(const Token& comment) {
  Statement statement;
  statement.line = comment.line;
  statement.location = location_of_code(true);
  std::string_view operands = comment.text;
  const auto marker = take_marker(operands);
  if (!marker) {
    lexer_.fail_at(comment.line, "there is no marker '" + printable(comment.text, 120) +
                                     "' (kernels/trace/lanescope.h)");
  }
  statement.opcode = comment.text.substr(0, comment.text.size() - operands.size());
  Lexer of_operands(operands, module_.name, comment.line);
  std::swap(lexer_, of_operands);
  if (operand_count(marker->kind) > 0) {
    do {
      statement.operands.push_back(read_operand());
    } while (lexer_.accept(','));
  }
  if (lexer_.token().kind != Token::Kind::end) lexer_.fail("the marker goes on behind its values");
  std::swap(lexer_, of_operands);
  function_->statements.push_back(std::move(statement));
  statement_scopes_.push_back(scope_);
}

/// .reg .b32 %r<100>, x;
void Parser::read_registers() {
  const std::string_view word = lexer_.expect_word("a type");
  const auto type = parse_type(word.substr(1));
  if (!type || bits_of(*type) > 64) {
    lexer_.fail("registers of type " + printable(word) + " are not executed");
  }
  do {
    const std::string_view name = lexer_.expect_word("the name of a register");
    RegisterFamily family{std::string(name), *type, function_->register_count(), 1, false};
    if (lexer_.accept('<')) {
      const std::int64_t count = lexer_.expect_integer("a number of registers");
      if (count < 0 || count > most_registers - family.first) {
        lexer_.fail("more than " + std::to_string(most_registers) + " registers");
      }
      family.count = static_cast<int>(count);
      family.numbered = true;
      lexer_.expect('>');
    }
    if (family.first + family.count > most_registers) {
      lexer_.fail("more than " + std::to_string(most_registers) + " registers");
    }
    scopes_[static_cast<std::size_t>(scope_)].families[name] =
        static_cast<int>(function_->registers.size());
    function_->registers.push_back(std::move(family));
  } while (lexer_.accept(','));
  lexer_.expect(';');
}

void Parser::declare(Variable variable) {
  scopes_[static_cast<std::size_t>(scope_)].variables[variable.name] =
      static_cast<int>(function_->variables.size());
  function_->variables.push_back(std::move(variable));
}

void Parser::read_label(std::string_view name) {
  Scope& scope = scopes_[static_cast<std::size_t>(scope_)];
  if (lexer_.accept(".branchtargets")) {
    scope.target_lists[name] = static_cast<int>(target_names_.size());
    auto& names = target_names_.emplace_back();
    target_scopes_.push_back(scope_);
    do {
      names.push_back(lexer_.expect_word("a label"));
    } while (lexer_.accept(','));
    return lexer_.expect(';');
  }
  if (lexer_.token().is_word(".callprototype") || lexer_.token().is_word(".calltargets")) {
    lexer_.fail("calls through a register are not executed");
  }
  const auto next = static_cast<std::uint32_t>(function_->statements.size());
  if (!scope.labels.emplace(name, next).second) {
    lexer_.fail("the label " + printable(name) + " is there twice");
  }
}

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
    return operand;
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

/// What is the name of a label is known only where the function ends.
void Parser::resolve_labels() {
  for (std::size_t i = 0; i < function_->statements.size(); ++i) {
    for (Operand& operand : function_->statements[i].operands) {
      if (operand.kind != Operand::Kind::symbol) continue;
      if (const auto* at = find(&Scope::labels, operand.name, statement_scopes_[i])) {
        operand.kind = Operand::Kind::label;
        operand.bits = *at;
      } else if (const int* list = find(&Scope::target_lists, operand.name, statement_scopes_[i])) {
        operand.kind = Operand::Kind::targets;
        operand.index = *list;
      }
    }
  }
  for (std::size_t i = 0; i < target_names_.size(); ++i) {
    auto& list = function_->target_lists.emplace_back();
    for (const std::string_view name : target_names_[i]) {
      const auto* at = find(&Scope::labels, name, target_scopes_[i]);
      if (!at) lexer_.fail("there is no label " + printable(name));
      list.push_back(*at);
    }
  }
}

}  // namespace lanescope::ptx
