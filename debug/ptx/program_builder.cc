#include "debug/ptx/program_builder.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "debug/ptx/contraction.h"
#include "debug/ptx/control_flow.h"
#include "debug/ptx/marker.h"
#include "debug/ptx/number_origins.h"
#include "debug/ptx/number_stages.h"
#include "debug/text/text.h"
#include "reference/error.h"

namespace lanescope::ptx {
namespace {

constexpr std::size_t most_local = 512 << 10;  // of a lane (CUDA C++ Programming Guide)
constexpr std::size_t most_register_bytes = std::size_t{256} << 20;
constexpr Place unread_bytes = 256;  // and behind them the carry

std::uint64_t align_up(std::uint64_t at, std::uint64_t align) {
  return (at + align - 1) / align * align;
}

/// Bytes of a register: a slot that begins with a predicate's mask, or 32 lanes.
Place bytes_of_register(Type type) {
  if (type == Type::pred) return slot_bytes;
  return static_cast<Place>(32 * std::max(2, bytes_of(type)));
}

/// The sum with its product as one instruction, whose opcode lies in `opcode`.
Statement contracted(Statement sum, const Statement& product, const Contraction& contraction,
                     std::string& opcode) {
  opcode = "fma.rn" + std::string(sum.opcode.substr(sum.opcode.find('.')));
  sum.operands = {sum.operands[0], product.operands[1], product.operands[2],
                  sum.operands[contraction.addend]};
  sum.opcode = opcode;
  sum.negates_product = contraction.negates_product;
  sum.negates_addend = contraction.negates_addend;
  return sum;
}

}  // namespace

Program decode(const Module& module, const std::string& name,
               const std::vector<std::uint64_t>& addresses, bool injects, bool names_accesses) {
  return ProgramBuilder(module, addresses, injects, names_accesses).build(name);
}

ProgramBuilder::ProgramBuilder(const Module& module, const std::vector<std::uint64_t>& addresses,
                               bool injects, bool names_accesses)
    : module_(module), addresses_(addresses), injects_(injects), names_accesses_(names_accesses) {
  program_.injects = injects;
  program_.names_accesses = names_accesses;
  program_.module_name = module.name;
  program_.locations = module.locations;
  program_.files = module.files;
}

void ProgramBuilder::fail(const Function& function, std::uint32_t line, const std::string& what) {
  throw UsageError(module_.name + ":" + std::to_string(line) + ": " +
                   printable(function.name, 120) + ": " + what);
}

Program ProgramBuilder::build(const std::string& name) {
  const Function* kernel = module_.find_function(name);
  if (!kernel || !kernel->is_entry || !kernel->has_body) {
    throw UsageError(module_.name + " has no kernel " + printable(name, 200));
  }
  program_.kernel_name = name;
  program_.max_threads = kernel->max_threads;
  std::sscanf(module_.target.c_str(), "sm_%d", &program_.architecture);
  program_.cluster = kernel->cluster;
  std::vector<std::string> path;
  gather(*kernel, path);

  program_.register_bytes = unread_bytes + 64;
  std::uint32_t first = 0;
  for (const Function* function : functions_) {
    frames_[function].first = first;
    first += static_cast<std::uint32_t>(function->statements.size()) + 1;
    lay_out(*function);
  }
  // What the launch adds lies behind all shared variables, aligned as the strictest asks for.
  program_.shared_bytes = align_up(program_.shared_bytes, dynamic_align_);
  program_.constants_at = static_cast<Place>(align_up(program_.register_bytes, 64));
  for (const Function* function : functions_) decode_function(*function);
  program_.register_bytes = program_.constants_at + program_.constants.size();
  return std::move(program_);
}

/// The functions that are called from here, depth first.
void ProgramBuilder::gather(const Function& function, std::vector<std::string>& path) {
  constexpr std::size_t most_calls = 64;
  if (std::find(path.begin(), path.end(), function.name) != path.end()) {
    fail(function, function.line, "it calls itself: recursion is not executed");
  }
  if (path.size() >= most_calls) fail(function, function.line, "calls go deeper than 64");
  if (std::find(functions_.begin(), functions_.end(), &function) != functions_.end()) return;
  functions_.push_back(&function);
  path.push_back(function.name);
  std::set<std::string_view> called;
  for (const Statement& statement : function.statements) {
    for (const Operand& operand : statement.operands) {
      const bool is_address = operand.kind == Operand::Kind::address;
      const Operand& base = is_address ? operand.parts[0] : operand;
      if (base.kind != Operand::Kind::symbol) continue;
      const std::string symbol(base.name);
      gather_shared(symbol);
      const Function* other = module_.find_function(symbol);
      if (other && other->has_body && called.insert(base.name).second) gather(*other, path);
    }
  }
  path.pop_back();
}

/// Of the module's shared variables a block holds those that the kernel uses.
void ProgramBuilder::gather_shared(const std::string& name) {
  const Variable* variable = module_.find_variable(name);
  if (!variable || variable->space != Space::shared || shared_.contains(name)) return;
  shared_[name] = add_shared(*variable);
}

std::uint64_t ProgramBuilder::add_shared(const Variable& variable) {
  if (variable.unsized) {
    dynamic_align_ = std::max<std::uint64_t>({dynamic_align_, variable.align, 16});
    return 0;
  }
  const std::uint64_t at = align_up(program_.shared_bytes, variable.align);
  program_.shared_bytes = at + variable.bytes;
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
  if (!is_new) return at->second;
  const std::size_t begin = program_.constants.size();
  at->second = program_.constants_at + static_cast<Place>(begin);
  const auto bytes = static_cast<std::size_t>(width / 8);
  program_.constants.resize(begin + std::max<std::size_t>(64, bits == 1 ? 4 : 32 * bytes));
  for (std::size_t lane = 0; lane < (bits == 1 ? 1 : 32); ++lane) {
    std::memcpy(&program_.constants[begin + lane * bytes], &value, bytes);
  }
  return at->second;
}

std::uint32_t ProgramBuilder::index_of(const Function& function, std::uint64_t statement) const {
  return frames_.at(&function).first + static_cast<std::uint32_t>(statement);
}

std::uint64_t ProgramBuilder::local_offset(const Function& function, int variable) const {
  return frames_.at(&function).variables[static_cast<std::size_t>(variable)];
}

const Statement* ProgramBuilder::only_assignment(const Function& function, int reg) {
  std::optional<Assignments>& known = frames_.at(&function).assignments;
  if (!known) {
    known.emplace();
    const auto note = [&](const Operand& operand, const Statement* statement) {
      if (operand.kind != Operand::Kind::reg) return;
      const auto [at, is_first] = known->emplace(operand.index, statement);
      if (!is_first) at->second = nullptr;
    };
    for (const Statement& statement : function.statements) {
      if (statement.operands.empty()) continue;
      if (is_marker(statement) && !is_injection(statement)) continue;
      const Operand& first =
          is_marker(statement) ? statement.operands.back() : statement.operands.front();
      note(first, &statement);
      for (const Operand& part : first.parts) note(part, nullptr);
    }
  }
  const auto at = known->find(reg);
  return at == known->end() ? nullptr : at->second;
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

void ProgramBuilder::decode_function(const Function& function) {
  demand_no_products_in_flight(module_, function);
  std::vector<std::uint8_t> stages = stages_of(function);  // and none of its end
  if (stages.empty() && names_accesses_) stages = stages_by_numbers(function);
  const auto add = [&](Decoder& decoder) {
    Instruction& in = decoder.in;
    in.operands = static_cast<std::uint32_t>(program_.operands.size());
    in.result_count = static_cast<std::uint8_t>(decoder.results.size());
    describe_numbers(in, decoder.statement().opcode, decoder.statement().operands.size());
    in.source_count = static_cast<std::uint8_t>(decoder.sources.size());
    auto& all = program_.operands;
    all.insert(all.end(), decoder.results.begin(), decoder.results.end());
    all.insert(all.end(), decoder.sources.begin(), decoder.sources.end());
    program_.code.push_back(in);
    const Statement& statement = decoder.statement();
    const auto stage = program_.origins.size() - frames_.at(&function).first;
    program_.origins.push_back({std::string(statement.opcode),
                                stage < stages.size() ? stages[stage] : std::uint8_t{0},
                                statement.line, statement.location});
  };
  std::map<std::uint32_t, Contraction> contractions;
  if (module_.contracts) contractions = find_contractions(function, injects_);
  for (std::uint32_t i = 0; i < function.statements.size(); ++i) {
    const auto contraction = contractions.find(i);
    std::string opcode;  // of a contracted sum
    const Statement statement =
        contraction == contractions.end()
            ? function.statements[i]
            : contracted(function.statements[i], function.statements[contraction->second.product],
                         contraction->second, opcode);
    Decoder decoder(*this, function, statement);
    if (statement.guard >= 0) {
      if (function.family_of(statement.guard).type != Type::pred) {
        decoder.fail("the guard " + function.register_name(statement.guard) + " is no predicate");
      }
      decoder.in.guard = place_of(function, statement.guard);
      decoder.in.guard_negated = statement.guard_negated;
    }
    using Family = bool (*)(Decoder&);
    constexpr Family families[] = {
        decode_integer,     decode_integer_product, decode_bits,       decode_fields,
        decode_masks,       decode_approximate,     decode_float,      decode_double,
        decode_half,        decode_compare,         decode_select,     decode_convert,
        decode_move,        decode_mbarriers,       decode_bulk_copy,  decode_memory,
        decode_atomic,      decode_control,         decode_barrier,    decode_warp,
        decode_matrix,      decode_warpgroup,       decode_tensor_map, decode_marker,
        decode_not_executed};
    const bool known = std::any_of(std::begin(families), std::end(families),
                                   [&](Family decode_family) { return decode_family(decoder); });
    if (!known) decoder.fail("the machine does not know this instruction");
    for (const std::string_view word : decoder.modifiers.left()) {
      decoder.fail("." + printable(word) + " is not executed here");
    }
    add(decoder);
  }
  // A body may end without ret.
  Statement end;
  end.opcode = "ret";
  end.line = function.statements.empty() ? function.line : function.statements.back().line;
  Decoder decoder(*this, function, end);
  decode_control(decoder);
  add(decoder);
}

}  // namespace lanescope::ptx
