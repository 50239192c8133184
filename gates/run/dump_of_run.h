#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "gates/run/launch.h"
#include "gates/run/slot_layout.h"

namespace lanescope {

/// What is known of a run before it: everything but the device, the traced range, the hash of the
/// inputs and the sites.
DumpInfo info_of(const Module& module, const std::string& module_name, const RunRequest& request);

/// A buffer of slots and what lies in it.
struct FilledSlots {
  const SlotLayout& layout;
  const std::byte* bytes;
};

/// Log-sum-exps [batch, heads, len_q] that a run left in `lse`, natural ones.
Tensor take_lse(const Module& module, ElementType type, const std::vector<std::int64_t>& dims,
                const std::byte* lse);

/// Adds to `dump`, whose info is complete but for the sites, what a run left in `buffers`: every
/// site with its description, in the order of the module's table, and the outputs where the gate
/// stores them.
/// o [batch, heads, len_q, head_dim], lse [batch, heads, len_q].
void add_sites(const Module& module, std::span<const FilledSlots> buffers, const std::byte* o,
               const std::byte* lse, Dump& dump);

}  // namespace lanescope
