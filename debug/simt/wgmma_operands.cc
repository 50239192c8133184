// What the memory checker says of the operands of wgmma in shared memory, and whether they lie
// there.

#include <algorithm>
#include <map>
#include <optional>
#include <string>

#include "debug/simt/async_block.h"
#include "debug/simt/hopper.h"
#include "debug/simt/matrix_descriptor.h"

namespace lanescope::simt {
namespace {

/// Which element of K 16-bit word `k` of an operand is.
int element_of(const Product& what, int k) { return 2 * k / bytes_of(what.a_type); }

/// Whether elements that are neighbours in an operand are so in the tensor that a copy brought them
/// of: by the coordinates of its map, or in memory, where the map takes rows apart in panels; or in
/// the boxes of copies, whose rows may be those of several heads.
class Neighbours {
 public:
  explicit Neighbours(const Product& what) : bytes_(bytes_of(what.a_type)) {}

  /// Of the elements so far and this one, `down` rows of the operand and `right` columns on.
  bool hold(const Origin& origin, int down, int right) {
    if (!first_) {
      first_ = &origin;
      down_ = down;
      right_ = right;
    }
    down -= down_;
    right -= right_;
    ways_[0] = ways_[0] && origin.row == first_->row + down && origin.col == first_->col + right;
    ways_[3] = ways_[3] && origin.line == first_->line + down && origin.col == first_->col + right;
    for (int i = 0; i < 2; ++i) {
      const std::int64_t pitch = first_->pitch[i];
      ways_[i + 1] = ways_[i + 1] && pitch > 0 && origin.address >= 0 &&
                     origin.address / pitch == first_->address / pitch + down &&
                     origin.address % pitch == first_->address % pitch + right * bytes_;
    }
    const bool holds = std::ranges::any_of(ways_, [](bool way) { return way; });
    return holds && origin.tensor == first_->tensor;
  }
  bool any() const { return first_ != nullptr; }
  /// Whether `origin` is where its element would have to come from, by the coordinates of the map.
  bool is_missed(const Origin& origin, int down, int right) const {
    return first_ && origin.tensor == first_->tensor && origin.row == first_->row + down - down_ &&
           origin.col == first_->col + right - right_;
  }

 private:
  std::int64_t bytes_;
  const Origin* first_ = nullptr;
  int down_ = 0, right_ = 0;
  bool ways_[4] = {true, true, true, true};
};

/// Whether an element that an operand lacks, `down` rows and `right` columns on in the tile that
/// it begins with, lies elsewhere in shared memory.
bool is_elsewhere(AsyncHost& host, const Neighbours& neighbours, int down, int right) {
  for (std::size_t at = 0; at + 16 <= host.shared_bytes(); at += 16) {
    const Origin* origin = host.checker()->origin_of(at);
    if (origin && neighbours.is_missed(*origin, down, right)) return true;
  }
  return false;
}

}  // namespace

/// Where what a warp reads does not lie in shared memory.
std::string AsyncBlock::operand_error(const Product& what, int warp) const {
  std::string error;
  const auto look = [&](std::uint64_t descriptor, bool transposed, int first_row, int rows) {
    if (MatrixDescriptor(descriptor).has_base_offset()) {
      error = "the machine knows no base offset of a matrix descriptor";
    }
    for_each_chunk(descriptor, transposed, first_row, rows,
                   [&](std::size_t address, int row, int k) {
                     const std::size_t at = address - host_.shared_address();
                     if (at <= host_.shared_bytes() && at + 16 <= host_.shared_bytes()) return;
                     error = "an operand leaves the block's shared memory: its element (" +
                             std::to_string(row) + ", " + std::to_string(element_of(what, k)) +
                             ") lies at byte " + std::to_string(static_cast<std::ptrdiff_t>(at));
                   });
  };
  if (!what.a_in_registers) look(what.a, what.a_is_transposed, warp % 4 * 16, 16);
  if (error.empty()) look(what.b, what.b_is_transposed, 0, what.n);
  return error;
}

void AsyncBlock::check_operands(const Product& what, int warp, const AsyncWork& work) {
  const int warps = std::min(4, static_cast<int>(products_.size()) - warp / 4 * 4);
  if (!what.a_in_registers) {
    check_operand(what, what.a, what.a_is_transposed, 0, 16 * warps, work);
  }
  check_operand(what, what.b, what.b_is_transposed, 0, what.n, work);
}

/// Whether an operand lies as a copy brought it, all of one tile: neighbours in the tensor are
/// neighbours in the operand.
bool AsyncBlock::is_as_copied(const Product& what, std::uint64_t descriptor, bool transposed,
                              int first_row, int rows) const {
  const MatrixDescriptor matrix(descriptor);
  Neighbours neighbours(what);
  bool agrees = true;
  for_each_chunk(descriptor, transposed, first_row, rows, [&](std::size_t address, int row, int k) {
    const std::size_t at = address - host_.shared_address();
    const bool inside = at <= host_.shared_bytes() && at + 16 <= host_.shared_bytes();
    const Origin* origin = inside ? host_.checker()->origin_of(at) : nullptr;
    const int along = element_of(what, k);
    const int down = transposed ? along : row - first_row;
    const int right = transposed ? row - first_row : along;
    agrees = agrees && origin && origin->swizzle == matrix.swizzle() &&
             neighbours.hold(*origin, down, right);
  });
  return agrees;
}

/// Whether the descriptor would agree with tiles of the tensor that it starts in, started
/// elsewhere.
bool AsyncBlock::fits_from_elsewhere(const Product& what, std::uint64_t descriptor, bool transposed,
                                     int first_row, int rows) const {
  constexpr std::uint64_t start = 0x3fff;  // in units of 16 bytes
  const std::uint64_t begin = host_.shared_address() / 16;
  const auto tensor_from = [&](std::uint64_t bits) -> const void* {
    const std::size_t at =
        MatrixDescriptor(bits).offset(first_row, 0, transposed) - host_.shared_address();
    const bool inside = at <= host_.shared_bytes() && at + 16 <= host_.shared_bytes();
    const Origin* origin = inside ? host_.checker()->origin_of(at) : nullptr;
    return origin ? origin->tensor : nullptr;
  };
  const void* const tensor = tensor_from(descriptor);
  if (!tensor) return false;
  for (std::uint64_t at = begin; at < begin + host_.shared_bytes() / 16 && at <= start; ++at) {
    const std::uint64_t moved = (descriptor & ~start) | at;
    if (tensor_from(moved) == tensor && is_as_copied(what, moved, transposed, first_row, rows)) {
      return true;
    }
  }
  return false;
}

/// Whether the descriptor would agree with another leading or stride byte offset: a power of two
/// times its own, as where elements, or units of 16 bytes, are taken for bytes.
bool AsyncBlock::fits_by_other_offset(const Product& what, std::uint64_t descriptor,
                                      bool transposed, int first_row, int rows) const {
  constexpr std::uint64_t field = 0x3fff;
  for (const int place : {16, 32}) {
    const std::uint64_t own = descriptor >> place & field;
    for (int shift = 1; shift <= 4; ++shift) {
      for (const std::uint64_t other : {own << shift, own >> shift}) {
        if (other == 0 || other > field) continue;
        const std::uint64_t changed = (descriptor & ~(field << place)) | other << place;
        if (is_as_copied(what, changed, transposed, first_row, rows)) return true;
      }
    }
  }
  return false;
}

/// What is wrong with a descriptor that disagrees with the tile: another one that would not.
Kind AsyncBlock::kind_of_disagreement(const Product& what, std::uint64_t descriptor,
                                      bool transposed, int first_row, int rows) const {
  const bool has_sides = bytes_of(what.a_type) == 2;  // those of 8 bits have one major-ness
  if (has_sides && is_as_copied(what, descriptor, !transposed, first_row, rows)) {
    return transposed ? Kind::fits_k_major : Kind::fits_mn_major;
  }
  const bool starts_elsewhere =
      !fits_by_other_offset(what, descriptor, transposed, first_row, rows) &&
      fits_from_elsewhere(what, descriptor, transposed, first_row, rows);
  return starts_elsewhere ? Kind::wrong_start : Kind::layout_disagrees;
}

/// Whether a descriptor has the rank of its block behind the 14 bits of its start address, so that
/// it strays from what was written; without, it does not.
bool AsyncBlock::has_rank_in(std::uint64_t descriptor, bool transposed, int first_row,
                             int rows) const {
  constexpr int rank_bit = 20;  // of an address >> 4
  const auto rank = static_cast<std::uint64_t>(host_.rank());
  if (rank == 0 || (descriptor >> rank_bit & rank) != rank) return false;
  const auto is_whole = [&](std::uint64_t bits) {
    bool whole = true;
    for_each_chunk(bits, transposed, first_row, rows, [&](std::size_t address, int, int) {
      const std::size_t at = address - host_.shared_address();
      whole = whole && at <= host_.shared_bytes() && at + 16 <= host_.shared_bytes() &&
              !host_.checker()->is_unwritten(host_.shared_memory() + at, 16);
    });
    return whole;
  };
  return !is_whole(descriptor) && is_whole(descriptor - (rank << rank_bit));
}

/// What the memory checker says of the bytes of an operand.
void AsyncBlock::check_operand(const Product& what, std::uint64_t descriptor, bool transposed,
                               int first_row, int rows, const AsyncWork& work) {
  const MatrixDescriptor matrix(descriptor);
  BlockChecker& checker = *host_.checker();
  if (has_rank_in(descriptor, transposed, first_row, rows)) {
    const std::size_t at = matrix.offset(first_row, 0, transposed) - host_.shared_address();
    checker.add_shared(Kind::rank_in_descriptor, work, false, {}, at, 16);
    return;
  }
  Neighbours neighbours(what);
  // Of each copy that brought a part; and the first element that is of another place.
  std::map<std::uint32_t, Neighbours> parts;
  std::optional<std::size_t> strays_at;
  bool parts_agree = true;
  std::size_t first_at = 0;
  bool disagrees = false;
  const auto add_disagreement = [&](std::size_t at) {
    if (disagrees) return;
    disagrees = true;
    checker.add_shared(kind_of_disagreement(what, descriptor, transposed, first_row, rows), work,
                       false, {}, at, 16);
  };
  for_each_chunk(descriptor, transposed, first_row, rows, [&](std::size_t address, int row, int k) {
    const std::size_t at = address - host_.shared_address();
    // Of the rows of other warps, which tell of it themselves.
    if (at > host_.shared_bytes() || at + 16 > host_.shared_bytes()) return;
    // What a copy brought is whole: the operand goes on where no copy put anything.
    if (neighbours.any() && checker.is_unwritten(host_.shared_memory() + at, 16)) {
      add_disagreement(at);
      return;
    }
    // Or where others than copies did, who rightly did not make it ready for a product.
    if (neighbours.any() && checker.async().origin(at).copy == 0 &&
        checker.misread(at, 16, work).kind != Kind::none &&
        fits_from_elsewhere(what, descriptor, transposed, first_row, rows)) {
      add_disagreement(first_at);
      return;
    }
    checker.read_async(at, 16, work);
    const Origin* origin = checker.origin_of(at);
    if (!origin) return;
    // Where a copy brought the tile, neighbours in the tensor are neighbours in the operand.
    const int down = transposed ? k : row, right = transposed ? row : element_of(what, k);
    if (!neighbours.any()) first_at = at;
    const bool holds = neighbours.hold(*origin, down, right);
    Neighbours& part = parts.try_emplace(origin->copy, what).first->second;
    const bool fits_part = origin->swizzle == matrix.swizzle() && part.hold(*origin, down, right);
    parts_agree = parts_agree && fits_part;
    if ((holds && fits_part) || strays_at) return;
    strays_at = at;
    // What another block sends is where that sends it, whatever else lies here.
    const bool is_sent =
        checker.async().is_from_outside(at) != checker.async().is_from_outside(first_at);
    parts_agree = parts_agree && (is_sent || !is_elsewhere(host_, neighbours, down, right));
  });
  if (!strays_at || disagrees) return;
  if (!parts_agree || fits_by_other_offset(what, descriptor, transposed, first_row, rows)) {
    return add_disagreement(*strays_at);
  }
  checker.add_shared(Kind::parts_differ, work, false, checker.writer_of(*strays_at), *strays_at,
                     16);
}

}  // namespace lanescope::simt
