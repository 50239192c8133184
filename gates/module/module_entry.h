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
//   LANESCOPE_ARCH          "-arch=sm_90": what nvcc compiles for
//   LANESCOPE_TRACE         0 off, 1 on, 2 printf
//   LANESCOPE_CHECKED       1 compiled with -fsanitize=thread for the memory checker, else 0
//   LANESCOPE_COMPILE_FLAGS LANESCOPE_SIM_FLAGS, from compile_flags.h

#define LANESCOPE_TEXT_OF(x) #x
#define LANESCOPE_TEXT(x) LANESCOPE_TEXT_OF(x)

#include LANESCOPE_KERNEL_FILE

#include <cstddef>
#include <cstdio>
#include <numbers>
#include <type_traits>

#include "gates/module/module.h"
#include "kernels/parts/scaled_inputs.h"
#include "kernels/trace/trace.h"
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

/// Whether kernel K's blocks go through several of a run's blocks: as many are launched as the
/// device has room for.
template <class K>
inline constexpr bool is_persistent = requires {
  K::is_persistent;
};

/// How many blocks of a persistent kernel K there are at most. sim: few, so that they take several
/// items of small problems, and as many as `locate` has heads in one where they should take one
/// each; cuda: no device has room for more (an H200, on its 132 multiprocessors).
template <class K>
constexpr int resident_blocks() {
  if constexpr (is_persistent<K>) {
#ifdef __CUDACC__
    return 132 * K::blocks_per_multiprocessor;
#else
    return 12;
#endif
  }
  return 0;
}

inline constexpr Gate gate = Gate::LANESCOPE_GATE;
inline constexpr int head_dim = LANESCOPE_D;
inline constexpr int br = LANESCOPE_BR, bc = LANESCOPE_BC;
using Element = device::LANESCOPE_TYPE;
using Kernel = kernels::LANESCOPE_TEMPLATE<gate, Element, head_dim, br, bc>;
using Sites = Kernel::Sites;

/// What the kernel is launched with: K::Arguments, where it has one, derived from what all are.
template <class K>
struct ArgumentsOf {
  using Type = kernels::AttentionOf<Element>;
};
template <class K>
requires requires { typename K::Arguments; }
struct ArgumentsOf<K> {
  using Type = typename K::Arguments;
};
using Arguments = ArgumentsOf<Kernel>::Type;

/// Everything that kernel K is launched with, by value.
template <class K>
struct KernelArguments {
  typename ArgumentsOf<K>::Type attention;
  Slots injected;
  Slots left;
  Slots traced;
};

/// The sink of what kernel K traces in `block`.
template <class K>
LANESCOPE_DEVICE auto trace_of([[maybe_unused]] const KernelArguments<K>& a,
                               [[maybe_unused]] std::int64_t block) {
#if LANESCOPE_CHECKED
  return ProgressTrace{};
#elif LANESCOPE_TRACE == 0
  return NoTrace{};
#elif LANESCOPE_TRACE == 1
  return BufferTrace<typename K::Sites, TracedBy<gate> >{a.traced, block};
#else
  return PrintTrace<gate, typename K::Sites>{a.traced.window, block};
#endif
}

/// The seams of kernel K in `block`.
template <class K>
LANESCOPE_DEVICE auto seam_of(const KernelArguments<K>& a, std::int64_t block) {
  const auto trace = trace_of<K>(a, block);
  return Seam<gate, typename K::Sites, std::remove_const_t<decltype(trace)> >{a.injected, a.left,
                                                                              block, trace};
}

/// What a lane of kernel K does before the grid before its own has ended: nothing in global memory.
template <class K>
LANESCOPE_DEVICE void set_up([[maybe_unused]] const KernelArguments<K>& a,
                             [[maybe_unused]] typename K::SharedMemory& smem) {
  if constexpr (requires { K::set_up(a.attention, smem); }) K::set_up(a.attention, smem);
}

/// The body of the launched kernel: one lane of `block`.
template <class K>
LANESCOPE_DEVICE void run_lane(const KernelArguments<K>& a, typename K::SharedMemory& smem,
                               std::int64_t block) {
  K::run(a.attention, smem, seam_of<K>(a, block));
}
/// The same of the second pass, whose seams are the first one's of its row tile.
template <class K>
LANESCOPE_DEVICE void combine_lane(const KernelArguments<K>& a) {
  const std::int64_t block = device::block();
  K::combine(a.attention, block, seam_of<K>(a, block * a.attention.splits));
}

/// The slots of o_partial, m_partial and l_partial, one site behind the other
/// (reference/window.h).
inline kernels::Partials partials_of(void* slots, std::int64_t blocks) {
  auto* o = static_cast<float*>(slots);
  return {o, o + blocks * br * head_dim, o + blocks * br * (head_dim + 1)};
}

inline void take_scales(kernels::Attention&, const ModuleRun&) {}
inline void take_scales(kernels::ScaledAttention& a, const ModuleRun& r) {
  a.q_scale = static_cast<const float*>(r.q_scale.data);
  a.k_scale = static_cast<const float*>(r.k_scale.data);
  a.v_scale = static_cast<const float*>(r.v_scale.data);
}

inline Arguments attention_of(const ModuleRun& r) {
  const Problem& p = r.problem;
  Arguments a;
  static_cast<kernels::Attention&>(a) = {
      r.q.data,
      r.k.data,
      r.v.data,
      r.o.data,
      static_cast<float*>(r.lse.data),
      static_cast<int>(p.batch),
      static_cast<int>(p.heads),
      static_cast<int>(p.heads_kv),
      static_cast<int>(p.len_q),
      static_cast<int>(p.len_kv),
      static_cast<float>(std::numbers::log2e / __builtin_sqrt(static_cast<double>(p.d))),
      p.causal,
      r.splits,
      r.heads_per_tile,
      partials_of(r.partials.data, r.blocks)};
  take_scales(a, r);
  return a;
}

inline Slots slots_of(const ModuleBuffer& buffer, const Window& window) {
  return {static_cast<std::byte*>(buffer.data), window};
}

inline KernelArguments<Kernel> arguments_of(const ModuleRun& r) {
  return {attention_of(r), slots_of(r.injected, r.all), slots_of(r.left, r.all),
          slots_of(r.traced, r.window)};
}

/// What the host prepares of them, K::prepare, where the kernel has it. Whether it could; else
/// `run.message` says why not.
template <class K>
bool prepare(const ModuleRun& run, KernelArguments<K>& arguments) {
  if constexpr (requires { K::prepare(arguments.attention); }) {
    const char* error = K::prepare(arguments.attention);
    if (!error) return true;
    std::snprintf(run.message, static_cast<std::size_t>(run.message_bytes),
                  "preparing the kernel's arguments: %s", error);
    return false;
  }
  return true;
}

/// Whether kernel K takes the problem: K::refuses, where it has it, says why not.
template <class K>
bool takes_problem(const ModuleRun& run) {
  if constexpr (requires { K::refuses(run.problem); }) {
    const char* why = K::refuses(run.problem);
    if (!why) return true;
    std::snprintf(run.message, static_cast<std::size_t>(run.message_bytes), "%s", why);
    return false;
  }
  return true;
}

bool locate_shared(std::int64_t offset, const char** tile, int* row, int* col);
ModuleStatus describe_device(char* name, int name_bytes, char* arch, int arch_bytes);
ModuleStatus run_module(ModuleRun* run);
int describe_passes(ModulePass* passes, int most);

inline constexpr const char* trace_names[] = {"off", "on", "printf"};

/// Of 8 bits, nothing tells a value that was never written.
constexpr bool all_sites_are_wide() {
  for (const Site& site : Sites::table) {
    if (size_of(site.type) < 2) return false;
  }
  return true;
}
static_assert(all_sites_are_wide(), "a site of 8 bits");

/// The maxima are in one unit, scores in theirs, and nothing else has any.
constexpr bool units_are_of_scores() {
  bool any = false;
  ScoreUnit maxima = ScoreUnit::base_2;
  for (const Site& site : Sites::table) {
    if (!is_maximum(site.id)) {
      if (site.id != SiteId::s && site.unit != ScoreUnit::base_2) return false;
      continue;
    }
    if (any && site.unit != maxima) return false;
    maxima = site.unit;
    any = true;
  }
  return true;
}
static_assert(units_are_of_scores(), "in_unit: of s, or the same of m_prev, m and m_partial");

constexpr bool lanes_are_of_sums() {
  for (const Site& site : Sites::table) {
    if (site.in_lanes && (site.id != SiteId::l || site.space != Space::registers)) return false;
  }
  return true;
}
static_assert(lanes_are_of_sums(), "in_lanes: of l in registers");

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
    Sites::table.data(),
    static_cast<int>(Sites::table.size()),
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
    nullptr,
    resident_blocks<Kernel>(),
};

}  // namespace lanescope

extern "C" __attribute__((visibility("default"))) const lanescope::Module* lanescope_module() {
  return &lanescope::module_description;
}
