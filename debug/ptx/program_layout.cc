// Where the registers, variables and constants of a program lie.

#include <algorithm>
#include <cstring>

#include "debug/ptx/program_builder.h"
#include "debug/text/text.h"

namespace lanescope::ptx {
namespace {

constexpr std::size_t most_local = 512 << 10;  // of a lane (CUDA C++ Programming Guide)
constexpr std::size_t most_register_bytes = std::size_t{256} << 20;

/// Bytes of a register: a slot that begins with a predicate's mask, or 32 lanes.
Place bytes_of_register(Type type) {
  if (type == Type::pred) return slot_bytes;
  return static_cast<Place>(32 * std::max(2, bytes_of(type)));
}

}  // namespace

/// Of the module's shared variables a block holds those that the kernel uses.
void ProgramBuilder::gather_shared(const std::string& name) {
  const Variable* variable = module_.find_variable(name);
  if (!variable || variable->space != Space::shared || shared_.contains(name)) return;
  if (variable->unsized && name == "global_smem") program_.of_triton = true;  // what it calls it
  shared_[name] = add_shared(*variable);
}

std::uint64_t ProgramBuilder::add_shared(const Variable& variable) {
  if (variable.unsized) {
    dynamic_align_ = std::max<std::uint64_t>({dynamic_align_, variable.align, 16});
    return 0;
  }
  const std::uint64_t at = align_up(program_.shared_bytes, variable.align);
  program_.shared_bytes = at + variable.bytes;
  program_.shared_rooms.push_back({at, variable.bytes});
  return shared_begin + at;
}

void ProgramBuilder::lay_out(const Function& function) {
  Frame& frame = frames_[&function];
  std::size_t registers = program_.register_bytes;
  for (const RegisterFamily& family : function.registers) {
    const Place size = bytes_of_register(family.type);
    registers = align_up(registers, std::min<Place>(size, 64));
    frame.families.push_back(static_cast<Place>(registers));
    registers += static_cast<std::size_t>(family.count) * size;
    if (registers > most_register_bytes) {
      fail(function, function.line, "it has more registers than 256 MiB per warp hold");
    }
  }
  program_.register_bytes = registers;
  const std::uint64_t local = program_.local_bytes;
  for (const Variable& variable : function.variables) {
    const auto index = static_cast<int>(frame.variables.size());
    const bool of_kernel =
        function.is_entry && std::find(function.parameters.begin(), function.parameters.end(),
                                       index) != function.parameters.end();
    if (of_kernel) {
      program_.parameter_bytes = align_up(program_.parameter_bytes, variable.align);
      frame.variables.push_back(program_.parameter_bytes);
      program_.parameters.push_back(variable);
      program_.parameter_offsets.push_back(program_.parameter_bytes);
      program_.parameter_bytes += variable.bytes;
    } else if (variable.space == Space::shared) {
      frame.variables.push_back(add_shared(variable));
    } else if (variable.space == Space::local || variable.space == Space::param) {
      program_.local_bytes = align_up(program_.local_bytes, variable.align);
      frame.variables.push_back(program_.local_bytes);
      program_.local_bytes += variable.bytes;
      if (program_.local_bytes > most_local) {
        fail(function, function.line, "a lane's local memory passes 512 KiB");
      }
    } else {
      fail(function, function.line,
           "the variable " + printable(variable.name) +
               " in a function is neither shared, local "
               "nor a parameter");
    }
  }
  note_frame(function, local);
}

/// What a call of a function that may call itself saves: all that the calls before it have there.
/// `local`: where its local memory begins.
void ProgramBuilder::note_frame(const Function& function, std::uint64_t local) {
  if (!calls_itself(function)) return;
  Frame& frame = frames_.at(&function);
  LaneFrame saved;
  for (std::size_t i = 0; i < function.registers.size(); ++i) {
    const RegisterFamily& family = function.registers[i];
    const bool is_predicate = family.type == Type::pred;
    const auto bytes =
        is_predicate ? 0 : static_cast<std::uint32_t>(bytes_of_register(family.type) / 32);
    saved.registers.push_back({frame.families[i], static_cast<std::uint32_t>(family.count), bytes});
    saved.bytes += static_cast<std::uint64_t>(family.count) * std::max(bytes, 1u);
  }
  for (const Variable& variable : function.variables) {
    if (variable.space != Space::local) continue;
    fail(function, function.line,
         "it calls itself, and has variables in local memory: such recursion is not executed");
  }
  saved.local = local;
  saved.local_bytes = program_.local_bytes - local;
  saved.bytes += saved.local_bytes;
  frame.saved = static_cast<int>(program_.frames.size());
  program_.frames.push_back(std::move(saved));
}

Place ProgramBuilder::place_of(const Function& function, int reg) const {
  const RegisterFamily& family = function.family_of(reg);
  const auto index = static_cast<std::size_t>(&family - function.registers.data());
  return frames_.at(&function).families[index] +
         static_cast<Place>(reg - family.first) * bytes_of_register(family.type);
}

Place ProgramBuilder::constant(std::uint64_t value, int bits) {
  if (bits == 1) value = value != 0 ? ~0u : 0;
  const int width = bits == 1 ? 32 : bits;
  if (width < 64) value &= (std::uint64_t{1} << width) - 1;
  const auto [at, is_new] = constants_.try_emplace({width * (bits == 1 ? -1 : 1), value});
  if (is_new) at->second = add_constant(value, width, bits == 1 ? 1 : 32);
  return at->second;
}

Place ProgramBuilder::address(Space space, std::uint64_t value, int bits) {
  if (space != Space::shared) return constant(value, bits);
  const auto [at, is_new] = shared_addresses_.try_emplace({bits, value});
  if (is_new) {
    at->second = add_constant(value, bits, 32);
    program_.shared_addresses.emplace_back(at->second, bits);
  }
  return at->second;
}

Place ProgramBuilder::add_constant(std::uint64_t value, int width, std::size_t lanes) {
  const std::size_t begin = program_.constants.size();
  const auto bytes = static_cast<std::size_t>(width / 8);
  program_.constants.resize(begin + std::max<std::size_t>(64, lanes * bytes));
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    std::memcpy(&program_.constants[begin + lane * bytes], &value, bytes);
  }
  return program_.constants_at + static_cast<Place>(begin);
}

std::uint64_t ProgramBuilder::local_offset(const Function& function, int variable) const {
  return frames_.at(&function).variables[static_cast<std::size_t>(variable)];
}

std::optional<std::pair<Space, std::uint64_t>> ProgramBuilder::locate(
    const Function& function, const Operand& operand) const {
  const std::uint64_t dynamic = shared_begin + program_.shared_bytes;
  const auto offset = static_cast<std::uint64_t>(operand.offset);
  if (operand.kind == Operand::Kind::variable) {
    const auto index = static_cast<std::size_t>(operand.index);
    const Variable& variable = function.variables[index];
    if (variable.space == Space::shared && variable.unsized) {
      return std::pair(Space::shared, dynamic + offset);
    }
    const bool of_kernel =
        function.is_entry && std::find(function.parameters.begin(), function.parameters.end(),
                                       operand.index) != function.parameters.end();
    const Space space =
        variable.space == Space::param && !of_kernel ? Space::local : variable.space;
    return std::pair(space, frames_.at(&function).variables[index] + offset);
  }
  const std::string name(operand.name);
  const Variable* variable = module_.find_variable(name);
  if (!variable) return std::nullopt;
  if (variable->space == Space::shared) {
    return std::pair(Space::shared, (variable->unsized ? dynamic : shared_.at(name)) + offset);
  }
  const auto index = static_cast<std::size_t>(variable - module_.variables.data());
  if (index >= addresses_.size() || addresses_[index] == 0) return std::nullopt;
  return std::pair(variable->space, addresses_[index] + offset);
}

}  // namespace lanescope::ptx
