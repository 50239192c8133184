// PTX ISA, "Control Flow Instructions". What orders memory says nothing here: the warps of a block
// run one after the other on one thread.

#include <algorithm>
#include <atomic>
#include <bit>

#include "debug/ptx/block.h"
#include "debug/ptx/decoder.h"
#include "debug/ptx/device_calls.h"
#include "debug/ptx/program_builder.h"
#include "debug/ptx/warp.h"

namespace lanescope::ptx {
namespace {

Flow branch(Warp& warp, const Instruction& in, std::uint32_t mask) {
  return warp.branch(mask, in.target);
}

/// Lanes may choose different targets: the split goes to the first lane's, the others ask again.
Flow branch_by_index(Warp& warp, const Instruction& in, std::uint32_t mask) {
  if (mask == 0) return Flow::next;
  const auto& list = warp.program().branch_lists[static_cast<std::size_t>(in.immediate)];
  const std::uint32_t* index = warp.lanes<std::uint32_t>(in.s[0]);
  const int first = std::countr_zero(mask);
  if (index[first] >= list.size()) {
    warp.fail(first, "the index " + std::to_string(index[first]) + " is behind the list of " +
                         std::to_string(list.size()) + " labels");
  }
  std::uint32_t same = 0;
  for (int lane = first; lane < 32; ++lane) {
    if (mask >> lane & 1 && index[lane] == index[first]) same |= 1u << lane;
  }
  const std::uint32_t others = mask & ~same;
  return warp.branch_some(same, others, list[index[first]]);
}

Flow call(Warp& warp, const Instruction& in, std::uint32_t mask) {
  const auto index = static_cast<std::uint32_t>(in.immediate);
  return warp.call(warp.program().calls[index], mask, index);
}
Flow return_from_call(Warp& warp, const Instruction&, std::uint32_t mask) {
  return warp.return_from_call(mask);
}
Flow exit(Warp& warp, const Instruction&, std::uint32_t mask) { return warp.exit(mask); }
Flow trap(Warp& warp, const Instruction&, std::uint32_t mask) {
  if (mask != 0) warp.fail(std::countr_zero(mask), "the kernel has trapped");
  return Flow::next;
}
/// PTX ISA, griddepcontrol.
Flow wait_for_last_grid(Warp& warp, const Instruction&, std::uint32_t mask) {
  for (; mask != 0; mask &= mask - 1) {
    warp.block().wait_for_last_grid(warp.thread(std::countr_zero(mask)));
  }
  return Flow::next;
}
Flow let_next_grid_start(Warp& warp, const Instruction&, std::uint32_t mask) {
  std::atomic<bool>* lets = warp.block().grid().lets_next_start;
  if (mask != 0 && lets) *lets = true;
  return Flow::next;
}

void decode_branch(Decoder& d) {
  d.modifiers.take("uni");
  d.demand_operands(1);
  const Operand& target = d.operand(0);
  if (target.kind != Operand::Kind::label) d.fail("there is no such label");
  d.in.target = d.program().index_of(d.function(), target.bits);
  d.in.branches = true;
  d.in.act = branch;
}

void decode_branch_by_index(Decoder& d) {
  d.modifiers.ignore({"idx", "uni"});
  d.demand_operands(2);
  if (d.operand(1).kind != Operand::Kind::targets) d.fail("a list of labels is expected");
  auto& lists = d.program().program().branch_lists;
  std::vector<std::uint32_t> list;
  for (const std::uint32_t target :
       d.function().target_lists[static_cast<std::size_t>(d.operand(1).index)]) {
    list.push_back(d.program().index_of(d.function(), target));
  }
  d.in.immediate = static_cast<std::int64_t>(lists.size());
  lists.push_back(std::move(list));
  d.in.s[0] = d.source(0, Type::u32);
  d.in.act = branch_by_index;
}

/// call (result), function, (parameters);
void decode_call(Decoder& d) {
  d.modifiers.take("uni");
  std::size_t at = 0;
  std::vector<Operand> results, arguments;
  if (d.operand_count() > 0 && d.operand(0).kind == Operand::Kind::vector)
    results = d.operand(at++).parts;
  if (at >= d.operand_count() || d.operand(at).kind != Operand::Kind::symbol) {
    d.refuse("calls through a register");
  }
  const std::string_view name = d.operand(at++).name;
  if (at < d.operand_count() && d.operand(at).kind == Operand::Kind::vector)
    arguments = d.operand(at++).parts;
  if (at < d.operand_count()) d.refuse("calls through a register");
  const auto demand_parameter = [&](const Operand& operand) {
    if (operand.kind != Operand::Kind::variable) d.refuse("arguments that are no .param");
  };
  std::for_each(results.begin(), results.end(), demand_parameter);
  std::for_each(arguments.begin(), arguments.end(), demand_parameter);
  const auto local = [&](const Operand& operand) {
    return d.program().local_offset(d.function(), operand.index);
  };
  const auto bytes = [&](const Operand& operand) {
    return d.function().variables[static_cast<std::size_t>(operand.index)].bytes;
  };
  if (decode_device_call(d, name, results, arguments)) return;
  const Function* function = d.program().module().find_function(name);
  if (!function || !function->has_body) {
    d.fail("the function " + std::string(name) + " is not in the module");
  }
  if (function->parameters.size() != arguments.size() ||
      function->results.size() != results.size()) {
    d.fail("the function " + std::string(name) + " takes other parameters");
  }
  Call call_of;
  call_of.entry = d.program().index_of(*function, 0);
  call_of.frame = d.program().frame_of(*function);
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const int to = function->parameters[i];
    const std::uint64_t size =
        std::min(bytes(arguments[i]), function->variables[static_cast<std::size_t>(to)].bytes);
    call_of.arguments.push_back(
        {local(arguments[i]), d.program().local_offset(*function, to), size});
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    const int from = function->results[i];
    const std::uint64_t size =
        std::min(bytes(results[i]), function->variables[static_cast<std::size_t>(from)].bytes);
    call_of.results.push_back({d.program().local_offset(*function, from), local(results[i]), size});
  }
  auto& calls = d.program().program().calls;
  d.in.immediate = static_cast<std::int64_t>(calls.size());
  calls.push_back(std::move(call_of));
  d.in.act = call;
}

void ignore_all(Decoder& d) {
  while (!d.modifiers.left().empty()) d.modifiers.take(d.modifiers.left().front());
  d.in.act = do_nothing;
}

}  // namespace

bool decode_control(Decoder& d) {
  const std::string_view base = d.modifiers.base();
  if (base == "bra") {
    decode_branch(d);
  } else if (base == "brx") {
    decode_branch_by_index(d);
  } else if (base == "call") {
    decode_call(d);
  } else if (base == "ret") {
    d.modifiers.take("uni");
    d.in.act = return_from_call;
  } else if (base == "exit") {
    d.in.act = exit;
  } else if (base == "trap" || base == "brkpt") {
    d.in.act = trap;
  } else if (base == "membar" || base == "fence" || base == "nanosleep" || base == "pmevent" ||
             base == "prefetch" || base == "prefetchu" || base == "discard" ||
             base == "applypriority") {
    ignore_all(d);
  } else if (base == "griddepcontrol") {
    const bool waits = d.modifiers.take("wait");
    if (!waits && !d.modifiers.take("launch_dependents")) {
      d.fail(".wait or .launch_dependents is expected");
    }
    d.in.act = waits ? wait_for_last_grid : let_next_grid_start;
  } else if (base == "createpolicy") {
    while (!d.modifiers.left().empty()) d.modifiers.take(d.modifiers.left().front());
    d.in.d = d.result(0, Type::b64);
    d.in.s[0] = d.constant(0, 64);
    struct Nothing {
      static std::uint64_t apply(std::uint64_t zero) { return zero; }
    };
    d.in.lanes = lane_operation<Nothing, std::uint64_t, std::uint64_t>();
  } else {
    return false;
  }
  return true;
}

}  // namespace lanescope::ptx
