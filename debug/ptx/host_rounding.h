#pragma once

#include <cfenv>
#include <cstddef>
#include <cstdint>

#include "debug/ptx/lanes.h"
#include "debug/ptx/program.h"
#include "debug/simt/rounding.h"

namespace lanescope::ptx {

/// As long as this lives, the host's processor rounds so: .rn, .rz, .rm or .rp.
class HostRounding {
 public:
  explicit HostRounding(simt::Rounding rounding) : before_(std::fegetround()) {
    constexpr int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
    std::fesetround(modes[static_cast<std::size_t>(rounding)]);
  }
  ~HostRounding() { std::fesetround(before_); }
  HostRounding(const HostRounding&) = delete;
  HostRounding& operator=(const HostRounding&) = delete;

 private:
  const int before_;
};

/// d = Op::apply(a, b, ...) for each lane of `mask`, rounded as in.kind says; of numbers of type T.
/// What is volatile is computed while the processor rounds so.
template <class Op, class T, std::size_t... I>
void lanes_rounded(std::byte* registers, const Instruction& in, std::uint32_t mask) {
  const HostRounding scope(static_cast<simt::Rounding>(in.kind));
  for (int lane = 0; lane < 32; ++lane) {
    if (!(mask >> lane & 1)) continue;
    const volatile T s[] = {lane_of<T>(registers, in.s[I], lane)...};
    const volatile T result = Op::apply(static_cast<T>(s[I])...);
    reinterpret_cast<T*>(registers + in.d)[lane] = result;
  }
}
template <class Op, class T, std::size_t sources>
LaneOperation rounded_operation() {
  if constexpr (sources == 1) return lanes_rounded<Op, T, 0>;
  if constexpr (sources == 2) return lanes_rounded<Op, T, 0, 1>;
  if constexpr (sources == 3) return lanes_rounded<Op, T, 0, 1, 2>;
}

}  // namespace lanescope::ptx
