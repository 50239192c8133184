#include "gates/run/locate_plan.h"

#include "gates/run/planner.h"

namespace lanescope {

Probe& Planner::square(Probe& probe, std::int64_t length) {
  probe.other_shapes.push_back(shape_text(length_text(length, length)));
  return probe;
}

void Planner::one_query(Probe& probe, int keys) {
  for (const char* const heads : {"h=8,", ""}) {
    probe.other_shapes.push_back(shape_text(heads + length_text(1, keys)));
  }
}

void Planner::decoding(Probe& probe, int rows, int keys) {
  if (probe.options.causal) rows = std::max(rows, 4);
  if (rows > 1) probe.other_shapes.push_back(shape_text(length_text(rows, keys)));
  if (!probe.options.causal) one_query(probe, keys);
}

Probe& Planner::of_keys(const std::string& about, int rows, int tiles, int lacking) {
  Probe& probe = add(about, length_text(rows, tiles * bc_ - lacking));
  if (lacking > 0) probe.other_shapes.push_back(shape_text(length_text(rows, tiles * bc_)));
  if (rows != br_ && br_ > 1) {
    probe.other_shapes.push_back(shape_text(length_text(br_, tiles * bc_)));
  }
  one_query(probe, tiles * bc_);
  return probe;
}

void Planner::add_usual() {
  add_tiles();
  add_masks();
  add_heads();
  add_scores();
  add_many_tiles();
}

void Planner::add_tiles() {
  square(of_keys("a single tile", rows_, 1), side_);
  Probe& several = square(of_keys("several tiles", rows_, 3), 3 * side_);
  for (const int length : {256, 384, 512, 1024}) square(several, length);
  add("enough rows to solve a product for its operands", length_text(128, 128));
  square(of_keys("the maximum rises in every tile", rows_, 3), 3 * side_).options.input = "rising";
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
  // What is whole in tiles of another size is not in its own.
  if (br_ > 1) {
    square(add("a tile and a half", length_text(br_ + br_ / 2, bc_ + bc_ / 2)), side_ + side_ / 2);
  }
}

void Planner::add_masks() {
  decoding(add_causal("causal", length_text(side_, side_)), br_, side_);
  Probe& ragged =
      add_causal("causal, ragged, several tiles", length_text(2 * side_ + 1, 2 * side_ + 1));
  for (const int more : {8, 16, 0}) square(ragged, 2 * side_ + more);
  decoding(ragged, 2 * br_, 4 * bc_ + 5);
  ragged.checked = ragged.broad = true;
  // Of sixteen rows and keys whose first row sees all keys but one.
  Probe& fewer =
      add_causal("causal, fewer queries than keys", length_text(br_ / 2 + 8, side_ + 38));
  fewer.other_shapes.push_back(shape_text(length_text(br_ / 2 + 8, side_ + 32)));
  decoding(fewer, br_ / 2, side_ + 32);
  // The last key that the block's last row sees is the first of a tile. There it weighs most.
  add_causal("causal, a diagonal that ends with the first key of a tile",
             length_text(br_, ((br_ + bc_ - 1) / bc_ + 1) * bc_ + 1))
      .options.input = "rising";
  // Where a block has no keys it comes to fewer barriers.
  Probe& keyless = add_causal("causal, rows that see no key", length_text(side_ + 32, side_));
  decoding(keyless, br_, std::max(br_, 4) / 2);
  keyless.broad = keyless.checked = true;
  add_causal("causal, rows that see no key of a tile that others see",
             length_text(side_ + br_ + br_ / 2, side_));
}

void Planner::add_heads() {
  // Heads of Q are as far apart as they have rows, those of K and V as they have keys; so are
  // batches, with twice the heads of Q. What lies beyond the heads of two batches is another's of
  // three. No more items than any usual number of blocks: what one leaves the next is another
  // fault.
  int keys = 2 * bc_;
  while (keys == br_ || keys == 2 * br_) keys += bc_;
  Probe& heads = add("several heads", "b=3,h=4,hkv=2," + length_text(br_, keys));
  heads.checked = heads.broad = true;
  const int few = std::max(br_ / 4, 2);
  for (const char* const sides :
       {"b=3,h=4,hkv=2,", "b=2,h=6,hkv=3,", "b=2,h=3,", "h=6,hkv=3,", "h=6,"}) {
    for (const auto& [rows, columns] :
         {std::pair{br_, keys}, {2 * side_, 2 * side_}, {few, keys}, {1, keys}}) {
      heads.other_shapes.push_back(shape_text(sides + length_text(rows, columns)));
    }
  }
  // Groups of another size than those of the heads above: one that divides no tile of queries of
  // all its heads, else the two usual ones.
  Probe& group = add_causal("causal, heads that share keys",
                            "h=6,hkv=2," + length_text(rows_ + 9, side_ + 37));
  group.checked = true;  // the one whose blocks of queries end before K does
  for (const char* const heads : {"h=8,hkv=2,", "h=4,hkv=2,"}) {
    group.other_shapes.push_back(shape_text(heads + length_text(rows_ + 9, side_ + 37)));
  }
  group.other_shapes.push_back(shape_text("h=4,hkv=2," + length_text(2 * side_, 2 * side_)));
  // Of three heads that share keys, whose rows lie in one tile, the third tile ends with query
  // br - 1, whose last key is the first of a tile of keys.
  if (br_ > 1) {
    const int keys = rounded_up(br_, bc_) + 2;
    add_causal("causal, shared keys of which the last one of a block is the first of a tile",
               "h=3,hkv=1," + length_text(br_ + 1, keys))
        .options.input = "rising";
  }
}

void Planner::add_scores() {
  // Sums overflow in few rows, whose warps tell others of it where m follows for several at once.
  Probe& large = square(of_keys("large scores", rounded_up(64, br_), 2), 2 * side_);
  large.options.input = "large";
  large.checked = true;
  // A maximum that starts at 0 stays there.
  square(of_keys("scores far below 0", rows_, 2, 6), 2 * side_).options.input = "low";
  // What is subtracted from scores need not be their maximum, as long as nothing overflows.
  if (!is_module_path(given_.kernel)) {
    of_keys("the maximum rises steeply", rows_, 3, 2).options.input = "steep";
  } else {
    // The last key, which is above all others, has a tile of its own.
    Probe& steep = add("the maximum rises steeply", length_text(rows_, 5 * bc_ + 1));
    steep.options.input = "steep";
    one_query(steep, 5 * bc_ + 1);
    for (const int rows : {rows_, br_}) {
      steep.other_shapes.push_back(shape_text(length_text(rows, 5 * bc_)));
    }
    one_query(steep, 5 * bc_);
    square(steep, 3 * side_);
    // Also in ranges that several blocks take, of some tiles each, it falls behind it.
    square(of_keys("a key far above all others", rows_, 7), 4 * side_).options.input = "lone";
    add_strangers();
  }
}

void Planner::add_many_tiles() {
  // A number of tiles that none divides: who gives out so many to each of several leaves some. The
  // last one lacks a key.
  square(of_keys("more tiles than rings of buffers hold", rows_, 11, 1), rounded_up(11 * bc_, br_))
      .checked = true;
  // What is used once more where sums overflow may be gone by then.
  Probe& late = square(
      of_keys("large scores, more tiles than rings of buffers hold", rounded_up(64, br_), 6, 7),
      rounded_up(6 * bc_, br_));
  late.options.input = "large";
  late.checked = true;
  add_causal("causal, the maximum rises in every tile", length_text(2 * side_ + 1, 2 * side_ + 1))
      .options.input = "rising";
  // What blocks of several heads and rows leave each other, where keys are given out to several;
  // the last rows and keys fill no tile.
  Probe& together =
      add("several heads, ragged, many tiles", "b=2,h=2," + length_text(rows_ + 9, 7 * bc_ + 1));
  for (const int keys : {7 * bc_ + 1, 7 * bc_}) {
    // As large a group as is usual: those who share its keys may be as many.
    together.other_shapes.push_back(shape_text("b=2,h=8,hkv=1," + length_text(1, keys)));
    one_query(together, keys);
  }
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
  // A module may take more keys at a time than it says, and more of them to a split.
  constexpr int widest_range = 128;
  const int range = is_module_path(given_.kernel) ? std::max(bc_, widest_range) : bc_;
  Probe& lone = add("one query, more tiles than a warp has lanes",
                    length_text(1, (most_tiles - 1) * range + 1));
  one_query(lone, rounded_up((most_tiles - 1) * range + 1, 64));
  one_query(lone, (most_tiles - 1) * range);
  lone.checked = lone.large = true;
  if (!is_module_path(given_.kernel)) return;
  Probe rising = lone;
  rising.about += ", the maximum rises";
  rising.options.input = "rising";
  rising.checked = false;
  probes_.push_back(rising);
}

void Planner::add_strangers() {
  // A block that goes through several items, of which one sees no key.
  add_causal("several heads, causal, rows that see no key",
             "h=4,hkv=2," + length_text(2 * side_, side_))
      .other_shapes.push_back(shape_text("h=4," + length_text(2 * side_, side_)));
  // A module may say another tile than its blocks take.
  Probe& rows = add("rows of several blocks, however many each takes", length_text(584, bc_));
  for (const int count : {640, 1024}) {
    rows.other_shapes.push_back(shape_text(length_text(count, bc_)));
    rows.other_shapes.push_back(shape_text(length_text(count, count)));
  }
  // Blocks of more rows than keys, whose diagonal begins within a tile, come to it in more of them.
  Probe& unaligned = add_causal("causal, rows of several blocks, from no multiple of a tile on",
                                length_text(264, 353));
  for (const int keys : {296, 304})
    unaligned.other_shapes.push_back(shape_text(length_text(256, keys)));
  // Persistent blocks, as many as an H200 has multiprocessors, go on to a second item.
  const std::string heads = "h=136,";
  Probe& items = add("more items than a GPU has multiprocessors", heads + length_text(br_, bc_));
  for (const int rows : {side_, 1}) {
    items.other_shapes.push_back(shape_text(heads + length_text(rows, rows == 1 ? bc_ : side_)));
  }
  items.checked = items.large = items.by_turns = true;
  // Of thirteen tiles of rows, or seven of twice as many, all but one see no key: neither divides a
  // usual number of blocks, of which some come to items with keys behind items without. Of few rows
  // to a block, a lot of blocks take long.
  const int rows_of_tile = br_ < 16 ? 16 : std::max(br_, 64);
  Probe& mixed =
      add_causal("more items than a GPU has multiprocessors, causal, rows that see no key",
                 "h=28," + length_text(13 * rows_of_tile, rows_of_tile));
  mixed.checked = mixed.large = mixed.by_turns = true;
  leave_behind(mixed);
  // One key more than so many ranges of 64 have alike: where there are as many splits, they leave
  // it to none of them, or have one more.
  for (const int ranges : {3, 6}) {
    Probe& uneven = add(std::to_string(ranges) + " ranges of keys, and one key more",
                        length_text(br_, 64 * ranges + 1));
    for (const int rows : {2, 1}) {
      uneven.other_shapes.push_back(shape_text(length_text(rows, 64 * ranges + 1)));
    }
  }
}

bool is_given(const RunOptions& options) {
  return !options.shape.empty() || !options.preset.empty() || options.causal ||
         options.input != "random" || options.seed != 0;
}

std::vector<Probe> plan(const RunOptions& given, int br, int bc, int head_dim, bool combines,
                        int resident_blocks) {
  Planner planner(given, br, bc, head_dim);
  planner.add_usual();
  if (resident_blocks > 0) planner.add_items(resident_blocks);
  if (combines) planner.add_splits();
  planner.add_other_modules(combines, resident_blocks);
  return planner.take();
}

}  // namespace lanescope
