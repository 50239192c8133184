#pragma once

// What the sim and the cuda half of a module share: the one explicit instantiation that the build
// names, and its description.
//   LANESCOPE_KERNEL_FILE   "kernels/mma.h"
//   LANESCOPE_KERNEL        mma, the module's name for it
//   LANESCOPE_TEMPLATE      Mma, the class template
//   LANESCOPE_GATE          softmax_only
//   LANESCOPE_TYPE          f16
//   LANESCOPE_D _BR _BC     64
//   LANESCOPE_BACKEND       sim
//   LANESCOPE_TRACE         0 off, 1 on, 2 printf
//   LANESCOPE_CHECKED       1 compiled with -fsanitize=thread for the memory checker, else 0
//   LANESCOPE_COMPILE_FLAGS LANESCOPE_SIM_FLAGS, from compile_flags.h

#define LANESCOPE_TEXT_OF(x) #x
#define LANESCOPE_TEXT(x) LANESCOPE_TEXT_OF(x)

#include LANESCOPE_KERNEL_FILE

#include <span>

#include "debug/trace.h"
#include "gates/module.h"
#include "kernels/scaled_inputs.h"
#include LANESCOPE_SOURCE_HASH_FILE
#include "compile_flags.h"

namespace lanescope {

/// Whether kernel K has a second pass.
template <class K>
inline constexpr bool combines = requires {
  K::combine_threads;
};
/// Whether gate G of kernel K launches its first pass, and its second.
template <class K, Gate G>
inline constexpr bool launches_first = !combines<K> || G != Gate::combine_only;
template <class K, Gate G>
inline constexpr bool launches_second = combines<K>&& runs<G, Stage::combine>;

/// Everything that a kernel is launched with, by value.
struct KernelArguments {
  kernels::AttentionOf<device::LANESCOPE_TYPE> attention;
  Slots injected;
  Slots left;
  Slots traced;
};

inline constexpr Gate gate = Gate::LANESCOPE_GATE;
inline constexpr int head_dim = LANESCOPE_D;
inline constexpr int br = LANESCOPE_BR, bc = LANESCOPE_BC;
using Element = device::LANESCOPE_TYPE;
using Kernel = kernels::LANESCOPE_TEMPLATE<gate, Element, head_dim, br, bc>;
using Sites = Kernel::Sites;

/// The sink of trace calls in `block`.
LANESCOPE_DEVICE auto trace_of([[maybe_unused]] const KernelArguments& a,
                               [[maybe_unused]] std::int64_t block) {
#if LANESCOPE_CHECKED
  return ProgressTrace{};
#elif LANESCOPE_TRACE == 0
  return NoTrace{};
#elif LANESCOPE_TRACE == 1
  return BufferTrace<Sites, TracedBy<gate> >{a.traced, block};
#else
  return PrintTrace<gate, Sites>{a.traced.window, block};
#endif
}

/// The body of the launched kernel: one lane of `block`.
template <class K>
LANESCOPE_DEVICE void run_lane(const KernelArguments& a, typename K::SharedMemory& smem,
                               std::int64_t block) {
  const Seam<gate, Sites> seam{a.injected, a.left, block};
  K::run(a.attention, smem, seam, trace_of(a, block));
}
/// The same of the second pass, whose blocks go by the first one's of their row tile.
template <class K>
LANESCOPE_DEVICE void combine_lane(const KernelArguments& a) {
  const std::int64_t block = device::block();
  K::combine(a.attention, block, trace_of(a, block * a.attention.splits));
}

/// The slots of o_partial, m_partial and l_partial, one site behind the other (debug/window.h).
inline kernels::Partials partials_of(void* slots, std::int64_t blocks) {
  auto* o = static_cast<float*>(slots);
  return {o, o + blocks * br * head_dim, o + blocks * br * (head_dim + 1)};
}

inline void take_scales(kernels::Attention&, const ModuleRun&) {}
inline void take_scales(kernels::ScaledAttention& a, const ModuleRun& r) {
  a.q_scale = r.q_scale;
  a.k_scale = r.k_scale;
  a.v_scale = r.v_scale;
}

inline kernels::AttentionOf<Element> attention_of(const ModuleRun& r) {
  kernels::AttentionOf<Element> a;
  static_cast<kernels::Attention&>(a) = {r.q,
                                         r.k,
                                         r.v,
                                         r.o,
                                         r.lse,
                                         r.batch,
                                         r.heads,
                                         r.heads_kv,
                                         r.len_q,
                                         r.len_kv,
                                         r.scale_log2,
                                         r.causal,
                                         r.splits,
                                         r.heads_per_tile,
                                         partials_of(r.partials, r.blocks)};
  take_scales(a, r);
  return a;
}

inline KernelArguments arguments_of(const ModuleRun& r) {
  return {attention_of(r),
          {static_cast<std::byte*>(const_cast<void*>(r.injected)), r.all},
          {static_cast<std::byte*>(r.left), r.all},
          {static_cast<std::byte*>(r.traced), r.window}};
}

bool locate_shared(std::int64_t offset, const char** tile, int* row, int* col);
ModuleStatus describe_device(char* name, int name_bytes, char* arch, int arch_bytes);
ModuleStatus run_module(ModuleRun* run);
int describe_passes(ModulePass* passes, int most);

inline constexpr const char* trace_names[] = {"off", "on", "printf"};

/// Of 8 bits, nothing tells a value that was never written.
constexpr bool all_sites_are_wide() {
  for (const Site& site : std::span(Sites::table, Sites::count)) {
    if (size_of(site.type) < 2) return false;
  }
  return true;
}
static_assert(all_sites_are_wide(), "a site of 8 bits");

inline const Module module_description = {
    module_abi,
    LANESCOPE_TEXT(LANESCOPE_KERNEL),
    gate,
    LANESCOPE_TEXT(LANESCOPE_BACKEND),
    Element::type,
    Kernel::products,
    head_dim,
    br,
    bc,
    Kernel::threads,
    combines<Kernel>,
    static_cast<std::int64_t>(sizeof(Kernel::SharedMemory)),
    trace_names[LANESCOPE_TRACE],
    LANESCOPE_CHECKED,
    LANESCOPE_SOURCE_HASH,
    LANESCOPE_COMPILE_FLAGS,
    Sites::table,
    Sites::count,
    [](SiteId site, int warp, int lane, int reg, int* row, int* col) {
      const device::Coordinate c = Sites::coordinate(site, warp, lane, reg);
      *row = c.row;
      *col = c.col;
    },
    [](SiteId site, int row, int col) { return Sites::owner(site, row, col); },
    locate_shared,
    describe_device,
    run_module,
    describe_passes,
};

}  // namespace lanescope

extern "C" __attribute__((visibility("default"))) const lanescope::Module* lanescope_module() {
  return &lanescope::module_description;
}
