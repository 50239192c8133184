#pragma once

#include "debug/report/locate_report.h"
#include "gates/run/run_options.h"

// What becomes of a kernel's outputs where its lanes come in another order.
namespace lanescope {

/// Whether O is another one then, on the SIMT machine; so it is where a run breaks off.
bool depends_on_order(const RunOptions& options);

/// Of a kernel that the memory checker does not see into: where other orders of its lanes make
/// other values wrong, `location` names the race that this is. `failed`: the run that is diagnosed.
void check_order(const RunOptions& failed, Location& location);

}  // namespace lanescope
