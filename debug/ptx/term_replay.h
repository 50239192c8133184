#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "debug/ptx/history.h"
#include "debug/ptx/placements.h"
#include "debug/ptx/roads.h"
#include "debug/ptx/stored_stages.h"
#include "debug/ptx/term_actions.h"
#include "debug/ptx/term_shadow.h"
#include "debug/ptx/terms.h"

namespace lanescope::ptx {

/// Goes over the steps of blocks once more, with terms in the place of numbers.
class TermReplay {
 public:
  TermReplay(Terms& terms, TermShadow& memory) : terms_(terms), memory_(memory) {}

  /// What the registers of a block hold.
  struct Block {
    const History::Run* run;
    std::size_t next = 0;  ///< step
    struct Warp {
      std::vector<Held> holds;                     ///< every byte of the register file
      std::vector<std::byte> values;               ///< likewise
      std::optional<InputElement> last_of_v = {};  ///< that was multiplied first in a product
    };
    std::vector<Warp> warps = {};
    std::uint64_t when() const { return run->recording.steps()[next].when; }
    bool is_done() const { return next == run->recording.steps().size(); }
  };
  void step(Block& block);

  /// Some of the numbers that an instruction made, with the terms that they are.
  struct Made {
    bool merges = false;      ///< puts parts of rows together
    bool adds = false;        ///< adds P·V of some keys to that of others
    bool scores = false;      ///< multiplies elements of Q or K
    bool weighs = false;      ///< multiplies elements of V
    std::uint64_t first = 0;  ///< when
    std::uint32_t count = 0;
    std::vector<std::pair<TermId, float>> some;
  };
  /// Of a program, by instruction.
  template <class F>
  void each_made(F&& f) const {
    for (const auto& [program, known] : known_) {
      for (std::uint32_t i = 0; i < known.size(); ++i) {
        const Made& made = known[i].made;
        const bool tells = made.merges || made.adds || made.scores || made.weighs;
        if (tells || !made.some.empty()) f(*program, i, made);
      }
    }
  }

  /// How an operand of the instruction at hand came to it; 0: it is none, or not known.
  RoadId road_of(TermId operand) const;
  /// Whether the keys, or the columns of an input of Q and K, that lie beside an operand of the
  /// product of matrices at hand go on by one; nothing where it is none.
  std::optional<bool> is_in_order(TermId operand, bool by_column) const;
  /// How many products of Q and K took keys that follow each other, and how many others.
  std::int64_t products_in_order() const { return products_[1]; }
  std::int64_t products_out_of_order() const { return products_[0]; }
  /// How often a weight was multiplied by zero where an element of V should be.
  std::int64_t weights_of_zero() const { return weights_of_zero_; }
  /// How many products took columns of V behind those that the one before took of the same rows,
  /// and how many before them.
  std::int64_t columns_in_order() const { return columns_[1]; }
  std::int64_t columns_out_of_order() const { return columns_[0]; }
  /// By array and road: how often elements of Q, K and V were multiplied that came by it.
  const std::map<std::pair<int, RoadId>, std::int64_t>& input_roads() const { return input_roads_; }
  const Roads& roads() const { return roads_; }
  const Placements& placements() const { return placements_; }
  const StoredStages& stored_stages() const { return stored_stages_; }
  /// How often an instruction read numbers that a stage takes.
  using Reads = std::map<std::pair<const Program*, std::uint32_t>, std::map<Stage, std::int64_t>>;
  const Reads& reads() const { return reads_; }
  using Instructions = std::set<std::pair<const Program*, std::uint32_t>>;
  /// Instructions that put something else in the place of scores; that rescale sums; O.
  const Instructions& masks() const { return masks_; }
  const Instructions& rescales(bool output) const { return rescales_[output ? 1 : 0]; }
  /// That round P·V to fewer bits before it is divided by l.
  const Instructions& roundings() const { return roundings_; }

  /// Where it is.
  const History::Run& run() const { return *run_; }
  const Recording::Step& at() const { return *step_; }
  int lane() const { return lane_; }

 private:
  struct Known {
    TermStep step;
    std::uint8_t way;
    Made made = {};
  };
  const Place* results() const { return program_->operands.data() + in_->operands; }
  const Place* sources() const { return results() + in_->result_count; }
  Block::Warp& warp_of(Block& block) const;

  const Held& held(Place place, int lane, int bytes, int part = 0, int parts = 1) const;
  TermId term(Place place, int lane, int bytes, int part = 0, int parts = 1) const {
    return held(place, lane, bytes, part, parts).term;
  }
  void set(Place place, int lane, int bytes, Held held, int part = 0, int parts = 1);
  /// Stored or loaded by the instruction at hand; made by it.
  Held on(Held held) {
    held.road = roads_.on(held.road, program_, step_->instruction);
    return held;
  }
  Held made(TermId id) { return id == no_term ? Held{} : on({id, 0}); }
  /// The same, or where it is one of its sources, as that is.
  Held made(TermId id, const TermStep& step, int part);
  double number(Place place, int lane, int bytes, int part, int parts) const;
  /// Whether a number is a zero, of whatever type.
  bool is_zero(Place place, int lane, int bytes, int part, int parts) const;
  std::uint32_t word(Place place, int lane) const;

  void follow();
  void copy_memory();
  void move_elements();
  void load();
  void store();
  void note_stored(const std::byte* at, std::size_t bytes);
  void matrices(bool loads, bool transposed);
  void update();
  void exchange();
  void transpose();
  void lanes();
  void lane_of_bits(const TermStep& step);
  bool is_beyond_scores(const TermStep& step, TermId x, TermId y) const;
  TermId arithmetic(const TermStep& step, int part);
  TermId multiply(const TermStep& step, int part, int x, int y);
  TermId sum(TermId x, TermId y, const TermStep& step, std::array<int, 2> places);
  TermId merge(TermId product, TermId addend, const TermStep& step, int part);
  TermId signed_term(TermId x, bool negated) { return negated ? terms_.negate(x) : x; }
  TermId choose(const TermStep& step, int part);
  void forget();
  /// Of a select or a copy: whether it takes no term where there is a score, and a number below 0.
  void note_mask(const Held& taken, const Held& left, Place value);
  void note_made(Known& known);

  // Products of matrices (ptx/term_products.cc).

  void multiply_mma();
  void multiply_wmma();
  void multiply_warpgroup();
  /// Rows of a, or columns of b, with `depth` elements each.
  struct Lines {
    Lines(int count, int depth)
        : depth(depth),
          terms(static_cast<std::size_t>(count * depth)),
          roads(static_cast<std::size_t>(count * depth)) {}
    TermId* line(int i) { return terms.data() + static_cast<std::ptrdiff_t>(i) * depth; }
    void take(int at, Held held) {
      terms[static_cast<std::size_t>(at)] = held.term;
      roads[static_cast<std::size_t>(at)] = held.road;
    }
    int depth;
    std::vector<TermId> terms;
    std::vector<RoadId> roads;
  };
  /// Elements of 32 bits' words.
  void take_word(Lines& to, int at, Place place, int lane, int elements);
  /// The factors of the product at hand.
  void note_factors(const Lines& a, const Lines& b);
  void note_road(const Held& factor);
  bool is_of_v(TermId id) const { return Terms::is_input(id) && terms_.element(id).array == 2; }
  void note_column(TermId factor);
  void note_read(bool is_global);
  void note_weight(const Held& weight);

  Terms& terms_;
  TermShadow& memory_;
  Roads roads_;
  Placements placements_;
  StoredStages stored_stages_;
  std::map<std::pair<int, RoadId>, std::int64_t> input_roads_;
  std::int64_t products_[2] = {}, columns_[2] = {}, weights_of_zero_ = 0;
  Instructions masks_, rescales_[2], roundings_;
  Reads reads_;
  std::map<const Program*, std::vector<Known>> known_;
  std::map<const Program*, std::vector<Place>> places_;  ///< of registers, in their order
  std::vector<Known>* of_program_ = nullptr;
  // Of the step at hand.
  const History::Run* run_ = nullptr;
  const Program* program_ = nullptr;
  const Recording* recording_ = nullptr;
  const Recording::Step* step_ = nullptr;
  const Instruction* in_ = nullptr;
  Block::Warp* warp_ = nullptr;
  int lane_ = 0;
  std::array<const Lines*, 2> factors_ = {};
};

}  // namespace lanescope::ptx
