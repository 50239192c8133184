#include "gates/sweep/shrink.h"

#include <algorithm>
#include <set>

namespace lanescope {
namespace {

constexpr int most_rounds = 3;

class Shrinker {
 public:
  Shrinker(const CellResult& failing, const DrawPlan& plan, const Trial& trial)
      : best_(failing), plan_(plan), trial_(trial) {}

  CellResult run() {
    for (int round = 0; round < most_rounds; ++round) {
      const Cell before = best_.cell;
      shrink_choices();
      shrink_heads();
      shrink_side(&Problem::batch, 2);
      shrink_side(&Problem::len_kv, best_.cell.bc);
      shrink_side(&Problem::len_q, best_.cell.br);
      shrink_together();
      if (best_.cell == before) break;
    }
    return best_;
  }

 private:
  /// Takes the first of the cells that fails in the same way. Returns how many did not before it.
  std::size_t take_first(std::vector<Cell> cells) {
    std::erase_if(
        cells, [&](const Cell& cell) { return cell == best_.cell || !allows(plan_.space, cell); });
    if (cells.empty()) return 0;
    const std::vector<CellResult> results = trial_(cells);
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (results[i].way() != best_.way()) continue;
      best_ = results[i];
      return i;
    }
    return results.size();
  }

  template <class Change>
  Cell changed(const Change& change) const {
    Cell cell = best_.cell;
    change(cell);
    return cell;
  }

  void shrink_choices() {
    take_first({changed([](Cell& c) { c.problem.causal = false; })});
    take_first({changed([](Cell& c) { c.splits = std::min<std::int64_t>(c.splits, 1); }),
                changed([](Cell& c) { c.splits = std::min<std::int64_t>(c.splits, 2); })});
    take_first({changed([](Cell& c) { c.input = "random"; })});
    take_first({changed([](Cell& c) { c.seed = 0; })});
    // The kernel's modules of the same gate and backend, its first type and tile first.
    std::vector<Cell> cells;
    for (const ModuleName& m : plan_.modules) {
      const Cell& now = best_.cell;
      if (m.kernel != now.kernel || m.gate != now.gate || m.backend != now.backend) continue;
      if (module_of(now) == with_checker(m, now.checked)) break;
      if (m.head_dim > now.head_dim) continue;
      if (m.head_dim < now.head_dim && !plan_.space.sides.contains("d")) continue;
      cells.push_back(changed([&](Cell& c) {
        c.dtype = m.dtype;
        c.br = m.br;
        c.bc = m.bc;
        c.head_dim = m.head_dim;
        c.problem.d = m.head_dim;
      }));
    }
    take_first(std::move(cells));
  }

  static ModuleName with_checker(ModuleName name, bool checked) {
    name.checked = checked;
    return name;
  }

  void shrink_heads() {
    std::vector<Cell> cells;
    const Problem& p = best_.cell.problem;
    for (std::int64_t h = 1; h <= p.heads; ++h) {
      for (std::int64_t hkv = 1; hkv <= h; ++hkv) {
        const bool smaller = h < p.heads || hkv < p.heads_kv;
        if (h % hkv != 0 || !smaller || cells.size() > 12) continue;
        cells.push_back(changed([&](Cell& c) {
          c.problem.heads = h;
          c.problem.heads_kv = hkv;
        }));
      }
    }
    take_first(std::move(cells));
  }

  void shrink_side(std::int64_t Problem::*side, std::int64_t tile) {
    const std::int64_t now = best_.cell.problem.*side;
    std::set<std::int64_t> values = {1,         2, 3, now - 1, now / 2, now / 4, now - now % tile,
                                     now - tile};
    for (std::int64_t x = tile; x < now && x <= 4 * tile; x += tile) {
      values.insert({x - 1, x, x + 1});
    }
    std::vector<Cell> cells;
    std::vector<std::int64_t> tried;
    for (const std::int64_t value : values) {
      if (value < 1 || value >= now) continue;
      Cell cell = best_.cell;
      cell.problem.*side = value;
      if (!allows(plan_.space, cell)) continue;
      cells.push_back(cell);
      tried.push_back(value);
    }
    const std::size_t right = take_first(std::move(cells));
    // Between the largest that did not fail and the one that did, by halves.
    std::int64_t low = right == 0 ? 0 : tried[right - 1];
    while (best_.cell.problem.*side - low > 1) {
      const std::int64_t middle = low + (best_.cell.problem.*side - low) / 2;
      Cell cell = best_.cell;
      cell.problem.*side = middle;
      if (!allows(plan_.space, cell)) break;
      if (take_first({cell}) > 0) low = middle;
    }
  }

  /// Both lengths by as much: how they compare may be what fails.
  void shrink_together() {
    for (std::int64_t step = std::min(best_.cell.problem.len_q, best_.cell.problem.len_kv) - 1;
         step > 0;) {
      const Cell before = best_.cell;
      take_first({changed([&](Cell& c) {
        c.problem.len_q -= step;
        c.problem.len_kv -= step;
      })});
      const Problem& p = best_.cell.problem;
      step = std::min(best_.cell == before ? step / 2 : step, std::min(p.len_q, p.len_kv) - 1);
    }
  }

  CellResult best_;
  const DrawPlan& plan_;
  const Trial& trial_;
};

}  // namespace

CellResult shrink(const CellResult& failing, const DrawPlan& plan, const Trial& trial) {
  return Shrinker(failing, plan, trial).run();
}

}  // namespace lanescope
