#include "gates/measure/device_floor.h"

#include <algorithm>
#include <charconv>

namespace lanescope {
namespace {

/// Operations per clock of a multiprocessor, two for each multiplication and addition.
struct Units {
  int arch;
  double tensor;  ///< tensor cores: f16 or bf16, dense, sums in fp32; e4m3 twice that, tf32 half
  double fma;     ///< fp32
};
// Source: NVIDIA's white papers on the architectures: fused multiply-adds of a tensor core per
// clock, four of them in a multiprocessor, and its fp32 cores. A100: 256, 64; GA102 and Ada: 128,
// 128 (with sums in fp32, GeForce boards do half); H100: 512, 128.
constexpr Units known_units[] = {
    {80, 2048, 128}, {86, 1024, 256}, {89, 1024, 256}, {90, 4096, 256}};

double visible_pairs(const Problem& p) {
  double pairs = 0;
  for (std::int64_t row = 0; row < p.len_q; ++row) {
    pairs += static_cast<double>(p.visible_keys(row));
  }
  return pairs * static_cast<double>(p.batch * p.heads);
}

}  // namespace

Work work_of(const Problem& p, ElementType dtype) {
  const auto queries = static_cast<double>(p.batch * p.heads * p.len_q * p.d);
  const auto keys = static_cast<double>(p.batch * p.heads_kv * p.len_kv * p.d);
  return {4 * static_cast<double>(p.d) * visible_pairs(p),
          (queries + 2 * keys) * size_of(dtype) + queries * size_of(operand_type(dtype))};
}

std::optional<DeviceRates> rates_of(const ModuleDevice& device, std::string_view arch,
                                    Products products) {
  int number = 0;
  if (arch.starts_with("sm_")) {
    std::from_chars(arch.data() + 3, arch.data() + arch.size(), number);
  }
  const auto* units = std::find_if(std::begin(known_units), std::end(known_units),
                                   [&](const Units& u) { return u.arch == number; });
  if (units == std::end(known_units) || device.clock_khz <= 0 || device.memory_clock_khz <= 0) {
    return std::nullopt;
  }
  const double per_clock = products == Products::fp32_fma           ? units->fma
                           : products == Products::tensor_core_e4m3 ? 2 * units->tensor
                           : products == Products::tensor_core_tf32 ? units->tensor / 2
                                                                    : units->tensor;
  return DeviceRates{device.multiprocessors * (1e3 * device.clock_khz) * per_clock,
                     2 * (1e3 * device.memory_clock_khz) * device.memory_bus_bits / 8};
}

Floor floor_of(const Work& work, const DeviceRates& rates) {
  const double computing = work.flops / rates.flops_per_second;
  const double moving = work.bytes / rates.bytes_per_second;
  return {1e6 * std::max(computing, moving), moving > computing};
}

}  // namespace lanescope
