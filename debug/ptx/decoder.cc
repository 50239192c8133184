#include "debug/ptx/decoder.h"

#include <algorithm>
#include <bit>

#include "debug/ptx/control_flow.h"
#include "debug/ptx/program_builder.h"
#include "debug/simt/source_lines.h"
#include "debug/text/text.h"
#include "reference/error.h"
#include "reference/site.h"

namespace lanescope::ptx {

Modifiers::Modifiers(std::string_view opcode) {
  std::size_t dot = opcode.find('.');
  base_ = opcode.substr(0, dot);
  while (dot != std::string_view::npos) {
    const std::size_t next = opcode.find('.', dot + 1);
    words_.push_back(
        opcode.substr(dot + 1, next == std::string_view::npos ? next : next - dot - 1));
    dot = next;
  }
}

bool Modifiers::take(std::string_view word) {
  const auto at = std::find(words_.begin(), words_.end(), word);
  if (at == words_.end()) return false;
  words_.erase(at);
  return true;
}

void Modifiers::ignore(std::initializer_list<std::string_view> words) {
  for (const std::string_view word : words) take(word);
}

int Modifiers::choose(std::initializer_list<std::string_view> words, int otherwise) {
  int index = 0;
  for (const std::string_view word : words) {
    if (take(word)) return index;
    ++index;
  }
  return otherwise;
}

std::optional<Type> Modifiers::peek_type() const {
  for (const std::string_view word : words_) {
    if (const auto type = parse_type(word)) return type;
  }
  return std::nullopt;
}

std::optional<Type> Modifiers::take_type() {
  for (auto at = words_.begin(); at != words_.end(); ++at) {
    const auto type = parse_type(*at);
    if (!type) continue;
    words_.erase(at);
    return type;
  }
  return std::nullopt;
}

Decoder::Decoder(ProgramBuilder& program, const Function& function, const Statement& statement)
    : modifiers(statement.opcode), program_(program), function_(function), statement_(statement) {}

void Decoder::fail(const std::string& what) const {
  throw UsageError(program_.module().name + ":" + std::to_string(statement_.line) + ": " +
                   printable(statement_.opcode, 120) + ": " + what);
}

void Decoder::refuse(const std::string& why) const { fail("not executed: " + why); }

std::optional<std::uint64_t> Decoder::number_in(const Operand& operand) const {
  const auto is_plain = [](const Operand& number) {
    return number.kind == Operand::Kind::real32 || number.kind == Operand::Kind::integer;
  };
  if (is_plain(operand)) return operand.bits;
  if (operand.kind != Operand::Kind::reg) return std::nullopt;
  const Statement* only = program_.only_assignment(function_, operand.index);
  const bool is_mov = only && only->opcode.starts_with("mov.") && only->guard < 0;
  if (!is_mov || only->operands.size() != 2 || !is_plain(only->operands[1])) return std::nullopt;
  return only->operands[1].bits;
}

const Operand& Decoder::operand(std::size_t i) const {
  if (i < operand_count()) return statement_.operands[i];
  fail("it has " + std::to_string(operand_count()) + " operands, and takes more");
}

void Decoder::demand_operands(std::size_t least, std::size_t most) {
  if (operand_count() >= least && operand_count() <= most) return;
  fail("it has " + std::to_string(operand_count()) + " operands, and takes " +
       std::to_string(least) + (most > least ? " to " + std::to_string(most) : ""));
}

Type Decoder::demand_type() {
  const auto type = modifiers.take_type();
  if (!type) fail("it names no type");
  return *type;
}

int Decoder::width_of(const Operand& operand) const {
  if (operand.kind != Operand::Kind::reg) fail("a register is expected");
  const int bits = bits_of(function_.family_of(operand.index).type);
  return bits == 8 ? 16 : bits;
}

Place Decoder::result_of(const Operand& operand, int bits) {
  if (operand.kind == Operand::Kind::none) {
    results.push_back(program_.unread());
    return program_.unread();
  }
  const int wanted = bits == 8 ? 16 : bits;
  if (operand.kind != Operand::Kind::reg) fail("a register is expected for the result");
  if (width_of(operand) != wanted) {
    fail("the register " + function_.register_name(operand.index) + " has " +
         std::to_string(width_of(operand)) + " bits, the result " + std::to_string(wanted));
  }
  const Place place = program_.place_of(function_, operand.index);
  results.push_back(place);
  return place;
}

Place Decoder::constant(std::uint64_t value, int bits) { return program_.constant(value, bits); }

Place Decoder::source_of(const Operand& operand, Type type) {
  const int bits = bits_of(type) == 8 ? 16 : bits_of(type);
  if (operand.negated) fail("! does not stand before this operand");
  switch (operand.kind) {
    case Operand::Kind::reg: {
      if (width_of(operand) != bits) {
        fail("the register " + function_.register_name(operand.index) + " has " +
             std::to_string(width_of(operand)) + " bits, where ." + std::string(name_of(type)) +
             " is taken");
      }
      const Place place = program_.place_of(function_, operand.index);
      sources.push_back(place);
      return place;
    }
    case Operand::Kind::integer:
      return constant(operand.bits, bits);
    case Operand::Kind::real32:
      if (bits != 32)
        fail("a number of 32 bits, where ." + std::string(name_of(type)) + " is taken");
      return constant(operand.bits, bits);
    case Operand::Kind::real64: {
      if (bits == 64) return constant(operand.bits, bits);
      if (bits != 32) fail("a real number, where ." + std::string(name_of(type)) + " is taken");
      const auto rounded = static_cast<float>(std::bit_cast<double>(operand.bits));
      return constant(std::bit_cast<std::uint32_t>(rounded), bits);
    }
    case Operand::Kind::variable:
    case Operand::Kind::symbol: {
      const auto [space, at] = locate(operand);
      const bool narrow = space == Space::shared || space == Space::local || space == Space::param;
      if (bits != 64 && !(bits == 32 && narrow)) {
        fail("an address, where ." + std::string(name_of(type)) + " is taken");
      }
      return program_.address(space, at, bits);
    }
    default:
      fail("a register or a number is expected");
  }
}

std::vector<Operand> Decoder::elements(const Operand& operand) const {
  if (operand.kind == Operand::Kind::vector) return operand.parts;
  return {operand};
}

std::pair<Space, std::uint64_t> Decoder::locate(const Operand& operand) {
  const auto found = program_.locate(function_, operand);
  if (!found && program_.module().find_function(operand.name)) {
    fail("the address of the function " + printable(operand.name) +
         ": neither calls through a register nor launches from a kernel are executed");
  }
  if (!found) fail("there is no variable " + printable(operand.name));
  return *found;
}

void Decoder::address(const Operand& operand) {
  if (operand.kind != Operand::Kind::address) fail("an address [...] is expected");
  const Operand& base = operand.parts[0];
  in.immediate = operand.offset;
  in.wide_address = true;
  switch (base.kind) {
    case Operand::Kind::reg: {
      const int bits = width_of(base);
      if (bits != 32 && bits != 64) fail("an address has 32 or 64 bits");
      in.wide_address = bits == 64;
      in.s[0] = source_of(base, bits == 64 ? Type::b64 : Type::b32);
      return;
    }
    case Operand::Kind::integer:
      in.s[0] = constant(base.bits, 64);
      return;
    case Operand::Kind::variable:
    case Operand::Kind::symbol: {
      const auto [space, at] = locate(base);
      if (in.space == Space::generic || (in.space == Space::param && space == Space::local)) {
        in.space = space == Space::constant ? Space::global : space;
      } else if (in.space != space) {
        fail("the variable " + printable(base.name) + " lies in another space");
      }
      in.s[0] = program_.address(space, at, 64);
      return;
    }
    default:
      fail("an address is a register, a variable or a number");
  }
}

std::uint64_t Decoder::integer(std::size_t i, const char* what) {
  if (operand(i).kind != Operand::Kind::integer) fail(std::string(what) + " must be a number");
  return operand(i).bits;
}

std::string source_line(const std::map<int, std::string>& files,
                        const std::vector<Location>& locations, int location,
                        const std::string& otherwise) {
  std::string innermost;
  for (int at = location; at >= 0; at = locations[static_cast<std::size_t>(at)].inlined_at) {
    const Location& place = locations[static_cast<std::size_t>(at)];
    const auto file = files.find(place.file);
    if (file == files.end() || place.line == 0) continue;
    const std::string line = simt::shortened(file->second + ":" + std::to_string(place.line));
    if (!simt::is_vocabulary(line) && !line.starts_with("/usr/")) return line;
    if (innermost.empty()) innermost = line;
  }
  return innermost.empty() ? otherwise : innermost;
}

std::string Program::line_of(std::uint32_t instruction) const {
  const Origin& origin = origins[instruction];
  return source_line(files, locations, origin.location,
                     module_name + ":" + std::to_string(origin.line));
}

std::string Program::calls_of(std::uint32_t instruction) const {
  constexpr std::size_t most = 3;
  std::vector<std::string> calls;
  std::string before = line_of(instruction);
  for (int at = origins[instruction].location; at >= 0;
       at = locations[static_cast<std::size_t>(at)].inlined_at) {
    const std::string line = source_line(files, locations, at, "");
    if (line.empty() || line == before) continue;
    before = line;
    calls.push_back(line.substr(line.rfind('/') + 1));
  }
  std::string text;
  for (std::size_t i = calls.size() - std::min(most, calls.size()); i < calls.size(); ++i) {
    text += (text.empty() ? ", called at " : ", ") + calls[i];
  }
  return text;
}

std::string Program::stage_of(std::uint32_t instruction) const {
  const unsigned stages = origins[instruction].stages;
  std::string text;
  if ((stages & before_stages) != 0) return text;
  for (int i = 0; i <= static_cast<int>(Stage::combine); ++i) {
    if (!(stages >> i & 1)) continue;
    text +=
        (text.empty() ? " in " : " or ") + std::string(lanescope::name_of(static_cast<Stage>(i)));
  }
  return text;
}

std::optional<Stage> Program::one_stage_of(std::uint32_t instruction) const {
  const std::uint8_t stages = origins[instruction].stages;
  if (!std::has_single_bit(stages) || stages == before_stages) return std::nullopt;
  return static_cast<Stage>(std::countr_zero(stages));
}

std::string Program::describe(std::uint32_t instruction) const {
  return origins[instruction].opcode + " at " + line_of(instruction) + calls_of(instruction) +
         stage_of(instruction);
}

}  // namespace lanescope::ptx
