#include <algorithm>
#include <bit>
#include <charconv>
#include <string>
#include <utility>

#include "debug/ptx/parser.h"
#include "debug/text/text.h"
#include "reference/marker_words.h"

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

}  // namespace

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
  if (statement.opcode == "mov.b128") return add_halves(std::move(statement));
  function_->statements.push_back(std::move(statement));
  statement_scopes_.push_back(scope_);
}

/// mov.b128, of registers or {lower, upper} half.
void Parser::add_halves(Statement statement) {
  const std::vector<Operand> operands = std::move(statement.operands);
  const auto has_halves = [](const Operand& operand) {
    return operand.kind == Operand::Kind::vector && operand.parts.size() == 2;
  };
  if (operands.size() != 2 || !std::ranges::all_of(operands, has_halves)) {
    lexer_.fail("mov.b128 takes two operands of two halves each");
  }
  statement.opcode = "mov.b64";
  for (const std::size_t half : {0, 1}) {
    statement.operands = {operands[0].parts[half], operands[1].parts[half]};
    function_->statements.push_back(statement);
    statement_scopes_.push_back(scope_);
  }
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
  auto type = parse_type(word.substr(1));
  if (!type) lexer_.fail("registers of type " + printable(word) + " are not executed");
  const bool in_pairs = type == Type::b128;
  if (in_pairs) type = Type::b64;
  do {
    const std::string_view name = lexer_.expect_word("the name of a register");
    RegisterFamily family{std::string(name), *type, function_->register_count(), 1, false,
                          in_pairs};
    if (lexer_.accept('<')) {
      const std::int64_t count = lexer_.expect_integer("a number of registers");
      if (count < 0 || count > most_registers - family.first) {
        lexer_.fail("more than " + std::to_string(most_registers) + " registers");
      }
      family.count = static_cast<int>(count);
      family.numbered = true;
      lexer_.expect('>');
    }
    if (in_pairs) family.count *= 2;
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
  // Calls through a register are refused in the kernels that make them; others of the module run.
  if (lexer_.accept(".callprototype") || lexer_.accept(".calltargets")) {
    while (!lexer_.token().is(';') && lexer_.token().kind != Token::Kind::end) lexer_.take();
    return lexer_.expect(';');
  }
  const auto next = static_cast<std::uint32_t>(function_->statements.size());
  if (!scope.labels.emplace(name, next).second) {
    lexer_.fail("the label " + printable(name) + " is there twice");
  }
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
