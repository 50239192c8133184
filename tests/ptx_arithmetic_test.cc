// Each instruction's arithmetic as the machine runs it, against the same computed here another way.

#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "debug/simt/numerics.h"
#include "reference/error.h"
#include "reference/splitmix64.h"
#include "tests/support/catch.h"
#include "tests/support/ptx_kernel.h"

using namespace lanescope;

namespace {

using Bits = std::uint64_t;
__extension__ typedef __int128 Wide;                   // NOLINT(modernize-use-using): g++ takes
__extension__ typedef unsigned __int128 UnsignedWide;  // NOLINT(modernize-use-using): it so only

/// The values of each source: corners, then random ones.
std::vector<Bits> corners(const std::string& type) {
  if (type == "f32") {
    return {0,          0x80000000, 0x3f800000, 0xbf800000, 0x7f800000, 0xff800000,
            0x7fc00000, 0x00000001, 0x807fffff, 0x00800000, 0x7f7fffff, 0xff7fffff,
            0x4b800000, 0x33800000, 0x3effffff, 0x41200000};
  }
  return {0,
          1,
          2,
          31,
          32,
          33,
          63,
          64,
          0x7f,
          0x80,
          0xff,
          0x7fff,
          0x8000,
          0xffff,
          0x7fffffff,
          0x80000000,
          0xffffffff,
          0x7fffffffffffffff,
          0x8000000000000000,
          ~Bits{0}};
}

int width_of(const std::string& type) {
  return std::stoi(type.substr(type.find_first_of("0123456789")));
}

struct Case {
  std::string opcode;
  std::string result;                ///< type of the result's register
  std::vector<std::string> sources;  ///< and of the sources'
  std::function<Bits(Bits, Bits, Bits)> expected;
};

/// Runs the opcode on many operands and compares all bits.
void check(const Case& c) {
  INFO(c.opcode);
  std::vector<std::vector<Bits>> in(3);
  const std::vector<Bits> first = corners(c.sources[0]);
  std::uint64_t counter = 7;
  const auto random = [&] { return splitmix64(counter += splitmix64_step); };
  for (std::size_t n = 0; n < 512; ++n) {
    for (std::size_t i = 0; i < 3; ++i) {
      const std::string type = i < c.sources.size() ? c.sources[i] : "b64";
      const std::vector<Bits> some = corners(type);
      const std::size_t at = i == 0 ? n % some.size() : n / some.size();
      Bits value = n < some.size() * some.size() && i < 2 ? some[at % some.size()] : random();
      if (n % 3 == 0 && i == 2) value = some[random() % some.size()];
      if (width_of(type) < 64) value &= (Bits{1} << width_of(type)) - 1;
      in[i].push_back(value);
    }
  }
  const auto reg = [](const std::string& type, int i) {
    return "%" +
           std::string(width_of(type) == 16   ? "h"
                       : width_of(type) == 32 ? "r"
                                              : "d") +
           std::to_string(i);
  };
  std::string body =
      ".reg .b16 %h<8>; .reg .b32 %r<8>; .reg .b64 %d<8>; .reg .b64 %a<8>; .reg .b32 %t;\n"
      "mov.u32 %t, %tid.x; mul.wide.u32 %a4, %t, 8;\n";
  std::string operands = reg(c.result, 7);
  for (int i = 0; i < static_cast<int>(c.sources.size()); ++i) {
    const std::string type = c.sources[static_cast<std::size_t>(i)];
    const std::string n = std::to_string(i);
    body += "ld.param.u64 %a" + n + ", [p" + n + "]; add.u64 %a" + n + ", %a" + n +
            ", %a4; ld.global.b" + std::to_string(width_of(type)) + " " + reg(type, i) + ", [%a" +
            n + "];\n";
    operands += ", " + reg(type, i);
  }
  body += c.opcode + " " + operands +
          ";\nld.param.u64 %a5, [p3]; add.u64 %a5, %a5, %a4; st.global.b" +
          std::to_string(width_of(c.result)) + " [%a5], " + reg(c.result, 7) + "; ret;";
  PtxKernel kernel(ptx_module(body));
  std::vector<Bits> out(512);
  for (auto& values : in) kernel.use(values);
  kernel.use(out);
  kernel.grid.threads[0] = 512;
  kernel.run(
      {address(in[0].data()), address(in[1].data()), address(in[2].data()), address(out.data())});
  for (std::size_t n = 0; n < out.size(); ++n) {
    const Bits want = c.expected(in[0][n], in[1][n], in[2][n]) &
                      (width_of(c.result) == 64 ? ~Bits{0} : (Bits{1} << width_of(c.result)) - 1);
    if (out[n] == want) continue;
    INFO(std::hex << in[0][n] << ", " << in[1][n] << ", " << in[2][n]);
    REQUIRE(out[n] == want);
  }
}

std::int64_t extend(Bits x, int bits) {
  return static_cast<std::int64_t>(x << (64 - bits)) >> (64 - bits);
}
float real(Bits x) { return std::bit_cast<float>(static_cast<std::uint32_t>(x)); }
Bits bits(float x) { return std::isnan(x) ? 0x7fffffff : std::bit_cast<std::uint32_t>(x); }

/// x rounded to fp32 in a direction, from a number of 64 significant bits or fewer and a remainder
/// whose sign alone counts.
float directed(long double x, char direction) {
  auto nearest = static_cast<float>(x);
  const auto exact = static_cast<long double>(nearest);
  const float up = std::numeric_limits<float>::infinity();
  if (direction == 'm' && exact > x) return std::nextafter(nearest, -up);
  if (direction == 'p' && exact < x) return std::nextafter(nearest, up);
  if (direction == 'z' && std::fabs(exact) > std::fabs(x)) return std::nextafter(nearest, 0.0f);
  return nearest;
}

}  // namespace

TEST_CASE("ptx: whole numbers", "[ptx][quick]") {
  for (const int w : {16, 32, 64}) {
    const std::string n = std::to_string(w), u = "u" + n, s = "s" + n, b = "b" + n;
    const auto low = [w](Bits x) { return w == 64 ? x : x & ((Bits{1} << w) - 1); };
    check({"add." + u, b, {b, b}, [](Bits x, Bits y, Bits) { return x + y; }});
    check({"sub." + s, b, {b, b}, [](Bits x, Bits y, Bits) { return x - y; }});
    check({"mul.lo." + s, b, {b, b}, [](Bits x, Bits y, Bits) { return x * y; }});
    check({"mad.lo." + u, b, {b, b, b}, [](Bits x, Bits y, Bits z) { return x * y + z; }});
    check({"mul.hi." + s, b, {b, b}, [w](Bits x, Bits y, Bits) {
             return static_cast<Bits>((Wide{extend(x, w)} * extend(y, w)) >> w);
           }});
    check({"mul.hi." + u, b, {b, b}, [w](Bits x, Bits y, Bits) {
             return static_cast<Bits>((static_cast<UnsignedWide>(x) * y) >> w);
           }});
    check({"min." + s, b, {b, b}, [w](Bits x, Bits y, Bits) {
             return extend(x, w) < extend(y, w) ? x : y;
           }});
    check({"max." + u, b, {b, b}, [](Bits x, Bits y, Bits) { return x < y ? y : x; }});
    check({"div." + s, b, {b, b}, [w](Bits x, Bits y, Bits) {
             return y == 0 ? ~Bits{0} : static_cast<Bits>(Wide{extend(x, w)} / extend(y, w));
           }});
    check({"rem." + u, b, {b, b}, [](Bits x, Bits y, Bits) { return y == 0 ? ~Bits{0} : x % y; }});
    check({"rem." + s, b, {b, b}, [w](Bits x, Bits y, Bits) {
             return y == 0 ? ~Bits{0} : static_cast<Bits>(Wide{extend(x, w)} % extend(y, w));
           }});
    check({"abs." + s, b, {b}, [w](Bits x, Bits, Bits) { return extend(x, w) < 0 ? 0 - x : x; }});
    check({"neg." + s, b, {b}, [](Bits x, Bits, Bits) { return 0 - x; }});
    check({"sad." + u, b, {b, b, b}, [](Bits x, Bits y, Bits z) {
             return z + (x < y ? y - x : x - y);
           }});
    check({"and." + b, b, {b, b}, [](Bits x, Bits y, Bits) { return x & y; }});
    check({"xor." + b, b, {b, b}, [](Bits x, Bits y, Bits) { return x ^ y; }});
    check({"not." + b, b, {b}, [](Bits x, Bits, Bits) { return ~x; }});
    check({"cnot." + b, b, {b}, [](Bits x, Bits, Bits) { return Bits{x == 0}; }});
    check({"shl." + b, b, {b, "b32"}, [w](Bits x, Bits y, Bits) {
             return y >= static_cast<Bits>(w) ? 0 : x << y;
           }});
    check({"shr." + u, b, {b, "b32"}, [w](Bits x, Bits y, Bits) {
             return y >= static_cast<Bits>(w) ? 0 : x >> y;
           }});
    check({"shr." + s, b, {b, "b32"}, [w](Bits x, Bits y, Bits) {
             return static_cast<Bits>(extend(x, w) >> std::min<Bits>(y, static_cast<Bits>(w) - 1));
           }});
    if (w < 64) {
      const std::string twice = "b" + std::to_string(2 * w);
      check({"mul.wide." + s, twice, {b, b}, [w](Bits x, Bits y, Bits) {
               return static_cast<Bits>(extend(x, w) * extend(y, w));
             }});
      check({"mad.wide." + u, twice, {b, b, twice}, [](Bits x, Bits y, Bits z) {
               return x * y + z;
             }});
    }
    if (w == 16) continue;
    check({"popc." + b, "b32", {b}, [](Bits x, Bits, Bits) {
             return static_cast<Bits>(std::popcount(x));
           }});
    check({"clz." + b, "b32", {b}, [w](Bits x, Bits, Bits) {
             return static_cast<Bits>(std::countl_zero(x) - 64 + w);
           }});
    check({"brev." + b, b, {b}, [w](Bits x, Bits, Bits) {
             Bits reversed = 0;
             for (int i = 0; i < w; ++i) reversed |= (x >> i & 1) << (w - 1 - i);
             return reversed;
           }});
    check({"bfind." + u, "b32", {b}, [](Bits x, Bits, Bits) {
             return static_cast<Bits>(63 - std::countl_zero(x));
           }});
    check({"bfe." + s,
           b,
           {b, "b32", "b32"},
           [w, low](Bits x, Bits y, Bits z) {  // as PTX ISA's loop has it, of 64 bits as ptxas does
             const auto part = [w](Bits n) {
               return static_cast<int>(w == 64 ? std::min<Bits>(n, 255) : n & 255);
             };
             const int at = part(y), length = part(z), top = w - 1;
             const bool sign = length != 0 && (x >> std::min(at + length - 1, top) & 1);
             Bits result = 0;
             for (int i = 0; i <= top; ++i) {
               const bool bit = i < length && at + i <= top ? (x >> (at + i) & 1) != 0 : sign;
               result |= Bits{bit} << i;
             }
             return low(result);
           }});
  }
  check({"mul24.lo.s32", "b32", {"b32", "b32"}, [](Bits x, Bits y, Bits) {
           return static_cast<Bits>(extend(x, 24) * extend(y, 24));
         }});
  check({"add.sat.s32", "b32", {"b32", "b32"}, [](Bits x, Bits y, Bits) {
           return static_cast<Bits>(
               std::clamp<std::int64_t>(extend(x, 32) + extend(y, 32), INT32_MIN, INT32_MAX));
         }});
  check({"prmt.b32", "b32", {"b32", "b32", "b32"}, [](Bits x, Bits y, Bits z) {
           Bits result = 0;
           for (int i = 0; i < 4; ++i) {
             const int select = static_cast<int>(z >> (4 * i) & 15);
             Bits byte = ((y << 32 | x) >> (8 * (select & 7))) & 255;
             if (select & 8) byte = byte >= 128 ? 255 : 0;
             result |= byte << (8 * i);
           }
           return result;
         }});
  check({"shf.l.wrap.b32", "b32", {"b32", "b32", "b32"}, [](Bits x, Bits y, Bits z) {
           return static_cast<Bits>(((y << 32 | x) << (z & 31)) >> 32);
         }});
  check({"shf.r.clamp.b32", "b32", {"b32", "b32", "b32"}, [](Bits x, Bits y, Bits z) {
           return z >= 32 ? y : (y << 32 | x) >> z;
         }});
  check({"dp4a.s32.u32", "b32", {"b32", "b32", "b32"}, [](Bits x, Bits y, Bits z) {
           std::int64_t sum = extend(z, 32);
           for (int i = 0; i < 4; ++i)
             sum += extend(x >> (8 * i), 8) * static_cast<std::int64_t>(y >> (8 * i) & 255);
           return static_cast<Bits>(sum);
         }});
}

TEST_CASE("ptx: fp32 in every rounding mode", "[ptx]") {
  using Two = float (*)(float, float);
  const std::pair<std::string, Two> plain[] = {{"add", [](float x, float y) { return x + y; }},
                                               {"sub", [](float x, float y) { return x - y; }},
                                               {"mul", [](float x, float y) { return x * y; }},
                                               {"div", [](float x, float y) { return x / y; }}};
  for (const auto& [name, f] : plain) {
    const Two operation = f;
    check({name + ".rn.f32", "b32", {"f32", "f32"}, [=](Bits x, Bits y, Bits) {
             return bits(operation(real(x), real(y)));
           }});
    check({name + ".rn.ftz.f32", "b32", {"f32", "f32"}, [=](Bits x, Bits y, Bits) {
             const auto flush = [](float a) {
               return std::fabs(a) < 0x1p-126f ? std::copysign(0.0f, a) : a;
             };
             return bits(flush(operation(flush(real(x)), flush(real(y)))));
           }});
  }
  check({"fma.rn.f32", "b32", {"f32", "f32", "f32"}, [](Bits x, Bits y, Bits z) {
           return bits(std::fma(real(x), real(y), real(z)));
         }});
  for (const char direction : {'z', 'm', 'p'}) {
    check({std::string("mul.r") + direction + ".f32",
           "b32",
           {"f32", "f32"},
           [=](Bits x, Bits y, Bits) {
             return bits(directed(
                 static_cast<long double>(real(x)) * static_cast<long double>(real(y)), direction));
           }});
  }
  check({"add.rz.f32", "b32", {"f32", "f32"}, [](Bits x, Bits y, Bits) {
           // Two doubles give the exact sum of two floats.
           const double a = static_cast<double>(real(x)), b = static_cast<double>(real(y)),
                        sum = a + b;
           if (!std::isfinite(sum)) return bits(static_cast<float>(sum));
           const double of_b = sum - a, error = (a - (sum - of_b)) + (b - of_b);
           auto nearest = static_cast<float>(sum);
           const double off = static_cast<double>(nearest) - sum;
           const double excess = off != 0 ? off : -error;
           if (std::isinf(nearest) || (nearest > 0 && excess > 0) || (nearest < 0 && excess < 0))
             nearest = std::nextafter(nearest, 0.0f);
           return bits(nearest);
         }});
  check(
      {"sqrt.rn.f32", "b32", {"f32"}, [](Bits x, Bits, Bits) { return bits(std::sqrt(real(x))); }});
  check({"rcp.rn.f32", "b32", {"f32"}, [](Bits x, Bits, Bits) { return bits(1.0f / real(x)); }});
  check({"max.f32", "b32", {"f32", "f32"}, [](Bits x, Bits y, Bits) {
           const float a = real(x), b = real(y);
           if (a == 0 && b == 0) return bits(std::signbit(a) && std::signbit(b) ? -0.0f : 0.0f);
           return bits(std::fmax(a, b));
         }});
  check({"min.NaN.f32", "b32", {"f32", "f32"}, [](Bits x, Bits y, Bits) {
           const float a = real(x), b = real(y);
           if (std::isnan(a) || std::isnan(b)) return Bits{0x7fffffff};
           if (a == 0 && b == 0) return bits(std::signbit(a) || std::signbit(b) ? -0.0f : 0.0f);
           return bits(std::fmin(a, b));
         }});
  check({"add.sat.f32", "b32", {"f32", "f32"}, [](Bits x, Bits y, Bits) {
           const float sum = real(x) + real(y);
           return bits(sum > 0 ? std::fmin(sum, 1.0f) : 0.0f);
         }});
  check({"ex2.approx.ftz.f32", "b32", {"f32"}, [](Bits x, Bits, Bits) {
           return bits(simt::ex2(real(x)));
         }});
}

TEST_CASE("ptx: conversions", "[ptx]") {
  check({"cvt.s64.s32", "b64", {"b32"}, [](Bits x, Bits, Bits) {
           return static_cast<Bits>(extend(x, 32));
         }});
  check({"cvt.u16.u32", "b16", {"b32"}, [](Bits x, Bits, Bits) { return x; }});
  check({"cvt.s32.s8", "b32", {"b32"}, [](Bits x, Bits, Bits) {
           return static_cast<Bits>(extend(x, 8));
         }});
  check({"cvt.sat.u8.s32", "b32", {"b32"}, [](Bits x, Bits, Bits) {
           return static_cast<Bits>(std::clamp<std::int64_t>(extend(x, 32), 0, 255));
         }});
  check({"cvt.rzi.s32.f32", "b32", {"f32"}, [](Bits x, Bits, Bits) {
           const float a = real(x);
           if (std::isnan(a)) return Bits{0};
           return static_cast<Bits>(std::clamp<std::int64_t>(std::fabs(a) < 1e18f
                                                                 ? static_cast<std::int64_t>(a)
                                                             : std::signbit(a) ? INT64_MIN
                                                                               : INT64_MAX,
                                                             INT32_MIN, INT32_MAX));
         }});
  check({"cvt.rni.f32.f32", "b32", {"f32"}, [](Bits x, Bits, Bits) {
           return bits(std::nearbyint(real(x)));
         }});
  check({"cvt.rn.f32.s64", "b32", {"b64"}, [](Bits x, Bits, Bits) {
           return bits(static_cast<float>(static_cast<std::int64_t>(x)));
         }});
  check({"cvt.rn.f32.u64", "b32", {"b64"}, [](Bits x, Bits, Bits) {
           return bits(static_cast<float>(x));
         }});
  check({"cvt.rz.f32.u32", "b32", {"b32"}, [](Bits x, Bits, Bits) {
           return bits(directed(static_cast<long double>(x), 'z'));
         }});
  check({"cvt.rn.f16.f32", "b16", {"f32"}, [](Bits x, Bits, Bits) {
           return Bits{simt::f32_to_f16(real(x))};
         }});
  check({"cvt.rn.f16x2.f32", "b32", {"f32", "f32"}, [](Bits x, Bits y, Bits) {
           return Bits{simt::f32_to_f16(real(x))} << 16 | simt::f32_to_f16(real(y));
         }});
  check({"cvt.rn.relu.bf16x2.f32", "b32", {"f32", "f32"}, [](Bits x, Bits y, Bits) {
           const auto relu = [](Bits a) {
             return Bits{real(a) <= 0 ? std::uint16_t{0} : simt::f32_to_bf16(real(a))};
           };
           return relu(x) << 16 | relu(y);
         }});
  check({"cvt.f32.f16", "b32", {"b16"}, [](Bits x, Bits, Bits) {
           return bits(simt::f16_to_f32(static_cast<std::uint16_t>(x)));
         }});
  check({"cvt.rn.f16x2.e4m3x2", "b32", {"b16"}, [](Bits x, Bits, Bits) {
           return Bits{simt::e4m3_to_f16(static_cast<std::uint8_t>(x >> 8))} << 16 |
                  simt::e4m3_to_f16(static_cast<std::uint8_t>(x));
         }});
  check({"cvt.rna.tf32.f32", "b32", {"f32"}, [](Bits x, Bits, Bits) {
           if (std::isnan(real(x))) return x & ~Bits{0x1fff};
           if (std::isinf(real(x))) return x;
           return (x + 0x1000) & ~Bits{0x1fff};
         }});
}

TEST_CASE("ptx: half precision is rounded once", "[ptx]") {
  const auto value = [](Bits x) {
    return static_cast<long double>(simt::f16_to_f32(static_cast<std::uint16_t>(x)));
  };
  // Of a sum of two products' worth of bits a long double holds all but the widest: those are left.
  const auto round = [](long double x) -> Bits {
    if (std::isnan(x)) return 0x7fff;
    const auto once = static_cast<double>(x);
    const auto twice = static_cast<float>(once);
    // Odd-rounded floats round to f16 as the exact value does.
    auto odd = twice;
    if (static_cast<long double>(twice) != x && std::isfinite(twice) &&
        !(std::bit_cast<std::uint32_t>(twice) & 1)) {
      odd = std::nextafter(twice, static_cast<long double>(twice) < x ? INFINITY : -INFINITY);
    }
    return simt::f32_to_f16(odd);
  };
  check({"add.f16", "b16", {"b16", "b16"}, [=](Bits x, Bits y, Bits) {
           return round(value(x) + value(y));
         }});
  check({"mul.f16", "b16", {"b16", "b16"}, [=](Bits x, Bits y, Bits) {
           return round(value(x) * value(y));
         }});
  check({"add.f16x2", "b32", {"b32", "b32"}, [=](Bits x, Bits y, Bits) {
           return round(value(x) + value(y)) | round(value(x >> 16) + value(y >> 16)) << 16;
         }});
  check({"fma.rn.f16", "b16", {"b16", "b16", "b16"}, [=](Bits x, Bits y, Bits z) {
           const long double product = value(x) * value(y), sum = product + value(z);
           if (std::isnan(sum)) return Bits{0x7fff};
           // 64 bits do not hold the sum where the terms lie far apart; the sign of what is left
           // does.
           const long double of_z = sum - product,
                             left = (product - (sum - of_z)) + (value(z) - of_z);
           return round(left == 0 || std::isinf(sum)
                            ? sum
                            : std::nextafter(sum, left > 0 ? INFINITY : -INFINITY));
         }});
  check({"max.bf16x2", "b32", {"b32", "b32"}, [](Bits x, Bits y, Bits) {
           const auto one = [](Bits a, Bits b) -> Bits {
             const float p = real(a << 16), q = real(b << 16);
             if (std::isnan(p)) return std::isnan(q) ? 0x7fff : b;
             if (std::isnan(q)) return a;
             if (p == q) return std::signbit(p) ? b : a;
             return p > q ? a : b;
           };
           return one(x & 0xffff, y & 0xffff) | one(x >> 16, y >> 16) << 16;
         }});
}
