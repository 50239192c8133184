#include "debug/ptx/marked_text.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <utility>
#include <vector>

#include "debug/ptx/marker.h"
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

}  // namespace

Module with_markers(Module embedded, const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file) throw UsageError("cannot read " + path);
  Module marked = parse(std::move(text), path);
  for (const Function& function : embedded.functions) {
    if (!function.has_body) continue;
    const Function* other = marked.find_function(function.name);
    if (!other) return embedded;  // of another of the program's sources
    if (is_same(function, *other)) continue;
    throw UsageError(path + " is not what the module beside it was compiled to: the code of " +
                     printable(function.name, 120) +
                     " differs. Compile both of the same source, with the same options");
  }
  return marked;
}

}  // namespace lanescope::ptx
