#include "reference/inputs.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "reference/error.h"
#include "reference/quantise.h"
#include "reference/random_stream.h"

namespace lanescope {
namespace {

void shuffle(std::vector<double>& deck, const Stream& stream) {
  for (std::size_t i = deck.size() - 1; i > 0; --i) {
    std::swap(deck[i], deck[stream.bits(i) % (i + 1)]);
  }
}

/// Both signs by turns, in 12 octaves: each from a range of bits of its own.
void fill_counting_f32(Tensor& tensor, const Stream& stream) {
  const std::int64_t size = tensor.size(), ranges = (size + 1) / 2;
  const std::int64_t end = round_to(ElementType::f32, 4.0), begin = end - 12 * (1 << 23);
  std::vector<double> deck;
  for (std::int64_t i = 0; i < ranges; ++i) {
    const std::int64_t first = begin + (end - begin) * i / ranges;
    const std::int64_t width = begin + (end - begin) * (i + 1) / ranges - first;
    const double part = stream.uniform(static_cast<std::uint64_t>(size + i));
    const auto bits = first + static_cast<std::int64_t>(part * static_cast<double>(width));
    deck.push_back(value_of(ElementType::f32, static_cast<std::uint32_t>(bits)));
    deck.push_back(-deck.back());
  }
  shuffle(deck, stream);
  for (std::int64_t i = 0; i < size; ++i) tensor.set(i, deck[static_cast<std::size_t>(i)]);
}

void fill_counting(Tensor& tensor, const Stream& stream) {
  if (tensor.type == ElementType::f32) return fill_counting_f32(tensor, stream);
  const Format format = format_of(tensor.type);
  const std::int64_t size = tensor.size();
  const std::int64_t octave = std::int64_t{1} << format.fraction_bits;
  const std::int64_t available = 2 - format.min_exponent;
  const std::int64_t needed = (size + 2 * octave - 1) / (2 * octave);
  const std::int64_t octaves = std::min(std::max<std::int64_t>(needed, 12), available);

  const std::uint32_t end = round_to(tensor.type, 4.0);
  std::vector<double> deck;
  for (auto bits = static_cast<std::uint32_t>(end - octaves * octave); bits < end; ++bits) {
    deck.push_back(value_of(tensor.type, bits));
    deck.push_back(-deck.back());
  }
  shuffle(deck, stream);
  for (std::int64_t i = 0; i < size; ++i) {
    tensor.set(i, deck[static_cast<std::size_t>(i) % deck.size()]);
  }
}

/// Copies the first key of every head to all its keys.
void repeat_first_key(Tensor& k) {
  const std::int64_t keys = k.dims[2], d = k.dims[3];
  for (std::int64_t i = 0; i < k.size(); ++i) {
    const std::int64_t head = i / (keys * d);
    k.set(i, k.at(head * keys * d + i % d));
  }
}

/// By how much scores rise at least from one group of keys to the next.
struct Rise {
  double least;
  std::int64_t group;
};
constexpr Rise rising = {1.5, 32};
/// e^-100 is 0 in f32, and e^100 infinite.
constexpr Rise steep = {100, 16};

/// Two columns carry the rise: K holds t = j / group as (16·(t / 16), t mod 16), exact even in
/// types of few bits, and Q holds one positive factor c for both, so that the score grows by c /
/// sqrt(d), up to 1 more than the least rise, from one group to the next; as far as the type has
/// such a c. The other columns add noise of deviation 0.1 to the score, more than ten deviations
/// short of undoing a step.
void fill_rising(Inputs& inputs, std::uint64_t seed, bool fine, const Rise& rise_of) {
  constexpr std::int64_t low_part = 16;
  const std::int64_t group = rise_of.group;
  const double most = inputs.type() == ElementType::e4m3 ? 448 : 65504;
  fill_normal(inputs.q, Stream(seed, 0, fine), 1.0);
  fill_normal(inputs.k, Stream(seed, 1, fine), 0.1);
  const std::int64_t d = inputs.q.dims[3], keys = inputs.k.dims[2];
  const std::int64_t carriers = std::min<std::int64_t>(d, 2);
  const Stream factors(seed, 3);
  for (std::int64_t row = 0; row < inputs.q.size() / d; ++row) {
    const double rise = rise_of.least + factors.uniform(static_cast<std::uint64_t>(row));
    for (std::int64_t column = 0; column < carriers; ++column) {
      inputs.q.set(row * d + column, std::min(most, rise * std::sqrt(static_cast<double>(d))));
    }
  }
  for (std::int64_t row = 0; row < inputs.k.size() / d; ++row) {
    const std::int64_t t = row % keys / group;
    const std::int64_t low = carriers == 2 ? t % low_part : t;
    inputs.k.set(row * d, static_cast<double>(low));
    if (carriers == 2) inputs.k.set(row * d + 1, static_cast<double>(t - low));
  }
}

/// Every row of Q is a key, drawn from all of its head of K, times what makes its score with that
/// key 200; those with the others have a deviation of about 200 / sqrt(d).
void fill_lone(Inputs& inputs, std::uint64_t seed, bool fine) {
  fill_normal(inputs.k, Stream(seed, 1, fine), 1.0);
  const Stream keys(seed, 3);
  const std::int64_t heads = inputs.q.dims[1], rows = inputs.q.dims[2], d = inputs.q.dims[3];
  const std::int64_t heads_kv = inputs.k.dims[1], len_kv = inputs.k.dims[2];
  for (std::int64_t row = 0; row < inputs.q.size() / d; ++row) {
    const std::int64_t head = row / rows;  // of all batches
    const std::int64_t head_kv = head / heads * heads_kv + head % heads * heads_kv / heads;
    const auto drawn =
        keys.bits(static_cast<std::uint64_t>(row)) % static_cast<std::uint64_t>(len_kv);
    const std::int64_t key = head_kv * len_kv + static_cast<std::int64_t>(drawn);
    double squares = 0;
    for (std::int64_t column = 0; column < d; ++column) {
      squares += inputs.k.at(key * d + column) * inputs.k.at(key * d + column);
    }
    // Of few columns a key may be next to nothing, and so then is its score.
    const auto size = static_cast<double>(d);
    const double factor = 200 * std::sqrt(size) / std::max(squares, size / 4);
    for (std::int64_t column = 0; column < d; ++column) {
      inputs.q.set(row * d + column, factor * inputs.k.at(key * d + column));
    }
  }
}

/// In the first two columns Q holds a number and K the same with the other sign, of a size that
/// makes the score −150; the others add noise of deviation 1.
void fill_low(Inputs& inputs, std::uint64_t seed, bool fine) {
  fill_normal(inputs.q, Stream(seed, 0, fine), 1.0);
  fill_normal(inputs.k, Stream(seed, 1, fine), 1.0);
  const std::int64_t d = inputs.q.dims[3], carriers = std::min<std::int64_t>(d, 2);
  const double size = std::sqrt(150 * std::sqrt(static_cast<double>(d)) / carriers);
  for (Tensor* const tensor : {&inputs.q, &inputs.k}) {
    for (std::int64_t row = 0; row < tensor->size() / d; ++row) {
      for (std::int64_t column = 0; column < carriers; ++column) {
        tensor->set(row * d + column, tensor == &inputs.q ? size : -size);
      }
    }
  }
}

}  // namespace

std::vector<std::string> input_kinds() {
  return {"random", "counting", "large", "equal", "rising", "steep", "lone", "low"};
}

namespace {

/// Inputs of `kind` without scales. `fine`: with all bits of f32. Throws UsageError where it is
/// none.
Inputs unscaled_inputs(const Problem& problem, ElementType type, std::string_view kind,
                       std::uint64_t seed, bool fine) {
  const std::vector<std::int64_t> q_dims{problem.batch, problem.heads, problem.len_q, problem.d};
  const std::vector<std::int64_t> kv_dims{problem.batch, problem.heads_kv, problem.len_kv,
                                          problem.d};
  Inputs inputs{Tensor(type, q_dims), Tensor(type, kv_dims), Tensor(type, kv_dims)};
  const Stream q(seed, 0, fine), k(seed, 1, fine), v(seed, 2, fine);
  if (kind == "counting") {
    fill_counting(inputs.q, q);
    fill_counting(inputs.k, k);
    fill_counting(inputs.v, v);
    return inputs;
  }
  fill_normal(inputs.v, v, 1.0);
  if (kind == "random" || kind == "equal") {
    fill_normal(inputs.q, q, 1.0);
    fill_normal(inputs.k, k, 1.0);
    if (kind == "equal") repeat_first_key(inputs.k);
  } else if (kind == "large") {
    fill_normal(inputs.q, q, 8.0);
    fill_normal(inputs.k, k, 8.0);
  } else if (kind == "rising" || kind == "steep") {
    fill_rising(inputs, seed, fine, kind == "rising" ? rising : steep);
  } else if (kind == "lone") {
    fill_lone(inputs, seed, fine);
  } else if (kind == "low") {
    fill_low(inputs, seed, fine);
  } else {
    std::string known;
    for (const std::string& name : input_kinds()) known += (known.empty() ? "" : ", ") + name;
    throw UsageError("unknown input '" + std::string(kind) + "'; known: " + known);
  }
  return inputs;
}

/// The scale of every head of `tensor` is 1.
Tensor scales_of_one(const Tensor& tensor) {
  Tensor scales(ElementType::f32, {tensor.dims[0], tensor.dims[1]});
  for (std::int64_t head = 0; head < scales.size(); ++head) scales.set(head, 1);
  return scales;
}

/// Heads that are drawn alike have scales that hardly differ, so that one taken for another would
/// be within the bounds of e4m3: each is made larger or smaller by a power of `step` of its own,
/// the first one by none.
void set_apart(Tensor& scales, double step) {
  const double factors[] = {1, step, 1 / step, step * step, 1 / (step * step)};
  for (std::int64_t head = 0; head < scales.size(); ++head) {
    scales.set(head, scales.at(head) * factors[head % std::ssize(factors)]);
  }
}

}  // namespace

Inputs generate_inputs(const Problem& problem, ElementType type, std::string_view kind,
                       std::uint64_t seed) {
  const bool fine = type == ElementType::f32;
  if (type != ElementType::e4m3) return unscaled_inputs(problem, type, kind, seed, fine);
  if (kind == "counting" || kind == "rising" || kind == "steep") {
    Inputs inputs = unscaled_inputs(problem, type, kind, seed, false);
    inputs.q_scale = scales_of_one(inputs.q);
    inputs.k_scale = inputs.v_scale = scales_of_one(inputs.k);
    return inputs;
  }
  const Inputs values = unscaled_inputs(problem, ElementType::f32, kind, seed, false);
  Quantised q = quantise(values.q), k = quantise(values.k), v = quantise(values.v);
  // Of scores little is too much; what is not Q's is not K's either.
  set_apart(q.scales, 1.25);
  set_apart(k.scales, 0.8);
  set_apart(v.scales, 1.5);
  return {std::move(q.elements), std::move(k.elements), std::move(v.elements),
          std::move(q.scales),   std::move(k.scales),   std::move(v.scales)};
}

std::string hash_inputs(const Inputs& inputs) {
  std::uint64_t hash = 0xcbf29ce484222325;
  const auto add = [&hash](std::uint8_t byte) { hash = (hash ^ byte) * 0x100000001b3; };
  for (const Tensor* tensor :
       {&inputs.q, &inputs.k, &inputs.v, &inputs.q_scale, &inputs.k_scale, &inputs.v_scale}) {
    for (const std::int64_t dim : tensor->dims) {
      for (int shift = 0; shift < 64; shift += 8) add(static_cast<std::uint8_t>(dim >> shift));
    }
    for (const std::byte byte : tensor->bytes) add(std::to_integer<std::uint8_t>(byte));
  }
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
  return text;
}

std::array<NonFinite, 3> scan_non_finite(const Inputs& inputs) {
  std::array<NonFinite, 3> found;
  const std::array<const Tensor*, 3> tensors{&inputs.q, &inputs.k, &inputs.v};
  for (std::size_t which = 0; which < tensors.size(); ++which) {
    const std::int64_t size = tensors[which]->size();
    for (std::int64_t i = 0; i < size; ++i) {
      const double value = tensors[which]->at(i);
      if (std::isfinite(value)) continue;
      ++(std::isnan(value) ? found[which].nan : found[which].inf);
      if (found[which].first < 0) found[which].first = i;
    }
  }
  return found;
}

}  // namespace lanescope
