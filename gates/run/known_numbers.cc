#include "gates/run/known_numbers.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace lanescope {
namespace {

constexpr double log2_e = 1.4426950408889634;

/// Of a score below its row's maximum: what falls deeper may have a weight that is 0 in fp32.
constexpr double largest_fall = 64;

class Numbers {
 public:
  Numbers(const Problem& problem, const Inputs& inputs, ScaledQueries queries)
      : p_(problem), inputs_(inputs), queries_(queries) {
    lookout_.kinds.resize(known_count);
    for (ptx::KnownKind& kind : lookout_.kinds) {
      kind.elements = static_cast<std::uint32_t>(p_.queries() * p_.len_kv);
    }
    for (int i = 0; i < 8; ++i) {
      of(sum_kind(i)).elements = static_cast<std::uint32_t>(p_.queries());
    }
    for (const Known kind : {Known::sums, Known::rounded_sums, Known::outputs}) {
      of(kind).is_last = true;
    }
    of(Known::outputs).elements = static_cast<std::uint32_t>(p_.queries() * p_.d);
  }

  ptx::Lookout collect() {
    for (std::int64_t row = 0; row < p_.queries(); ++row) add_row(row);
    set_widths();
    for (ptx::KnownKind& kind : lookout_.kinds) {
      std::sort(kind.numbers.begin(), kind.numbers.end(),
                [](const auto& a, const auto& b) { return a.value < b.value; });
      if (!are_distinct(kind)) kind.numbers.clear();
    }
    return std::move(lookout_);
  }

 private:
  ptx::KnownKind& of(Known kind) { return lookout_.kinds[static_cast<std::size_t>(kind)]; }
  static Known sum_kind(int i) { return static_cast<Known>(static_cast<int>(Known::sums) + i); }
  void add(Known kind, double value, std::int64_t element) {
    if (value == 0 || !std::isfinite(value)) return;  // many are, for other reasons
    of(kind).numbers.push_back({static_cast<float>(value), static_cast<std::uint32_t>(element)});
  }

  std::vector<double> row_of(const Tensor& tensor, std::int64_t row) const {
    std::vector<double> values(static_cast<std::size_t>(p_.d));
    tensor.read(row * tensor.dims.back(), values);
    return values;
  }

  void add_row(std::int64_t row) {
    const std::int64_t head = row / p_.len_q;  // of all batches
    const std::int64_t head_kv = head / p_.heads * p_.heads_kv + p_.kv_head(head % p_.heads);
    const auto keys = static_cast<std::size_t>(p_.visible_keys(row % p_.len_q));
    if (keys == 0) return;
    std::vector<double> q = row_of(inputs_.q, row);
    const double root = std::sqrt(static_cast<double>(p_.d));
    const double before = queries_ == ScaledQueries::no         ? 1
                          : queries_ == ScaledQueries::by_scale ? 1 / root
                                                                : log2_e / root;
    if (queries_ != ScaledQueries::no) {
      for (double& x : q) x = value_of(inputs_.q.type, round_to(inputs_.q.type, x * before));
    }
    std::vector<double> products(keys);
    for (std::size_t key = 0; key < keys; ++key) {
      const std::vector<double> k =
          row_of(inputs_.k, head_kv * p_.len_kv + static_cast<std::int64_t>(key));
      for (std::size_t i = 0; i < q.size(); ++i) {
        products[key] += q[i] * k[i];
        squares_ += q[i] * k[i] * q[i] * k[i];
      }
      ++dots_;
    }
    const double scales =
        inputs_.scaled() ? inputs_.q_scale.at(head) * inputs_.k_scale.at(head_kv) : 1;
    const double scale = scales / root / before;
    largest_scale_ = std::max(largest_scale_, scale);
    const double top = *std::max_element(products.begin(), products.end());
    double running = -std::numeric_limits<double>::infinity();
    std::vector<double> kept = {0};  // maxima that later keys may still be relative to
    for (std::size_t key = 0; key < keys; ++key) {
      const double product = products[key], score = product * scale;
      const std::int64_t element = row * p_.len_kv + static_cast<std::int64_t>(key);
      add(Known::products, product, element);
      add(Known::scores, score, element);
      add(Known::scores_in_base_2, score * log2_e, element);
      if ((top - product) * scale <= largest_fall && !may_be_maximum(products, key)) {
        const auto add_weight = [&](double maximum) {
          const double x = (product - maximum) * scale;
          if (x == 0) return;  // where the key has the maximum, which it may not
          add(Known::exponents, x * log2_e, element);
          add(Known::natural_exponents, x, element);
          add(Known::weights, std::exp(x), element);
        };
        each_maximum(products, key, add_weight);
        for (const double maximum : kept) {
          if (maximum <= product) add_weight(maximum);  // the others are among them
        }
      }
      if (product > running) kept.push_back(running = product);
    }
    for (const double maximum : kept)
      add_sums(row, head_kv, products, scale, maximum, maximum == top);
  }

  /// What comes of the weights of a row, relative to `maximum`.
  void add_sums(std::int64_t row, std::int64_t head_kv, const std::vector<double>& products,
                double scale, double maximum, bool is_top) {
    double sum = 0;
    std::vector<double> output(static_cast<std::size_t>(p_.d));
    for (std::size_t key = 0; key < products.size(); ++key) {
      const double weight = std::exp((products[key] - maximum) * scale);
      sum += weight;
      if (!is_top) continue;
      const std::vector<double> v =
          row_of(inputs_.v, head_kv * p_.len_kv + static_cast<std::int64_t>(key));
      for (std::size_t i = 0; i < v.size(); ++i) output[i] += weight * v[i];
    }
    if (sum < 1 + 0x1p-8) return;  // all but 1, which many numbers are
    for (const int first : {0, 4}) {
      if (first > 0 && !is_top) continue;
      add(sum_kind(first), sum, row);
      add(sum_kind(first + 1), 1 / sum, row);
      add(sum_kind(first + 2), std::log2(sum), row);
      add(sum_kind(first + 3), std::log(sum), row);
    }
    for (std::size_t i = 0; is_top && i < output.size(); ++i) {
      add(Known::outputs, output[i], row * p_.d + static_cast<std::int64_t>(i));
    }
  }

  /// Whether a tile, or the tiles up to it or from it on, may have its maximum there: its weight is
  /// 1 then, which many numbers are.
  static bool may_be_maximum(const std::vector<double>& values, std::size_t key) {
    constexpr std::size_t smallest_tile = 8;
    std::size_t begin = key, end = key + 1;
    while (begin > 0 && values[begin - 1] <= values[key]) --begin;
    while (end < values.size() && values[end] <= values[key]) ++end;
    return begin == 0 || end == values.size() || end - begin >= smallest_tile;
  }

  /// The maxima of all ranges that have `key` in them: upwards from it, whichever neighbour of the
  /// range is the lower one is taken in first.
  template <class F>
  static void each_maximum(const std::vector<double>& values, std::size_t key, F&& f) {
    std::size_t begin = key, end = key + 1;
    double maximum = values[key];
    f(maximum);
    while (begin > 0 || end < values.size()) {
      const bool left = end == values.size() || (begin > 0 && values[begin - 1] <= values[end]);
      const double next = left ? values[--begin] : values[end++];
      if (next <= maximum) continue;
      maximum = next;
      f(maximum);
    }
  }

  /// Whether most can be told from the one before.
  static bool are_distinct(const ptx::KnownKind& kind) {
    std::size_t distinct = 0;
    double last = -std::numeric_limits<double>::infinity();
    for (const ptx::KnownNumber& number : kind.numbers) {
      distinct += number.value - last > kind.absolute + kind.relative * std::abs(number.value);
      last = number.value;
    }
    return 2 * distinct > kind.numbers.size();
  }

  void set_widths() {
    // A sum of d products rounds some d times by 2^-24 of what it has come to, which is about as
    // large as the root of the squares; matrix units less often.
    const double root = std::sqrt(squares_ / static_cast<double>(std::max<std::int64_t>(1, dots_)));
    const double of_product = 6 * 0x1p-24 * root * std::sqrt(static_cast<double>(p_.d)) / 2;
    constexpr double of_number = 0x1p-22;
    const double of_exponent = 2 * of_product * largest_scale_;
    const auto set = [&](Known kind, double absolute, double relative) {
      of(kind).absolute = absolute;
      of(kind).relative = relative;
    };
    set(Known::products, of_product, of_number);
    set(Known::scores, of_product * largest_scale_, of_number);
    set(Known::scores_in_base_2, of_product * largest_scale_ * log2_e, of_number);
    set(Known::exponents, of_exponent * log2_e, of_number);
    set(Known::natural_exponents, of_exponent, of_number);
    set(Known::weights, 0, of_exponent + 4 * of_number);
    set(Known::outputs, 2 * (of_exponent + 4 * of_number), 0);
    for (const int first : {0, 4}) {
      const double of_sum = first == 0 ? 0x1p-16 : 0x1p-11;
      set(sum_kind(first), 0, of_sum);
      set(sum_kind(first + 1), 0, of_sum);
      set(sum_kind(first + 2), of_sum, 0);
      set(sum_kind(first + 3), of_sum, 0);
    }
  }

  const Problem& p_;
  const Inputs& inputs_;
  const ScaledQueries queries_;
  ptx::Lookout lookout_;
  double squares_ = 0, largest_scale_ = 0;
  std::int64_t dots_ = 0;
};

}  // namespace

bool may_be_looked_for(const Problem& problem, std::int64_t most_products) {
  return problem.queries() * problem.len_kv * problem.d <= most_products;
}

ptx::Lookout lookout_for(const Problem& problem, const Inputs& inputs, ScaledQueries queries) {
  return Numbers(problem, inputs, queries).collect();
}

}  // namespace lanescope
