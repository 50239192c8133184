// Problems for what some kernels do, and what they are built for.
#include "gates/run/planner.h"

namespace lanescope {
namespace {

/// Rows and keys that fill no tile, of which the first row sees all keys of two tiles and some.
std::string from_within_tiles(int rows, int keys, int offset) {
  const int queries = rows + rows / 2 + 3;
  return length_text(queries, queries + 2 * keys + offset);
}

/// Heads of so many items that they take long to judge.
constexpr int many = 64;

/// Heads of one item each: two for each block, three for some; of many blocks, two for some.
int heads_of_items(int resident_blocks) {
  return std::min(2 * resident_blocks, std::max(resident_blocks, many)) + 4;
}

}  // namespace

void Planner::add_items(int resident_blocks) {
  const int heads = heads_of_items(resident_blocks);
  Probe& items = add("several items per block",
                     "h=" + std::to_string(heads) + "," + length_text(br_, 3 * bc_));
  items.checked = items.large = true;
  const std::vector<std::string> types = other_types(given_);
  const bool has_e4m3 = std::ranges::find(types, "e4m3") != types.end();
  if (has_e4m3) {  // whose tiles of V are made ready by warps of their own
    Probe& e4m3 = add("several items per block, inputs of e4m3",
                      "h=" + std::to_string(heads) + ",hkv=" + std::to_string(heads / 2) + "," +
                          length_text(br_, bc_));
    e4m3.options.dtype = "e4m3";
    e4m3.checked = e4m3.large = true;
  }
  // Who has no rows of an item, or no keys, takes part in what others wait for all the same. Five
  // for each block come to a place of two for the third time: counts that drift show late.
  const int short_heads = std::min(5 * resident_blocks, std::max(heads, 2 * many));
  const std::string few_rows = "h=" + std::to_string(short_heads) + "," + length_text(br_ / 2, bc_);
  add("several items per block, of few rows", few_rows).large = true;
  if (has_e4m3) {
    Probe& few = add("several items per block, of few rows, inputs of e4m3", few_rows);
    few.options.dtype = "e4m3";
    few.checked = few.large = true;
  }
  Probe& keyless = add_causal("several items per block, causal, rows that see no key",
                              "h=" + std::to_string(heads) + "," + length_text(2 * br_, bc_ / 2));
  keyless.large = true;
  leave_behind(keyless);
  std::vector<int> wider = any_width() ? other_head_dims(given_, head_dim_) : std::vector<int>{};
  std::erase_if(wider, [&](int d) { return d < head_dim_; });
  if (wider.empty()) return;
  // Wide rows leave less room for items to wait in; of e4m3 each head has scales of its own.
  Probe& wide = add("several items per block, a head dimension of " + std::to_string(wider.front()),
                    "h=" + std::to_string(heads) + ",hkv=" + std::to_string(heads / 2) + "," +
                        length_text(br_, bc_));
  set_d(wide, wider.front());
  wide.large = true;
  // Who orders items by the heads whose K and V the L2 holds, of an H200's 16 MiB for wide rows,
  // takes these two at a time, since four do not fit, and leaves one.
  constexpr int most_keys = (16 << 20) / (4 * 2 * 256 * 2);
  Probe& apart = add_causal("causal, heads whose K and V an L2 does not hold together",
                            "h=3," + length_text(br_ + 1, most_keys + bc_));
  set_d(apart, wider.back());
  apart.large = true;
  apart.options.where = "tile=0";  // of so many tiles; that an item is another one, outputs tell
  if (!has_e4m3) return;
  wide.options.dtype = "e4m3";
  // The widest rows have the shortest rings of tiles.
  Probe& widest = add("inputs of e4m3, a head dimension of " + std::to_string(wider.back()),
                      "h=2,hkv=1," + length_text(br_, 6 * bc_));
  set_d(widest, wider.back());
  widest.options.dtype = "e4m3";
  widest.checked = true;
}

void Planner::add_splits() {
  Probe& several = with_splits(3, add("several splits", length_text(br_, 6 * bc_)));
  several.checked = several.broad = true;
  with_splits(3, add("large scores in several splits", length_text(br_, 6 * bc_))).options.input =
      "large";
  // More than a pass over them takes at once, as a rule.
  with_splits(9, add("splits that are far above those before", length_text(br_, 9 * bc_)))
      .options.input = "steep";
  with_splits(4, add("more splits than tiles", length_text(br_, 2 * bc_)));
  const std::string many_splits = "more splits than a warp has lanes";
  for (const char* input : {"random", "steep"}) {
    const std::string about = std::string(input) == "random" ? "" : ", the last one far above";
    with_splits(most_tiles, add(many_splits + about, length_text(1, most_tiles * bc_)))
        .options.input = input;
  }
  with_splits(3, add_causal("causal, splits that some rows do not see",
                            length_text(2 * side_, 2 * side_ + br_ / 2)));
  with_splits(2, add_causal("heads that share tiles", "h=4,hkv=1," + length_text(3, 4 * bc_)))
      .checked = true;
  // The first query of each head alone does not see the last key of the fourth tile; that of the
  // last head stands within a tile of rows.
  const int rows = br_ / 4 + 1;
  with_splits(2, add_causal("groups of heads that need several tiles",
                            "b=2,h=10,hkv=2," + length_text(rows, 4 * bc_ + rows - 2)));
  with_splits(2, add_causal("a tile that begins with the last row of a head",
                            "h=2,hkv=1," + length_text(br_ + 1, 2 * bc_)));
}

void Planner::add_other_modules(bool combines, int resident_blocks) {
  Probe& padded = add("a padded head dimension", length_text(br_, 2 * bc_ - 3));
  padded.other_shapes.push_back(shape_text(length_text(br_, 2 * bc_)));
  padded.other_shapes.push_back(shape_text(length_text(2 * side_, 2 * side_)));
  set_d(padded, head_dim_ * 5 / 8);
  for (const std::string& type : other_types(given_)) {
    // A type that is made ready in shared memory has other rings of buffers there; of e4m3 each
    // head has scales of its own.
    const std::string heads = type == "e4m3" ? "b=2,h=4,hkv=2," : "b=2,h=2,hkv=1,";
    Probe& probe = add("inputs of " + type, heads + length_text(br_, 6 * bc_ - 9));
    probe.other_shapes.push_back(shape_text(heads + length_text(br_, 6 * bc_)));
    probe.checked = true;
    probe.options.dtype = type;
    // A maximum may lag behind as far as the type of P allows.
    Probe& rising = add("inputs of " + type + ", the maximum rises in every tile",
                        length_text(br_, 3 * bc_ - 4));
    rising.other_shapes.push_back(shape_text(length_text(br_, 3 * bc_)));
    rising.options.dtype = type;
    rising.options.input = "rising";
    // What is beyond the end, or is masked, is made in each type, too.
    Probe& ragged = add_causal("inputs of " + type + ", causal, ragged",
                               heads + length_text(br_ + br_ / 2 + 3, 2 * bc_ + 5));
    for (const int more : {8, 0}) square(ragged, 2 * side_ + more);
    ragged.options.dtype = type;
  }
  for (const int d : any_width() ? other_head_dims(given_, head_dim_) : std::vector<int>{}) {
    const std::string about = "a head dimension of " + std::to_string(d);
    set_d(add_causal(about, "h=2,hkv=1," + length_text(br_ + br_ / 2, 2 * bc_ + 5)), d);
    // Which operands stay in registers, and where fences stand, may be another matter.
    Probe& whole = add(about + ", whole tiles", length_text(br_, 2 * bc_));
    set_d(whole, d);
    whole.checked = true;
  }
  for (const auto& [rows, keys] : other_tiles(given_, br_, bc_)) {
    Probe& probe = add_causal("tiles of " + tile_text(rows, keys),
                              "h=2,hkv=1," + from_within_tiles(rows, keys, 20));
    probe.options.tile_shape = tile_text(rows, keys);
    if (combines) with_splits(2, probe);
    if (resident_blocks == 0) continue;
    // Of other rows, other warps give the place of an item free.
    Probe& items =
        add("several items per block, tiles of " + tile_text(rows, keys),
            "h=" + std::to_string(heads_of_items(resident_blocks)) + "," + length_text(rows, keys));
    items.options.tile_shape = tile_text(rows, keys);
    items.checked = items.large = true;
  }
  if (!any_width() || !given_.dtype.empty() || !given_.tile_shape.empty()) return;
  for (const ModuleName& name : modules_of_pairs(given_, probes_)) {
    const std::string type(name_of(name.dtype)), tile = tile_text(name.br, name.bc);
    Probe& probe = add_causal("inputs of " + type + ", a head dimension of " +
                                  std::to_string(name.head_dim) + ", tiles of " + tile,
                              "h=4,hkv=2," + from_within_tiles(name.br, name.bc, 37));
    set_d(probe, name.head_dim);
    probe.options.dtype = type;
    probe.options.tile_shape = tile;
    if (combines) with_splits(2, probe);
  }
}

}  // namespace lanescope
