#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "debug/ptx/history.h"
#include "debug/ptx/term_actions.h"
#include "debug/ptx/term_shadow.h"
#include "debug/ptx/terms.h"

namespace lanescope::ptx {

/// Goes over the steps of blocks once more, with terms in the place of numbers.
class TermReplay {
 public:
  TermReplay(Terms& terms, TermShadow& memory) : terms_(terms), memory_(memory) {}

  /// Whose stores are kept.
  void watch(const std::byte* begin, std::size_t bytes) { watched_.push_back({begin, bytes}); }

  /// What the registers of a block hold.
  struct Block {
    const History::Run* run;
    std::size_t next = 0;  ///< step
    struct Warp {
      std::vector<TermId> terms;      ///< of every byte of the register file
      std::vector<std::byte> values;  ///< likewise
    };
    std::vector<Warp> warps = {};
    std::uint64_t when() const { return run->recording.steps()[next].when; }
    bool is_done() const { return next == run->recording.steps().size(); }
  };
  void step(Block& block);

  /// Some of the numbers that an instruction made, with the terms that they are.
  struct Made {
    bool merges = false;      ///< puts parts of rows together
    std::uint64_t first = 0;  ///< when
    std::uint32_t count = 0;
    std::vector<std::pair<TermId, float>> some;
  };
  /// Of a program, by instruction.
  template <class F>
  void each_made(F&& f) const {
    for (const auto& [program, known] : known_) {
      for (std::uint32_t i = 0; i < known.size(); ++i) {
        if (known[i].made.merges || !known[i].made.some.empty()) f(*program, i, known[i].made);
      }
    }
  }

  /// Where it is.
  const History::Run& run() const { return *run_; }
  const Recording::Step& at() const { return *step_; }
  int lane() const { return lane_; }
  /// The last instruction that stored there, by rows of 16 bytes.
  const Program* storer(const std::byte* at, std::uint32_t& instruction) const;

 private:
  struct Known {
    TermStep step;
    std::uint8_t way;
    Made made = {};
  };
  const Place* results() const { return program_->operands.data() + in_->operands; }
  const Place* sources() const { return results() + in_->result_count; }
  Block::Warp& warp_of(Block& block) const;

  TermId term(Place place, int lane, int bytes, int part = 0, int parts = 1) const;
  void set(Place place, int lane, int bytes, TermId id, int part = 0, int parts = 1);
  double number(Place place, int lane, int bytes, int part, int parts) const;
  /// Whether a number is a zero, of whatever type.
  bool is_zero(Place place, int lane, int bytes, int part, int parts) const;
  std::uint32_t word(Place place, int lane) const;

  void follow();
  void copy_memory();
  void move_elements();
  void load();
  void store();
  void matrices(bool loads, bool transposed);
  void update();
  void exchange();
  void lanes();
  void lane_of_bits(const TermStep& step);
  TermId arithmetic(const TermStep& step, int part);
  TermId multiply(const TermStep& step, int part, int x, int y);
  TermId sum(TermId x, TermId y, const TermStep& step, std::array<int, 2> places);
  TermId merge(TermId product, TermId addend, const TermStep& step, int part);
  TermId signed_term(TermId x, bool negated) { return negated ? terms_.negate(x) : x; }
  TermId choose(const TermStep& step, int part);
  void forget();
  void note_store(const std::byte* at);
  void note_made(Known& known);

  // Products of matrices (ptx/term_products.cc).

  void multiply_mma();
  void multiply_wmma();
  void multiply_warpgroup();
  /// Elements of 32 bits' words, from the first lane's first on.
  void take_word(std::vector<TermId>& to, std::size_t at, Place place, int lane, int elements);

  Terms& terms_;
  TermShadow& memory_;
  std::map<const Program*, std::vector<Known>> known_;
  std::map<const Program*, std::vector<Place>> places_;  ///< of registers, in their order
  std::vector<Known>* of_program_ = nullptr;
  std::vector<std::pair<const std::byte*, std::size_t>> watched_;
  std::map<std::uintptr_t, std::pair<const Program*, std::uint32_t>> stores_;
  // Of the step at hand.
  const History::Run* run_ = nullptr;
  const Program* program_ = nullptr;
  const Recording* recording_ = nullptr;
  const Recording::Step* step_ = nullptr;
  const Instruction* in_ = nullptr;
  Block::Warp* warp_ = nullptr;
  int lane_ = 0;
};

}  // namespace lanescope::ptx
