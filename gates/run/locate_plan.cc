#include "gates/run/locate_plan.h"

#include <algorithm>
#include <utility>

#include "gates/run/plan_modules.h"
#include "gates/run/presets.h"
#include "reference/error.h"

namespace lanescope {
namespace {

std::string length_text(std::int64_t queries, std::int64_t keys) {
  return "s=" + std::to_string(queries) + (queries == keys ? "" : ",skv=" + std::to_string(keys));
}

int rounded_up(int x, int step) { return (x + step - 1) / step * step; }

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
  void add_usual() {
    const auto square = [&](Probe& probe, std::int64_t length) -> Probe& {
      probe.other_shapes.push_back(shape_text(length_text(length, length)));
      return probe;
    };
    // One query, which sees all keys: of several heads, for a single row fits many an explanation.
    const auto one_query = [&](Probe& probe, int keys) {
      for (const char* const heads : {"h=8,", ""}) {
        probe.other_shapes.push_back(shape_text(heads + length_text(1, keys)));
      }
    };
    const auto of_keys = [&](const std::string& about, int rows, int tiles) -> Probe& {
      Probe& probe = add(about, length_text(rows, tiles * bc_));
      if (rows != br_ && br_ > 1) {
        probe.other_shapes.push_back(shape_text(length_text(br_, tiles * bc_)));
      }
      one_query(probe, tiles * bc_);
      return probe;
    };
    // Who decodes takes few queries, or one.
    const auto decoding = [&](Probe& probe, int rows, int keys) {
      if (probe.options.causal) rows = std::max(rows, 4);
      probe.other_shapes.push_back(shape_text(length_text(rows, keys)));
      if (!probe.options.causal) one_query(probe, keys);
    };
    square(of_keys("a single tile", rows_, 1), side_);
    Probe& several = square(of_keys("several tiles", rows_, 3), 3 * side_);
    for (const int length : {256, 384, 512, 1024}) square(several, length);
    add("enough rows to solve a product for its operands", length_text(128, 128));
    square(of_keys("the maximum rises in every tile", rows_, 3), 3 * side_).options.input =
        "rising";
    Probe& tail =
        square(add("a ragged tail", length_text(side_ + br_ / 2 + 4, side_ + 5)), side_ + 5);
    tail.checked = true;
    // Some take multiples of a number that is smaller than their tiles.
    for (const int more : {8, 16, 32}) {
      if (more % side_ != 0) square(tail, side_ + more);
    }
    decoding(tail, br_, side_ + 5);
    if (const int few = tile_ / 4 + 1; tile_ > 4) {
      Probe& less = square(add("fewer keys than a tile", length_text(rows_, few)), few);
      less.checked = true;
      for (const int keys : {8, 16}) {
        if (keys < tile_) square(less, keys);
      }
      decoding(less, br_, few);
    }
    decoding(add_causal("causal", length_text(side_, side_)), br_, side_);
    Probe& ragged =
        add_causal("causal, ragged, several tiles", length_text(2 * side_ + 1, 2 * side_ + 1));
    for (const int more : {8, 16, 0}) square(ragged, 2 * side_ + more);
    decoding(ragged, 2 * br_, 4 * bc_ + 5);
    ragged.checked = ragged.broad = true;
    decoding(add_causal("causal, fewer queries than keys", length_text(br_ / 2 + 8, side_ + 32)),
             br_ / 2, side_ + 32);
    // The last key that the block's last row sees is the first of a tile.
    add_causal("causal, a diagonal that ends with the first key of a tile",
               length_text(br_, br_ + bc_ + 1));
    // Where a block has no keys it comes to fewer barriers.
    Probe& keyless = add_causal("causal, rows that see no key", length_text(side_ + 32, side_));
    decoding(keyless, br_, std::max(br_, 4) / 2);
    keyless.broad = keyless.checked = true;
    add_causal("causal, rows that see no key of a tile that others see",
               length_text(side_ + br_ + br_ / 2, side_));
    // Heads of Q are as far apart as they have rows, those of K and V as they have keys; so are
    // batches, with twice the heads of Q.
    int keys = 2 * bc_;
    while (keys == br_ || keys == 2 * br_) keys += bc_;
    Probe& heads = add("several heads", "b=2,h=6,hkv=3," + length_text(br_, keys));
    heads.checked = heads.broad = true;
    for (const std::string& lengths : {length_text(br_, keys), length_text(2 * side_, 2 * side_)}) {
      for (const char* const sides : {"b=2,h=6,hkv=3,", "b=2,h=3,"}) {
        heads.other_shapes.push_back(shape_text(sides + lengths));
      }
    }
    // Some take one batch alone, some one query.
    for (const std::int64_t rows : {std::int64_t{br_}, std::int64_t{1}}) {
      heads.other_shapes.push_back(shape_text("h=6,hkv=3," + length_text(rows, keys)));
    }
    heads.other_shapes.push_back(shape_text("h=6," + length_text(1, keys)));
    // Groups of another size than those of the heads above: one that divides no tile of queries of
    // all its heads, else the two usual ones.
    Probe& group = add_causal("causal, heads that share keys",
                              "h=6,hkv=2," + length_text(rows_ + 9, side_ + 37));
    group.checked = true;  // the one whose blocks of queries end before K does
    for (const char* const heads : {"h=8,hkv=2,", "h=4,hkv=2,"}) {
      group.other_shapes.push_back(shape_text(heads + length_text(rows_ + 9, side_ + 37)));
    }
    group.other_shapes.push_back(shape_text("h=4,hkv=2," + length_text(2 * side_, 2 * side_)));
    // Sums overflow in few rows, whose warps tell others of it where m follows for several at once.
    Probe& large = square(of_keys("large scores", rounded_up(64, br_), 2), 2 * side_);
    large.options.input = "large";
    large.checked = true;
    // A maximum that starts at 0 stays there.
    square(of_keys("scores far below 0", rows_, 2), 2 * side_).options.input = "low";
    // What strangers subtract from scores need not be their maximum, as long as nothing overflows.
    if (is_module_path(given_.kernel)) {
      square(of_keys("the maximum rises steeply", rows_, 5), 3 * side_).options.input = "steep";
      square(of_keys("a key far above all others", rows_, 2), 2 * side_).options.input = "lone";
    }
    // A number of tiles that none divides: who gives out so many to each of several leaves some.
    square(of_keys("more tiles than rings of buffers hold", rows_, 11), rounded_up(11 * bc_, br_))
        .checked = true;
    add_causal("causal, the maximum rises in every tile", length_text(2 * side_ + 1, 2 * side_ + 1))
        .options.input = "rising";
    // What blocks of several heads and rows leave each other, where keys are given out to several;
    // the last rows and keys fill no tile.
    Probe& together =
        add("several heads, ragged, many tiles", "h=2," + length_text(rows_ + 9, 7 * bc_ + 1));
    for (const int keys : {7 * bc_ + 1, 7 * bc_}) one_query(together, keys);
    together.other_shapes.push_back(shape_text("h=2," + length_text(2 * br_, 7 * bc_)));
    for (const int length : {3 * side_ + 9, 3 * side_}) {
      together.other_shapes.push_back(shape_text("h=2," + length_text(length, length)));
    }
    together.checked = true;
    // Who loads and who computes may end at tiles of their own; wide ones come in shorter rings.
    const int behind = (bc_ <= 64 ? 5 : 3) * bc_;
    Probe& ends = add_causal("causal, more tiles behind the diagonal than rings of buffers hold",
                             length_text(side_ + behind + 1, side_ + behind + 1));
    for (const int more : {8, 16, 0}) square(ends, side_ + behind + more);
    ends.large = true;
    // Where fewer warps have rows, fewer wait for each other. One key more than any usual number of
    // splits has alike.
    Probe& lone = add("one query, more tiles than a warp has lanes",
                      length_text(1, (most_tiles - 1) * bc_ + 1));
    one_query(lone, (most_tiles - 1) * bc_);
    lone.checked = lone.large = true;
  }

  /// Of a kernel whose blocks go through several items.
  void add_items() {
    constexpr int heads = 136;  // more than the 132 blocks of an H200
    Probe& items = add("several items per block",
                       "h=" + std::to_string(heads) + "," + length_text(br_, 3 * bc_));
    items.checked = items.large = true;
    if (!any_width() || !has_head_dim(given_, 128)) return;
    // Wide rows leave less room for items to wait in; of e4m3 each head has scales of its own.
    Probe& wide = add("several items per block, a head dimension of 128",
                      "h=" + std::to_string(heads) + "," + length_text(br_, bc_));
    set_d(wide, 128);
    wide.large = true;
    const std::vector<std::string> types = other_types(given_);
    if (std::ranges::find(types, "e4m3") != types.end()) wide.options.dtype = "e4m3";
  }

  /// Of a kernel that combines splits of the keys.
  void add_splits() {
    Probe& several = with_splits(3, add("several splits", length_text(br_, 6 * bc_)));
    several.checked = several.broad = true;
    with_splits(3, add("large scores in several splits", length_text(br_, 6 * bc_))).options.input =
        "large";
    with_splits(4, add("more splits than tiles", length_text(br_, 2 * bc_)));
    with_splits(most_tiles,
                add("more splits than a warp has lanes", length_text(1, most_tiles * bc_)));
    with_splits(3, add_causal("causal, splits that some rows do not see",
                              length_text(2 * side_, 2 * side_ + br_ / 2)));
    with_splits(2, add_causal("heads that share tiles", "h=4,hkv=1," + length_text(3, 4 * bc_)))
        .checked = true;
    with_splits(2, add_causal("groups of heads that need several tiles",
                              "b=2,h=8,hkv=2," + length_text(br_ / 4 + 1, 4 * bc_)));
    with_splits(2, add_causal("a tile that begins with the last row of a head",
                              "h=2,hkv=1," + length_text(br_ + 1, 2 * bc_)));
  }

  /// Other head dimensions, types and tiles that the kernel is built for.
  void add_other_modules(bool combines) {
    Probe& padded = add("a padded head dimension", length_text(br_, 2 * bc_));
    padded.other_shapes.push_back(shape_text(length_text(2 * side_, 2 * side_)));
    set_d(padded, head_dim_ * 5 / 8);
    for (const std::string& type : other_types(given_)) {
      Probe& probe = add("inputs of " + type, "b=2,h=2,hkv=1," + length_text(br_, 2 * bc_));
      probe.checked = true;
      probe.options.dtype = type;
    }
    if (any_width() && has_head_dim(given_, 128)) {
      set_d(add_causal("a head dimension of 128",
                       "h=2,hkv=1," + length_text(br_ + br_ / 2, 2 * bc_ + 5)),
            128);
    }
    for (const auto& [rows, keys] : other_tiles(given_, br_, bc_)) {
      Probe& probe = add_causal("tiles of " + tile_text(rows, keys),
                                "h=2,hkv=1," + length_text(rows + rows / 2, 3 * keys + keys / 2));
      probe.options.tile_shape = tile_text(rows, keys);
      if (combines) with_splits(2, probe);
    }
  }

 private:
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
  static void set_d(Probe& probe, int d) {
    const auto set = [d](std::string& shape) {
      shape.replace(shape.rfind('=') + 1, std::string::npos, std::to_string(d));
    };
    set(probe.options.shape);
    std::for_each(probe.other_shapes.begin(), probe.other_shapes.end(), set);
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

}  // namespace

bool is_given(const RunOptions& options) {
  return !options.shape.empty() || !options.preset.empty() || options.causal ||
         options.input != "random" || options.seed != 0;
}

std::vector<Probe> plan(const RunOptions& given, int br, int bc, int head_dim, bool combines,
                        bool persistent) {
  Planner planner(given, br, bc, head_dim);
  planner.add_usual();
  if (persistent) planner.add_items();
  if (combines) planner.add_splits();
  planner.add_other_modules(combines);
  return planner.take();
}

}  // namespace lanescope
