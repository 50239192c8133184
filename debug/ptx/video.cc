// PTX ISA, "SIMD Video Instructions": sums, extremes, differences, comparisons of bytes and halves.

#include "debug/ptx/video.h"

#include <algorithm>
#include <bit>

#include "debug/ptx/lanes.h"

namespace lanescope::ptx {
namespace {

std::int64_t extract(std::uint32_t from, int first_byte, int bytes, bool has_sign) {
  const int spare = 8 * (4 - bytes);
  const std::uint32_t high = from << (spare - 8 * first_byte);
  return has_sign ? static_cast<std::int32_t>(high) >> spare : std::int64_t{high >> spare};
}
std::int64_t clamp_to(std::int64_t x, int bytes, bool has_sign) {
  const std::int64_t span = std::int64_t{1} << (8 * bytes);
  return has_sign ? std::clamp(x, -span / 2, span / 2 - 1)
                  : std::clamp<std::int64_t>(x, 0, span - 1);
}

std::int64_t compute(Video operation, std::int64_t a, std::int64_t b) {
  switch (operation) {
    case Video::add:
      return a + b;
    case Video::sub:
      return a - b;
    case Video::difference:
      return std::max(a, b) - std::min(a, b);
    case Video::min:
      return std::min(a, b);
    case Video::max:
      return std::max(a, b);
    case Video::average:
      return a + b >= 0 ? (a + b + 1) >> 1 : (a + b) >> 1;
    case Video::equal:
      return a == b;
    case Video::unequal:
      return a != b;
    case Video::less:
      return a < b;
    case Video::less_equal:
      return a <= b;
    case Video::greater:
      return a > b;
    case Video::greater_equal:
      return a >= b;
  }
  return 0;
}

template <int count>
struct SimdVideo {
  static std::uint32_t apply(const VideoForm& form, std::uint32_t a, std::uint32_t b,
                             std::uint32_t c) {
    constexpr int bytes = 4 / count;
    const std::uint32_t sources[2] = {a, b};
    const auto element = [&](std::uint16_t selection, int i, bool has_sign) {
      const int which = selection >> (4 * i) & 15;
      return extract(sources[which / count], which % count * bytes, bytes, has_sign);
    };
    std::uint32_t result = c;
    for (int i = 0; i < count; ++i) {
      if (!(form.target >> i & 1)) continue;
      std::int64_t x = compute(form.operation, element(form.a, i, form.flags & VideoForm::signed_a),
                               element(form.b, i, form.flags & VideoForm::signed_b));
      if (form.flags & VideoForm::saturates)
        x = clamp_to(x, bytes, form.flags & VideoForm::signed_result);
      const std::uint32_t part = (1u << 8 * bytes) - 1;
      const auto bits = static_cast<std::uint32_t>(x);
      if (form.flags & VideoForm::adds) {
        result += bits;
      } else {
        result = (result & ~(part << 8 * bytes * i)) | (bits & part) << 8 * bytes * i;
      }
    }
    return result;
  }
};

template <class Op>
void run_video(std::byte* registers, const Instruction& in, std::uint32_t mask) {
  const VideoForm form = std::bit_cast<VideoForm>(in.immediate);
  for (int lane = 0; lane < 32; ++lane) {
    if (!(mask >> lane & 1)) continue;
    reinterpret_cast<std::uint32_t*>(registers + in.d)[lane] =
        Op::apply(form, lane_of<std::uint32_t>(registers, in.s[0], lane),
                  lane_of<std::uint32_t>(registers, in.s[1], lane),
                  lane_of<std::uint32_t>(registers, in.s[2], lane));
  }
}

}  // namespace

LaneOperation simd_video(int count) {
  return count == 2 ? run_video<SimdVideo<2>> : run_video<SimdVideo<4>>;
}

}  // namespace lanescope::ptx
