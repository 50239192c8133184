#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "debug/ptx/lexer.h"
#include "debug/ptx/syntax.h"

namespace lanescope::ptx {

/// Reads a module, directive by directive (debug/ptx/parser.cc), its variables
/// (debug/ptx/parse_variable.cc), and the bodies of its functions, statement by statement
/// (debug/ptx/parse_body.cc), with their operands (debug/ptx/parse_operand.cc).
class Parser {
 public:
  explicit Parser(Module& module) : module_(module), lexer_(*module.text, module.name) {}
  void read_module();

 private:
  /// What names mean between two braces.
  struct Scope {
    int outer = -1;
    std::unordered_map<std::string_view, int> families;  ///< of registers, by their name
    std::map<std::string, int, std::less<>> variables;
    std::unordered_map<std::string_view, std::uint32_t> labels;
    std::unordered_map<std::string_view, int> target_lists;
  };

  void read_directive();
  void skip_section();
  void read_file();
  void read_location();
  int number_of_file(std::string_view name);
  int inlined_by_comment(const char* begin);
  void read_function(bool is_entry);
  std::vector<int> read_parameters(Function& function);
  void read_limits(Function& function);
  Variable read_variable(Space space);
  void read_sizes(Variable& variable);
  void read_initial(Variable& variable);
  void read_value(Variable& variable, Type element, std::uint64_t at);
  std::optional<Space> space_of_directive(std::string_view word) const;

  void read_body();
  void read_statement();
  void read_marker(const Token& comment);
  int location_of_code(bool wrapped) const;
  void read_registers();
  void add_halves(Statement statement);
  void read_label(std::string_view name);
  Operand read_operand();
  Operand read_part();
  Operand read_address();
  Operand read_name(std::string_view name);
  Operand read_number(bool negative);
  std::vector<Operand> read_list(char end);
  std::int64_t read_offset();
  void declare(Variable variable);
  int find_register(std::string_view name) const;
  /// What a name means in a scope, or in those around it; nullptr: nothing.
  template <class Names>
  const typename Names::mapped_type* find(Names Scope::*names, std::string_view name,
                                          int scope) const {
    for (; scope >= 0; scope = scopes_[static_cast<std::size_t>(scope)].outer) {
      const auto& known = scopes_[static_cast<std::size_t>(scope)].*names;
      const auto at = known.find(name);
      if (at != known.end()) return &at->second;
    }
    return nullptr;
  }
  void resolve_labels();

  Module& module_;
  Lexer lexer_;
  std::map<std::string, int, std::less<>> numbers_of_files_;  ///< without their folders
  Function* function_ = nullptr;                              ///< whose body is read
  std::vector<Scope> scopes_;                                 ///< of that body; the outermost first
  int scope_ = 0;                                             ///< the innermost
  std::vector<int> statement_scopes_;
  std::vector<std::vector<std::string_view>> target_names_;
  std::vector<int> target_scopes_;
  std::unordered_map<std::string, int> location_index_;
  int location_ = -1;
};

}  // namespace lanescope::ptx
