#include "debug/ptx/marked_text.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "debug/ptx/control_flow.h"
#include "debug/ptx/fat_binary.h"
#include "debug/ptx/marker.h"
#include "debug/ptx/program.h"
#include "debug/text/text.h"
#include "reference/error.h"

namespace lanescope::ptx {
namespace {

/// What of a function ptxas sees.
std::vector<const Statement*> code_of(const Function& function) {
  std::vector<const Statement*> code;
  for (const Statement& statement : function.statements) {
    if (!is_marker(statement)) code.push_back(&statement);
  }
  return code;
}

bool is_same(const Function& a, const Function& b) {
  const auto ours = code_of(a), theirs = code_of(b);
  const auto same = [](const Statement* x, const Statement* y) {
    return x->opcode == y->opcode && x->operands.size() == y->operands.size();
  };
  return std::equal(ours.begin(), ours.end(), theirs.begin(), theirs.end(), same);
}

/// The name of a kernel of `embedded` that `marked` has of other code; empty: none.
std::string differing_kernel(const Module& embedded, const Module& marked) {
  for (const Function& function : embedded.functions) {
    if (!function.has_body) continue;
    const Function* other = marked.find_function(function.name);
    if (!other) return {};  // of another of the program's sources
    if (!is_same(function, *other)) return function.name;
  }
  return {};
}

void demand_same(const Module& embedded, const Module& marked) {
  const std::string name = differing_kernel(embedded, marked);
  if (name.empty()) return;
  throw MismatchError(marked.name +
                      " is not what the module beside it was compiled to: the code of " +
                      printable(name, 120) +
                      " differs. Compile both of the same source, with the same options (-keep)");
}

}  // namespace

Module parse_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file) throw UsageError("cannot read " + path);
  return parse(std::move(text), path);
}

Module with_markers(Module embedded, const std::string& path) {
  Module marked = parse_file(path);
  demand_same(embedded, marked);
  const auto is_of = [&](const Function& function) {
    return function.has_body && !marked.find_function(function.name);
  };
  const auto& functions = embedded.functions;
  return std::any_of(functions.begin(), functions.end(), is_of) ? std::move(embedded)
                                                                : std::move(marked);
}

void demand_markers_of(const std::string& module, const std::string& ptx) {
  const Module marked = parse_file(ptx);
  for (std::string& text : ptx_of_library(module))
    demand_same(parse(std::move(text), module), marked);
}

std::vector<std::string> marked_lines(const std::string& ptx, SiteId site) {
  const Module module = parse_file(ptx);
  std::vector<std::string> markers, values;
  const auto line_of = [&](const Statement& statement) {
    return source_line(module.files, module.locations, statement.location,
                       module.name + ":" + std::to_string(statement.line));
  };
  const auto add = [](std::vector<std::string>& lines, const std::string& line) {
    if (std::find(lines.begin(), lines.end(), line) == lines.end()) lines.push_back(line);
  };
  for (const Function& function : module.functions) {
    for (std::uint32_t i = 0; i < function.statements.size(); ++i) {
      const Statement& statement = function.statements[i];
      std::string_view words = statement.opcode;
      const auto marker = is_marker(statement) ? take_marker(words) : std::nullopt;
      if (!marker || !has_site(*marker) || !shows(*marker) || marker->site != site) continue;
      add(markers, line_of(statement) + " (its marker)");
      const Operand& value = statement.operands.back();
      if (!has_value(*marker) || value.kind != Operand::Kind::reg) continue;
      for (const Definition& definition : definitions_of(function, i, value.index)) {
        const Statement& computes = function.statements[definition.statement];
        const std::size_t dot = computes.opcode.find('.');
        const std::size_t end =
            computes.opcode.find('.', dot == computes.opcode.npos ? dot : dot + 1);
        add(values, line_of(computes) +
                        " (computes it: " + std::string(computes.opcode.substr(0, end)) + ")");
      }
    }
  }
  constexpr std::size_t most = 6;
  for (std::string& line : values) {
    if (markers.size() < most) markers.push_back(std::move(line));
  }
  return markers;
}

}  // namespace lanescope::ptx
