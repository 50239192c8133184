#pragma once

// Markers for a CUDA C++ kernel of any kind: what its values are called, and where they stand. This
// header needs no other; nvcc and clang take it for any architecture:
//   nvcc -I<lanescope>/kernels/trace ...      #include "lanescope.h"
//
//   lanescope::row_tile(batch, head, index);               which queries the block computes
//   lanescope::phase::softmax();                           this stage begins here
//   lanescope::trace(lanescope::s, tile, row, col, s);     this value is S[row][col] of that tile
//   lanescope::inject(lanescope::s, tile, row, col, s);    here it may come from the reference
//   lanescope::tile(lanescope::k_smem, tile, &k_smem[0][0], lanescope::rows(72));
//                                                          this shared memory holds that tile
//
// A marker is an asm statement that holds nothing but a PTX comment with the names of its
// operands' registers: ptxas never sees it, so it costs nothing. Lanescope reads the comments, from
// what `nvcc -ptx` leaves, since nvcc drops comments from the PTX that it puts into a program.
// -DLANESCOPE_UNMARKED leaves them out.
//
// tile: of the K/V tiles of the block, from 0 on. row, col: in the tile, of br queries by bc keys,
// or by the columns of d; of k_smem and v_smem row is the key. A value is a float, a 16-bit number
// of the kernel's type, or 32 bits that hold two of those: columns col and col + 1. Negative
// places are no element. Each lane says what it holds; several may hold the same.

#if defined(__CUDACC__)
#define LANESCOPE_MARKER __device__ __forceinline__
#else
#define LANESCOPE_MARKER inline
#endif
#if defined(__CUDA_ARCH__) && !defined(LANESCOPE_UNMARKED)
#define LANESCOPE_COMMENT(...) asm volatile(__VA_ARGS__)
#else
#define LANESCOPE_COMMENT(...) static_cast<void>(0)
#endif

namespace lanescope {

/// Says which rows of Q the thread computes from here on: tile `index` of br queries of a head.
/// Without it, that is the block's index in the grid, x first: ((batch, head), index).
LANESCOPE_MARKER void row_tile([[maybe_unused]] int batch, [[maybe_unused]] int head,
                               [[maybe_unused]] int index) {
  LANESCOPE_COMMENT("// lanescope row_tile %0, %1, %2" ::"r"(batch), "r"(head), "r"(index));
}

/// Says which stage begins: what follows, up to the next of these, belongs to it.
namespace phase {
#define LANESCOPE_PHASE(NAME) \
  LANESCOPE_MARKER void NAME() { LANESCOPE_COMMENT("// lanescope phase " #NAME); }
LANESCOPE_PHASE(load)
LANESCOPE_PHASE(qk)
LANESCOPE_PHASE(softmax)
LANESCOPE_PHASE(pv)
LANESCOPE_PHASE(epilogue)
#undef LANESCOPE_PHASE
}  // namespace phase

/// How a tile lies in shared memory, in elements from its first on: its rows one after the other,
/// or its columns (rows, columns), each `stride` elements behind the one before.
struct Layout {
  int row, col, panel, panel_stride, swizzle;

  /// Only `width` columns lie side by side; the next as many begin `stride` elements further on.
  LANESCOPE_MARKER constexpr Layout panels(int width, int stride) const {
    return {row, col, width, stride, swizzle};
  }
  /// CuTe's Swizzle<Bits, Base, Shift> of the element's number: the `bits` bits from base + shift
  /// on go into those from base on, by exclusive or. Of 16-bit elements <3, 3, 3> is the swizzle of
  /// 128 bytes of a tensor map, <2, 3, 3> that of 64.
  LANESCOPE_MARKER constexpr Layout swizzled(int bits, int base, int shift) const {
    return {row, col, panel, panel_stride, bits | base << 8 | shift << 16};
  }
};
LANESCOPE_MARKER constexpr Layout rows(int stride) { return {stride, 1, 0, 0, 0}; }
LANESCOPE_MARKER constexpr Layout columns(int stride) { return {1, stride, 0, 0, 0}; }

namespace marker {

/// The address in shared memory of what lies there.
template <class T>
LANESCOPE_MARKER unsigned shared_address([[maybe_unused]] const T* at) {
#if defined(__CUDA_ARCH__)
  return static_cast<unsigned>(__cvta_generic_to_shared(at));
#else
  return 0;
#endif
}

template <int Bytes, bool IsFloat>
struct Form;  // no marker takes such a value: cast it to float, or pack it in 32 bits

template <>
struct Form<4, true> {
  template <class Site>
  static LANESCOPE_MARKER void trace(int tile, int row, int col, float value) {
    Site::trace(tile, row, col, value);
  }
  template <class Site>
  static LANESCOPE_MARKER void inject(int tile, int row, int col, float& value) {
    Site::inject(tile, row, col, value);
  }
};

template <class Bits>
struct FormOfBits {
  template <class Site, class V>
  static LANESCOPE_MARKER void trace(int tile, int row, int col, const V& value) {
    Bits bits;
    __builtin_memcpy(&bits, &value, sizeof bits);
    Site::trace(tile, row, col, bits);
  }
  template <class Site, class V>
  static LANESCOPE_MARKER void inject(int tile, int row, int col, V& value) {
    Bits bits;
    __builtin_memcpy(&bits, &value, sizeof bits);
    Site::inject(tile, row, col, bits);
    __builtin_memcpy(&value, &bits, sizeof bits);
  }
};
template <>
struct Form<2, false> : FormOfBits<unsigned short> {};
template <>
struct Form<4, false> : FormOfBits<unsigned> {};

template <class V>
inline constexpr bool is_float = false;
template <>
inline constexpr bool is_float<float> = true;

/// What an element of shared memory is taken as.
template <int Bytes, bool IsFloat>
struct ElementOf;  // no marker takes such elements: they are float, or have 16 bits
template <>
struct ElementOf<4, true> {
  using Type = float;
};
template <>
struct ElementOf<2, false> {
  using Type = unsigned short;
};

template <class V>
using FormOf = Form<static_cast<int>(sizeof(V)), is_float<V>>;

}  // namespace marker

#define LANESCOPE_TILE(NAME, FORM, TYPE)                                                           \
  static LANESCOPE_MARKER void tile([[maybe_unused]] int tile_index,                               \
                                    [[maybe_unused]] const Layout& at,                             \
                                    [[maybe_unused]] const TYPE* first) {                          \
    LANESCOPE_COMMENT("// lanescope tile " #NAME " " #FORM                                         \
                      " %0, %1, %2, %3, %4, %5, %6" ::"r"(tile_index),                             \
                      "r"(marker::shared_address(first)), "r"(at.row), "r"(at.col), "r"(at.panel), \
                      "r"(at.panel_stride), "r"(at.swizzle));                                      \
  }
#define LANESCOPE_FORM(NAME, FORM, LETTER, TYPE)                                                \
  static LANESCOPE_MARKER void trace([[maybe_unused]] int tile, [[maybe_unused]] int row,       \
                                     [[maybe_unused]] int col, [[maybe_unused]] TYPE value) {   \
    LANESCOPE_COMMENT("// lanescope trace " #NAME " " #FORM " %0, %1, %2, %3" ::"r"(tile),      \
                      "r"(row), "r"(col), LETTER(value));                                       \
  }                                                                                             \
  static LANESCOPE_MARKER void inject([[maybe_unused]] int tile, [[maybe_unused]] int row,      \
                                      [[maybe_unused]] int col, [[maybe_unused]] TYPE& value) { \
    LANESCOPE_COMMENT("// lanescope inject " #NAME " " #FORM " %1, %2, %3, %0"                  \
                      : "+" LETTER(value)                                                       \
                      : "r"(tile), "r"(row), "r"(col));                                         \
  }
#define LANESCOPE_SITE(NAME)                       \
  struct NAME##_site {                             \
    LANESCOPE_FORM(NAME, f32, "f", float)          \
    LANESCOPE_FORM(NAME, b16, "h", unsigned short) \
    LANESCOPE_FORM(NAME, b16x2, "r", unsigned)     \
    LANESCOPE_TILE(NAME, f32, float)               \
    LANESCOPE_TILE(NAME, b16, unsigned short)      \
  };                                               \
  inline constexpr NAME##_site NAME;

// The places, in the order in which a tile passes them. s: scores with the factor scale * log2(e),
// masked -inf; qk: the same of a kernel that multiplies in the softmax. m_prev, m: the row maximum
// before and after the tile; alpha: what l and o are multiplied with; p: the weights; l: their sum;
// o: not normalised yet. m_prev, m, alpha and l have one column, 0. Of a kernel whose softmax is
// exp(s - m), in base e, s and m are s_base_e and m_base_e, with the factor scale alone; maxima of
// scores without their factor are m_raw.
LANESCOPE_SITE(q_smem)
LANESCOPE_SITE(k_smem)
LANESCOPE_SITE(v_smem)
LANESCOPE_SITE(s)
LANESCOPE_SITE(s_base_e)
LANESCOPE_SITE(qk)
LANESCOPE_SITE(m_prev)
LANESCOPE_SITE(m_prev_base_e)
LANESCOPE_SITE(m_prev_raw)
LANESCOPE_SITE(m)
LANESCOPE_SITE(m_base_e)
LANESCOPE_SITE(m_raw)
LANESCOPE_SITE(alpha)
LANESCOPE_SITE(p)
LANESCOPE_SITE(l)
LANESCOPE_SITE(o)

/// Names a value. It stays what it is.
template <class Site, class V>
LANESCOPE_MARKER void trace(Site, int tile, int row, int col, const V& value) {
  marker::FormOf<V>::template trace<Site>(tile, row, col, value);
}

/// Where a gate takes the site from the reference, the value is that from here on; else it stays.
template <class Site, class V>
LANESCOPE_MARKER void inject(Site, int tile, int row, int col, V& value) {
  marker::FormOf<V>::template inject<Site>(tile, row, col, value);
}

/// Names shared memory that holds the tile of a site from here on, until the kernel writes there
/// again: behind the barrier, or the wait, that completes it. `first` is its element (0, 0), a
/// float or 16 bits of the kernel's type. Whoever comes here, the whole tile is meant.
template <class Site, class T>
LANESCOPE_MARKER void tile(Site, int tile_index, const T* first, const Layout& layout) {
  using Element = typename marker::ElementOf<sizeof(T), marker::is_float<T>>::Type;
  Site::tile(tile_index, layout, reinterpret_cast<const Element*>(first));
}

}  // namespace lanescope

#undef LANESCOPE_TILE
#undef LANESCOPE_SITE
#undef LANESCOPE_FORM
#undef LANESCOPE_COMMENT
#undef LANESCOPE_MARKER
