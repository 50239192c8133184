#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "gates/run/locate_plan.h"
#include "gates/run/plan_modules.h"
#include "gates/run/presets.h"

namespace lanescope {

inline std::string length_text(std::int64_t queries, std::int64_t keys) {
  return "s=" + std::to_string(queries) + (queries == keys ? "" : ",skv=" + std::to_string(keys));
}

inline int rounded_up(int x, int step) { return (x + step - 1) / step * step; }

/// The problems of a plan, as they are added: for tiles of br queries and bc keys, with the options
/// that are given.
class Planner {
 public:
  Planner(const RunOptions& given, int br, int bc, int head_dim)
      : given_(given),
        br_(br),
        bc_(is_module_path(given.kernel) && bc < 32 ? rounded_up(fewest_keys, bc) : bc),
        tile_(bc),
        rows_(rounded_up(br < 8 ? 16 : br, br)),
        side_(std::max(br, bc_)),
        head_dim_(head_dim),
        d_(d_of(given)) {
    if (is_given(given)) probes_.push_back({as_given, given, true});
  }

  std::vector<Probe> take() { return std::move(probes_); }

  /// What shows faults of any kernel. Many take no other number of keys than of queries, one query
  /// alone, or no heads that share keys.
  void add_usual();
  /// Of a kernel whose blocks, so many of them, go through several items.
  void add_items(int resident_blocks);
  /// Of a kernel that combines splits of the keys.
  void add_splits();
  /// Other head dimensions, types and tiles that the kernel is built for.
  void add_other_modules(bool combines, int resident_blocks);

 private:
  // What shows faults of any kernel, in the order in which it is run.

  void add_tiles();
  void add_masks();
  void add_heads();
  /// Inputs whose scores rise, are far apart or large.
  void add_scores();
  void add_many_tiles();
  /// Of kernels of which nothing is known but what they take.
  void add_strangers();

  bool any_width() const { return given_.shape.empty() && given_.preset.empty(); }
  std::int64_t d_of(const RunOptions& given) const {
    const bool from_file = given.input.ends_with(".safetensors");
    const bool any = given.shape.empty() && given.preset.empty();
    return from_file || any ? head_dim_ : parse_shape(given.preset, given.shape, false).d;
  }

  /// `shape`: all but d, and but batch and heads where they are 1.
  std::string shape_text(const std::string& shape) const {
    return (shape.starts_with("b=")   ? ""
            : shape.starts_with("h=") ? "b=1,"
                                      : "b=1,h=1,") +
           shape + ",d=" + std::to_string(d_);
  }
  /// What is returned is there until the next is added.
  Probe& add(const std::string& about, const std::string& shape) {
    RunOptions options = given_;
    options.preset.clear();
    options.shape = shape_text(shape);
    options.causal = false;
    options.input = "random";
    return probes_.emplace_back(Probe{about, std::move(options)});
  }
  Probe& add_causal(const std::string& about, const std::string& shape) {
    Probe& probe = add(about, shape);
    probe.options.causal = true;
    return probe;
  }

  // Other shapes, for kernels that do not take a probe's own.

  /// As many keys as queries.
  Probe& square(Probe& probe, std::int64_t length);
  /// One query, which sees all keys: of several heads, for a single row fits many an explanation.
  void one_query(Probe& probe, int keys);
  /// Who decodes takes few queries, or one.
  void decoding(Probe& probe, int rows, int keys);
  /// A probe of so many tiles of keys, with the others that decoders take. The last tile lacks
  /// some: what is asked of sixteen keys at once, a remainder of one kind may slip through.
  Probe& of_keys(const std::string& about, int rows, int tiles, int lacking = 0);

  static void set_d(Probe& probe, int d) {
    const auto set = [d](std::string& shape) {
      shape.replace(shape.rfind('=') + 1, std::string::npos, std::to_string(d));
    };
    set(probe.options.shape);
    std::for_each(probe.other_shapes.begin(), probe.other_shapes.end(), set);
  }
  /// Warps that wait for the items alone may be left behind by two, which a schedule tries: phases
  /// tell one from the next.
  static void leave_behind(Probe& probe) {
    if (probe.options.schedule == 0) probe.options.schedule = 1;
  }
  Probe& with_splits(std::int64_t splits, Probe& probe) {
    if (!given_.splits) probe.options.splits = splits;
    return probe;
  }

  /// What takes fewer keys at a time may have loops over more in other places.
  static constexpr int fewest_keys = 64;

  const RunOptions& given_;
  int br_, bc_, tile_, rows_, side_, head_dim_;
  // bc_: or some more than tile_, where that is of few; likewise rows_ and br_
  std::int64_t d_;
  std::vector<Probe> probes_;
};

}  // namespace lanescope
