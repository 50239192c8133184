// PTX ISA, wmma.mma: one or two products 16×8, or one of mma.m8n8.

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "debug/ptx/block.h"
#include "debug/ptx/host_rounding.h"
#include "debug/ptx/matrix.h"
#include "debug/ptx/program_builder.h"
#include "debug/ptx/whole_products.h"
#include "debug/ptx/wmma_fragments.h"
#include "debug/simt/numerics.h"
#include "debug/simt/tensor_core_scalar.h"
#include "reference/element_type.h"

namespace lanescope::ptx::wmma {
namespace {

/// Rows of a, or columns of b; sums by columns.
template <class T, int lines, int words>
using Lines = T[lines][words];
template <class T>
using Sums = T[8][16];

/// Elements in a register of c or d.
template <class T>
inline constexpr int in_register = sizeof(T) == 2 ? 2 : 1;

// What adds the product of 16 rows and 8 columns to its sums. `Word`: of a and b; `Sum`: of c and d
// on the way.

template <ElementType type>
struct Halves {
  using Word = std::uint32_t;
  using Sum = float;
  static void add(Warp& warp, const Instruction&, const Lines<Word, 16, 8>& a,
                  const Lines<Word, 8, 8>& b, Sums<Sum>& sums) {
    std::uint16_t rows[16][16], cols[8][16];
    std::memcpy(rows, a, sizeof rows);
    std::memcpy(cols, b, sizeof cols);
    simt::multiply_accumulate(type, warp.block().grid().tensor_core, rows, cols, 8, sums);
  }
};
struct HalvesToHalves {
  using Word = std::uint32_t;
  using Sum = std::uint16_t;
  static void add(Warp&, const Instruction&, const Lines<Word, 16, 8>& a,
                  const Lines<Word, 8, 8>& b, Sums<Sum>& sums) {
    std::uint16_t rows[16][16], cols[8][16];
    std::memcpy(rows, a, sizeof rows);
    std::memcpy(cols, b, sizeof cols);
    simt::multiply_accumulate_f16(rows, cols, sums);
  }
};
/// Two products 16×8×4 (ptxas 13), here of the first four columns of a, then of the others.
struct Tf32 {
  using Word = std::uint32_t;
  using Sum = float;
  static void add(Warp&, const Instruction&, const Lines<Word, 16, 8>& a,
                  const Lines<Word, 8, 8>& b, Sums<Sum>& sums) {
    for (int step = 0; step < 8; step += 4) {
      Lines<Word, 16, 8> rows = {};
      Lines<Word, 8, 8> cols = {};
      for (int i = 0; i < 16; ++i) std::copy_n(&a[i][step], 4, rows[i]);
      for (int i = 0; i < 8; ++i) std::copy_n(&b[i][step], 4, cols[i]);
      simt::multiply_accumulate_tf32(rows, cols, sums);
    }
  }
};
template <class Dot, bool saturates>
struct Whole {
  using Word = std::uint32_t;
  using Sum = std::int32_t;
  static void add(Warp&, const Instruction&, const Lines<Word, 16, 4>& a,
                  const Lines<Word, 8, 4>& b, Sums<Sum>& sums) {
    for (int col = 0; col < 8; ++col) {
      for (int row = 0; row < 16; ++row) {
        sums[col][row] = add_whole<Dot>(sums[col][row], a[row], b[col], 4, saturates);
      }
    }
  }
};
struct Doubles {
  using Word = double;
  using Sum = double;
  static void add(Warp&, const Instruction& in, const Lines<Word, 16, 4>& a,
                  const Lines<Word, 8, 4>& b, Sums<Sum>& sums) {
    const HostRounding scope(static_cast<simt::Rounding>(in.immediate));
    for (int col = 0; col < 8; ++col) {
      for (int row = 0; row < 8; ++row) {
        sums[col][row] = sum_of_products(a[row], b[col], 4, sums[col][row]);
      }
    }
  }
};

/// The sum that a register of type T holds, and back: of .f16 where others are .f32, ptxas 13
/// converts it.
template <class Sum, class T>
Sum widened(T x) {
  if constexpr (sizeof(T) < sizeof(Sum)) return simt::f16_to_f32(x);
  if constexpr (sizeof(T) == sizeof(Sum)) return x;
}
template <class T, class Sum>
T narrowed(Sum x) {
  if constexpr (sizeof(T) < sizeof(Sum)) return simt::f32_to_f16(x);
  if constexpr (sizeof(T) == sizeof(Sum)) return x;
}

/// An element is unwritten where a value of its row of a, of its column of b, or of c is.
template <Form form, class D, class C>
void follow_unwritten(Warp& warp, const Place* d, const Place* a, const Place* b, const Place* c) {
  if (!warp.follows_unwritten()) return;
  std::uint32_t rows = 0, cols = 0, source = 0;
  const auto take = [&](Part part, const Place* places, std::uint32_t& set) {
    for (int reg = 0; reg < form.distinct(part); ++reg) {
      const Unwritten value = warp.unwritten(places[reg]);
      if (value.lanes != 0) source = value.source;
      for (int lane = 0; lane < 32; ++lane) {
        if (value.lanes >> lane & 1) set |= 1u << form.word(part, lane, reg).line;
      }
    }
  };
  take(Part::a, a, rows);
  take(Part::b, b, cols);
  Unwritten results[form.sums()];
  std::fill_n(results, form.sums(), Unwritten{0, source});
  for (int i = 0; i < form.sums(); ++i) {
    const Unwritten before = warp.unwritten(c[i / in_register<C>]);
    Unwritten& result = results[i / in_register<D>];
    result.lanes |= before.lanes;
    if (before.lanes != 0) result.source = before.source;
    for (int lane = 0; lane < 32; ++lane) {
      const Element at = form.sum(lane, i);
      if ((rows >> at.row & 1) != 0 || (cols >> at.col & 1) != 0) result.lanes |= 1u << lane;
    }
  }
  for (int reg = 0; reg < form.sums() / in_register<D>; ++reg) {
    warp.set_unwritten(d[reg], ~0u, results[reg]);
  }
}

/// d and c: what their registers hold. in.vector: registers of a, in.kind: of b.
template <Form form, class Unit, class D, class C>
Flow multiply(Warp& warp, const Instruction& in, std::uint32_t) {
  if (const Flow flow = warp.converge_all(); flow != Flow::next) return flow;
  if constexpr (std::is_same_v<Unit, HalvesToHalves> || std::is_same_v<Unit, Tf32> ||
                std::is_same_v<Unit, Doubles>) {
    demand_hopper(warp);
  } else {
    demand_whole(warp);
  }
  using Word = typename Unit::Word;
  using Sum = typename Unit::Sum;
  const Place* d = &warp.program().operands[in.operands];
  const Place *of_a = d + form.sums() / in_register<D>, *of_b = of_a + in.vector,
              *of_c = of_b + in.kind;
  // Where d is transposed, so are its factors.
  constexpr Part rows_of = form.is_turned() ? Part::b : Part::a;
  constexpr Part cols_of = form.is_turned() ? Part::a : Part::b;
  constexpr int longs = form.long_sides(), shorts = form.short_sides();
  Lines<Word, 16, form.words()> rows[longs] = {};
  Lines<Word, 8, form.words()> cols[shorts];
  Sums<Sum> sums[longs * shorts] = {};
  const auto gather = [&](Part part, const Place* places, auto& lines) {
    constexpr int in_side = std::extent_v<std::remove_reference_t<decltype(lines[0])>>;
    for (int reg = 0; reg < form.distinct(part); ++reg) {
      const Word* lanes = warp.lanes<Word>(places[reg]);
      for (int lane = 0; lane < 32; ++lane) {
        const auto at = form.word(part, lane, reg);
        lines[at.line / in_side][at.line % in_side][at.word] = lanes[lane];
      }
    }
  };
  gather(rows_of, form.is_turned() ? of_b : of_a, rows);
  gather(cols_of, form.is_turned() ? of_a : of_b, cols);
  const auto sum_at = [&](int lane, int i) -> Sum& {
    const Element at = form.sum(lane, i);
    const int row = form.is_turned() ? at.col : at.row, col = form.is_turned() ? at.row : at.col;
    return sums[row / 16 + col / 8][col % 8][row % 16];
  };
  for (int i = 0; i < form.sums() * 32; ++i) {
    constexpr int each = in_register<C>;
    const int reg = i / (32 * each), lane = i / each % 32, half = i % each;
    sum_at(lane, reg * each + half) = widened<Sum>(warp.lanes<C>(of_c[reg])[i % (32 * each)]);
  }
  for (int i = 0; i < longs * shorts; ++i)
    Unit::add(warp, in, rows[i % longs], cols[i % shorts], sums[i]);
  for (int i = 0; i < form.sums() * 32; ++i) {
    constexpr int each = in_register<D>;
    const int reg = i / (32 * each), lane = i / each % 32, half = i % each;
    warp.lanes<D>(d[reg])[i % (32 * each)] = narrowed<D>(sum_at(lane, reg * each + half));
  }
  follow_unwritten<form, D, C>(warp, d, of_a, of_b, of_c);
  return Flow::next;
}

template <Form form>
WarpOperation choose_halves(bool is_bf16, Type to, Type from) {
  using F16 = Halves<ElementType::f16>;
  if (is_bf16) return multiply<form, Halves<ElementType::bf16>, float, float>;
  if (to == Type::f16) {
    return from == Type::f16 ? multiply<form, HalvesToHalves, std::uint16_t, std::uint16_t>
                             : multiply<form, F16, std::uint16_t, float>;
  }
  return from == Type::f16 ? multiply<form, F16, float, std::uint16_t>
                           : multiply<form, F16, float, float>;
}

template <Form form>
WarpOperation choose_whole(const WholeFactors& factors, bool saturates) {
  return choose_dot(factors, [&](auto dot) -> WarpOperation {
    using Dot = decltype(dot);
    return saturates ? multiply<form, Whole<Dot, true>, std::int32_t, std::int32_t>
                     : multiply<form, Whole<Dot, false>, std::int32_t, std::int32_t>;
  });
}

void take_operands(Decoder& d, const Form& form, bool is_f16, Type to, Type from) {
  const Type word = form.bits == 64 ? Type::b64 : Type::b32;
  const auto count = [&](Part part) { return is_f16 ? 8 : form.distinct(part); };
  const auto sums = [&](Type type) {
    return static_cast<std::size_t>(form.sums() / (type == Type::f16 ? 2 : 1));
  };
  d.in.vector = static_cast<std::uint8_t>(count(Part::a));
  d.in.kind = static_cast<std::uint8_t>(count(Part::b));
  take_fragments(d, {sums(to), d.in.vector, d.in.kind, sums(from)}, word);
}

void decode_whole(Decoder& d, const WholeFactors& factors) {
  if (factors.a_signed != factors.b_signed) d.fail("a and b of wmma are of one type");
  const Form form = take_form(d, factors.bits);
  const bool saturates = d.modifiers.take("satfinite");
  if (d.demand_type() != Type::s32 || d.demand_type() != Type::s32) {
    d.fail("sums of whole numbers are .s32");
  }
  take_operands(d, form, false, Type::s32, Type::s32);
  with_form(form, [&](auto its) {
    if constexpr (its.value.bits <= 8) d.in.act = choose_whole<its.value>(factors, saturates);
  });
}

}  // namespace

void decode_multiply(Decoder& d) {
  d.modifiers.ignore({"row", "col", "row", "col"});
  if (const auto factors = take_whole_factors(d)) return decode_whole(d, *factors);
  if (d.modifiers.take("satfinite"))
    d.refuse(".satfinite of products that are not of whole numbers");
  // Of .f16 the opcode names d and c alone.
  const Type to = d.demand_type(), second = d.demand_type();
  const bool names_factors = second == Type::bf16 || second == Type::tf32 || second == Type::f64;
  const Type third = names_factors ? d.demand_type() : second;
  const Type from = names_factors ? d.demand_type() : second;
  const auto is_sum = [&](Type type) {
    return second == Type::f64 ? type == Type::f64
                               : type == Type::f32 || (type == Type::f16 && !names_factors);
  };
  if (!is_sum(to) || !is_sum(from) || third != second) d.fail("there is no product of these types");
  const Form form = take_form(d, !names_factors ? 16 : bits_of(second));
  take_operands(d, form, !names_factors, to, from);
  with_form(form, [&](auto its) {
    if constexpr (its.value.bits == 16) {
      d.in.act = choose_halves<its.value>(names_factors, to, from);
    } else if constexpr (its.value.bits == 32) {
      d.in.act = multiply<its.value, Tf32, float, float>;
    } else if constexpr (its.value.bits == 64) {
      d.in.immediate = d.modifiers.choose({"rn", "rz", "rm", "rp"}, 0);
      d.in.act = multiply<its.value, Doubles, double, double>;
    }
  });
}

Elements take_elements(Decoder& d) {
  constexpr Elements all[] = {{"f16", 16}, {"bf16", 16}, {"s8", 8}, {"u8", 8}, {"tf32", 32},
                              {"f64", 64}, {"s4", 4},    {"u4", 4}, {"b1", 1}};
  for (const Elements& elements : all) {
    if (d.modifiers.take(elements.name)) return elements;
  }
  d.fail("it names no elements that wmma has");
}

Form take_form(Decoder& d, int bits) {
  std::string known;
  for (const Form& form : forms) {
    if (bits != 0 && form.bits != bits) continue;
    const std::string name =
        "m" + std::to_string(form.m) + "n" + std::to_string(form.n) + "k" + std::to_string(form.k);
    if (d.modifiers.take(name)) return form;
    known += (known.empty() ? "" : ", ") + name;
  }
  d.fail("it names no shape of such elements: there are " + known);
}

}  // namespace lanescope::ptx::wmma

namespace lanescope::ptx {

void decode_wmma(Decoder& d) {
  d.modifiers.ignore({"sync", "aligned"});
  const int operation = d.modifiers.choose({"load", "store", "mma"}, -1);
  d.in.carries = d.in.meets = true;
  if (operation == 0) {
    const int part = d.modifiers.choose({"a", "b", "c"}, -1);
    if (part < 0) d.fail(".a, .b or .c is missing");
    wmma::decode_transfer(d, static_cast<wmma::Part>(part), true);
  } else if (operation == 1) {
    if (!d.modifiers.take("d")) d.fail(".d is missing");
    wmma::decode_transfer(d, wmma::Part::accumulator, false);
  } else if (operation == 2) {
    wmma::decode_multiply(d);
  } else {
    d.fail(".load, .store or .mma is missing");
  }
}

}  // namespace lanescope::ptx
