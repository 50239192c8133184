#include "debug/ptx/parser.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <utility>

#include "debug/text/text.h"
#include "reference/error.h"

namespace lanescope::ptx {
namespace {

/// A path as nvcc writes it: bytes beyond ASCII are \303, three octal digits.
std::string unescaped(std::string_view path) {
  std::string text;
  for (std::size_t i = 0; i < path.size(); ++i) {
    unsigned byte = 0;
    const char* digits = path.data() + i + 1;
    const bool escaped = path[i] == '\\' && i + 3 < path.size() &&
                         std::from_chars(digits, digits + 3, byte, 8).ptr == digits + 3;
    text += escaped ? static_cast<char>(byte) : path[i];
    if (escaped) i += 3;
  }
  return without_controls(text);
}

std::string location_key(int file, int line, int column) {
  return std::to_string(file) + " " + std::to_string(line) + " " + std::to_string(column);
}

}  // namespace

const Function* Module::find_function(std::string_view function_name) const {
  // A declaration may stand before the definition.
  const Function* found = nullptr;
  for (const Function& function : functions) {
    if (function.name == function_name && (!found || function.has_body)) found = &function;
  }
  return found;
}

const Variable* Module::find_variable(std::string_view variable_name) const {
  const auto at = std::find_if(variables.begin(), variables.end(),
                               [&](const Variable& v) { return v.name == variable_name; });
  return at == variables.end() ? nullptr : &*at;
}

const RegisterFamily& Function::family_of(int reg) const {
  const auto behind = std::upper_bound(registers.begin(), registers.end(), reg,
                                       [](int r, const RegisterFamily& f) { return r < f.first; });
  return *(behind - 1);
}

std::string Function::register_name(int reg) const {
  const RegisterFamily& family = family_of(reg);
  const int number = (reg - family.first) / (family.in_pairs ? 2 : 1);
  return family.numbered ? family.name + std::to_string(number) : family.name;
}

Module parse(std::string text, const std::string& name) {
  Module module;
  module.name = name;
  module.text = std::make_unique<std::string>(std::move(text));
  Parser(module).read_module();
  return module;
}

void Parser::read_module() {
  while (lexer_.token().kind != Token::Kind::end) read_directive();
  if (module_.version.empty()) {
    lexer_.fail_at(1, "there is no .version directive: is this PTX at all?");
  }
}

std::optional<Space> Parser::space_of_directive(std::string_view word) const {
  if (word == ".global") return Space::global;
  if (word == ".const") return Space::constant;
  if (word == ".shared") return Space::shared;
  if (word == ".local") return Space::local;
  if (word == ".param") return Space::param;
  return std::nullopt;
}

void Parser::read_directive() {
  const std::string_view word = lexer_.expect_word("a directive");
  if (word == ".version") {
    module_.version = lexer_.take().text;
  } else if (word == ".target") {
    module_.target = lexer_.expect_word("a target");
    while (lexer_.accept(',')) lexer_.expect_word("an option of the target");
  } else if (word == ".address_size") {
    if (lexer_.expect_integer("64") != 64) lexer_.fail("only 64-bit addresses are executed");
  } else if (word == ".file") {
    read_file();
  } else if (word == ".section") {
    skip_section();
  } else if (word == ".pragma") {
    while (!lexer_.accept(';')) {
      if (lexer_.token().kind == Token::Kind::end) lexer_.expect(';');
      lexer_.take();
    }
  } else if (word == ".loc") {
    read_location();
  } else if (word == ".entry" || word == ".func") {
    read_function(word == ".entry");
  } else if (const auto space = space_of_directive(word)) {
    module_.variables.push_back(read_variable(*space));
    lexer_.expect(';');
  } else if (word == ".extern" || word == ".visible" || word == ".weak" || word == ".common") {
    const std::string_view what = lexer_.expect_word("a directive");
    if (what == ".entry" || what == ".func") {
      read_function(what == ".entry");
    } else if (const auto its_space = space_of_directive(what)) {
      Variable variable = read_variable(*its_space);
      variable.external = word == ".extern";
      // A variable may be declared before it is defined.
      const auto before = std::find_if(module_.variables.begin(), module_.variables.end(),
                                       [&](const Variable& v) { return v.name == variable.name; });
      if (before == module_.variables.end()) {
        module_.variables.push_back(std::move(variable));
      } else if (before->external) {
        *before = std::move(variable);
      }
      lexer_.expect(';');
    } else {
      lexer_.fail("the directive " + printable(what) + " is not read");
    }
  } else {
    lexer_.fail("the directive " + printable(word) + " is not read");
  }
}

/// .section .debug_str { ... }: what debuggers read.
void Parser::skip_section() {
  while (!lexer_.token().is('{')) {
    if (lexer_.token().kind == Token::Kind::end) lexer_.expect('{');
    lexer_.take();
  }
  lexer_.take();
  while (!lexer_.accept('}')) {
    if (lexer_.token().kind == Token::Kind::end) lexer_.expect('}');
    lexer_.take();
  }
}

void Parser::read_file() {
  const auto index = static_cast<int>(lexer_.expect_integer("the number of a file"));
  if (lexer_.token().kind != Token::Kind::string) lexer_.fail("the name of a file is expected");
  module_.files[index] = unescaped(lexer_.take().text);
  while (lexer_.accept(',')) lexer_.expect_integer("a time or a size");
}

/// Of a file without its folder, which may be named behind the code; 0: there is none.
int Parser::number_of_file(std::string_view name) {
  if (const auto known = numbers_of_files_.find(name); known != numbers_of_files_.end()) {
    return known->second;
  }
  int& number = numbers_of_files_[std::string(name)];
  const std::string_view text = *module_.text;
  for (std::size_t at = text.find("\t.file\t"); at != text.npos;
       at = text.find("\t.file\t", at + 1)) {
    const std::string_view line = text.substr(at + 7, text.find('\n', at + 7) - at - 7);
    if (!line.ends_with("/" + std::string(name) + "\"")) continue;
    std::from_chars(line.data(), line.data() + line.size(), number);
    break;
  }
  return number;
}

/// LLVM says in a comment what .loc has no words for in its PTX, the calls from the inside out:
/// ".loc 2 168 27  // standard.py:168:27 @[ k.py:255:57 @[ k.py:301:9 ] ]". Returns the innermost
/// call's location; −1: there is none. `begin`: of the file's number.
int Parser::inlined_by_comment(const char* begin) {
  const std::string_view text = *module_.text;
  const auto at = static_cast<std::size_t>(begin - text.data());
  std::string_view line = text.substr(at, text.find('\n', at) - at);
  constexpr std::string_view call = "@[ ";
  int location = -1;
  for (std::size_t open = line.rfind(call); open != line.npos; open = line.rfind(call)) {
    const std::string_view place = line.substr(open + call.size());
    line = line.substr(0, open);
    const std::size_t colon = place.find(':');
    if (colon == place.npos) continue;
    const int file = number_of_file(place.substr(0, colon));
    int number = 0;
    std::from_chars(place.data() + colon + 1, place.data() + place.size(), number);
    if (file == 0 || number <= 0) continue;
    module_.locations.push_back({file, number, 0, location});
    location = static_cast<int>(module_.locations.size()) - 1;
  }
  return location;
}

/// .loc 2 21 80, function_name $L__info_string0, inlined_at 1 15 3
void Parser::read_location() {
  Location location;
  const auto place = [&](int& file, int& line, int& column) {
    file = static_cast<int>(lexer_.expect_integer("a file's number"));
    line = static_cast<int>(lexer_.expect_integer("a line"));
    column = static_cast<int>(lexer_.expect_integer("a column"));
  };
  const char* const begin = lexer_.token().text.data();
  place(location.file, location.line, location.column);
  location.inlined_at = inlined_by_comment(begin);
  while (lexer_.accept(',')) {
    if (lexer_.accept("function_name")) {
      lexer_.expect_word("a name");
      if (lexer_.accept('+')) lexer_.expect_integer("an offset");
      continue;
    }
    if (!lexer_.accept("inlined_at")) lexer_.fail("function_name or inlined_at is expected");
    int file = 0, line = 0, column = 0;
    place(file, line, column);
    const auto outer = location_index_.find(location_key(file, line, column));
    if (outer != location_index_.end()) {
      location.inlined_at = outer->second;
    } else {
      location.inlined_at = static_cast<int>(module_.locations.size());
      module_.locations.push_back({file, line, column, -1});
    }
  }
  // What a compiler puts in itself has no line: it is said of the line before it, of the kernel's
  // own.
  if (location.line == 0 && location.inlined_at < 0) {
    for (int at = location_; at >= 0;
         at = module_.locations[static_cast<std::size_t>(at)].inlined_at) {
      location.inlined_at = at;
    }
  }
  location_ = static_cast<int>(module_.locations.size());
  module_.locations.push_back(location);
  location_index_[location_key(location.file, location.line, location.column)] = location_;
}

void Parser::read_function(bool is_entry) {
  Function function;
  function.is_entry = is_entry;
  function.line = lexer_.token().line;
  if (lexer_.token().is('(')) function.results = read_parameters(function);
  function.name = lexer_.expect_word("the name of a function");
  if (lexer_.token().is('(')) function.parameters = read_parameters(function);
  read_limits(function);
  if (lexer_.accept(';')) {
    module_.functions.push_back(std::move(function));
    return;
  }
  const Function* before = module_.find_function(function.name);
  if (before && before->has_body) {
    lexer_.fail_at(function.line, "the function " + printable(function.name) + " is there twice");
  }
  function.has_body = true;
  module_.functions.push_back(std::move(function));
  function_ = &module_.functions.back();
  read_body();
  function_ = nullptr;
}

std::vector<int> Parser::read_parameters(Function& function) {
  std::vector<int> indices;
  lexer_.expect('(');
  while (!lexer_.accept(')')) {
    if (!indices.empty()) lexer_.expect(',');
    if (!lexer_.accept(".param")) {
      lexer_.fail("a .param is expected: parameters in registers are not executed");
    }
    indices.push_back(static_cast<int>(function.variables.size()));
    function.variables.push_back(read_variable(Space::param));
  }
  return indices;
}

/// What stands between a function's parameters and its body: how it is to be launched.
void Parser::read_limits(Function& function) {
  while (lexer_.token().kind == Token::Kind::word) {
    const std::string_view word = lexer_.take().text;
    if (word == ".noreturn" || word == ".explicitcluster") continue;
    if (word == ".pragma" || word == ".attribute" || word == ".unique" || word == ".common") {
      lexer_.fail("the directive " + std::string(word) + " is not read here");
    }
    constexpr std::int64_t most = 1 << 20;
    std::vector<std::uint32_t> sides;
    std::int64_t product = 1;
    do {
      const std::int64_t side =
          std::clamp<std::int64_t>(lexer_.expect_integer("a number"), 0, most);
      product = std::min(product * side, most);
      sides.push_back(static_cast<std::uint32_t>(side));
    } while (lexer_.accept(','));
    if (word == ".maxntid" || word == ".reqntid") {
      function.max_threads = static_cast<int>(product);
      sides.resize(3, 1);
      if (word == ".reqntid") std::copy_n(sides.begin(), 3, function.threads.begin());
    } else if (word == ".reqnctapercluster") {
      sides.resize(3, 1);
      std::copy_n(sides.begin(), 3, function.cluster.begin());
    }
  }
}

}  // namespace lanescope::ptx
