#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "debug/ptx/types.h"

namespace lanescope::ptx {

/// A line of a source file, as a .loc directive names it.
struct Location {
  int file = 0, line = 0, column = 0;
  int inlined_at = -1;  ///< index of the Location of the call that this was inlined for
};

/// Registers of a function that were declared together: `.reg .b32 %r<100>`.
struct RegisterFamily {
  std::string name;
  Type type = Type::b32;
  int first = 0;  ///< index of its first register
  int count = 1;
  bool numbered = false;  ///< %r0, %r1, ...
  bool in_pairs = false;  ///< two of 64 bits, side by side, for each of 128
};

/// A .global, .const, .shared, .local or .param variable.
struct Variable {
  std::string name;
  Space space = Space::global;
  Type type = Type::b8;  ///< of an element
  std::uint64_t align = 1;
  std::uint64_t bytes = 0;
  bool unsized = false;  ///< `name[]`: as large as the launch has it
  bool external = false;
  std::vector<std::uint8_t> initial;  ///< zeroes behind; may be empty
  /// Addresses of other variables that go into `initial`, each 8 bytes.
  struct Address {
    std::uint64_t at;
    std::string of;
    std::int64_t offset;
    bool generic;
  };
  std::vector<Address> addresses;
};

struct Operand {
  enum class Kind : std::uint8_t {
    none,      ///< `_`
    reg,       ///< index into Function::registers
    integer,   ///< bits
    real32,    ///< bits of 0f..., lowest 32
    real64,    ///< bits of 0d..., or of a decimal number
    special,   ///< a special register, by its name
    symbol,    ///< a function or a variable of the module, perhaps with an offset
    variable,  ///< of the function, perhaps with an offset: index into Function::variables
    label,     ///< bits: index of the statement behind it
    targets,   ///< index into Function::target_lists
    vector,    ///< {a, b}; or (a, b) of a call
    pair,      ///< a|b
    part,      ///< %r1.h10 of a video instruction: parts[0], the part's name
    address,   ///< [base + offset], base: parts[0] of kind reg, symbol, variable or integer; more
               ///< parts are what stands behind it
  };
  Kind kind = Kind::none;
  bool negated = false;  ///< !%p
  int index = -1;        ///< of a register, variable or list
  std::uint64_t bits = 0;
  std::string_view name;
  std::int64_t offset = 0;
  std::vector<Operand> parts;
};

/// An instruction as it is written.
struct Statement {
  std::string_view opcode;  ///< with its modifiers
  int guard = -1;           ///< register, −1: none
  bool guard_negated = false;
  std::vector<Operand> operands;
  std::uint32_t line = 0;  ///< of the PTX text
  int location = -1;       ///< index into Module::locations
  /// Of an fma that a sum was contracted to (ptx/contraction.h).
  bool negates_product = false, negates_addend = false;
};

struct Function {
  std::string name;
  bool is_entry = false;
  bool has_body = false;
  std::uint32_t line = 0;
  std::vector<int> results, parameters;   ///< indices into variables
  std::vector<RegisterFamily> registers;  ///< by their first
  std::vector<Variable> variables;        ///< its own .local, .shared and .param ones
  std::vector<Statement> statements;
  std::vector<std::vector<std::uint32_t>> target_lists;  ///< statements that brx.idx chooses from
  std::array<std::uint32_t, 3> cluster = {0, 0, 0};      ///< .reqnctapercluster; 0: not given
  int max_threads = 0;                                   ///< .maxntid, all dimensions; 0: not given
  std::array<std::uint32_t, 3> threads{};                ///< .reqntid; zeroes: not given

  int register_count() const {
    return registers.empty() ? 0 : registers.back().first + registers.back().count;
  }
  const RegisterFamily& family_of(int reg) const;
  std::string register_name(int reg) const;
};

/// A PTX module as it is written (PTX ISA, "Directives"). Views lie in `text`.
struct Module {
  std::string name;  ///< what errors call it
  std::unique_ptr<std::string> text;
  std::string version, target;
  /// Whether ptxas may contract sums of products (its option --fmad).
  bool contracts = true;
  std::map<int, std::string> files;
  std::vector<Location> locations;
  std::vector<Variable> variables;
  std::vector<Function> functions;

  const Function* find_function(std::string_view function_name) const;
  const Variable* find_variable(std::string_view variable_name) const;
};

/// Reads a module. Throws UsageError, "NAME:LINE: what is wrong", for what is no PTX, or is PTX
/// that is not read.
Module parse(std::string text, const std::string& name);

}  // namespace lanescope::ptx
