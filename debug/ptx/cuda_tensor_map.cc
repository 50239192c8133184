// Tensor maps.

#include <cstdio>
#include <cstring>
#include <iterator>

#include "debug/ptx/cuda.h"
#include "debug/ptx/tensor_map.h"

namespace {

using namespace lanescope::cudart;
using lanescope::ptx::TensorMapBytes;

Result refuse(Result result, const char* why) {
  std::fprintf(stderr, "lanescope: cuTensorMapEncodeTiled: %s\n", why);
  return result;
}

/// Bytes of an element of each CUtensorMapDataType; those behind are packed on the way.
constexpr int element_bytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};

}  // namespace

extern "C" {

Result cuTensorMapEncodeTiled(void* map, int type, std::uint32_t rank, void* base,
                              const std::uint64_t* size, const std::uint64_t* stride,
                              const std::uint32_t* box, const std::uint32_t* element_stride,
                              int interleave, int swizzle, int, int fill) {
  if (!map || !size || !box || !element_stride || (rank > 1 && !stride)) {
    return refuse(invalid_value, "an argument is null");
  }
  if (rank < 1 || rank > 5) return refuse(invalid_value, "a tensor has 1 to 5 dimensions");
  if (type < 0 || type >= static_cast<int>(std::size(element_bytes))) {
    return refuse(not_supported, "elements of this type, which no GPU before sm_100 has");
  }
  if (interleave != 0) return refuse(not_supported, "interleaving is not executed");
  constexpr int float16 = 6;  // the first CUtensorMapDataType of floats
  if (fill < 0 || fill > 1 || (fill == 1 && type < float16)) {
    return refuse(invalid_value, "only floats are filled with NaN");
  }
  if (swizzle < 0 || swizzle > 3) return refuse(not_supported, "this swizzle is not executed");
  TensorMapBytes bytes;
  bytes.base = reinterpret_cast<std::uint64_t>(base);
  bytes.element_bytes = static_cast<std::uint8_t>(element_bytes[type]);
  bytes.rank = static_cast<std::uint8_t>(rank);
  bytes.type = static_cast<std::uint8_t>(type);
  bytes.fills_nan = static_cast<std::uint8_t>(fill);
  bytes.swizzle = static_cast<std::uint8_t>(lanescope::ptx::swizzles[swizzle]);
  for (std::uint32_t i = 0; i < rank; ++i) {
    if (element_stride[i] < 1 || element_stride[i] > 8) {
      return refuse(invalid_value, "a step over elements is 1 to 8");
    }
    bytes.step[i] = static_cast<std::uint8_t>(element_stride[i] - 1);
    if (box[i] < 1 || box[i] > 256) {
      return refuse(invalid_value, "a box has 1 to 256 elements in each dimension");
    }
    bytes.size[i] = size[i];
    bytes.box[i] = static_cast<std::uint16_t>(box[i]);
    if (i > 0) bytes.stride[i - 1] = stride[i - 1];
  }
  const auto tensor = lanescope::ptx::read_tensor_map(&bytes);
  if (const char* fault = fault_of(*tensor)) return refuse(invalid_value, fault);
  std::memcpy(map, &bytes, sizeof bytes);
  return 0;
}

}  // extern "C"
