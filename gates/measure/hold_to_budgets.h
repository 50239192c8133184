#pragma once

#include <vector>

#include "gates/build/module_catalogue.h"
#include "gates/measure/resources.h"

namespace lanescope {

/// Judges each use of `report`, measured, by the budgets of its kernel; `modules`: of each, its
/// module. A module that fell far below its budget is run and compared with the reference, where it
/// is `of_build`. With `options.record` the budgets of these modules are written anew; where the
/// options name no part of the kernel, those of all of it. Throws UsageError on a file that holds
/// no budgets or cannot be written, MismatchError where they are of another architecture, and, with
/// ExitCode::diverged, Error where nothing is recorded because a module diverges.
void hold_to_budgets(const ResourceOptions& options, const std::vector<ModuleName>& modules,
                     bool of_build, ResourceReport& report);

}  // namespace lanescope
