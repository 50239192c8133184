#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "debug/causes/causes.h"
#include "debug/judge/diff.h"
#include "debug/judge/judge.h"

namespace lanescope {

/// A judged slot of the failing site.
struct Element {
  int row, col;
  Holder holder;
  double got, want, bound;
  bool unwritten, wrong;
};

/// What one detector has to say.
struct Finding {
  Cause cause = Cause::unexplained;
  double explained = 0;   ///< share of the wrong values that it explains
  double consistent = 1;  ///< share of the right values that it predicts as well
  bool formula = false;   ///< one of the alternatives to the stage's formula
  /// Memory is read that nobody wrote: not so where the memory checker finds nothing.
  bool reads_unwritten = false;
  bool untaken = false;  ///< no block took the rows: nothing of them was written, outputs neither
  double bits = 8;  ///< what it takes to say the rule: which of those tried, free numbers in it
  /// Where the bug is, if that is not the stage that makes the site.
  std::optional<Stage> stage = {};
  std::vector<std::string> evidence = {};
  /// Of a known flaw: its text, by which it is known in other problems; and whether it is one in
  /// part of the outputs alone.
  std::string flaw = {};
  bool in_part = false;
  bool of_pass =
      false;  ///< of scores that a kernel makes once more, for O: the first ones are right
  bool says_which = false;  ///< it explains wrong values that tell rules apart, here or elsewhere
  /// Of two flaws at once: what the other one is, and where.
  std::optional<Cause> other_cause = {};
  std::optional<Stage> other_stage = {};
  /// Whether values of another problem would be wrong, too; empty: nobody knows.
  std::function<bool(const DumpInfo& other)> shows = {};

  /// Whether nearly all wrong values follow from it.
  bool certain() const { return explained >= 0.98; }
};

/// What a number costs that a rule leaves open, in bits: the rule has it free to choose.
constexpr double free_number_bits = 24;
/// What a wrong value costs in bits that a finding describes and does not predict.
constexpr double symptom_bits = 4;

/// How well predicted values fit what the kernel holds.
struct Fit {
  double explained = 0, consistent = 0;
  int decisive = 0;  ///< wrong values that are far enough off to tell a cause
};

/// Counts what makes a Fit, value by value.
class FitCount {
 public:
  /// `decisive`: the value is wrong, and far enough off; `hit`: what was predicted is what is held.
  void add(bool decisive, bool hit) {
    (decisive ? decisive_ : right_) += 1;
    (decisive ? explained_ : predicted_) += hit;
  }
  Fit fit() const {
    return {decisive_ == 0 ? 0.0 : static_cast<double>(explained_) / decisive_,
            right_ == 0 ? 1.0 : static_cast<double>(predicted_) / right_, decisive_};
  }

 private:
  int decisive_ = 0, explained_ = 0, right_ = 0, predicted_ = 0;
};

/// How far the bug of a kernel is looked for that shows its outputs alone: those that are composed
/// (known_flaws.h) take ten times as long as all others; `single`: nor any beside another
/// recurrence, which is no fault;
/// `none`: no known flaw at all.
enum class Breadth : std::uint8_t { all, but_composed, single, none };

/// The scene of the fault: one site at its first failing block and tile, with everything that the
/// stage received. Rows and columns are those of the tile; only rows that exist are looked at.
class Scene {
 public:
  using Array = reference::Array;

  /// `dump` (a checked one) must outlive the scene; `first` is what a diff of it named first, by
  /// `softmax`, as of a Judge.
  Scene(const Dump& dump, const Divergence& first, Breadth breadth = Breadth::all,
        const Recurrence* softmax = nullptr);

  const Dump& dump() const { return dump_; }
  const DumpInfo& info() const { return dump_.info; }
  const Judge& judge() const { return judge_; }
  const Divergence& first() const { return first_; }
  Breadth breadth() const { return breadth_; }
  SiteId site() const { return first_.site; }
  std::int64_t tile() const { return first_.tile; }
  std::int64_t block() const { return first_.block; }
  BlockPlace place() const { return info().place(block()); }
  /// Whether the site is an output, which is no tile's and comes after all of them.
  bool at_end() const { return is_output(site()); }

  /// Every judged slot; several may stand for the same place.
  const std::vector<Element>& elements() const { return elements_; }
  int wrong_count() const { return wrong_count_; }
  /// As a matrix; `got` from the first slot that stands for a place, NaN where none was written.
  const Array& got() const { return got_; }
  const Array& want() const { return want_.value; }
  const Array& bound() const { return want_.error; }
  bool wrong(reference::Index row, reference::Index col) const;
  /// What passes for equal to a predicted `value` at (row, col).
  double tolerance(reference::Index row, reference::Index col, double value) const;
  /// Whether what is held passes for `value`, which may be off by `error` besides.
  bool fits(reference::Index row, reference::Index col, double got, double value,
            double error = 0) const;

  reference::Index rows() const { return want().rows(); }
  reference::Index cols() const { return want().cols(); }

  /// What the values of a site are multiplied by to be what the scene has: maxima are in base 2
  /// here, whatever the kernel holds them in.
  double unit_of(SiteId id) const { return is_maximum(id) ? reference_.maximum_factor() : 1; }
  /// The values of another site as traced: the rows that exist of sites over queries, all keys of
  /// sites over keys. Nothing where they were not traced or not written; but of Q and K, where the
  /// kernel has no such site, the inputs.
  std::optional<Array> held(SiteId id, std::int64_t tile) const;
  /// The scores of `tile` as the softmax takes them: in base 2, rounded to fp32.
  std::optional<Array> scores(std::int64_t tile) const;
  /// P of `tile` as the second product takes it: rounded, where the kernel shows it before that.
  std::optional<Array> weights(std::int64_t tile) const;
  Array as_weights(const Array& p) const;
  /// What m_prev and `top`, the largest of the scores, make of m, [rows, 1] each, by the kernel's
  /// rule; s: the scores that it goes by, in base 2. [rows, keys]
  Array raised(const Array& m_prev, const Array& s, const Array& top) const;
  /// The same of one row, that of s.
  double raised(double m_prev, const Array& s, reference::Index row, double top) const;
  /// m, l or o after the tile before; what they start from for the first one.
  std::optional<Array> before(SiteId id, std::int64_t tile) const;
  /// m, l or o that another block ended with, of as many rows as this one has.
  std::optional<Array> end_of(std::int64_t other, SiteId id) const;
  /// The log-sum-exps that are left for the block's rows, [rows, 1]; nothing of a kernel that
  /// leaves none.
  std::optional<Array> left_lse() const;
  /// The highest tile that was traced and holds a key.
  std::int64_t last_tile() const { return reference_.needed_tiles() - 1; }
  /// The tile that the block comes to at last; −1: it has none.
  std::int64_t end_tile() const { return judge_.downwards() && last_tile() >= 0 ? 0 : last_tile(); }
  /// The tile that the block came to `visits` before `tile`, or comes to behind it, where that is
  /// negative; no tile of the dump where there is none.
  std::int64_t earlier(std::int64_t tile, std::int64_t visits = 1) const;
  const reference::OnlineBlock& reference() const { return reference_; }

  /// How well `values`, in the order of elements(), fit; each may be off by its `error`.
  Fit fit(const std::vector<double>& values, const std::vector<double>& error = {}) const;
  /// `values` [rows, cols or 1] in the order of elements().
  std::vector<double> by_element(const Array& values) const;

 private:
  void set_tolerance();
  void add_traced();
  void add_output();
  void add(int row, int col, const Holder& holder, double got, bool unwritten);

  const Dump& dump_;
  Judge judge_;
  Divergence first_;
  Breadth breadth_;
  reference::OnlineBlock reference_;
  reference::Bounded want_;
  Array got_;
  std::vector<Element> elements_;
  int wrong_count_ = 0;
  double relative_tolerance_ = 0, absolute_tolerance_ = 0;  ///< of the site's type
};

}  // namespace lanescope
