#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "gates/module/module.h"
#include "reference/element_type.h"
#include "reference/problem.h"
#include "reference/site.h"

namespace lanescope {

/// What the forward pass of a problem must do at least.
struct Work {
  double flops;  ///< 4·d for every pair of a query and a key that it sees: Q·Kᵀ and P·V
  double bytes;  ///< Q, K, V read once, O written once
};
/// O is stored in operand_type(dtype); scales and the log-sum-exp are not counted.
Work work_of(const Problem& problem, ElementType dtype);

/// What a device can do at best.
struct DeviceRates {
  double flops_per_second;  ///< of the unit that does the products
  double bytes_per_second;  ///< of device memory
};
/// At the highest clocks. Nothing for an architecture ("sm_90") whose units are not known, and
/// where the driver does not tell the clocks.
std::optional<DeviceRates> rates_of(const ModuleDevice& device, std::string_view arch,
                                    Products products);

/// No kernel is faster on data that come from device memory.
struct Floor {
  double microseconds;
  bool is_memory;  ///< whether the bytes take longer than the operations
};
Floor floor_of(const Work& work, const DeviceRates& rates);

}  // namespace lanescope
