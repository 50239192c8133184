#include "gates/sweep/draw.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "reference/inputs.h"
#include "reference/splitmix64.h"

namespace lanescope {
namespace {

using Bounds = SweepSpace::Bounds;

constexpr int most_attempts = 24;
constexpr double usual_work = 1 << 18, rare_work = 1 << 20;
constexpr std::int64_t most_seed = 100000;

/// Numbers that depend on the plan's seed, the cell and how many were drawn of it.
class Random {
 public:
  Random(std::uint64_t seed, std::uint64_t index) : state_(splitmix64(splitmix64(seed) ^ index)) {}
  std::uint64_t next() { return splitmix64(state_ + ++drawn_); }
  std::int64_t below(std::int64_t end) {
    return static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(end));
  }
  bool one_in(std::int64_t n) { return below(n) == 0; }
  template <class Value>
  const Value& of(const std::vector<Value>& values) {
    return values[static_cast<std::size_t>(below(std::ssize(values)))];
  }

 private:
  std::uint64_t state_, drawn_ = 0;
};

/// Where kernels break, within bounds.
std::vector<std::int64_t> borders(Bounds in, std::int64_t tile, Random& random) {
  std::vector<std::int64_t> found = {1, in.least, in.most};
  const std::int64_t most_tiles = std::max<std::int64_t>(in.most / tile, 1);
  for (const std::int64_t tiles :
       {std::int64_t{1}, std::int64_t{2}, 1 + random.below(most_tiles)}) {
    for (const std::int64_t beside : {-1, 0, 1}) found.push_back(tiles * tile + beside);
  }
  constexpr std::int64_t primes[] = {2,  3,  5,  7,   11,  13,  17,  31,  37,
                                     61, 67, 97, 127, 131, 191, 251, 257, 509};
  found.push_back(primes[random.below(std::ssize(primes))]);
  found.push_back(std::int64_t{1} << random.below(12));
  std::erase_if(found, [&](std::int64_t x) { return x < in.least || x > in.most; });
  return found;
}

std::int64_t draw_length(Bounds in, std::int64_t tile, Random& random) {
  if (in.least >= in.most) return in.least;
  const std::int64_t way = random.below(3);
  if (way == 0) return in.least + random.below(in.most - in.least + 1);
  if (way == 1) {
    const double share = static_cast<double>(random.below(1 << 20)) / (1 << 20);
    const double low = std::log(static_cast<double>(in.least));
    const double high = std::log(static_cast<double>(in.most) + 1);
    const auto x = static_cast<std::int64_t>(std::exp(low + share * (high - low)));
    return std::clamp(x, in.least, in.most);
  }
  return random.of(borders(in, tile, random));
}

/// Of the space's spans for a side, one that is not empty; `usual` where there is none.
std::int64_t draw_side(const SweepSpace& space, const std::string& name, const Cell& cell,
                       std::int64_t usual, std::int64_t tile, Random& random) {
  const auto spans = space.sides.find(name);
  if (spans == space.sides.end()) return usual;
  std::vector<Bounds> left;
  for (const SweepSpace::Span& span : spans->second) {
    const Bounds in = bounds_of(span, cell);
    if (in.least <= in.most) left.push_back(in);
  }
  return left.empty() ? usual : draw_length(random.of(left), tile, random);
}

/// A divisor of h that the space allows; h where it allows none.
std::int64_t draw_heads_kv(const SweepSpace& space, const Cell& cell, Random& random) {
  const auto spans = space.sides.find("hkv");
  const std::int64_t heads = cell.problem.heads;
  if (spans == space.sides.end()) return heads;
  std::vector<std::int64_t> divisors;
  for (std::int64_t x = 1; x <= heads; ++x) {
    const auto allows = [&](const SweepSpace::Span& span) {
      const Bounds in = bounds_of(span, cell);
      return in.least <= x && x <= in.most;
    };
    if (heads % x == 0 && std::any_of(spans->second.begin(), spans->second.end(), allows)) {
      divisors.push_back(x);
    }
  }
  return divisors.empty() ? heads : random.of(divisors);
}

/// A head dimension of the kernel half of the time, where the space allows it.
std::int64_t draw_d(const SweepSpace& space, const std::vector<ModuleName>& modules,
                    Random& random) {
  std::vector<std::int64_t> dims;
  for (const ModuleName& m : modules) {
    if (std::find(dims.begin(), dims.end(), m.head_dim) == dims.end()) dims.push_back(m.head_dim);
  }
  const std::int64_t most = *std::max_element(dims.begin(), dims.end());
  const auto spans = space.sides.find("d");
  if (spans == space.sides.end()) return std::min<std::int64_t>(64, most);
  std::vector<Bounds> left;
  for (const SweepSpace::Span& span : spans->second) {
    const Bounds in{span.least.number, std::min(span.most.number, most)};
    if (in.least <= in.most) left.push_back(in);
  }
  std::erase_if(dims, [&](std::int64_t d) {
    return std::none_of(left.begin(), left.end(),
                        [&](Bounds in) { return in.least <= d && d <= in.most; });
  });
  if (!dims.empty() && random.one_in(2)) return random.of(dims);
  return draw_length(random.of(left), 8, random);
}

/// One of the values that `value` has of the modules; the others are dropped.
template <class Value>
void choose(std::vector<ModuleName>& modules, const std::function<Value(const ModuleName&)>& value,
            Random& random) {
  std::vector<Value> values;
  for (const ModuleName& m : modules) {
    if (std::find(values.begin(), values.end(), value(m)) == values.end()) {
      values.push_back(value(m));
    }
  }
  const Value chosen = random.of(values);
  std::erase_if(modules, [&](const ModuleName& m) { return !(value(m) == chosen); });
}

/// The module and what depends on it.
Cell draw_module(const DrawPlan& plan, Random& random) {
  std::vector<ModuleName> left = plan.modules;
  choose<std::string>(
      left, [](const ModuleName& m) { return m.kernel; }, random);
  choose<Gate>(
      left, [](const ModuleName& m) { return m.gate; }, random);
  choose<std::string>(
      left, [](const ModuleName& m) { return m.backend; }, random);
  choose<ElementType>(
      left, [](const ModuleName& m) { return m.dtype; }, random);
  Cell cell;
  cell.problem.d = draw_d(plan.space, left, random);
  int head_dim = 0;
  for (const ModuleName& m : left) {
    if (m.head_dim >= cell.problem.d && (head_dim == 0 || m.head_dim < head_dim)) {
      head_dim = m.head_dim;
    }
  }
  std::erase_if(left, [&](const ModuleName& m) { return m.head_dim != head_dim; });
  const ModuleName& m = random.of(left);
  cell.kernel = m.kernel;
  cell.gate = m.gate;
  cell.dtype = m.dtype;
  cell.head_dim = m.head_dim;
  cell.br = m.br;
  cell.bc = m.bc;
  cell.backend = m.backend;
  return cell;
}

Cell draw_once(const DrawPlan& plan, Random& random) {
  const SweepSpace& space = plan.space;
  Cell cell = draw_module(plan, random);
  Problem& p = cell.problem;
  p.batch = draw_side(space, "b", cell, 1, 2, random);
  p.heads = draw_side(space, "h", cell, 1, 2, random);
  p.heads_kv = draw_heads_kv(space, cell, random);
  p.len_q = draw_side(space, "s", cell, 128, cell.br, random);
  p.len_kv = draw_side(space, "skv", cell, p.len_q, cell.bc, random);
  p.causal = space.causal_alone || (space.both_masks && random.one_in(2));
  const auto& combining = plan.combining;
  if (std::find(combining.begin(), combining.end(), cell.kernel) != combining.end()) {
    cell.splits = draw_side(space, "splits", cell, 0, 2, random);
  }
  std::vector<std::string> inputs = space.inputs;
  if (inputs.empty()) inputs = {"random"};
  if (inputs.front() == "*") inputs = input_kinds();
  // Half of them as real inputs are, where that is allowed.
  const auto plain = std::find(inputs.begin(), inputs.end(), "random");
  cell.input = plain != inputs.end() && random.one_in(2) ? *plain : random.of(inputs);
  cell.seed = static_cast<std::uint64_t>(random.below(most_seed));
  cell.checked = cell.backend == "sim" && random.below(100) < plan.checked_percent;
  return cell;
}

}  // namespace

Cell draw_cell(const DrawPlan& plan, std::uint64_t index) {
  Random random(plan.seed, index);
  const double most_work = random.one_in(8) ? rare_work : usual_work;
  Cell least = draw_once(plan, random);
  for (int attempt = 1; attempt < most_attempts && work_of(least) > most_work; ++attempt) {
    const Cell cell = draw_once(plan, random);
    if (work_of(cell) < work_of(least)) least = cell;
  }
  return least;
}

Cell draw_neighbour(const DrawPlan& plan, const Cell& of, std::uint64_t index) {
  Random random(plan.seed + 1, index);
  DrawPlan near = plan;
  near.checked_percent = 0;
  std::erase_if(near.modules, [&](const ModuleName& m) {
    return m.kernel != of.kernel || m.gate != of.gate || m.backend != of.backend;
  });
  for (int attempt = 0; attempt < most_attempts; ++attempt) {
    const Cell other = draw_once(near, random);
    Cell cell = of;
    const auto take = [&](auto copy) {
      if (random.one_in(3)) copy();
    };
    take([&] {
      cell.dtype = other.dtype;
      cell.head_dim = other.head_dim;
      cell.br = other.br;
      cell.bc = other.bc;
      cell.problem.d = other.problem.d;
    });
    take([&] {
      cell.problem.heads = other.problem.heads;
      cell.problem.heads_kv = other.problem.heads_kv;
    });
    take([&] { cell.problem.batch = other.problem.batch; });
    take([&] { cell.problem.len_q = other.problem.len_q; });
    take([&] { cell.problem.len_kv = other.problem.len_kv; });
    take([&] { cell.problem.causal = other.problem.causal; });
    take([&] { cell.splits = other.splits; });
    take([&] { cell.input = other.input; });
    cell.seed = other.seed;
    if (!(cell == of) && work_of(cell) <= usual_work && allows(plan.space, cell)) return cell;
  }
  return of;
}

}  // namespace lanescope
