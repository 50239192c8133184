#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>

#include "debug/ptx/decoder.h"
#include "debug/ptx/program.h"

// Which elements of its matrices a lane holds in the registers of wmma. Of a and b PTX does not
// say: here those of products 16×8 as mma has them, of which d is made, as on sm_80 to sm_90; of
// m8n32 of d transposed. What is m8n8 is one mma.m8n8. Registers of a and b are words of elements
// that lie side by side along k.

namespace lanescope::ptx::wmma {

enum class Part : std::uint8_t { a, b, accumulator };

struct Element {
  int row, col;
};
/// A row of a or a column of b, and which of its words.
struct Word {
  int line, word;
};

struct Form {
  int m, n, k;
  int bits;  ///< of an element of a and b

  constexpr bool is_small() const { return m == 8 && n == 8; }
  constexpr bool is_turned() const { return n == 32; }
  /// Of 16 rows and of 8 columns, of the products.
  constexpr int long_sides() const { return m == 32 || n == 32 ? 2 : 1; }
  constexpr int short_sides() const { return m == 16 ? 2 : 1; }
  constexpr int in_word() const { return bits > 32 ? 1 : 32 / bits; }
  /// Words of a row of a, or of a column of b.
  constexpr int words() const { return k / in_word(); }
  constexpr bool is_long(Part part) const {
    return !is_small() && (part == Part::a) != is_turned();
  }
  /// Registers of a or b that hold different elements; those of .f16 hold them several times.
  constexpr int distinct(Part part) const {
    return is_long(part) ? long_sides() * words() / 2 : short_sides() * words() / 4;
  }
  constexpr Word word(Part part, int lane, int reg) const {
    const int of_side = is_long(part) ? words() / 2 : words() / 4;
    const int side = reg / of_side, i = reg % of_side;
    if (is_long(part)) return {16 * side + lane / 4 + i % 2 * 8, lane % 4 + i / 2 * 4};
    return {8 * side + lane / 4, lane % 4 + i * 4};
  }
  /// Elements of c and d that a lane holds, and the i-th of them.
  constexpr int sums() const { return m * n / 32; }
  constexpr Element sum(int lane, int i) const {
    const int row = lane / 4 + i / 2 % 2 * 8 + (long_sides() == 2 ? i / 4 * 16 : 0);
    const int col = lane % 4 * 2 + i % 2 + (short_sides() == 2 ? i / 4 * 8 : 0);
    return is_turned() ? Element{col, row} : Element{row, col};
  }
  bool operator==(const Form&) const = default;
};

inline constexpr Form forms[] = {
    {16, 16, 16, 16}, {32, 8, 16, 16}, {8, 32, 16, 16}, {16, 16, 16, 8}, {32, 8, 16, 8},
    {8, 32, 16, 8},   {16, 16, 8, 32}, {8, 8, 4, 64},   {8, 8, 32, 4},   {8, 8, 128, 1}};

/// f(std::integral_constant<Form, form>()). False where there is no such form.
template <class F>
bool with_form(const Form& form, F&& f) {
  return [&]<std::size_t... I>(std::index_sequence<I...>) {
    return ((forms[I] == form ? (f(std::integral_constant<Form, forms[I]>()), true) : false) ||
            ...);
  }
  (std::make_index_sequence<std::size(forms)>());
}

/// Elements that wmma multiplies.
struct Elements {
  std::string_view name;
  int bits;
};
/// Takes ".f16" and its like from the opcode.
Elements take_elements(Decoder& decoder);
/// The shape in an opcode, of elements of so many bits; an error where there is none. 0: a transfer
/// of c or d, of which the shape says how many bits there may be.
Form take_form(Decoder& decoder, int bits);

/// wmma.load and wmma.store; wmma.mma.
void decode_transfer(Decoder& decoder, Part part, bool loads);
void decode_multiply(Decoder& decoder);

}  // namespace lanescope::ptx::wmma
