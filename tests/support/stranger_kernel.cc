#include "tests/support/stranger_kernel.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <tuple>
#include <utility>

#include "tests/support/infinity.h"
#include "tests/support/plain_info.h"

namespace lanescope::testing {
namespace {

/// Those of all 2^16 bit patterns.
std::vector<float> numbers_of(ElementType type) {
  std::vector<float> numbers;
  for (std::uint32_t bits = 0; bits < 1u << 16; ++bits) {
    numbers.push_back(static_cast<float>(value_of(type, bits)));
  }
  return numbers;
}

float load(const Tensor& tensor, ElementType as, std::int64_t row, std::int64_t col) {
  static const std::vector<float> f16 = numbers_of(ElementType::f16);
  static const std::vector<float> bf16 = numbers_of(ElementType::bf16);
  const std::uint32_t bits = tensor.bits(row * tensor.dims.back() + col);
  if (size_of(as) != 2) return static_cast<float>(value_of(as, bits));
  return (as == ElementType::f16 ? f16 : bf16)[bits];
}

float rounded(ElementType type, float x) { return static_cast<float>(held_as(type, x)); }

/// By its bits: the number towards zero.
float truncated(ElementType type, float x) {
  const std::uint32_t bits = round_to(type, x);
  const auto nearest = static_cast<float>(value_of(type, bits));
  return std::fabs(nearest) <= std::fabs(x) ? nearest
                                            : static_cast<float>(value_of(type, bits - 1));
}

/// What the kernel takes a tensor for: [batch, heads, length, d], [batch, heads, d, length],
/// [batch, length, heads, d].
enum class Layout : std::uint8_t { right, exchanged, heads_inside };

float element(Layout layout, const Tensor& tensor, ElementType as, std::int64_t head,
              std::int64_t row, std::int64_t col) {
  const std::int64_t heads = tensor.dims[1], length = tensor.dims[2], d = tensor.dims[3];
  if (layout == Layout::exchanged) return load(tensor, as, 0, (head * d + col) * length + row);
  if (layout == Layout::right) return load(tensor, as, head * length + row, col);
  return load(tensor, as, (head / heads * length + row) * heads + head % heads, col);
}

/// How wrong addresses of ldmatrix have an operand, in squares of 16 x 16 elements.
struct Misread {
  bool rows_repeated, columns_repeated, matrices_transposed;

  Misread(const std::string& bug, const std::string& operand)
      : rows_repeated(bug.find(operand + "_rows_repeated") != std::string::npos),
        columns_repeated(bug.find(operand + "_columns_repeated") != std::string::npos),
        matrices_transposed(bug.find(operand + "_matrices_transposed") != std::string::npos) {}

  void apply(std::int64_t& row, std::int64_t& col) const {
    if (rows_repeated) row &= ~std::int64_t{8};
    if (columns_repeated) col &= ~std::int64_t{8};
    if (!matrices_transposed) return;
    const std::int64_t own = row % 8;
    row += col % 8 - own;
    col += own - col % 8;
  }
};

/// The name of a bug, as a number: the inner loops ask for many names. None of them share theirs.
struct BugName {
  std::uint64_t hash = 0xcbf29ce484222325u;

  explicit constexpr BugName(std::string_view text) {
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  }
  consteval BugName(const char* text) : BugName(std::string_view(text)) {}
};

struct Kernel {
  const Problem& p;
  const Inputs& in;
  std::int64_t br, bc;
  const std::string& bug;
  Tensor &o_out, &lse_out;

  // One bug, or two: "one + other".
  const std::uint64_t bug_hash = BugName(std::string_view(bug).substr(0, bug.find(" + "))).hash;
  const std::uint64_t other_hash =
      BugName(std::string_view(bug).substr(bug.find(" + ") == bug.npos ? 0 : bug.find(" + ") + 3))
          .hash;
  const bool kv_inside = is("heads_inside") || is("kv_heads_inside");
  const Layout of_q = layout_of("q_exchanged", is("heads_inside"));
  const Layout of_k = layout_of("k_exchanged", kv_inside);
  const Layout of_v = layout_of("v_exchanged", kv_inside);
  const Tensor& q_in = tensor_of("Q", in.q);
  const Tensor& k_in = tensor_of("K", in.k);
  const Tensor& v_in = tensor_of("V", in.v);
  const Misread q_misread{bug, "q"}, k_misread{bug, "k"}, p_misread{bug, "p"}, v_misread{bug, "v"};

  bool is(BugName name) const { return bug_hash == name.hash || other_hash == name.hash; }
  Layout layout_of(BugName exchanged, bool inside) const {
    return is(exchanged) ? Layout::exchanged : inside ? Layout::heads_inside : Layout::right;
  }
  /// Of the bug "K is Q, V is Q": where the operand comes from.
  const Tensor& tensor_of(const char* operand, const Tensor& own) const {
    const std::size_t at = bug.find(std::string(operand) + " is ");
    if (at == bug.npos) return own;
    const char from = bug[at + 5];
    return from == 'Q' ? in.q : from == 'K' ? in.k : in.v;
  }
  /// Element of an operand that is read at its own address, from the tensor `is`; zeros behind
  /// that.
  static float element_of(Layout layout, const Tensor& is, const Tensor& own, ElementType as,
                          std::int64_t head, std::int64_t row, std::int64_t col) {
    if (&is == &own) return element(layout, own, as, head, row, col);
    const std::int64_t at = head * own.dims[2] + row;
    return at < is.size() / is.dims[3] ? load(is, as, at, col) : 0;
  }
  ElementType type_of(BugName name) const {
    const ElementType other = in.type() == ElementType::f16 ? ElementType::bf16 : ElementType::f16;
    const bool of_product = name.hash == BugName("v_bits").hash && is("p_and_v_bits");
    return is(name) || is("qkv_bits") || of_product ? other : in.type();
  }

  float scale() const {
    const float d = static_cast<float>(p.d), right = 1.4426950408889634f / std::sqrt(d);
    if (is("scale_missing")) return 1.4426950408889634f;
    if (is("scale_squared")) return 1.4426950408889634f / d;
    if (is("log2e_missing")) return 1 / std::sqrt(d);
    if (is("log2e_twice")) return right * 1.4426950408889634f;
    if (is("scale_of_padded_d")) return 1.4426950408889634f / std::sqrt((d + 15) / 16 * 16);
    if (is("scale_times_1_1")) return right * 1.1F;
    if (is("scale_of_half_d")) return 1.4426950408889634f / std::sqrt(d / 2);
    return right;
  }

  bool visible(std::int64_t h, std::int64_t query, std::int64_t key,
               std::int64_t tile_first_key) const {
    const std::int64_t corner = p.len_kv - p.len_q, group = p.heads / p.heads_kv;
    std::int64_t last = query + corner;
    if (is("causal_of_packed_row")) last = query * group + h % group + corner;
    if (is("causal_of_row_of_heads")) last = h % group * p.len_q + query + corner;
    if (is("causal_of_part_of_packed_row")) last = query / group + corner;
    if (is("causal_upper_left_where_needed")) {
      const bool needed = tile_first_key + bc > p.visible_keys(query / br * br);
      last = needed ? query : p.len_kv;
    }
    if (is("causal_late") || is("causal_late_in_tiles")) last += 1;
    if (is("causal_early")) last -= 1;
    if (is("causal_late_two")) last += 2;
    if (is("causal_upper_left") || is("causal_upper_left_in_tiles")) last = query;
    if (is("causal_of_row_mod_sixteen")) last = query / br * br + query % 16 + corner;
    if (is("causal_of_tile_start")) last = query / br * br + corner;
    if (is("causal_of_sixteen_end")) last = query / 16 * 16 + 15 + corner;
    if (is("causal_without_bit_8")) last = (query & ~8) + corner;
    if (is("no_key_means_one") && last < 0) last = 0;
    if (is("no_key_means_all") && last < -1) last = p.len_kv;
    const bool causal = (p.causal && !is("causal_dropped")) || is("causal_unasked");
    if (causal && is("diagonal_unmasked") && query + corner >= tile_first_key) {
      return key < p.len_kv || is("tail_counted");
    }
    if (causal && is("causal_reversed")) return key >= query + corner && key < p.len_kv;
    if (is("causal_rows_by_odd_keys")) last = (query & ~8) + (key & 1) * 8 + corner;
    if (is("masks_of_even_tiles")) key -= key / bc % 2 * bc;
    if (is("masks_eight_keys_early")) key += 8;
    if (is("masks_sixteen_keys_late")) key -= 16;
    if (is("masks_of_other_lanes")) key = (key & ~7) + key % 8 / 2 + key % 2 * 4;
    if (causal && is("masked_beyond_last_row")) {
      if (tile_first_key + bc <= std::min((query / br + 1) * br + corner, p.len_kv)) return true;
    }
    if (causal && is("last_tile_masked_alone")) {
      const std::int64_t end = p.visible_keys(std::min(p.len_q, (query / br + 1) * br) - 1);
      if (tile_first_key + bc < end) return true;
    }
    if (causal && (is("causal_of_key_with_bit_4") ? key | 4 : key) > last) return false;
    if (is("window") && key <= query + corner - 64) return false;
    if (is("window_by_pages") &&
        key < std::max<std::int64_t>(0, p.visible_keys(query) - 48) / 16 * 16) {
      return false;
    }
    if (is("window_unshifted") && key <= query - 41) return false;
    if (is("window_around") && std::abs(query + corner - key) >= 50) return false;
    if (is("tail_counted")) return true;
    if (is("key_of_idle_lane")) {
      const std::int64_t seen = p.visible_keys(query);
      return key < (seen + 1) / 2 * 2;
    }
    if (is("tail_up_to_eight")) return key < (p.len_kv + 7) / 8 * 8;
    if (is("last_key_dropped")) return key < p.len_kv - 1;
    if (is("last_two_keys_dropped")) return key < p.len_kv - 2;
    if (is("one_zero_key") || is("one_zero_key_of_tile")) return key < p.len_kv + 1;
    if (is("keys_end_with_len_q")) return key < std::min(p.len_q, p.len_kv);
    return key < p.len_kv;
  }

  void block(std::int64_t b, std::int64_t h, std::int64_t q_tile) const {
    const std::int64_t group = p.heads / p.heads_kv, corner = p.len_kv - p.len_q;
    std::int64_t kv = b * p.heads_kv + h / group, kv_of_v = kv;
    if (is("kv_head_modulo")) kv = kv_of_v = b * p.heads_kv + h % p.heads_kv;
    if (is("kv_head_of_all_modulo")) {
      kv_of_v = (b * p.heads + h) % (p.batch * p.heads_kv);
    }
    if (is("v_of_query_head")) kv_of_v = b * p.heads + h;
    if (is("kv_heads_mirrored")) kv = kv_of_v = p.batch * p.heads_kv - 1 - kv;
    if (is("kv_head_zero")) kv = kv_of_v = b * p.heads_kv;
    if (is("kv_of_batch_zero")) kv = kv_of_v = h / group;
    if (is("batches_as_heads")) kv = kv_of_v = (b * p.heads + h) / (p.batch * group);
    if (is("v_of_head_zero")) kv_of_v = b * p.heads_kv;
    if (is("k_of_head_modulo")) kv = b * p.heads_kv + h % p.heads_kv;
    const std::int64_t first = q_tile * br, rows = std::min(br, p.len_q - first);
    const auto R = static_cast<std::size_t>(br), C = static_cast<std::size_t>(bc),
               D = static_cast<std::size_t>(p.d);
    std::vector<float> m(R, -inf), l(R), o(R * D), alpha(R), s(R * C), lanes(R * 32);
    std::int64_t last_key = p.causal && !is("causal_dropped")
                                ? std::min(p.len_kv, first + rows + corner + 2)
                                : p.len_kv;
    if (is("causal_late_in_tiles")) last_key = p.visible_keys(first + rows - 1);
    if (bug.starts_with("no_key_means") || is("causal_of_sixteen_end") || is("diagonal_unmasked") ||
        is("causal_upper_left") || is("causal_of_packed_row") || is("causal_of_row_of_heads") ||
        is("pass_without_causal_mask")) {
      last_key = p.len_kv;
    }
    std::int64_t tiles = (std::max<std::int64_t>(0, last_key) + bc - 1) / bc;
    if (is("ragged_tile_of_block_dropped")) {
      tiles = std::max<std::int64_t>(1, p.visible_keys(first + rows - 1) / bc);
    }
    if (is("tiles_of_first_row") && p.causal) tiles = (p.visible_keys(first) + bc - 1) / bc;
    if (is("ragged_tile_dropped")) tiles = std::min(tiles, p.len_kv / bc);
    if (is("last_tile_dropped")) tiles = std::min(tiles, (p.len_kv + bc - 1) / bc - 1);
    if (is("one_zero_key") && p.len_kv % bc == 0) ++tiles;
    const ElementType tq = type_of("q_bits"), tk = type_of("k_bits"), tv = type_of("v_bits");
    const float factor = scale();
    if (bug.starts_with("split")) {
      by_splits(b, h, kv, first, rows, tiles, factor);
      return;
    }
    for (std::int64_t step = 0; step < tiles; ++step) {
      const std::int64_t t = bug.ends_with("_backwards") ? tiles - 1 - step : step;
      if (is("first_tile_skipped") && t == 0) continue;
      if (is("tile_two_skipped") && t == 2) continue;
      const bool again = is("tile_one_twice") && t == 1, on = is("tiles_three_on");
      const auto [of, at] = on ? tile_behind(kv, t, 3) : std::pair(kv, t);
      for (int visit = 0; visit < (again ? 2 : 1); ++visit) {
        tile(b, h, of, on ? of : kv_of_v, first, at, factor, tq, tk, tv, m, l, o, alpha, s, lanes);
      }
    }
    store(b, h, first, rows, factor, m, l, o, lanes);
  }

  /// The head and number of the tile so many behind another, of those of all heads in a ring.
  std::pair<std::int64_t, std::int64_t> tile_behind(std::int64_t kv, std::int64_t t,
                                                    std::int64_t count) const {
    const std::int64_t tiles = (p.len_kv + bc - 1) / bc;
    const std::int64_t flat = (kv * tiles + t + count) % (p.batch * p.heads_kv * tiles);
    return {flat / tiles, flat % tiles};
  }

  /// Flash-Decoding with two splits of the keys.
  void by_splits(std::int64_t b, std::int64_t h, std::int64_t kv, std::int64_t first,
                 std::int64_t rows, std::int64_t tiles, float factor) const {
    const auto R = static_cast<std::size_t>(br), C = static_cast<std::size_t>(bc),
               D = static_cast<std::size_t>(p.d);
    const std::int64_t size = ((p.len_kv + bc - 1) / bc + 1) / 2;
    std::vector<float> top(R, -inf), all_l(R), all_o(R * D), weights(R), unused(R * 32);
    std::vector<float> log_largest(R);  // the largest log-sum-exp of a split, base 2
    std::vector<std::vector<float>> ms, ls, os;
    for (int split = 0; split < 2; ++split) {
      std::vector<float> m(R, -inf), l(R), o(R * D), alpha(R), s(R * C), lanes(R * 32);
      const bool turns = is("by_turns") || is("split_all_from_its_first");
      const std::int64_t begin = turns ? split : split * size, step = is("by_turns") ? 2 : 1;
      for (std::int64_t t = begin; t < (turns ? tiles : std::min(tiles, begin + size)); t += step) {
        tile(b, h, kv, kv, first, t, factor, in.type(), in.type(), in.type(), m, l, o, alpha, s,
             lanes);
      }
      ms.push_back(m);
      ls.push_back(l);
      os.push_back(o);
    }
    for (std::size_t row = 0; row < R; ++row) {
      const float m = std::fmax(ms[0][row], ms[1][row]);
      const float largest =
          std::fmax(std::exp2(ms[0][row] - m) * ls[0][row], std::exp2(ms[1][row] - m) * ls[1][row]);
      top[row] = m;
      log_largest[row] = m + std::log2(largest);
      for (std::size_t split = 0; split < 2; ++split) {
        float times = 1;
        if (is("split_dropped") && split == 1) times = 0;
        if (is("split_twice") && split == 0) times = 2;
        const float off = ms[split][row] - (m == -inf ? 0 : m), l = ls[split][row];
        const float share = is("splits_to_base_e") ? std::exp(off) : std::exp2(off);
        const float l_share = is("splits_l_unscaled") ? 1.0F : share;
        all_l[row] += times * l_share * l;
        if (is("split_empty_counts") && l == 0 && m != -inf) {
          all_l[row] += std::exp2(-m);
          weights[row] += std::exp2(-m);
        }
        if (l == 0) continue;
        const float other =
            std::exp2(ms[split ^ 1][row] - (m == -inf ? 0 : m)) * ls[split ^ 1][row];
        const float w = is("splits_mean") || is("splits_maximum_of_lane") ? 1
                        : is("splits_without_l")                          ? share
                        : is("splits_exchanged")                          ? other
                                                                          : times * l_share * l;
        weights[row] += w;
        const bool is_second = split == 1 && is("split_o_of_second_unscaled");
        const float in_o = is("splits_o_unscaled") || is_second ? l
                           : is("splits_l_unscaled")            ? share * l
                           : is("splits_o_twice")               ? share * share * l
                           : is("splits_weighed_by_l")          ? share * l * l
                                                                : w;
        const std::vector<float>& from = os[is("split_o_of_first") ? 0 : split];
        for (std::size_t i = 0; i < D; ++i) all_o[row * D + i] += in_o * from[row * D + i] / l;
      }
      // Each split weighs e^0; the log-sum-exp is that of the first.
      if (is("splits_maximum_of_lane")) {
        all_l[row] = weights[row] * std::exp2(ms[0][row] - (m == -inf ? 0 : m)) * ls[0][row];
      }
      for (std::size_t i = 0; i < D && weights[row] != 0; ++i) {
        all_o[row * D + i] *= all_l[row] / weights[row];
        // The weights are relative to the largest; l is what they sum up to.
        if (is("splits_undivided")) all_o[row * D + i] *= all_l[row] / largest;
      }
    }
    store(b, h, first, rows, factor, top, all_l, all_o, unused);
    for (std::size_t row = 0; bug.starts_with("splits_lse") && row < static_cast<std::size_t>(rows);
         ++row) {
      const float ln_2 = 0.6931471805599453f,
                  rest = top[row] + std::log2(all_l[row]) - log_largest[row];
      lse_out.set(
          (b * p.heads + h) * p.len_q + first + static_cast<std::int64_t>(row),
          is("splits_lse_mixed") ? log_largest[row] + rest * ln_2 : log_largest[row] * ln_2);
    }
  }

  /// The rows of Q of a block as they are read, [br, d].
  std::vector<float> queries_of(std::int64_t b, std::int64_t h, std::int64_t first, float factor,
                                ElementType type) const {
    std::vector<float> tile;
    const std::int64_t group = p.heads / p.heads_kv;
    const std::int64_t head =
        b * p.heads + (is("q_of_next_head")     ? (h + 1) % p.heads
                       : is("q_heads_by_turns") ? h % group * p.heads_kv + h / group
                                                : h);
    for (std::int64_t query = first; query < first + br; ++query) {
      for (std::int64_t i = 0; i < p.d; ++i) {
        std::int64_t row = is("q_of_next_row") ? std::min(query + 1, p.len_q - 1) : query, col = i;
        if (is("q_of_row_mod_sixteen")) row = first + (query - first) % 16;
        if (is("q_of_first_row")) row = first;
        q_misread.apply(row, col);
        if (is("q_vectors_by_twos")) col = (i / 8 % 2 * (p.d / 16) + i / 16) * 8 + i % 8;
        if (is("q_registers_of_tf32_exchanged")) {
          row = row / 16 * 16 + row % 8 + i % 8 / 4 * 8;
          col = i / 8 * 8 + i % 4 + query % 16 / 8 * 4;
        }
        if (is("q_columns_by_fours")) col = i % 4 * (p.d / 4) + i / 4;
        const bool is_read = query < p.len_q && row < p.len_q && col < p.d;
        float q = is_read ? element_of(of_q, q_in, in.q, type, head, row, col) : 0;
        if (is("odd_columns_unscaled") && i % 2 == 1) q *= std::sqrt(float(p.d));
        tile.push_back(is("q_rounded") ? rounded(in.type(), q * factor) / factor : q);
      }
    }
    return tile;
  }

  /// The rows of a tile of K as they are read, [bc, d].
  std::vector<float> keys_of(std::int64_t kv, std::int64_t number, ElementType type) const {
    std::vector<float> tile;
    const std::int64_t off =
        is("k_at_len_q") || is("k_and_v_at_len_q") ? kv * (p.len_q - p.len_kv) : 0;
    for (std::int64_t key = number * bc; key < (number + 1) * bc; ++key) {
      for (std::int64_t i = 0; i < p.d; ++i) {
        std::int64_t row = key, col = is("k_of_even_columns") ? i / 2 * 2 : i;
        if (is("k_of_first_sixteen_columns")) col = i % 16;
        if (is("k_pairs_exchanged")) {
          const std::int64_t at = i / 2 * bc + key % bc;
          row = number * bc + at / (p.d / 2);
          col = at % (p.d / 2) * 2 + i % 2;
        }
        const Tensor& k = is("kv_rows_in_turns") && key % 2 == 1 ? in.v : k_in;
        if (is("kv_rows_in_turns")) row = key / 2;
        k_misread.apply(row, col);
        const bool is_read = row < p.len_kv && col < p.d;
        tile.push_back(
            is_read ? element_of(of_k, k, &k == &k_in ? in.k : k, type, kv, off + row, col) : 0);
      }
    }
    return tile;
  }

  /// An element of a tile of V: as it is read, and of which key.
  struct Element {
    float value = 0;
    std::int64_t key = 0;
    bool is_read = false;
  };
  /// Those of the tile `number` as the tile `t` of P takes them, [bc, d].
  std::vector<Element> values_of(std::int64_t kv, std::int64_t kv_of_v, std::int64_t t,
                                 std::int64_t number, ElementType type) const {
    std::vector<Element> tile;
    const Tensor& v = is("v_is_k_later") && t > 0 ? in.k : v_in;
    for (std::int64_t c = 0; c < bc; ++c) {
      for (std::int64_t i = 0; i < p.d; ++i) {
        Element& own = tile.emplace_back();
        std::int64_t key = number * bc + c, col = i;
        if (is("v_row_plus_one")) key += 1;
        if (is("v_rows_of_other_lanes")) key = (key & ~7) + key % 8 / 2 + key % 2 * 4;
        if (is("v_of_key_mod_four")) key = number * bc + c % 4;
        if (is("v_of_row_of_tile")) key = number + c;
        if (is("v_by_half_steps")) key = number * bc + c / 16 * 8 + c % 16;
        if (is("v_keys_with_bits_exchanged")) key += (c >> 3 & 1) * -7 + (c & 1) * 7;
        v_misread.apply(key, col);
        if (is("v_swizzled")) col ^= (c & 1) * 8;
        if (is("v_half_repeated")) col &= ~(p.d / 2);
        if (is("v_stride_unpadded")) {
          key = number * bc + (c * p.d + i) / (p.d + 8);
          col = (c * p.d + i) % (p.d + 8);
        }
        if (is("o_without_last_sixteen") && c >= bc - 16) continue;
        if (is("v_zero_from_len_q") && key >= p.len_q) continue;
        if (is("o_without_lane_two") && c / 2 % 4 == 2) continue;
        const Tensor& packed = is("kv_rows_in_turns") && key % 2 == 1 ? in.k : v;
        if (is("kv_rows_in_turns")) key = (key + 1) / 2;
        if (key >= p.len_kv || col >= p.d || kv_of_v >= p.batch * p.heads_kv) continue;
        own.key = key;
        own.is_read = true;
        if (is("k_and_v_at_len_q")) key += kv * (p.len_q - p.len_kv);
        own.value =
            element_of(of_v, packed, &packed == &v ? in.v : packed, type, kv_of_v, key, col);
      }
    }
    return tile;
  }

  void tile(std::int64_t b, std::int64_t h, std::int64_t kv, std::int64_t kv_of_v,
            std::int64_t first, std::int64_t t, float factor, ElementType tq, ElementType tk,
            ElementType tv, std::vector<float>& m, std::vector<float>& l, std::vector<float>& o,
            std::vector<float>& alpha, std::vector<float>& s, std::vector<float>& lanes) const {
    const auto C = static_cast<std::size_t>(bc), D = static_cast<std::size_t>(p.d);
    std::int64_t k_tile = t, v_tile = t;
    if (is("v_tiles_two_on")) std::tie(kv_of_v, v_tile) = tile_behind(kv_of_v, t, 2);
    if (is("v_of_tile_before") && t > 0) v_tile = t - 1;
    if (is("v_of_tile_zero")) v_tile = 0;
    if (is("k_of_tile_zero")) k_tile = 0;
    if (is("v_of_next_tile")) v_tile = t + 1;
    if (is("v_from_the_end")) v_tile = (p.len_kv + bc - 1) / bc - 1 - t;
    const std::int64_t unmasked = p.visible_keys(first) / bc;
    if (is("v_of_masked_tiles_from_zero") && t >= unmasked) v_tile = t - unmasked;
    std::int64_t depth_begin = 0, depth_end = p.d;
    if (is("depth_half")) depth_end = p.d / 2;
    if (is("depth_last_sixteen")) depth_end = p.d - 16;
    if (is("depth_first_sixteen")) depth_begin = 16;
    std::vector<float> masked(static_cast<std::size_t>(br) * C);
    std::vector<float> q_tile = queries_of(b, h, first, factor, tq);
    for (std::size_t row = 0; is("p_stored_over_q") && t > 0 && row < q_tile.size() / D; ++row) {
      for (std::size_t c = 0; c < std::min(C, D); ++c) {
        q_tile[row * D + c] = rounded(in.type(), s[row * C + c]);
      }
    }
    const std::vector<float> k_rows = keys_of(kv, k_tile, tk);
    const std::vector<float> none(D);
    // Scores as a pass for O alone computes them again.
    const bool passes = bug.starts_with("pass_");
    std::vector<float> again(masked.size());
    const bool of_idle_lane = is("key_of_idle_lane"), without_bit_4 = is("depth_without_bit_4"),
               without_last_of_four = is("depth_without_last_of_four"),
               takes_turns = is("dot_in_two_f16"), sums_in_f16 = bug.starts_with("dot_in_");
    for (std::int64_t r = 0; r < br; ++r) {
      const std::int64_t query = first + r;
      for (std::int64_t c = 0; c < bc; ++c) {
        const std::int64_t key = k_tile * bc + c;
        float sum = 0, odd_sum = 0;
        const float* const q = q_tile.data() + static_cast<std::size_t>(r) * D;
        const bool idle = of_idle_lane && key >= p.visible_keys(query);
        const float* const k = idle ? none.data() : k_rows.data() + static_cast<std::size_t>(c) * D;
        for (std::int64_t i = depth_begin; i < depth_end; ++i) {
          if (without_bit_4 && (i & 4) != 0) continue;
          if (without_last_of_four && i % 4 == 3) continue;
          float& own_sum = takes_turns && i % 2 == 1 ? odd_sum : sum;
          own_sum = std::fma(q[i], k[i], own_sum);
          if (sums_in_f16) own_sum = rounded(ElementType::f16, own_sum);
        }
        if (takes_turns) sum = rounded(ElementType::f16, sum + odd_sum);
        for (std::int64_t u = t; bug.starts_with("scores_not_cleared") && u-- > 0;) {
          float left = 0;
          for (std::int64_t i = 0; i < p.d; ++i) {
            left += load(in.q, tq, (b * p.heads + h) * p.len_q + std::min(query, p.len_q - 1), i) *
                    load(in.k, tk, kv * p.len_kv + u * bc + c, i);
          }
          sum += left * (is("scores_not_cleared") ? 1 : std::pow(factor, float(t - u)));
        }
        if (is("k_half_zero") && c % 16 >= 8) sum = 0;
        if (is("scores_exchanged")) {
          const std::int64_t other = query / 16 * 16 + key % 16, from = key / 16 * 16 + query % 16;
          sum = 0;
          for (std::int64_t i = 0; other < p.len_q && from < p.len_kv && i < p.d; ++i) {
            sum += load(in.q, tq, (b * p.heads + h) * p.len_q + other, i) *
                   load(in.k, tk, kv * p.len_kv + from, i);
          }
        }
        if (is("scores_of_two_keys")) {
          for (std::int64_t i = 0; (key ^ 1) < p.visible_keys(query) && i < p.d; ++i) {
            sum += load(in.q, tq, (b * p.heads + h) * p.len_q + std::min(query, p.len_q - 1), i) *
                   load(in.k, tk, kv * p.len_kv + (key ^ 1), i);
          }
        }
        sum *= factor;
        if (is("alibi")) {
          sum += std::exp2(-8 * float(h + 1) / float(p.heads)) * 1.4426950408889634f *
                 float(key - query - p.len_kv + p.len_q);
        }
        float other = is("pass_scale_squared") ? sum / std::sqrt(float(p.d)) : sum;
        if (is("pass_unscaled")) other = sum * std::sqrt(float(p.d));
        if (is("pass_k_of_tile_zero")) {
          other = 0;
          for (std::int64_t i = 0; i < p.d; ++i) {
            other += load(in.q, tq, (b * p.heads + h) * p.len_q + std::min(query, p.len_q - 1), i) *
                     load(in.k, tk, kv * p.len_kv + c, i) * factor;
          }
        }
        if (is("scores_of_odd_tiles_unscaled") && t % 2 == 1) sum *= std::sqrt(float(p.d));
        if (is("scores_cut_off")) sum = std::min(sum, 0.7F * 1.4426950408889634F);
        if (is("soft_cap") || is("soft_cap_base_two")) {
          const float cap = is("soft_cap") ? 20 * 1.4426950408889634f : 20;
          sum = cap * std::tanh(sum / cap);
        }
        const auto at = static_cast<std::size_t>(r * bc + c);
        masked[at] = 0;
        if (!visible(h, query, t * bc + c, t * bc)) {
          masked[at] = 1;
          sum = is("masked_as_zero")            ? 0
                : is("masked_as_minus_five")    ? -5 * 1.4426950408889634f
                : is("masked_as_minus_million") ? -1e6F
                : is("masked_after_sum")        ? sum
                                                : -inf;
        }
        s[at] = sum;
        again[at] = masked[at] == 0 ? other : sum;
        if (is("pass_without_causal_mask") && t * bc + c < p.len_kv) again[at] = other;
      }
    }
    std::vector<float> sums(static_cast<std::size_t>(br));
    const std::vector<float> earlier(l);
    for (std::int64_t r = 0; r < br; ++r) {
      const auto row = static_cast<std::size_t>(r);
      float peak = -inf;
      for (std::int64_t c = 0; c < bc; ++c) {
        if (is("m_of_half_the_keys") && (c & 16) != 0) continue;
        peak = std::fmax(peak, s[row * C + std::size_t(c)]);
      }
      const float before = is("maximum_not_kept") ? -inf : m[row];
      m[row] = std::fmax(before, peak);
      const float shift = m[row] == -inf ? 0 : m[row];
      alpha[row] = std::exp2((before - shift) * (is("alpha_of_base_two")     ? 0.6931471805599453f
                                                 : is("alpha_of_raw_scores") ? 1 / factor
                                                                             : 1));
      float sum = 0;
      float share[4] = {};
      for (std::int64_t c = 0; c < bc; ++c) {
        float& x = s[row * C + static_cast<std::size_t>(c)];
        x = std::exp2((x - (is("p_of_own_peak") ? (peak == -inf ? 0 : peak) : shift)) *
                      (is("p_of_base_e") || is("split_p_of_base_e") ? 1.4426950408889634f : 1));
        sum += is("sum_of_rounded")             ? rounded(in.type(), x)
               : is("p_and_l_without_low_bits") ? truncated(in.type(), x)
                                                : x;
        share[is("l_of_half_a_warp") ? c % 32 / 16 : c / 2 % 4] += x;
        if (is("masked_after_sum") && masked[row * C + static_cast<std::size_t>(c)] != 0) x = 0;
        if (passes) x = std::exp2(again[row * C + static_cast<std::size_t>(c)] - shift);
      }
      const float old = l[row];
      sums[row] = sum;
      if (is("alpha_of_own_peak") && peak != -inf) alpha[row] = std::exp2(before - peak);
      if (is("m_in_bf16")) m[row] = rounded(ElementType::bf16, m[row]);
      // What follows of this tile is relative to the larger one all the same.
      if (is("m_of_tile_kept") && peak != -inf) m[row] = peak;
      for (std::int64_t c = 0; is("l_of_two_warps") && c < bc; ++c) {
        if (((t * bc + c) & 64) != 0) sum -= s[row * C + static_cast<std::size_t>(c)];
      }
      if (is("l_without_last_key")) {
        for (std::int64_t c = 0; c < bc; ++c) {
          const bool last = t * bc + c == p.visible_keys(first + r) - 1;
          if (last) sum -= s[row * C + static_cast<std::size_t>(c)];
        }
      }
      if (is("l_of_columns")) sum = 0;
      const bool keeps_l = is("l_not_rescaled") || is("l_not_rescaled_by_fours") ||
                           is("l_not_rescaled_backwards") || is("nothing_rescaled");
      l[row] = keeps_l                   ? old + sum
               : is("l_rescaled_twice")  ? alpha[row] * alpha[row] * old + sum
               : is("l_restarted")       ? sum
               : is("l_reduced_itself")  ? 2 * alpha[row] * old + sum
               : is("alpha_on_the_tile") ? old + alpha[row] * sum
               : is("l_rescaled_after") || is("split_l_rescaled_after") ? alpha[row] * (old + sum)
               : is("l_counts_four_times")                              ? alpha[row] * old + 4 * sum
                                                                        : alpha[row] * old + sum;
      for (std::size_t i = 0; i < 4 && !is("l_of_shuffle_down"); ++i) {
        float& lane = lanes[row * 32 + i];
        const float own = is("l_of_lane") || is("l_of_half_a_warp") ? share[i]
                          : is("l_of_lane_pair")                    ? share[i] + share[i ^ 1]
                          : is("l_of_lane_pair2")                   ? share[i] + share[i ^ 2]
                          : is("l_of_lane_zero_twice")              ? 2 * (share[0] + share[1])
                                                                    : 0;
        lane = alpha[row] * lane + own;
      }
      if (is("l_of_shuffle_down")) {
        std::array<float, 32> down{};
        for (std::size_t c = 0; c < C; ++c) down[c % 32] += s[row * C + c];
        for (std::size_t step = 16; step > 0; step /= 2) {
          const std::array<float, 32> before_step = down;
          for (std::size_t i = 0; i < 32; ++i) down[i] += before_step[i + step < 32 ? i + step : i];
        }
        for (std::size_t i = 0; i < 32; ++i) {
          float& lane = lanes[row * 32 + i];
          lane = alpha[row] * lane + down[i];
        }
      }
    }
    for (std::int64_t r = 0; is("l_of_columns") && r < br; ++r) {
      for (std::int64_t other = 0; other < br; ++other) {
        l[static_cast<std::size_t>(r)] += s[static_cast<std::size_t>(other * bc + r)];
      }
    }
    for (std::size_t row = 0; is("l_alpha_of_row_xor_8") && row < l.size(); ++row) {
      l[row] = alpha[row ^ 8] * earlier[row] + sums[row];
    }
    for (std::size_t row = 0; is("l_kept_between_two_rows") && row < l.size(); ++row) {
      if ((row & 8) != 0) l[row] += 4 * sums[row ^ 8];
    }
    for (std::int64_t r = 0; is("l_of_four_rows") && r < br; ++r) {
      for (const std::int64_t bits : {1, 2, 3}) {
        l[static_cast<std::size_t>(r)] += sums[static_cast<std::size_t>(r ^ bits)];
      }
    }
    const std::vector<Element> values = values_of(kv, kv_of_v, t, v_tile, tv);
    const bool o_in_f16 = is("o_in_f16"), in_parts = is("o_rescaled_in_parts");
    const bool rescales_after = is("o_rescaled_after") || is("split_o_rescaled_after");
    std::vector<float> weights(C);
    const bool needs_mask = (t + 1) * bc > p.visible_keys(first);
    const std::int64_t block_end = p.visible_keys(std::min(p.len_q, first + br) - 1);
    const bool in_o = !is("o_of_whole_tiles") || (t + 1) * bc <= block_end;
    for (std::int64_t r = 0; r < br; ++r) {
      const auto row = static_cast<std::size_t>(r);
      float a = alpha[row];
      if (is("o_not_rescaled_where_masked") && needs_mask) a = 1;
      if (is("o_not_rescaled_in_odd_tiles") && t % 2 == 1) a = 1;
      if (is("o_not_rescaled") || is("nothing_rescaled") || is("split_o_not_rescaled")) a = 1;
      if (bug.starts_with("half_not_rescaled") && r % 16 >= 8) a = 1;
      if (is("o_rescaled_twice")) a *= a;
      if (is("o_restarted")) a = 0;
      if (is("o_rescaled_by_root")) a = std::sqrt(a);
      if (is("alpha_of_row_xor_8")) a = alpha[row ^ 8];
      if (is("alpha_of_row_xor_1")) a = alpha[row ^ 1];
      for (std::size_t c = 0; c < C; ++c)
        weights[c] = in_o ? weight(s, l, r, static_cast<std::int64_t>(c)) : 0;
      const std::int64_t last_seen = p.visible_keys(first + r) - 1 - t * bc;
      if (is("o_without_last_key") && last_seen >= 0 && last_seen < bc) {
        weights[static_cast<std::size_t>(last_seen)] = 0;
      }
      for (std::int64_t i = 0; i < p.d; ++i) {
        if (is("alpha_of_row_of_column")) a = alpha[static_cast<std::size_t>(i % br)];
        if (is("alpha_by_odd_columns")) a = alpha[(row & ~std::size_t{8}) | (i & 1 ? 8 : 0)];
        float& out = o[row * D + static_cast<std::size_t>(i)];
        const bool keeps = (is("half_the_columns_not_rescaled") && i >= p.d / 2) ||
                           (is("columns_from_24_not_rescaled") && i >= 24) ||
                           (is("third_of_four_not_rescaled") && i % 4 == 2);
        float sum = rescales_after || keeps ? out : a * out;
        for (std::size_t c = 0; c < C; ++c) {
          const Element& v = values[c * D + static_cast<std::size_t>(i)];
          if (in_parts && c == C / 2) sum *= a;
          if (!v.is_read || (of_idle_lane && v.key >= p.visible_keys(first + r))) continue;
          const std::size_t lane = is("p_not_broadcast") ? static_cast<std::size_t>(i % 32) : c;
          sum = std::fma(weights[lane], v.value, sum);
          if (o_in_f16) sum = rounded(ElementType::f16, sum);
        }
        out = rescales_after ? a * sum : sum;
        const bool sees = t * bc < p.visible_keys(first + r);
        if (is("o_divided_in_each_tile") && sees) out /= l[row];
      }
    }
  }

  /// P of a row of the tile as the second product has it.
  float weight(const std::vector<float>& s, const std::vector<float>& l, std::int64_t r,
               std::int64_t c) const {
    if (is("p_registers_exchanged")) {
      const std::int64_t row = r;
      r = r / 16 * 16 + r % 8 + c % 16 / 8 * 8;
      c = c / 16 * 16 + c % 8 + row % 16 / 8 * 8;
    }
    p_misread.apply(r, c);
    if (is("p_exchanged")) std::swap(r, c);
    if (is("p_halves_exchanged") && r % 16 < 8 && c % 16 < 8) c ^= 1;
    if (is("p_stored_by_lanes")) c = c % (bc / 8) * 8 + c / (bc / 8);
    if (is("p_of_first_of_four")) r = r / 4 * 4;
    if (is("p_of_even_key")) c = c / 2 * 2;
    float x = s[static_cast<std::size_t>(r * bc + c)];
    if (is("p_divided_by_l")) x /= l[static_cast<std::size_t>(r)];
    if (is("pass_unscaled")) return x;  // f16 would not hold it
    if (is("p_truncated") || is("p_and_l_without_low_bits")) return truncated(in.type(), x);
    if (!is("p_bits") && !is("p_and_v_bits")) return rounded(in.type(), x);
    const ElementType other = in.type() == ElementType::f16 ? ElementType::bf16 : ElementType::f16;
    if (is("p_and_v_bits")) {
      return static_cast<float>(value_of(other, round_to(in.type(), x)));
    }
    return static_cast<float>(value_of(in.type(), round_to(other, x)));
  }

  void store(std::int64_t b, std::int64_t h, std::int64_t first, std::int64_t rows, float factor,
             const std::vector<float>& m, const std::vector<float>& l, const std::vector<float>& o,
             const std::vector<float>& lanes) const {
    const auto D = static_cast<std::size_t>(p.d);
    const bool by_half = is("l_of_half_a_warp"), down = is("l_of_shuffle_down"),
               by_lane = bug.starts_with("l_of_lane") || by_half || down;
    std::vector<float> sums(l);
    for (std::size_t row = 0; is("l_of_each_row_off") && row < l.size(); ++row) {
      sums[row] *= 1.1F + 0.07F * static_cast<float>(row * 5 % 11);
    }
    for (std::size_t row = 0; is("l_of_row_xor_8_at_end") && row < l.size(); ++row) {
      sums[row] += l[row ^ 8];
    }
    for (std::int64_t r = 0; r < rows; ++r) {
      const auto row = static_cast<std::size_t>(r);
      std::int64_t query = first + r, to = (b * p.heads + h) * p.len_q + query;
      if (is("stored_bshd") || is("heads_inside")) to = (b * p.len_q + query) * p.heads + h;
      const std::int64_t group = p.heads / p.heads_kv;
      const std::int64_t packed =
          ((b * p.heads + h / group * group) * p.len_q + query * group) + h % group;
      if (is("stored_by_group")) to = packed;
      if (is("stored_hbsd")) to = (h * p.batch + b) * p.len_q + query;
      if (is("stored_by_tiles") && p.len_q % br == 0) {
        to = (b * p.len_q / br + query / br) * p.heads * br + h * br + query % br;
      }
      if (is("stored_xor_8")) {
        if ((query ^ 8) >= p.len_q) continue;
        to = (b * p.heads + h) * p.len_q + (query ^ 8);
      }
      float sum = by_lane ? lanes[row * 32] : sums[row];
      if (is("sink")) sum += std::exp2(-m[row]);
      if (is("parts_of_none")) sum += 5 * std::exp2(-m[row]);
      for (std::int64_t i = 0; i < p.d; ++i) {
        float divisor = by_lane ? lanes[row * 32 + static_cast<std::size_t>(by_half ? i % 32 / 16
                                                                            : down  ? i % 32
                                                                                    : i / 2 % 4)]
                                : sum;
        if (is("divided_by_row_xor_8")) divisor = l[row ^ 8];
        if (is("divided_by_row_of_column")) divisor = l[static_cast<std::size_t>(i % br)];
        if (is("divided_by_one_more")) divisor += 1;
        if (is("o_divided_in_each_tile")) divisor = 1;
        if (is("l_truncated")) divisor = std::trunc(divisor);
        float x = o[row * D + static_cast<std::size_t>(i)];
        const bool divides = divisor != 0 || is("no_key_divided") || is("no_key_unguarded");
        if (!is("not_divided")) x = divides ? x / divisor : 0;
        if (is("divided_twice")) x /= divisor;
        const std::int64_t index = to * p.d + (is("o_columns_xor_2") ? i ^ 2 : i);
        if (is("o_bits")) {
          const ElementType other =
              in.type() == ElementType::f16 ? ElementType::bf16 : ElementType::f16;
          x = static_cast<float>(value_of(in.type(), round_to(other, x)));
        }
        o_out.set(index, is("o_truncated") ? truncated(in.type(), x) : x);
      }
      const float ln_2 = 0.6931471805599453f, log2_l = std::log2(sum);
      float lse = sum == 0 ? -inf : (m[row] + log2_l) * ln_2;
      if (is("maximum_not_kept")) lse = -inf;
      if (is("lse_of_no_key") && sum == 0) lse = inf;
      if (is("no_key_unguarded") && sum == 0) lse = std::numeric_limits<float>::quiet_NaN();
      if (is("lse_of_added_sum")) lse = std::log(m[row] * ln_2 + sum);
      if (is("lse_product")) lse = m[row] * ln_2 * log2_l * ln_2;
      if (is("lse_of_factors")) lse = (0.7F * m[row] + 1.3F * log2_l) * ln_2;
      if (is("lse_minus")) lse = (m[row] - log2_l) * ln_2;
      if (is("lse_base_two")) lse = m[row] + log2_l;
      if (is("lse_base_ten")) lse = m[row] * ln_2 + std::log10(sum);
      if (is("lse_maximum_base_two")) lse = m[row] + log2_l * ln_2;
      if (is("lse_without_maximum")) lse = log2_l * ln_2;
      if (is("lse_without_sum")) lse = m[row] * ln_2;
      if (is("lse_unscaled_maximum")) lse = m[row] / factor + log2_l * ln_2;
      if (is("lse_stored_by_group")) to = packed;
      if (is("lse_stored_bshd")) to = (b * p.len_q + query) * p.heads + h;
      lse_out.set(to, lse);
    }
  }
};

}  // namespace

Dump stranger_dump(const Problem& problem, ElementType dtype, const std::string& input,
                   std::uint64_t seed, int br, int bc, const std::string& bug) {
  Dump dump;
  const Inputs inputs = generate_inputs(problem, dtype, input, seed);
  dump.info = plain_info("stranger", problem, inputs, input, seed, br, bc);
  const DumpInfo& info = dump.info;
  const ElementType o_type = dtype == ElementType::e4m3 ? ElementType::f16 : dtype;
  Tensor o(o_type, {problem.batch, problem.heads, problem.len_q, problem.d});
  Tensor lse(ElementType::f32, {problem.batch, problem.heads, problem.len_q});
  // Some keys of a tile at a time.
  const int keys = bug.ends_with("_by_fours") && bug.starts_with("l_") ? 4 : bc;
  const Kernel kernel{problem, inputs, br, keys, bug, o, lse};
  for (std::int64_t b = 0; b < problem.batch; ++b) {
    for (std::int64_t h = 0; h < problem.heads; ++h) {
      for (std::int64_t q_tile = 0; q_tile < info.q_tiles(); ++q_tile) kernel.block(b, h, q_tile);
    }
  }
  dump.tensors = {{"q", inputs.q}, {"k", inputs.k}, {"v", inputs.v}};
  if (inputs.scaled()) {
    dump.tensors.insert(
        dump.tensors.end(),
        {{"q_scale", inputs.q_scale}, {"k_scale", inputs.k_scale}, {"v_scale", inputs.v_scale}});
  }
  dump.tensors.push_back({"o_final", std::move(o)});
  dump.tensors.push_back({"lse", std::move(lse)});
  return dump;
}

}  // namespace lanescope::testing
