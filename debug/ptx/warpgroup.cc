// PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions" and setmaxnreg.

#include <algorithm>
#include <bit>
#include <charconv>
#include <iterator>
#include <tuple>

#include "debug/ptx/block.h"
#include "debug/ptx/decoder.h"
#include "debug/ptx/matrix.h"
#include "debug/ptx/program_builder.h"
#include "debug/ptx/warp.h"

namespace lanescope::ptx {
namespace {

/// What all lanes of the warp have in a register; a fault where they differ.
template <class T>
T same_in_all(Warp& warp, Place place, const char* what) {
  const T* lanes = warp.lanes<T>(place);
  for (int lane = 1; lane < 32; ++lane) {
    if (lanes[lane] != lanes[0]) {
      warp.fail(lane, std::string(what) + " is another than lane 0's");
    }
  }
  return lanes[0];
}

/// An element of a row that nobody wrote, of A or of the accumulators, leaves its row so.
void follow_rows(Warp& warp, const simt::Product& what, const Place* d, const Place* a) {
  std::uint32_t rows = 0, source = 0;
  const int fragments = what.a_in_registers ? 4 : 0;
  for (int i = 0; i < fragments; ++i) {
    const Unwritten value = warp.unwritten(a[i]);
    if (value.lanes != 0) source = value.source;
    for (std::uint32_t left = value.lanes; left != 0; left &= left - 1) {
      rows |= 1u << (std::countr_zero(left) / 4 + i % 2 * 8);
    }
  }
  const int columns = what.sums == simt::SumType::f16 ? 2 : 1;  // of a register
  for (int i = 0; i < what.registers(); ++i) {
    Unwritten result = what.accumulates ? warp.unwritten(d[i]) : Unwritten{};
    for (int lane = 0; rows != 0 && lane < 32; ++lane) {
      const int row = lane / 4 + i * columns / 2 % 2 * 8;
      if (rows >> row & 1) result = {result.lanes | 1u << lane, source};
    }
    warp.set_unwritten(d[i], ~0u, result);
  }
}

Flow multiply(Warp& warp, const Instruction& in, std::uint32_t) {
  if (const Flow flow = warp.converge_all(); flow != Flow::next) return flow;
  demand_whole(warp);
  const ProductForm& form = warp.program().products[static_cast<std::size_t>(in.immediate)];
  const Place* d = &warp.program().operands[in.operands];
  const Place* a = d + in.result_count;
  simt::Product what = form.what;
  what.accumulates = warp.predicate(form.accumulates) != 0;
  if (what.accumulates && warp.predicate(form.accumulates) != ~0u) {
    warp.fail(0, "scale-d is not the same in all lanes");
  }
  what.b = same_in_all<std::uint64_t>(warp, form.b, "the descriptor of B");
  if (!what.a_in_registers) {
    what.a = same_in_all<std::uint64_t>(warp, form.a, "the descriptor of A");
  }
  simt::RegisterArray accumulators{{}, what.registers(), false}, fragment{{}, 4, false};
  for (int i = 0; i < what.registers(); ++i) {
    accumulators.first.push_back(warp.lanes<std::uint32_t>(d[i]));
  }
  for (int i = 0; what.a_in_registers && i < 4; ++i) {
    fragment.first.push_back(warp.lanes<std::uint32_t>(a[i]));
  }
  warp.note_product(d, what.registers(), what.a_in_registers ? a : nullptr);
  if (warp.follows_unwritten()) follow_rows(warp, what, d, a);
  if (Recording* recording = warp.recording()) {
    recording->note_product({what, warp.block().shared() - shared_begin});
  }
  const std::string error =
      warp.block().async().issue(warp.index(), what, accumulators, fragment, warp.caller(0));
  if (!error.empty()) warp.fail(0, error);
  return Flow::next;
}

Flow fence(Warp& warp, const Instruction&, std::uint32_t) {
  if (const Flow flow = warp.converge_all(); flow != Flow::next) return flow;
  demand_whole(warp);
  warp.block().async().fence_registers(warp.index());
  warp.note_product_fence();
  return Flow::next;
}

Flow commit(Warp& warp, const Instruction&, std::uint32_t) {
  if (const Flow flow = warp.converge_all(); flow != Flow::next) return flow;
  demand_whole(warp);
  warp.block().async().commit_products(warp.index());
  warp.note_products_committed();
  return Flow::next;
}

Flow wait(Warp& warp, const Instruction& in, std::uint32_t) {
  if (const Flow flow = warp.converge_all(); flow != Flow::next) return flow;
  demand_whole(warp);
  simt::AsyncBlock& async = warp.block().async();
  const int pending = static_cast<int>(in.immediate);
  const bool awaits = static_cast<int>(async.products(warp.index()).groups.size()) - 1 > pending;
  // Other blocks of a cluster may write to what they read.
  std::vector<simt::IssuedProduct> ending;
  if (warp.block().cluster_shadow()) ending = async.ending_products(warp.index(), pending);
  if (!async.wait_for_products(warp.index(), pending, warp.caller(0))) {
    warp.split().waits_for = &async.calls(warp.index());
    return Flow::polls;
  }
  warp.tally_wait(awaits);
  warp.note_products_waited(pending);
  for (const simt::IssuedProduct& product : ending) warp.check_operands(product);
  return Flow::next;
}

/// kind 1: more of them.
Flow set_registers(Warp& warp, const Instruction& in, std::uint32_t) {
  if (const Flow flow = warp.converge_all(); flow != Flow::next) return flow;
  demand_whole(warp);
  simt::AsyncBlock& async = warp.block().async();
  for (int lane = 0; lane < 32; ++lane) {
    if (async.change_registers(static_cast<int>(in.immediate), in.kind == 1, warp.caller(lane))) {
      continue;
    }
    warp.split().waits_for = &async.register_pool();
    return Flow::polls;
  }
  return Flow::next;
}

/// "m64n128k16" as {128, 16}; {0, 0} where it is no shape.
std::pair<int, int> take_shape(Decoder& d) {
  for (const std::string_view word : d.modifiers.left()) {
    if (!word.starts_with("m64n")) continue;
    int n = 0, k = 0;
    const char* end = word.data() + word.size();
    const auto first = std::from_chars(word.data() + 4, end, n);
    if (first.ptr == end || *first.ptr != 'k') break;
    if (std::from_chars(first.ptr + 1, end, k).ptr != end) break;
    d.modifiers.take(word);
    return {n, k};
  }
  return {0, 0};
}

using simt::FactorType;
using simt::SumType;

/// .atype and .btype; an error where one is missing or another word is left.
std::pair<FactorType, FactorType> take_factors(Decoder& d) {
  static constexpr std::pair<std::string_view, FactorType> names[] = {
      {"f16", FactorType::f16},   {"bf16", FactorType::bf16}, {"tf32", FactorType::tf32},
      {"e4m3", FactorType::e4m3}, {"e5m2", FactorType::e5m2}, {"s8", FactorType::s8},
      {"u8", FactorType::u8}};
  std::vector<FactorType> types;
  const std::vector<std::string_view> words = d.modifiers.left();
  for (const std::string_view word : words) {
    if (word == "b1") d.refuse("of single bits");
    const auto known = std::find_if(std::begin(names), std::end(names),
                                    [&](const auto& name) { return name.first == word; });
    if (known == std::end(names)) continue;
    types.push_back(known->second);
    d.modifiers.take(word);
  }
  if (types.size() != 2) d.fail("the types of A and B are missing");
  return {types[0], types[1]};
}

/// Whether wgmma has such a product (PTX ISA, "wgmma.mma_async").
bool is_known(FactorType a, FactorType b, SumType sums, int k) {
  const auto is_fp8 = [](FactorType type) {
    return type == FactorType::e4m3 || type == FactorType::e5m2;
  };
  const auto is_byte = [](FactorType type) {
    return type == FactorType::s8 || type == FactorType::u8;
  };
  if (k * bytes_of(a) != 32) return false;
  if (is_byte(a)) return is_byte(b) && sums == SumType::s32;
  if (is_fp8(a)) return is_fp8(b) && sums != SumType::s32;
  return a == b && (sums == SumType::f32 || (sums == SumType::f16 && a == FactorType::f16));
}

void decode_product(Decoder& d) {
  d.modifiers.ignore({"mma_async", "sync", "aligned"});
  const auto [n, k] = take_shape(d);
  if (n < 8 || n > 256 || n % 8 != 0)
    d.fail("it has no shape m64nNkK with N a multiple of 8 to 256");
  if (d.modifiers.take("sp")) d.refuse("of sparse matrices");
  ProductForm form;
  simt::Product& what = form.what;
  what.n = n;
  const int sums = d.modifiers.choose({"f32", "f16", "s32"}, -1);
  if (sums < 0) d.fail("it names no type of its accumulators");
  what.sums = static_cast<SumType>(sums);
  what.saturates = d.modifiers.take("satfinite");
  std::tie(what.a_type, what.b_type) = take_factors(d);
  if (!is_known(what.a_type, what.b_type, what.sums, k)) {
    d.fail("there is no such product of these types and this shape");
  }
  if (what.saturates && what.sums != SumType::s32) d.fail(".satfinite is for .s32");
  what.a_in_registers = d.operand_count() > 1 && d.operand(1).kind == Operand::Kind::vector;
  const bool wide = bytes_of(what.a_type) == 2, scales = what.sums != SumType::s32;
  const std::size_t transposes = !wide ? 0 : what.a_in_registers ? 1 : 2;
  d.demand_operands((scales ? 6 : 4) + transposes);
  take_fragment(d, 0, static_cast<std::size_t>(what.registers()), true, "d");
  if (what.a_in_registers) {
    take_fragment(d, 1, 4, false, "a");
  } else {
    form.a = d.source(1, Type::b64);
  }
  form.b = d.source(2, Type::b64);
  form.accumulates = d.source(3, Type::pred);
  const auto sign = [&](std::size_t i) {
    const auto value = static_cast<std::int64_t>(d.integer(i, "imm-scale"));
    if (value != 1 && value != -1) d.fail("imm-scale is 1 or -1");
    return value < 0;
  };
  what.negates = scales && sign(4) != sign(5);
  const auto transposed = [&](std::size_t i) {
    const std::uint64_t value = d.integer(i, "imm-trans");
    if (value > 1) d.fail("imm-trans is 0 or 1");
    return value == 1;
  };
  if (transposes == 2) what.a_is_transposed = transposed(6);
  if (transposes > 0) what.b_is_transposed = transposed(5 + transposes);
  auto& products = d.program().program().products;
  d.in.immediate = static_cast<std::int64_t>(products.size());
  products.push_back(form);
  d.in.carries = d.in.meets = true;
  d.in.act = multiply;
  d.in.issues_product = true;
}

}  // namespace

bool decode_warpgroup(Decoder& d) {
  const std::string_view base = d.modifiers.base();
  if (base == "wgmma") {
    d.modifiers.ignore({"sync", "aligned"});
    d.in.meets = true;
    if (d.modifiers.take("fence")) {
      d.demand_operands(0);
      d.in.act = fence;
    } else if (d.modifiers.take("commit_group")) {
      d.demand_operands(0);
      d.in.act = commit;
    } else if (d.modifiers.take("wait_group")) {
      d.demand_operands(1);
      d.in.immediate = static_cast<std::int64_t>(d.integer(0, "the number of groups"));
      d.in.act = wait;
    } else {
      decode_product(d);
    }
  } else if (base == "setmaxnreg") {
    const int kind = d.modifiers.choose({"dec", "inc"}, -1);
    if (kind < 0) d.fail(".inc or .dec is missing");
    d.modifiers.ignore({"sync", "aligned", "u32"});
    d.demand_operands(1);
    d.in.kind = static_cast<std::uint8_t>(kind);
    d.in.immediate = static_cast<std::int64_t>(d.integer(0, "the number of registers"));
    d.in.meets = true;
    d.in.act = set_registers;
  } else {
    return false;
  }
  return true;
}

}  // namespace lanescope::ptx
