// PTX ISA, "Special Registers".

#include <chrono>

#include "debug/ptx/block.h"
#include "debug/ptx/decoder.h"
#include "debug/ptx/program_builder.h"
#include "debug/ptx/warp.h"

namespace lanescope::ptx {
namespace {

struct Same {
  template <class T>
  static T apply(T a) {
    return a;
  }
};

enum class Special : std::uint8_t {
  tid,
  ntid,
  ctaid,
  nctaid,
  laneid,
  warpid,
  nwarpid,
  lanemask_eq,
  lanemask_lt,
  lanemask_le,
  lanemask_gt,
  lanemask_ge,
  clock,
  globaltimer,
  dynamic_shared,
  total_shared,
  zero,
  one,
  workspace,
  cluster_ctaid,
  cluster_ctarank,
  cluster_nctaid,
  cluster_nctarank,
  clusterid,
  nclusterid,
};

std::uint64_t value_of(Warp& warp, Special special, int axis, int lane) {
  const Grid& grid = warp.block().grid();
  const auto i = static_cast<std::size_t>(axis);
  const auto thread = static_cast<std::uint32_t>(warp.thread(lane));
  const std::uint32_t bit = 1u << lane;
  switch (special) {
    case Special::tid: {
      const std::uint32_t x = grid.threads[0], y = grid.threads[1];
      return axis == 0 ? thread % x : axis == 1 ? thread / x % y : thread / x / y;
    }
    case Special::ntid:
      return grid.threads[i];
    case Special::ctaid:
      return warp.block().coordinates()[i];
    case Special::nctaid:
      return grid.blocks[i];
    case Special::laneid:
      return static_cast<std::uint64_t>(lane);
    case Special::warpid:
      return static_cast<std::uint64_t>(warp.index());
    case Special::nwarpid:
      return static_cast<std::uint64_t>((grid.thread_count() + 31) / 32);
    case Special::lanemask_eq:
      return bit;
    case Special::lanemask_lt:
      return bit - 1;
    case Special::lanemask_le:
      return bit | (bit - 1);
    case Special::lanemask_gt:
      return ~(bit | (bit - 1));
    case Special::lanemask_ge:
      return ~(bit - 1);
    case Special::clock:  // a cycle per instruction: the same in every run
      return static_cast<std::uint64_t>(warp.instructions());
    case Special::globaltimer:
      return static_cast<std::uint64_t>(
          std::chrono::steady_clock::now().time_since_epoch().count());
    case Special::dynamic_shared:
      return grid.dynamic_shared;
    case Special::total_shared:
      return warp.block().shared_bytes();
    case Special::one:
      return 1;
    case Special::workspace:  // where CUDA's cooperative_groups looks for it: high half, low half
      return axis == 1 ? grid.workspace >> 32 : grid.workspace;
    case Special::cluster_ctaid:
      return warp.block().coordinates()[i] % grid.cluster[i];
    case Special::cluster_ctarank:
      return static_cast<std::uint64_t>(warp.block().rank());
    case Special::cluster_nctaid:
      return grid.cluster[i];
    case Special::cluster_nctarank:
      return static_cast<std::uint64_t>(grid.blocks_of_cluster());
    case Special::clusterid:
      return warp.block().coordinates()[i] / grid.cluster[i];
    case Special::nclusterid:
      return grid.blocks[i] / grid.cluster[i];
    default:
      return 0;
  }
}

Flow read_special(Warp& warp, const Instruction& in, std::uint32_t mask) {
  const auto special = static_cast<Special>(in.kind);
  for (int lane = 0; lane < 32; ++lane) {
    if (!(mask >> lane & 1)) continue;
    const std::uint64_t value = value_of(warp, special, static_cast<int>(in.immediate), lane);
    const int bits = bits_of(in.type);
    if (bits == 64) warp.lanes<std::uint64_t>(in.d)[lane] = value;
    if (bits == 32) warp.lanes<std::uint32_t>(in.d)[lane] = static_cast<std::uint32_t>(value);
    if (bits == 16) warp.lanes<std::uint16_t>(in.d)[lane] = static_cast<std::uint16_t>(value);
  }
  return Flow::next;
}

}  // namespace

void decode_special(Decoder& d, std::string_view name, Type type) {
  static constexpr std::pair<std::string_view, Special> specials[] = {
      {"%tid", Special::tid},
      {"%ntid", Special::ntid},
      {"%ctaid", Special::ctaid},
      {"%nctaid", Special::nctaid},
      {"%laneid", Special::laneid},
      {"%warpid", Special::warpid},
      {"%nwarpid", Special::nwarpid},
      {"%lanemask_eq", Special::lanemask_eq},
      {"%lanemask_lt", Special::lanemask_lt},
      {"%lanemask_le", Special::lanemask_le},
      {"%lanemask_gt", Special::lanemask_gt},
      {"%lanemask_ge", Special::lanemask_ge},
      {"%clock", Special::clock},
      {"%clock64", Special::clock},
      {"%globaltimer", Special::globaltimer},
      {"%globaltimer_lo", Special::globaltimer},
      {"%dynamic_smem_size", Special::dynamic_shared},
      {"%total_smem_size", Special::total_shared},
      {"%smid", Special::zero},
      {"%gridid", Special::zero},
      {"%envreg", Special::workspace},
      {"%nsmid", Special::one},
      {"%cluster_ctaid", Special::cluster_ctaid},
      {"%cluster_ctarank", Special::cluster_ctarank},
      {"%cluster_nctaid", Special::cluster_nctaid},
      {"%cluster_nctarank", Special::cluster_nctarank},
      {"%clusterid", Special::clusterid},
      {"%nclusterid", Special::nclusterid}};
  int axis = 0;
  std::string_view stem = name;
  if (name == "%envreg1" || name == "%envreg2") {
    axis = name.back() - '0';
    stem = "%envreg";
  } else if (name.ends_with(".x") || name.ends_with(".y") || name.ends_with(".z")) {
    axis = name.back() - 'x';
    stem.remove_suffix(2);
  }
  d.demand_operands(2);
  d.in.type = type;
  d.in.d = d.result(0, type);
  d.in.immediate = axis;
  d.in.act = read_special;
  if (name == "WARP_SZ") {
    d.in.s[0] = d.constant(32, bits_of(type));
    d.in.act = nullptr;
    with_integer(type,
                 [&](auto x) { d.in.lanes = lane_operation<Same, decltype(x), decltype(x)>(); });
    return;
  }
  for (const auto& [known, special] : specials) {
    if (stem != known) continue;
    d.in.kind = static_cast<std::uint8_t>(special);
    return;
  }
  d.refuse("the special register " + std::string(name));
}

}  // namespace lanescope::ptx
