#pragma once

#include <string>

#include "gates/run/launch.h"
#include "gates/run/slot_layout.h"

namespace lanescope {

/// What a run is of, and what it takes and leaves: all that is known before memory is asked for.
struct RunPlan {
  DumpInfo info;  ///< complete but for the device, the hash of the inputs, the sites, and the end
  Window all;     ///< every block and tile
  Window window;  ///< those that are traced; of printed text, also the warps and lanes
  SlotLayout taken;     ///< what the gate takes, but for partials
  SlotLayout left;      ///< what it leaves
  SlotLayout partials;  ///< what the passes share; given, where the gate takes them
  SlotLayout traced;    ///< the trace buffer; empty where the module does not fill one
};

/// The sites of a gate that RunPlan::taken and RunPlan::left hold.
bool is_taken(Gate gate, const Site& site);
bool is_left(Gate gate, const Site& site);

/// Whether the module was built with -Dtrace=printf.
bool prints(const Module& module);

/// Throws UsageError where the request does not fit the module, EnvironmentError where the machine
/// lacks the memory.
RunPlan plan_run(const Module& module, const std::string& module_name, const RunRequest& request);

}  // namespace lanescope
