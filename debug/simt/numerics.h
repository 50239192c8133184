#pragma once

#include <bit>
#include <cstdint>

#include "reference/element_type.h"

namespace lanescope::simt {

/// ex2.approx.ftz.f32 as an H200 computes it, bit for bit.
float ex2(float x);
/// lg2.approx.ftz.f32 as an H200 computes it, bit for bit.
float lg2(float x);
/// rsqrt, sin and cos.approx.ftz.f32 as an H200 computes them, bit for bit.
float rsqrt(float x);
float sin(float x);
float cos(float x);
/// sqrt.approx.ftz.f32 and tanh.approx.f32.
float sqrt(float x);
float tanh(float x);
/// rcp.approx.ftz.f32: an H200's bits for |x| in [1, 2), and elsewhere as far as it scales exactly.
float rcp(float x);
/// rcp and rsqrt.approx.ftz.f64, as an H200 computes them: of the upper 32 bits alone, the lower
/// ones are 0.
double rcp(double of);
double rsqrt(double of);

/// cvt.rn.f16.f32 (PTX ISA, cvt): nearest even, overflow to inf, NaN becomes 0x7fff.
std::uint16_t f32_to_f16(float x);
/// cvt.rn.bf16.f32: nearest even, NaN becomes 0x7fff.
std::uint16_t f32_to_bf16(float x);
/// Exact.
float f16_to_f32(std::uint16_t bits);
/// Either half of cvt.rn.satfinite.e4m3x2.f32: to nearest even, ±448 where it is beyond, NaN
/// becomes 0x7f.
std::uint8_t f32_to_e4m3(float x);
/// prmt: byte i of the result is byte n & 7 of the eight of a and b, a's first, where n is nibble i
/// of `selector`; with n & 8, its sign eight times.
constexpr std::uint32_t permute_bytes(std::uint32_t a, std::uint32_t b, std::uint32_t selector) {
  const std::uint64_t both = a | std::uint64_t{b} << 32;
  std::uint32_t result = 0;
  for (int i = 0; i < 4; ++i) {
    const std::uint32_t nibble = selector >> 4 * i & 15;
    auto byte = static_cast<std::uint32_t>(both >> 8 * (nibble & 7) & 0xff);
    if (nibble & 8) byte = byte & 0x80 ? 0xff : 0;
    result |= byte << 8 * i;
  }
  return result;
}
/// Either half of cvt.rn.f16x2.e4m3x2: exact, NaN becomes 0x7fff.
std::uint16_t e4m3_to_f16(std::uint8_t bits);

/// What a GPU makes of every fp32 NaN that it computes.
inline float canonical(float x) { return x == x ? x : std::bit_cast<float>(0x7fffffffu); }

/// max.f32 (PTX ISA, max): a NaN loses against a number, and −0 against +0.
inline float max(float a, float b) {
  const std::uint32_t both = std::bit_cast<std::uint32_t>(a) & std::bit_cast<std::uint32_t>(b);
  const float number = a > b ? a : a == b ? std::bit_cast<float>(both) : b;
  return canonical(a != a ? b : b != b ? a : number);
}
/// min.f32: the same, +0 against −0.
inline float min(float a, float b) {
  const std::uint32_t either = std::bit_cast<std::uint32_t>(a) | std::bit_cast<std::uint32_t>(b);
  const float number = a < b ? a : a == b ? std::bit_cast<float>(either) : b;
  return canonical(a != a ? b : b != b ? a : number);
}

/// How a tensor core adds up one group: the products of `k_block` elements and the accumulator,
/// each truncated to `fraction_bits` below the largest exponent, then the sum truncated to fp32.
struct TensorCoreRule {
  int k_block;
  int fraction_bits;
};
inline constexpr TensorCoreRule hopper_rule{16, 25};
/// Ampere and Ada (arXiv 2512.07004, 2511.10909).
inline constexpr TensorCoreRule ampere_rule{8, 24};

/// What the machine rounds like. Only products differ: all that is known of the rest is alike.
struct RuleSet {
  const char* name;   ///< "hopper"
  const char* title;  ///< "Hopper"
  const char* arch;   ///< "sm_90", which has these rules
  TensorCoreRule tensor_core;
};
inline constexpr RuleSet rule_sets[] = {{"hopper", "Hopper", "sm_90", hopper_rule},
                                        {"ampere", "Ampere", "sm_80", ampere_rule}};
inline constexpr const RuleSet& hopper = rule_sets[0];

/// c += a·b for row-major a[16][16], b[16][8], c[16][8]; a and b hold the bits of f16 or bf16.
void multiply_accumulate(ElementType type, TensorCoreRule rule, const std::uint16_t (&a)[16][16],
                         const std::uint16_t (&b)[16][8], float (&c)[16][8]);
/// The same of `count` columns b[n][16], c[n][16]; 8 divides it.
void multiply_accumulate(ElementType type, TensorCoreRule rule, const std::uint16_t (&a)[16][16],
                         const std::uint16_t (*b)[16], int count, float (*c)[16]);

/// The registers of an mma.m16n8k16 (PTX ISA, "Matrix Fragments for mma.m16n8k16 with
/// floating-point type"), of each its 32 lanes; d may be c.
struct MmaRegisters {
  const std::uint32_t *a[4], *b[2];
  const float* c[4];
  float* d[4];
};
/// d = a·b + c.
void multiply_accumulate(ElementType type, TensorCoreRule rule, const MmaRegisters& registers);

/// Floats of 8 bits.
enum class Fp8 : std::uint8_t { e4m3, e5m2 };
/// c += a·b for row-major a[16][32] and columns b[n][32] and c[n][16], as wgmma does it: 32
/// products and c, each truncated to 13 fraction bits below the largest exponent, and so is the
/// sum.
void multiply_accumulate(Fp8 a_format, Fp8 b_format, const std::uint8_t (&a)[16][32],
                         const std::uint8_t (*b)[32], int count, float (*c)[16]);
/// The same with accumulators of f16, as floats: the sum is rounded to nearest once.
void multiply_accumulate_to_f16(Fp8 a_format, Fp8 b_format, const std::uint8_t (&a)[16][32],
                                const std::uint8_t (*b)[32], int count, float (*c)[16]);

// The forms of the second, which give the same bits. In integers: of eight columns and any numbers.
void multiply_in_integers(ElementType type, TensorCoreRule rule, const std::uint16_t (&a)[16][16],
                          const std::uint16_t (*b)[16], float (*c)[16]);
/// What a CPU may have.
enum class VectorForm : std::uint8_t { portable, avx2, avx512 };
bool has(VectorForm form);
VectorForm widest_form();
/// In floats: of the columns before eight with numbers that are not finite or too far from 1.
/// Returns how many those are.
int multiply_in_floats(VectorForm form, ElementType type, TensorCoreRule rule,
                       const std::uint16_t (&a)[16][16], const std::uint16_t (*b)[16], int count,
                       float (*c)[16]);

}  // namespace lanescope::simt
