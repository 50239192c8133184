// Products of matrices in the forms that CPUs have.

#include "debug/simt/tensor_core_columns.h"

#include <cstdint>
#include <cstring>

#include "debug/simt/numerics.h"

namespace lanescope::simt {
namespace {

using RegistersFunction = bool (*)(TensorCoreRule, const MmaRegisters&);
using ColumnsFunction = int (*)(TensorCoreRule, const std::uint16_t (&)[16][16],
                                const std::uint16_t (*)[16], int, float (*)[16]);

template <ElementType type>
bool add_portable(const columns::LeftRows<type>& a, const columns::RightColumns<type>& b,
                  TensorCoreRule rule, columns::FloatRows (&c)[8][2]) {
  return columns::add_columns<type>(a, b, rule, c);
}
template <ElementType type>
bool registers_portable(TensorCoreRule rule, const MmaRegisters& registers) {
  return columns::multiply_registers<type, add_portable<type>>(rule, registers);
}
template <ElementType type>
int columns_portable(TensorCoreRule rule, const std::uint16_t (&a)[16][16],
                     const std::uint16_t (*b)[16], int count, float (*c)[16]) {
  return columns::multiply_columns<type, add_portable<type>>(rule, a, b, count, c);
}
#if defined(__x86_64__)
template <ElementType type>
[[gnu::target("avx2")]] bool add_avx2(const columns::LeftRows<type>& a,
                                      const columns::RightColumns<type>& b, TensorCoreRule rule,
                                      columns::FloatRows (&c)[8][2]) {
  return columns::add_columns<type>(a, b, rule, c);
}
template <ElementType type>
[[gnu::target("avx2")]] bool registers_avx2(TensorCoreRule rule, const MmaRegisters& registers) {
  return columns::multiply_registers<type, add_avx2<type>>(rule, registers);
}
template <ElementType type>
[[gnu::target("avx2")]] int columns_avx2(TensorCoreRule rule, const std::uint16_t (&a)[16][16],
                                         const std::uint16_t (*b)[16], int count, float (*c)[16]) {
  return columns::multiply_columns<type, add_avx2<type>>(rule, a, b, count, c);
}
#define LANESCOPE_AVX512 gnu::target("avx512f,avx512bw,avx512vl,avx512dq")
template <ElementType type>
[[LANESCOPE_AVX512]] bool add_avx512(const columns::LeftRows<type>& a,
                                     const columns::RightColumns<type>& b, TensorCoreRule rule,
                                     columns::FloatRows (&c)[8][2]) {
  return columns::add_columns<type>(a, b, rule, c);
}
template <ElementType type>
[[LANESCOPE_AVX512]] bool registers_avx512(TensorCoreRule rule, const MmaRegisters& registers) {
  return columns::multiply_registers<type, add_avx512<type>>(rule, registers);
}
template <ElementType type>
[[LANESCOPE_AVX512]] int columns_avx512(TensorCoreRule rule, const std::uint16_t (&a)[16][16],
                                        const std::uint16_t (*b)[16], int count, float (*c)[16]) {
  return columns::multiply_columns<type, add_avx512<type>>(rule, a, b, count, c);
}
#undef LANESCOPE_AVX512
#endif

template <ElementType type>
RegistersFunction registers_function(VectorForm form) {
#if defined(__x86_64__)
  if (form == VectorForm::avx512) return registers_avx512<type>;
  if (form == VectorForm::avx2) return registers_avx2<type>;
#endif
  return form == VectorForm::portable ? registers_portable<type> : nullptr;
}
template <ElementType type>
ColumnsFunction columns_function(VectorForm form) {
#if defined(__x86_64__)
  if (form == VectorForm::avx512) return columns_avx512<type>;
  if (form == VectorForm::avx2) return columns_avx2<type>;
#endif
  return form == VectorForm::portable ? columns_portable<type> : nullptr;
}

}  // namespace

bool has(VectorForm form) {
#if defined(__x86_64__)
  if (form == VectorForm::avx2) return __builtin_cpu_supports("avx2");
  if (form == VectorForm::avx512) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  }
#endif
  return form == VectorForm::portable;
}

VectorForm widest_form() {
  static const VectorForm form = has(VectorForm::avx512) ? VectorForm::avx512
                                 : has(VectorForm::avx2) ? VectorForm::avx2
                                                         : VectorForm::portable;
  return form;
}

int multiply_in_floats(VectorForm form, ElementType type, TensorCoreRule rule,
                       const std::uint16_t (&a)[16][16], const std::uint16_t (*b)[16], int count,
                       float (*c)[16]) {
  const ColumnsFunction multiply = type == ElementType::f16
                                       ? columns_function<ElementType::f16>(form)
                                       : columns_function<ElementType::bf16>(form);
  return multiply(rule, a, b, count, c);
}

void multiply_accumulate(ElementType type, TensorCoreRule rule, const std::uint16_t (&a)[16][16],
                         const std::uint16_t (*b)[16], int count, float (*c)[16]) {
  for (int first = 0; first < count;) {
    first += multiply_in_floats(widest_form(), type, rule, a, b + first, count - first, c + first);
    if (first == count) return;
    multiply_in_integers(type, rule, a, b + first, c + first);
    first += 8;
  }
}

void multiply_accumulate(ElementType type, TensorCoreRule rule, const std::uint16_t (&a)[16][16],
                         const std::uint16_t (&b)[16][8], float (&c)[16][8]) {
  std::uint16_t columns[8][16];
  float sums[8][16];
  for (int n = 0; n < 8; ++n) {
    for (int i = 0; i < 16; ++i) {
      columns[n][i] = b[i][n];
      sums[n][i] = c[i][n];
    }
  }
  multiply_accumulate(type, rule, a, columns, 8, sums);
  for (int n = 0; n < 8; ++n) {
    for (int i = 0; i < 16; ++i) c[i][n] = sums[n][i];
  }
}

void multiply_accumulate(ElementType type, TensorCoreRule rule, const MmaRegisters& registers) {
  static const RegistersFunction of_f16 = registers_function<ElementType::f16>(widest_form());
  static const RegistersFunction of_bf16 = registers_function<ElementType::bf16>(widest_form());
  if ((type == ElementType::f16 ? of_f16 : of_bf16)(rule, registers)) return;
  std::uint16_t a[16][16], b[8][16];
  float c[8][16];
  for (int lane = 0; lane < 32; ++lane) {
    const int row = lane / 4, pair = lane % 4 * 2;
    for (int i = 0; i < 4; ++i) {
      std::memcpy(&a[row + i % 2 * 8][pair + i / 2 * 8], &registers.a[i][lane], 4);
      c[pair + i % 2][row + i / 2 * 8] = registers.c[i][lane];
    }
    for (int i = 0; i < 2; ++i) std::memcpy(&b[row][pair + i * 8], &registers.b[i][lane], 4);
  }
  multiply_in_integers(type, rule, a, b, c);
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < 4; ++i) {
      registers.d[i][lane] = c[lane % 4 * 2 + i % 2][lane / 4 + i / 2 * 8];
    }
  }
}

}  // namespace lanescope::simt
