#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "debug/ptx/program.h"
#include "reference/site.h"

namespace lanescope::ptx {

/// What the warps of a block did, instruction by instruction, for a backward slice (ptx/slice.h).
class Recording {
 public:
  static constexpr std::uint32_t none = ~0u;
  using Pointers = std::array<std::byte*, 32>;

  /// An instruction of a warp. Of what it noted `none`, or the begin of that.
  struct Step {
    std::uint64_t when = 0;         ///< counted over all blocks
    std::uint32_t instruction = 0;  ///< in Program::code
    std::uint32_t mask = 0;         ///< lanes that did it
    std::uint16_t warp = 0;
    std::uint32_t chosen = 0;  ///< of selp: lanes that took the first source
    std::uint32_t pointers = none;
    std::uint32_t lanes = none;
    std::uint32_t copies = none, copy_count = 0;
    std::uint32_t elements = none, element_count = 0;
    std::uint32_t marks = none, mark_count = 0;
    std::uint32_t product = none;
    bool landed = false;        ///< no instruction: bytes of a bulk copy that it issued
    std::uint32_t results = 0;  ///< of the values behind it, 32 words of each result
  };
  /// Bytes that a lane has copied from memory to memory; from nullptr: zeroes. `updates`: what lay
  /// there counts as well.
  struct Copy {
    int lane;
    const std::byte *to, *from;
    std::size_t bytes;
    bool updates = false;
  };
  /// A wgmma, and where the address 0 of shared memory lies.
  struct Product {
    simt::Product what;
    const std::byte* shared;
  };
  /// An element of a matrix in memory that a lane's register is of: the n-th result, or source.
  struct Element {
    int operand, lane;
    const std::byte* at;
    std::size_t bytes;
  };
  /// A value that a marker names.
  struct Mark {
    SiteId site;
    std::int64_t block, tile;
    int row, col, thread;
  };

  /// Words of results that are kept: 2 GiB, some four million steps.
  static constexpr std::size_t most_results = std::size_t{1} << 29;

  /// Of the block that begins; the clock counts what all of them do.
  void begin(std::atomic<std::uint64_t>& clock);
  /// Words of results.
  std::size_t size() const { return results_.size(); }
  /// False once it has more steps than memory is for.
  bool whole() const { return whole_; }

  // What an instruction does on its way; add() takes it over, drop() forgets it.

  void note_pointers(const Pointers& pointers) { pointers_of_step_ = pointers; }
  /// Which lane each takes its number from.
  void note_lanes(const std::array<std::uint8_t, 32>& lanes) { lanes_of_step_ = lanes; }
  void note_copy(const Copy& copy) { copies_of_step_.push_back(copy); }
  void note_element(const Element& element) { elements_of_step_.push_back(element); }
  void note_mark(const Mark& mark) { marks_of_step_.push_back(mark); }
  void note_chosen(std::uint32_t lanes) { chosen_ = lanes; }
  void note_product(const Product& product) { product_of_step_ = product; }
  void add(const Program& program, const std::byte* registers, int warp, std::uint32_t instruction,
           std::uint32_t mask);
  void drop();
  // Of wgmma, whose results are there once they are waited for: all groups but the last `pending`.
  void commit_products(int warp) { ++groups_[warp]; }
  void finish_products(const Program& program, const std::byte* registers, int warp, int pending);
  /// What a bulk copy that an instruction issued has moved by now.
  void add_landed(std::uint32_t instruction, int warp, const Copy& copy);

  const std::vector<Step>& steps() const { return steps_; }
  const Pointers& pointers(const Step& step) const { return pointers_[step.pointers]; }
  const std::array<std::uint8_t, 32>& lanes(const Step& step) const { return lanes_[step.lanes]; }
  const Product& product(const Step& step) const { return products_[step.product]; }
  const Copy* copies(const Step& step) const { return copies_.data() + step.copies; }
  const Element* elements(const Step& step) const { return elements_.data() + step.elements; }
  const Mark* marks(const Step& step) const { return marks_.data() + step.marks; }
  /// The word of a lane's n-th result.
  std::uint32_t result(const Step& step, int n, int lane) const {
    return results_[step.results + static_cast<std::size_t>(32 * n + lane)];
  }

 private:
  /// A wgmma that goes on, of a group of its warp.
  struct OpenProduct {
    int warp, group;
    std::size_t step;
  };

  void copy_results(const Program& program, const std::byte* registers, const Step& step);

  std::vector<Step> steps_;
  std::vector<OpenProduct> open_products_;
  std::map<int, int> groups_;  ///< by warp: that it has committed
  std::vector<Pointers> pointers_;
  std::vector<std::array<std::uint8_t, 32>> lanes_;
  std::vector<Copy> copies_, copies_of_step_;
  std::vector<Element> elements_, elements_of_step_;
  std::vector<Mark> marks_, marks_of_step_;
  std::vector<Product> products_;
  std::vector<std::uint32_t> results_;
  std::optional<Pointers> pointers_of_step_;
  std::optional<std::array<std::uint8_t, 32>> lanes_of_step_;
  std::optional<Product> product_of_step_;
  std::uint32_t chosen_ = 0;
  bool whole_ = true;
  std::atomic<std::uint64_t>* clock_ = nullptr;
};

}  // namespace lanescope::ptx
