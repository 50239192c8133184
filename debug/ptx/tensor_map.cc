#include "debug/ptx/tensor_map.h"

#include <bit>
#include <cstring>
#include <iterator>

namespace lanescope::ptx {

std::optional<simt::TensorMap> read_tensor_map(const void* bytes) {
  TensorMapBytes from;
  std::memcpy(&from, bytes, sizeof from);
  if (from.mark != TensorMapBytes::magic) return std::nullopt;
  simt::TensorMap map{
      std::bit_cast<const void*>(from.base),   from.element_bytes, from.rank, {}, {}, {},
      static_cast<simt::Swizzle>(from.swizzle)};
  for (int i = 0; i < from.rank; ++i) {
    map.size[i] = static_cast<std::int64_t>(from.size[i]);
    map.stride[i] = i == 0 ? from.element_bytes : static_cast<std::int64_t>(from.stride[i - 1]);
    map.box[i] = from.box[i];
    map.step[i] = from.step[i] + 1;
  }
  map.fills_nan = from.fills_nan != 0;
  map.is_tf32 = from.type >= first_tf32 && from.type <= last_tf32;
  return map;
}

TensorElements elements_of_tensor(const void* bytes) {
  TensorMapBytes from;
  std::memcpy(&from, bytes, sizeof from);
  // By CUtensorMapDataType; the last two are tf32, to which an H200 adds as to f32.
  static constexpr Type types[] = {Type::u8,  Type::u16, Type::u32, Type::s32, Type::u64,
                                   Type::s64, Type::f16, Type::f32, Type::f64, Type::bf16,
                                   Type::f32, Type::f32, Type::f32};
  constexpr std::uint8_t flushing = 10, flushing_tf32 = 12;
  return {from.type < std::size(types) ? types[from.type] : Type::b8,
          from.type == flushing || from.type == flushing_tf32};
}

}  // namespace lanescope::ptx
