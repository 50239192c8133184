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

constexpr Place unread_bytes = 256;  // and behind them the carry

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
  const bool is_called = std::find(path.begin(), path.end(), function.name) != path.end();
  if (is_called && function.is_entry) fail(function, function.line, "a kernel is called");
  if (is_called) return;
  if (path.size() >= most_calls) fail(function, function.line, "calls go deeper than 64");
  if (std::find(functions_.begin(), functions_.end(), &function) != functions_.end()) return;
  functions_.push_back(&function);
  frames_[&function];
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
      if (!other || !other->has_body || !called.insert(base.name).second) continue;
      frames_[&function].calls.push_back(other);
      gather(*other, path);
    }
  }
  path.pop_back();
}

bool ProgramBuilder::calls_itself(const Function& function) const {
  std::vector<const Function*> left = {&function};
  std::set<const Function*> seen;
  while (!left.empty()) {
    const Function* now = left.back();
    left.pop_back();
    for (const Function* other : frames_.at(now).calls) {
      if (other == &function) return true;
      if (seen.insert(other).second) left.push_back(other);
    }
  }
  return false;
}

std::uint32_t ProgramBuilder::index_of(const Function& function, std::uint64_t statement) const {
  return frames_.at(&function).first + static_cast<std::uint32_t>(statement);
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

void ProgramBuilder::decode_function(const Function& function) {
  demand_no_products_in_flight(module_, function);
  std::vector<std::uint8_t> stages = stages_of(function);  // and none of its end
  if (stages.empty() && names_accesses_) stages = stages_by_numbers(function);
  const auto add = [&](Decoder& decoder) {
    Instruction& in = decoder.in;
    in.operands = static_cast<std::uint32_t>(program_.operands.size());
    in.result_count = static_cast<std::uint8_t>(decoder.results.size());
    in.negates_product = decoder.statement().negates_product;
    in.negates_addend = decoder.statement().negates_addend;
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
  const std::vector<bool> copies = copies_of_accumulators(function);
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
        decode_integer, decode_integer_product, decode_bits,      decode_fields,
        decode_masks,   decode_approximate,     decode_float,     decode_double,
        decode_half,    decode_compare,         decode_select,    decode_convert,
        decode_move,    decode_mbarriers,       decode_bulk_copy, decode_tensor_map,
        decode_memory,  decode_atomic,          decode_control,   decode_barrier,
        decode_warp,    decode_matrix,          decode_warpgroup, decode_marker,
        decode_video,   decode_not_executed};
    const bool known = std::any_of(std::begin(families), std::end(families),
                                   [&](Family decode_family) { return decode_family(decoder); });
    if (!known) decoder.fail("the machine does not know this instruction");
    if (copies[i]) follow_sums(decoder);
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
