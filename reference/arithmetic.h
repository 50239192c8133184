#pragma once

#include <cstdint>
#include <string_view>

#include "reference/array.h"
#include "reference/tensor.h"

namespace lanescope::reference {

/// The errors of what may be any finite number, and of what need not even be one, because a score,
/// a weight or a sum may pass the range of fp32. Errors are never NaN or infinite: products of them
/// with zeroes stay zero, and no product of what is below the first reaches the second.
inline constexpr double any_number = 0x1p200, anything = 0x1p500;

/// What a kernel may hold, element by element: |held − value| <= error, or anything at all, NaN
/// included, where error >= anything. The error of an infinite or NaN value is 0: what is held must
/// then be of the same class.
struct Bounded {
  Array value, error;

  /// Without error.
  static Bounded exact(const Array& value) {
    return {value, Array::Zero(value.rows(), value.cols())};
  }
};

/// Largest relative error of one fp32 operation, rounded to nearest. The factor makes room for
/// what double itself rounds away (2^-53 per operation, thousands of operations) and for terms of
/// second order.
inline constexpr double unit = 0x1p-24 * (1 + 0x1p-16);

/// Largest relative error of any order of n additions or fused multiply-adds in fp32, relative to
/// the sum of the magnitudes: n·u / (1 − n·u). Source: Higham, Accuracy and Stability, section 3.1.
double gamma(std::int64_t n);

/// How a kernel accumulates a dot product.
struct Accumulation {
  std::int64_t group = 0;  ///< products that a matrix unit adds at once; 0: a chain of fp32 FMAs
  int fraction_bits = 0;   ///< kept of each of them, relative to the largest
  int sum_bits = 23;       ///< kept of their sum
  /// Largest relative error of a product because its factors are rounded before.
  double product_error = 0;

  bool operator==(const Accumulation&) const = default;

  /// Whether sums are held in less than fp32: what is lost of them then depends on how large they
  /// become on the way.
  bool keeps_few_bits() const { return group != 0 && sum_bits < 23; }

  static Accumulation fma_chain() { return {}; }
  /// The matrix unit of `arch` ("sm_75", "sm_90a", ...). Throws UsageError on an unknown one.
  static Accumulation tensor_core(std::string_view arch);
  /// The same of products of e4m3 (wgmma), which only Hopper's is known to do.
  static Accumulation tensor_core_e4m3(std::string_view arch);
  /// The same of products of tf32, with what f32 operands lose as they become such.
  static Accumulation tensor_core_tf32(std::string_view arch);

  /// Largest error of a dot product of `terms` products added to an initial value, relative to
  /// T = |initial| + Σ magnitude(a)·magnitude(b).
  double relative_error(std::int64_t terms) const;
  /// |x|, for the T above; what a matrix unit takes for the size of a subnormal number of `type` is
  /// the smallest normal one.
  Array magnitude(const Array& x, ElementType type) const;
};

/// The arithmetic that the error bounds of a kernel follow from.
struct Arithmetic {
  Accumulation products;
  /// In which Q, K, V enter products; O is stored in it, or its operand_type.
  ElementType operands = ElementType::f16;
  ElementType p_type = ElementType::f32;  ///< in which P enters P·V
  /// Nothing of the softmax is known but what comes of it: the bounds have room for what it may
  /// round more than the recurrence of stages.h, in whatever form it is written (stage_errors.h).
  bool any_softmax = false;
  /// Nothing shows m: it may be held in any unit, and a factor alpha of where it stays be made of
  /// it all the same, as 2^(fma(m, c, −round(m·c))). Each tile then is off by what m·c is rounded,
  /// O and l alike: lse alone has it.
  bool any_maximum = false;
};

/// `x` after a rounding to `type`, nearest even: relative error 2^-(fraction bits + 1), absolute
/// half the spacing of the subnormals, none for an exact zero; values beyond the range overflow
/// (e4m3: saturate).
Bounded rounded(const Bounded& x, ElementType type);

/// Exactly the values that `type` holds after rounding `x`, nearest even.
Array round_values(const Array& x, ElementType type);

/// [height, width]: `rows` rows of `tensor` (seen as [·, cols], the last dimension) from `first`
/// on in the top left corner, zero elsewhere.
Array load_rows(const Tensor& tensor, std::int64_t first, std::int64_t rows, std::int64_t height,
                std::int64_t width);

}  // namespace lanescope::reference
