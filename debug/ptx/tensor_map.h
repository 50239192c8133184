#pragma once

#include <cstdint>
#include <optional>

#include "debug/ptx/types.h"
#include "debug/simt/hopper.h"

namespace lanescope::ptx {

/// What the 128 bytes of a CUtensorMap hold on this machine. A GPU's own form is not documented,
/// and no kernel looks into it.
struct alignas(64) TensorMapBytes {
  /// "TENSMAP1", whose bit 21 is 0: CUTLASS clears it in the second word, for some drivers.
  static constexpr std::uint64_t magic = 0x3150414d534e4554;
  std::uint64_t base = 0;
  std::uint64_t mark = magic;
  std::uint64_t size[5] = {};    ///< elements
  std::uint64_t stride[4] = {};  ///< bytes, of dimensions 1 to 4
  std::uint16_t box[5] = {};     ///< elements
  std::uint8_t element_bytes = 0, rank = 0, swizzle = 0;
  std::uint8_t type = 0;      ///< CUtensorMapDataType
  std::uint8_t step[5] = {};  ///< less one: of every so many elements one is copied
  std::uint8_t fills_nan = 0;
};
static_assert(sizeof(TensorMapBytes) == 128);

/// CUtensorMapDataType: those that are rounded to .tf32 as they come.
inline constexpr std::uint8_t first_tf32 = 11, last_tf32 = 12;

/// By CUtensorMapSwizzle, which is PTX's .swizzle_mode.
inline constexpr simt::Swizzle swizzles[] = {simt::Swizzle::none, simt::Swizzle::b32,
                                             simt::Swizzle::b64, simt::Swizzle::b128};

/// Nothing where they hold no tensor map.
std::optional<simt::TensorMap> read_tensor_map(const void* bytes);
/// Its elements; `flushes`: subnormal ones count as zero in sums. Of a map that read_tensor_map
/// reads.
struct TensorElements {
  Type type;
  bool flushes;
};
TensorElements elements_of_tensor(const void* bytes);

}  // namespace lanescope::ptx
