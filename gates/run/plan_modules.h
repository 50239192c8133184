#pragma once

#include <string>
#include <vector>

#include "gates/build/module_catalogue.h"
#include "gates/run/locate_plan.h"

// The modules that a plan runs (gates/run/locate_plan.h).
namespace lanescope {

/// The types of inputs that the kernel takes, besides the one that every problem has.
std::vector<std::string> other_types(const RunOptions& given);

struct TileShape {
  int br, bc;
};
/// The fewest tiles of the kernel that have, with br x bc, every number of rows and every number of
/// keys that its tiles of d = 64 and the given type have.
std::vector<TileShape> other_tiles(const RunOptions& given, int br, int bc);

/// Head dimensions that the kernel has modules for, but `head_dim`, in their order.
std::vector<int> other_head_dims(const RunOptions& given, int head_dim);

/// Modules of the kernel, the fewest in which types, head dimensions and tiles meet, two of them,
/// as in none that the probes run: a type and a head dimension, or several pairs at once.
std::vector<ModuleName> modules_of_pairs(const RunOptions& given, const std::vector<Probe>& probes);

/// The modules of all probes, the memory checker's among them.
std::vector<std::string> modules_of(const std::vector<Probe>& probes);

/// What the plan leaves out that the kernel is built for or may be asked for, a line each.
std::vector<std::string> not_tried(const RunOptions& given, const std::vector<Probe>& probes,
                                   int br, int bc);

}  // namespace lanescope
