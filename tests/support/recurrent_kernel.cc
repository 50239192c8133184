#include "tests/support/recurrent_kernel.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/support/infinity.h"

namespace lanescope::testing {
namespace {

constexpr float log2_e = 1.4426950408889634f, ln_2 = 0.6931471805599453f;

using Values = std::vector<float>;

class Block {
 public:
  Block(Dump& dump, const Inputs& inputs, std::int64_t block, const std::string& style)
      : dump_(dump),
        info_(dump.info),
        p_(dump.info.problem),
        inputs_(inputs),
        block_(block),
        at_(info_.place(block)),
        style_(style),
        br_(info_.br),
        bc_(info_.bc),
        m_(size(br_), start()),
        part_(size(br_) * lanes_of_row),
        o_(size(br_) * size(p_.d)) {}

  void run() {
    const std::vector<int> order = tiles();
    const bool two_chains = has("two_chains");
    for (const int tile : order) {
      step(tile, tile == order.front());
      if (two_chains) exchange_chains();
    }
    if (two_chains) merge_chains();
    store();
  }

 private:
  static std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }
  bool is(const char* name) const { return style_ == name; }
  bool has(const char* part) const { return style_.find(part) != std::string::npos; }

  void exchange_chains() {
    if (other_m_.empty()) {
      other_m_.assign(m_.size(), start());
      other_part_.assign(part_.size(), 0);
      other_o_.assign(o_.size(), 0);
    }
    std::swap(m_, other_m_);
    std::swap(part_, other_part_);
    std::swap(o_, other_o_);
  }
  /// The two chains become one.
  void merge_chains() {
    for (std::size_t row = 0; row < other_m_.size(); ++row) {
      const float top = std::fmax(m_[row], other_m_[row]), shift = top == -inf ? 0 : top;
      const float own = exp2(m_[row] - shift),
                  other = is("two_chains_unweighted") ? 1 : exp2(other_m_[row] - shift);
      m_[row] = top;
      const auto add = [&](Values& to, const Values& from, std::size_t count) {
        for (std::size_t i = row * count; i < (row + 1) * count; ++i) {
          to[i] = own * to[i] + other * from[i];
        }
      };
      add(part_, other_part_, lanes_of_row);
      add(o_, other_o_, size(p_.d));
    }
  }

  float start() const {
    if (is("from_lowest_of_f16")) return -1e4f;
    return has("from_lowest") ? -1e30f : is("m_from_zero") ? 0 : is("m_from_minus_50") ? -50 : -inf;
  }
  float threshold() const {
    return has("lazy_8") ? 8 : is("lazy_20") ? 20 : is("m_stays") ? inf : -inf;
  }
  /// What m times is in base 2, and s.
  float unit_of_m() const { return has("raw") ? raw() : has("base_e") ? log2_e : 1; }
  float unit_of_s() const { return is("base_e") ? log2_e : 1; }
  float raw() const { return log2_e / std::sqrt(static_cast<float>(p_.d)); }

  std::vector<int> tiles() const {
    std::int64_t keys = 0;
    for (std::int64_t row = 0; row < info_.rows(at_); ++row) {
      keys = std::max(keys, p_.visible_keys(info_.query_of(at_, row)));
    }
    std::vector<int> all(size((keys + bc_ - 1) / bc_));
    std::iota(all.begin(), all.end(), 0);
    if (has("backwards")) std::reverse(all.begin(), all.end());
    if (is("odd_tiles_last")) {
      std::stable_partition(all.begin(), all.end(), [](int tile) { return tile % 2 == 0; });
    }
    if (is("last_tile_first") && !all.empty()) std::rotate(all.begin(), all.end() - 1, all.end());
    return all;
  }

  float element(const Tensor& x, std::int64_t row, std::int64_t rows, std::int64_t col) const {
    return row < rows ? static_cast<float>(x.at(row * p_.d + col)) : 0;
  }

  float exp2(float x) const {
    if (x == -inf) return 0;
    if (!is("polynomial")) return std::exp2(x);
    const float whole = std::floor(x), f = x - whole;  // a minimax polynomial of degree 3
    return std::ldexp(
        1.0f + f * (0.695146143436431884765625f +
                    f * (0.227564394474029541015625f + f * 0.077119089663028717041015625f)),
        static_cast<int>(whole));
  }

  Values scores(std::int64_t tile) const {
    const std::int64_t first_q = info_.first_q_row(at_), first_k = info_.first_kv_row(at_, tile);
    Values s(size(br_) * size(bc_));
    for (std::int64_t row = 0; row < br_; ++row) {
      const bool real = row < info_.rows(at_);
      for (std::int64_t col = 0; col < bc_; ++col) {
        const std::int64_t key = tile * bc_ + col;
        float dot = 0;
        for (std::int64_t i = 0; real && key < p_.len_kv && i < p_.d; ++i) {
          dot = std::fma(static_cast<float>(inputs_.q.at((first_q + row) * p_.d + i)),
                         static_cast<float>(inputs_.k.at((first_k + col) * p_.d + i)), dot);
        }
        std::int64_t seen = real ? p_.visible_keys(info_.query_of(at_, row)) : p_.len_kv;
        if (is("masked_in_p_alone")) seen = p_.len_kv;
        s[size(row * bc_ + col)] = key < seen ? dot * (raw() / unit_of_s()) : -inf;
      }
    }
    return s;
  }

  /// The maxima that the rows of the tile take, in base 2.
  Values tops(const Values& s) const {
    Values top(size(br_), -inf);
    for (std::int64_t row = 0; row < br_; ++row) {
      for (std::int64_t col = 0; col < bc_; ++col) {
        if (is("m_of_half") && col >= bc_ / 2) continue;
        if (is("m_without_last_key") && col == bc_ - 1) continue;
        float& own = top[size(row)];
        const float x = s[size(row * bc_ + col)] * unit_of_s();
        own = is("m_of_magnitudes") && x != -inf ? std::fmax(own, std::abs(x)) : std::fmax(own, x);
      }
    }
    const std::int64_t group = is("maximum_of_tile") ? br_ : is("maximum_of_4_rows") ? 4 : 1;
    Values shared = top;
    for (std::int64_t row = 0; row < br_; ++row) {
      for (std::int64_t other = row / group * group; other < (row / group + 1) * group; ++other) {
        shared[size(row)] = std::fmax(shared[size(row)], top[size(other)]);
      }
      if (is("m_of_row_xor_1")) shared[size(row)] = top[size(row ^ 1)];
      if (is("m_above_by_1")) shared[size(row)] += 1;
      if (is("m_below_by_8")) shared[size(row)] -= 8;
      if (is("m_above_by_30")) shared[size(row)] += 30;
      if (is("m_above_by_row")) shared[size(row)] += 0.5f * static_cast<float>(row % 3);
    }
    return shared;
  }

  /// Whether a row that decides together with `row` takes its maximum.
  bool others_rise(std::int64_t row, const Values& top, const Values& before) const {
    for (std::int64_t other = 0; other < br_; ++other) {
      const bool together = has("by_4_rows") ? other / 4 == row / 4
                            : has("by_lane") ? other / 16 == row / 16 && other % 8 == row % 8
                                             : false;
      const float m = before[size(other)];
      const float rise = top[size(other)] - m * unit_of_m();
      if (together && top[size(other)] > -inf && (rise > threshold() || m == start())) return true;
    }
    return false;
  }

  void step(std::int64_t tile, bool first) {
    const Values s = scores(tile), before = m_;
    Values top = tops(s);
    const std::int64_t partner = tile ^ 1;
    if (has("two_tiles_in_a_step") && partner < static_cast<std::int64_t>(tiles().size())) {
      const Values more = tops(scores(partner));
      for (std::size_t row = 0; row < top.size(); ++row) top[row] = std::fmax(top[row], more[row]);
    }
    Values p(s.size()), alpha(size(br_)), traced_l(size(br_) * lanes_of_row), sums(size(br_));
    for (std::int64_t row = 0; row < br_; ++row) {
      const float own =
          (is("m_of_tile_before") && !first ? last_top_ : top)[size(row)] / unit_of_m();
      float& m = m_[size(row)];
      const bool rises =
          (own - m) * unit_of_m() > threshold() || m == start() || others_rise(row, top, before);
      if (is("m_of_tile_alone")) {
        m = own;
      } else if (rises && !(is("m_lost_in_odd_tiles") && tile % 2 == 1)) {
        m = std::fmax(m, own);
      }
      if (is("m_falls") && tile > 0) m -= 0.5f;
    }
    last_top_ = top;
    for (std::int64_t row = 0; row < br_; ++row) weigh(row, tile, s, before, p, alpha);
    for (std::int64_t row = 0; row < br_; ++row) sum_up(row, p, alpha, traced_l, sums);
    Values held_p = p;
    for (std::int64_t row = 0; row < br_; ++row) multiply(row, tile, held_p, alpha, sums);
    show(tile, s, before, alpha, held_p, traced_l);
  }

  void weigh(std::int64_t row, std::int64_t tile, const Values& s, const Values& before, Values& p,
             Values& alpha) const {
    const float m = m_[size(row)], shift = m == -inf ? 0 : m * unit_of_m();
    alpha[size(row)] = exp2(before[size(row)] * unit_of_m() - shift);
    if (has("first_alpha_1") && before[size(row)] == -inf) alpha[size(row)] = 1;
    if (is("alpha_narrow")) {
      alpha[size(row)] = static_cast<float>(
          value_of(ElementType::f16, round_to(ElementType::f16, alpha[size(row)])));
    }
    for (std::int64_t col = 0; col < bc_; ++col) {
      float x = exp2(s[size(row * bc_ + col)] * unit_of_s() - shift);
      const bool seen =
          row >= info_.rows(at_) || tile * bc_ + col < p_.visible_keys(info_.query_of(at_, row));
      if (is("masked_in_p_alone") && !seen) x = 0;
      if (has("p_times_1_01")) x *= 1.01f;
      if (is("p_rough")) x *= 1 + (col % 2 == 0 ? 1e-3f : -1e-3f);
      p[size(row * bc_ + col)] = x;
    }
  }

  void sum_up(std::int64_t row, const Values& p, const Values& alpha, Values& traced,
              Values& sums) {
    float old = 0, total = 0;
    for (int lane = 0; lane < lanes_of_row; ++lane) {
      float& part = part_[size(row * lanes_of_row + lane)];
      old += part;
      float own = 0;
      for (std::int64_t col = lane; col < bc_; col += lanes_of_row) {
        const float x = p[size(row * bc_ + col)];
        const bool rounds = is("sum_of_rounded");
        own += rounds ? static_cast<float>(value_of(info_.dtype, round_to(info_.dtype, x))) : x;
      }
      part = part * alpha[size(row)] + own;
      total += part;
    }
    old_sum_.resize(size(br_));
    old_sum_[size(row)] = old;
    sums[size(row)] = total;
    for (int lane = 0; lane < lanes_of_row; ++lane) {
      float& shown = traced[size(row * lanes_of_row + lane)];
      shown = total;
      if (has("sum_in_epilogue")) shown = part_[size(row * lanes_of_row + lane)];
      if (is("l_garbage_in_lanes") && lane > 0) shown = total * 3;
      if (is("l_shown_early")) shown = old;
    }
  }

  void multiply(std::int64_t row, std::int64_t tile, Values& p, const Values& alpha,
                const Values& sums) {
    const std::int64_t first_v = info_.first_kv_row(at_, tile);
    const float inverse = sums[size(row)] == 0 ? 0 : 1 / sums[size(row)];
    const bool early = is("weights_divided"), output = is("output_divided");
    float rescale = alpha[size(row)], lift = 1;
    if (is("of_first_maximum")) {
      first_m_.resize(size(br_), -inf);
      float& first = first_m_[size(row)];
      if (first == -inf) first = m_[size(row)];
      lift = first == -inf ? 1 : std::exp2(m_[size(row)] - first);
      rescale = 1;
    }
    if (early || output) rescale *= old_sum_[size(row)] * (early ? inverse : 1);
    for (std::int64_t col = 0; col < bc_; ++col) {
      float& x = p[size(row * bc_ + col)];
      if (early) x *= inverse;
      x = static_cast<float>(value_of(info_.dtype, round_to(info_.dtype, x)));
    }
    for (std::int64_t i = 0; i < p_.d; ++i) {
      float& o = o_[size(row * p_.d + i)];
      if (!has("rescale_dropped") || i % 2 == 0) o *= rescale;
      for (std::int64_t col = 0; col < bc_; ++col) {
        if (tile * bc_ + col >= p_.len_kv) continue;
        o = std::fma(lift * p[size(row * bc_ + col)],
                     static_cast<float>(inputs_.v.at((first_v + col) * p_.d + i)), o);
      }
      if (output) o *= inverse;
    }
  }

  void put(SiteId id, std::int64_t tile, const Values& values) {
    for (Dump::Entry& entry : dump_.tensors) {
      if (entry.name != name_of(id)) continue;
      const auto count = static_cast<std::int64_t>(values.size());
      const std::int64_t first = (block_ * info_.kv_tiles() + tile) * count;
      for (std::int64_t i = 0; i < count; ++i) entry.tensor.set(first + i, values[size(i)]);
    }
  }
  static Values in_lanes(const Values& rows) {
    Values all;
    for (const float x : rows) all.insert(all.end(), lanes_of_row, x);
    return all;
  }

  /// K of the tile, where it is traced.
  void show_keys(std::int64_t tile, std::int64_t traced_as) {
    Values keys;
    for (std::int64_t col = 0; col < bc_; ++col) {
      const std::int64_t key = tile * bc_ + col, row = info_.first_kv_row(at_, tile) + col;
      for (std::int64_t i = 0; i < p_.d; ++i) {
        keys.push_back(key < p_.len_kv ? static_cast<float>(inputs_.k.at(row * p_.d + i)) : 0);
      }
    }
    put(SiteId::k_smem, traced_as, keys);
  }
  void show(std::int64_t tile, const Values& s, const Values& before, const Values& alpha,
            const Values& p, const Values& l) {
    if (has("by_visit")) {
      const std::int64_t visit = std::ssize(tiles()) - 1 - tile;
      show_keys(tile, visit);
      tile = visit;
    }
    put(SiteId::s, tile, s);
    put(SiteId::m_prev, tile, in_lanes(is("m_prev_shown_late") ? m_ : before));
    Values m = in_lanes(m_);
    if (is("m_wrong_in_a_lane")) {
      for (std::size_t i = 3; i < m.size(); i += lanes_of_row) m[i] += 1;
    }
    put(SiteId::m, tile, m);
    put(SiteId::alpha, tile,
        in_lanes(is("alpha_shown_early") ? last_alpha_.empty() ? alpha : last_alpha_ : alpha));
    last_alpha_ = alpha;
    put(SiteId::p, tile, is("p_shown_of_tile_before") && !last_p_.empty() ? last_p_ : p);
    last_p_ = p;
    put(SiteId::l, tile, l);
    Values o = o_;
    if (is("o_of_last_row_shown_twice")) {
      std::copy_n(o.begin(), p_.d, o.begin() + p_.d);
    }
    put(SiteId::o, tile, o);
  }

  void store() {
    Tensor &o = tensor(SiteId::o_final), &lse = tensor(SiteId::lse);
    const std::int64_t first = info_.first_q_row(at_);
    const bool divided = is("weights_divided") || is("output_divided");
    for (std::int64_t row = 0; row < info_.rows(at_); ++row) {
      float sum = 0;
      for (int lane = 0; lane < lanes_of_row; ++lane) sum += part_[size(row * lanes_of_row + lane)];
      for (std::int64_t i = 0; i < p_.d; ++i) {
        float x = o_[size(row * p_.d + i)];
        if (is("of_first_maximum") && sum != 0) x *= std::exp2(first_m_[size(row)] - m_[size(row)]);
        const float out = divided ? x : sum == 0 ? 0 : x / sum;
        const bool off = is("backwards_and_stored_wrong") && row == 3 && i == 5;
        o.set((first + row) * p_.d + i, off ? out + 0.25f : out);
      }
      lse.set(first + row, sum == 0 ? -inf : (m_[size(row)] * unit_of_m() + std::log2(sum)) * ln_2);
    }
  }
  Tensor& tensor(SiteId id) {
    return std::find_if(dump_.tensors.begin(), dump_.tensors.end(),
                        [&](const Dump::Entry& entry) { return entry.name == name_of(id); })
        ->tensor;
  }

  Dump& dump_;
  const DumpInfo& info_;
  const Problem& p_;
  const Inputs& inputs_;
  std::int64_t block_;
  BlockPlace at_;
  const std::string& style_;
  std::int64_t br_, bc_;
  Values m_, part_, o_, last_top_, last_alpha_, last_p_, old_sum_;
  Values first_m_;                         ///< of rows that have seen a key
  Values other_m_, other_part_, other_o_;  ///< of the other chain
};

}  // namespace

void run_recurrent_block(Dump& dump, const Inputs& inputs, std::int64_t block,
                         const std::string& style) {
  Block(dump, inputs, block, style).run();
}

}  // namespace lanescope::testing
