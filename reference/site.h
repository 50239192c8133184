#pragma once

#include <cstdint>

#include "reference/element_type.h"

namespace lanescope {

/// The stages of a fused attention forward kernel, in the order of the data.
enum class Stage : std::uint8_t { load, qk, softmax, pv, epilogue, combine };

/// Where a traced value lives.
enum class Space : std::uint8_t { registers, shared, global };

/// What the rows and columns of a site's tile are. A site over `query` has one column.
enum class Axes : std::uint8_t { query_d, key_d, query_key, query };

/// How a kernel accumulates its matrix products; the error bounds follow from it. tensor_core: of
/// 16-bit operands, in fp32. tensor_core_e4m3: of Q, K, V and P in e4m3. tensor_core_tf32: of f32,
/// of which a matrix unit takes 10 bits of the fraction.
enum class Products : std::uint8_t { fp32_fma, tensor_core, tensor_core_e4m3, tensor_core_tf32 };
inline constexpr Products last_products = Products::tensor_core_tf32;

/// The name in a dump's metadata and in the description of a launch.
constexpr const char* name_of(Products products) {
  constexpr const char* names[] = {"fp32_fma", "tensor_core", "tensor_core_e4m3",
                                   "tensor_core_tf32"};
  return names[static_cast<int>(products)];
}

/// The type in which P enters P·V: a matrix unit takes it as it does inputs of `dtype`, others take
/// it as it is `held`.
constexpr ElementType type_of_weights(Products products, ElementType dtype, ElementType held) {
  if (products == Products::fp32_fma) return held;
  return products == Products::tensor_core_e4m3 ? ElementType::e4m3 : operand_type(dtype);
}

/// Whether matrix products of elements of `type` can be done so.
constexpr bool takes(Products products, ElementType type) {
  switch (products) {
    case Products::fp32_fma:
      return true;
    case Products::tensor_core:  // e4m3 enters as f16
      return type != ElementType::f32;
    case Products::tensor_core_e4m3:
      return type == ElementType::e4m3;
    case Products::tensor_core_tf32:
      return type == ElementType::f32;
  }
  return false;
}

/// Every named place where a value can be traced, in the order in which a tile passes them.
///   q_smem k_smem v_smem   the tiles of Q, K, V in shared memory
///   s       scores Q·Kᵀ · scale · log2(e), or in another unit (Site::unit); masked positions −inf
///   m_prev  row maximum of the scaled scores (base 2) before this tile; m: after it. Of a kernel
///           that rescales seldom (Site::rescale) it stays as long as its rule says. In base 2, or
///           in another unit (Site::unit)
///   alpha   2^(m_prev − m);  p: 2^(scaled s − m);  l: running row sum of p
///   o       unnormalised output after this tile
///   o_partial m_partial l_partial   o, m and l after the last tile of a block that sees only a
///   split
///           of the keys, as stored for the combine pass
///   o_final O = o / l as stored;  lse: natural log-sum-exp of the scaled scores
enum class SiteId : std::uint8_t {
  q_smem,
  k_smem,
  v_smem,
  s,
  m_prev,
  m,
  alpha,
  p,
  l,
  o,
  o_partial,
  m_partial,
  l_partial,
  o_final,
  lse
};
inline constexpr int site_id_count = 15;

/// What a kernel leaves: tensors in global memory.
constexpr bool is_output(SiteId id) { return id == SiteId::o_final || id == SiteId::lse; }
/// What the blocks of a first pass leave for the combine pass, in global memory.
constexpr bool is_partial(SiteId id) {
  return id == SiteId::o_partial || id == SiteId::m_partial || id == SiteId::l_partial;
}

/// In which unit a kernel holds scores, or the maxima that it takes of them: scaled scores whose
/// exponentials are 2^x or e^x, or Q·Kᵀ as the products leave it.
enum class ScoreUnit : std::uint8_t { base_2, base_e, raw };

/// Whether a site holds a row maximum of the scores.
constexpr bool is_maximum(SiteId id) {
  return id == SiteId::m_prev || id == SiteId::m || id == SiteId::m_partial;
}

/// When the row maximum m follows the scores. It always does where `above` is 0 (FlashAttention-2);
/// else it stays as long as P = 2^(s − m) is not too large, so that O and l are seldom rescaled:
/// O / l and lse are what they are for any m.
struct RescaleRule {
  int above = 0;  ///< in base 2
  /// false: m follows where a score is over m + above (as in FlashAttention-4's forward).
  /// true: where a sum of a row's P is over 2^above, or no number: one of the four that the lanes
  /// of an m16n8 accumulator have, of the keys j with the same j / 2 % 4; and from −inf, always.
  bool by_sums = false;

  constexpr bool operator==(const RescaleRule&) const = default;
};

/// One traced place of one kernel: its stage, memory space, type, tile shape and lane layout.
struct Site {
  SiteId id;
  Stage stage;
  Space space;
  ElementType type;
  Axes axes;
  bool per_tile;  ///< false: one value per block (Q, partials, outputs), its tile index is 0
  int rows;       ///< of the tile
  int cols;       ///< of the tile
  int warps;      ///< registers: warps that hold it, else 0
  int regs;       ///< registers: elements per lane, else 0
  ScoreUnit unit = ScoreUnit::base_2;  ///< of s, and of the maxima, which are in one unit
  bool in_lanes = false;               ///< of l: every lane of a row has a part of its sum
  RescaleRule rescale = {};            ///< of alpha

  /// Bytes of one (block, tile) in the trace buffer.
  constexpr std::int64_t bytes() const {
    const std::int64_t elements =
        space == Space::registers ? std::int64_t{warps} * 32 * regs : std::int64_t{rows} * cols;
    return elements * size_of(type);
  }
};

constexpr const char* name_of(Stage stage) {
  constexpr const char* names[] = {"load", "qk", "softmax", "pv", "epilogue", "combine"};
  return names[static_cast<int>(stage)];
}

constexpr const char* name_of(Space space) {
  constexpr const char* names[] = {"registers", "shared", "global"};
  return names[static_cast<int>(space)];
}

constexpr const char* name_of(Axes axes) {
  constexpr const char* names[] = {"query_d", "key_d", "query_key", "query"};
  return names[static_cast<int>(axes)];
}

constexpr const char* name_of(ScoreUnit unit) {
  constexpr const char* names[] = {"base_2", "base_e", "raw"};
  return names[static_cast<int>(unit)];
}

constexpr const char* name_of(SiteId id) {
  constexpr const char* names[] = {"q_smem",    "k_smem",    "v_smem",    "s",       "m_prev",
                                   "m",         "alpha",     "p",         "l",       "o",
                                   "o_partial", "m_partial", "l_partial", "o_final", "lse"};
  return names[static_cast<int>(id)];
}

/// A slot that still holds this pattern was never written. Each half of it is a NaN as f16 and as
/// bf16, the whole is a NaN as f32, and no arithmetic of a GPU or a CPU produces it.
inline constexpr std::uint16_t poison16 = 0xffb1;
inline constexpr std::uint32_t poison32 = 0xffb1ffb1;

}  // namespace lanescope
