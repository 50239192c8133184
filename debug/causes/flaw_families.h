#pragma once

#include <functional>
#include <string>
#include <vector>

#include "debug/causes/known_flaws.h"

namespace lanescope {

// Families of known flaws, each appended to `flaws`.
using Flaws = std::vector<Flaw>;

/// Which keys a row sees.
void add_flaws_of_masks(const DumpInfo& info, Flaws& flaws);
/// Masks that go by the numbers of other keys, registers, tiles and queries; of the former.
void add_misplaced_masks(const DumpInfo& info, Flaws& flaws);
/// Which keys a row takes at the end of the sequence; tiles left out or taken twice.
void add_flaws_of_keys(const DumpInfo& info, Flaws& flaws);
/// Which tensors, heads and rows the operands are.
void add_flaws_of_operands(const DumpInfo& info, Flaws& flaws);
/// Which tiles and rows of K and V keys have, and as which type bits are taken.
void add_flaws_of_tiles(const DumpInfo& info, Flaws& flaws);
/// From which places of their tiles the elements of K, V and P are read.
void add_flaws_of_places(const DumpInfo& info, Flaws& flaws);
/// Which scores and weights, of other rows and keys, the row and its keys have; of those of places.
void add_flaws_of_weights(const DumpInfo& info, Flaws& flaws);
/// Which matrices of 8 x 8 elements the fragments of mma.m16n8k16 are read from.
void add_flaws_of_fragments(const DumpInfo& info, Flaws& flaws);
/// The same of K and of V at once: who misreads one misreads the other.
std::vector<Flaw> flaws_of_two_fragments(const DumpInfo& info);
/// In which order the lanes of mma hold keys and columns, where another is taken for it.
void add_flaws_of_lanes(const DumpInfo& info, Flaws& flaws);
/// What m, l and O are summed up from, tile by tile and lane by lane.
void add_flaws_of_sums(const DumpInfo& info, Flaws& flaws);
/// How O and l are brought from one tile's maximum to the next one's; of those of sums.
void add_flaws_of_rescales(const DumpInfo& info, Flaws& flaws);
/// Over which lanes, warps and rows m and l are reduced; of the former.
void add_flaws_of_reductions(const DumpInfo& info, Flaws& flaws);
/// What blocks of their own for parts of the keys take, and how their results are put together.
void add_flaws_of_splits(const DumpInfo& info, Flaws& flaws);
/// How O and the log-sum-exp are made of the sums, and where they are stored.
void add_flaws_of_outputs(const DumpInfo& info, Flaws& flaws);
/// Rules of m, l and O that hold in some tiles alone.
void add_rules_of_tiles(const DumpInfo& info, Flaws& flaws);
/// Parts of tiles, by row or column, that do not count, count twice, or are those of others.
void add_flaws_of_subsets(const DumpInfo& info, Flaws& flaws);
/// Where the rows of heads and tiles lie in the tensors: strides that belong to other dimensions.
void add_flaws_of_addresses(const DumpInfo& info, Flaws& flaws);
/// The same flaws of the scores where they are computed once more, for O alone.
std::vector<Flaw> flaws_of_passes(const std::vector<Flaw>& known);
/// Which scales the inputs have, of those that have one per head.
void add_flaws_of_input_scales(const DumpInfo& info, Flaws& flaws);
/// Types that are too narrow for scores, P or O.
void add_flaws_of_rounding(const DumpInfo& info, Flaws& flaws);
/// e4m3 that is widened by moving its bits: exponent 0 as if it were any other, though numbers
/// below 2^-6 have no leading 1, and 0 is one of them (OCP 8-bit Floating Point
/// Specification, 5.1).
double widened_as_normal(double x);
/// Small numbers of e4m3 that become others as they are widened.
void add_flaws_of_widening(const DumpInfo& info, Flaws& flaws);
/// A row sees the last keys up to its own alone, or those around it: windows of every width.
std::vector<Flaw> window_flaws(const DumpInfo& info);

/// The row sees the keys [0, end), of which those beyond the last are zeros.
void see_keys(std::int64_t end, std::int64_t len_kv, RowPlan& plan);
/// P of a row is taken from where `from` says in its tile: also from rows that see more keys.
void take_weights_from(const TileMap& from, std::int64_t len_kv, RowPlan& plan);

/// The plan has an edit more in those columns of O whose number says that they are of the other of
/// two rows 8 apart: odd ones of the upper row, even ones of the lower.
void take_row_by_column(RowPlan& plan, std::function<void(RowPlan&)> edit);

/// "1 key", "3 keys".
std::string keys_text(std::int64_t count);
std::int64_t rounded_up(std::int64_t x, std::int64_t step);
/// Sizes of a tile of keys: the kernel's own, then what else is in use.
std::vector<std::int64_t> tile_sizes(const DumpInfo& info);
/// Says the size where it is not the kernel's own.
std::string size_text(const DumpInfo& info, std::int64_t size);

/// Tiles that a rule may hold in alone, as the row's block goes through them.
struct SomeTiles {
  std::string text;
  std::function<bool(const RowPlan&, std::int64_t tile)> holds;
};
std::vector<SomeTiles> some_tiles(const DumpInfo& info);

}  // namespace lanescope
