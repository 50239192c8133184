#pragma once

// Which elements of 16×16 matrices a lane holds in the registers of wmma. Of a and b PTX does not
// say: here those of mma.m16n8k16; .f16 fragments have them twice. Accumulators are those of sm_80
// to sm_90; registers of .f16 ones hold two elements.

namespace lanescope::ptx::wmma {

struct Element {
  int row, col;
};
inline Element element_of_a(int lane, int reg, int half) {
  return {lane / 4 + reg % 2 * 8, lane % 4 * 2 + half + reg / 2 * 8};
}
inline Element element_of_b(int lane, int reg, int half) {
  return {lane % 4 * 2 + half + reg % 2 * 8, lane / 4 + reg / 2 * 8};
}
/// The same of m16n16k8, whose registers hold one element of .tf32: those of mma.m16n8k8.
inline Element element_of_a_tf32(int lane, int reg) {
  return {lane / 4 + reg % 2 * 8, lane % 4 + reg / 2 * 4};
}
inline Element element_of_b_tf32(int lane, int reg) {
  return {lane % 4 + reg % 2 * 4, lane / 4 + reg / 2 * 8};
}
inline Element element_of_accumulator(int lane, int i) {
  return {lane / 4 + i / 2 % 2 * 8, i / 4 * 8 + lane % 4 * 2 + i % 2};
}
/// Elements in a register of an accumulator, and its registers.
template <class T>
inline constexpr int in_register = 4 / static_cast<int>(sizeof(T));
template <class T>
inline constexpr int registers_of = 8 / in_register<T>;

}  // namespace lanescope::ptx::wmma
