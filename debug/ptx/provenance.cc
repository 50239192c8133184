#include "debug/ptx/provenance.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <map>
#include <queue>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "debug/ptx/address_lines.h"
#include "debug/ptx/merges.h"
#include "debug/ptx/term_replay.h"
#include "debug/ptx/term_text.h"
#include "debug/text/text.h"

namespace lanescope::ptx {
namespace {

/// Conflicts of a kind that an instruction made.
struct Meeting {
  std::int64_t count = 0;
  std::int64_t fresh = 0;  ///< of terms that had none in them
  int warp = 0, lane = 0;
  std::int64_t block = 0;
  std::set<std::string> samples;  ///< of the two terms, for some rows
};

class Following {
 public:
  Following(const GlobalMemory& memory, const Lookout& lookout)
      : memory_(memory),
        lookout_(lookout),
        terms_(*lookout.terms,
               [this](Conflict conflict, TermId x, TermId y) { return note(conflict, x, y); }),
        shadow_([this](const std::byte* at) { return origin(at); }),
        replay_(terms_, shadow_) {}

  /// All blocks, in the order in which they did it.
  void go_over(const History& history) {
    std::vector<TermReplay::Block> blocks;
    for (const History::Run& run : history.runs()) blocks.push_back({&run});
    const auto later = [&](std::size_t a, std::size_t b) {
      return blocks[a].when() > blocks[b].when();
    };
    std::priority_queue<std::size_t, std::vector<std::size_t>, decltype(later)> order(later);
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      if (!blocks[i].is_done()) order.push(i);
    }
    while (!order.empty()) {
      const std::size_t at = order.top();
      order.pop();
      TermReplay::Block& block = blocks[at];
      if (block.next == 0) shadow_.clear(block.run->shared, block.run->shared_bytes);
      const std::uint64_t until = order.empty() ? ~std::uint64_t{0} : blocks[order.top()].when();
      while (!block.is_done() && block.when() <= until) replay_.step(block);
      if (block.is_done()) {
        block.warps = {};
      } else {
        order.push(at);
      }
    }
  }

  std::string text() {
    std::string text;
    for (const auto& [spot, number] : numbers_) {
      const auto& [program, instruction, conflict] = spot;
      const Meeting& fault = meetings_[number];
      text += "fault " + std::to_string(number) + " " + std::to_string(static_cast<int>(conflict)) +
              " " + std::to_string(fault.count) + " " + std::to_string(fault.fresh) + " " +
              std::to_string(fault.block) + " " + std::to_string(fault.warp) + " " +
              std::to_string(fault.lane) + " " + line(*program, instruction) + "\n";
      for (const std::string& sample : fault.samples) {
        text += "sample " + std::to_string(number) + " " + sample + "\n";
      }
    }
    text += "keys " + std::to_string(replay_.products_in_order()) + " " +
            std::to_string(replay_.products_out_of_order()) + "\n";
    text += "columns_of_v " + std::to_string(replay_.columns_in_order()) + " " +
            std::to_string(replay_.columns_out_of_order()) + "\n";
    text += "weights_of_zero " + std::to_string(replay_.weights_of_zero()) + "\n";
    add_input_roads(text);
    for (const auto& [at, stages] : replay_.reads()) {
      const auto most =
          std::ranges::max_element(stages, {}, [](const auto& stage) { return stage.second; });
      text += "read " + std::to_string(static_cast<int>(most->first)) + " " +
              line(*at.first, at.second) + "\n";
    }
    add_instructions("mask 0 ", replay_.masks(), text);
    add_instructions("rounding 0 ", replay_.roundings(), text);
    add_instructions("rescale 0 ", replay_.rescales(false), text);
    add_instructions("rescale 1 ", replay_.rescales(true), text);
    add_outputs(text);
    add_log_sums(text);
    for (const RoadId way : roads_) {
      for (const Roads::Stop& stop : replay_.roads().stops(way)) {
        text += "stop " + std::to_string(way) + " " + line(*stop.program, stop.instruction) + "\n";
      }
    }
    add_made(text);
    text += replay_.placements().text(memory_) + replay_.stored_stages().text();
    for (std::size_t row = 0; row < terms_.scored().size(); ++row) {
      if (terms_.scored()[row].empty()) continue;
      text += "scored " + std::to_string(row);
      for (const IndexSets::Id keys : terms_.scored()[row]) text += " " + terms_.sets().text(keys);
      text += "\n";
    }
    for (std::size_t row = 0; row < terms_.weighed().size(); ++row) {
      if (terms_.weighed()[row] == 0) continue;
      text +=
          "weighed " + std::to_string(row) + " " + terms_.sets().text(terms_.weighed()[row]) + "\n";
    }
    return text;
  }

 private:
  using Spot = std::tuple<const Program*, std::uint32_t, Conflict>;

  std::uint32_t note(Conflict conflict, TermId x, TermId y) {
    const Spot spot{replay_.run().program.get(), replay_.at().instruction, conflict};
    const auto [at, is_new] =
        numbers_.try_emplace(spot, static_cast<std::uint32_t>(meetings_.size()));
    if (is_new) meetings_.emplace_back();
    Meeting& fault = meetings_[at->second];
    if (fault.count++ == 0) {
      fault.block = replay_.run().block;
      fault.warp = replay_.at().warp;
      fault.lane = replay_.lane();
    }
    const auto is_fresh = [this](TermId id) {
      return id == no_term || Terms::is_input(id) || terms_[id].faults == 0;
    };
    if (!is_fresh(x) || !is_fresh(y)) return at->second;
    ++fault.fresh;
    constexpr std::size_t most = 256;
    if (fault.samples.size() < most) {
      fault.samples.insert(text_of(terms_, x) + " " + text_of(terms_, y) + " " +
                           road(replay_.road_of(x)) + " " + road(replay_.road_of(y)) +
                           order(conflict, x, y));
    }
    return at->second;
  }

  /// " 1 0": whether the operands of a product of matrices stand in order; "-": it is none.
  std::string order(Conflict conflict, TermId x, TermId y) const {
    std::string text;
    for (const TermId id : {x, y}) {
      const auto ordered = replay_.is_in_order(id, conflict == Conflict::column_of_other);
      text += !ordered ? " -" : *ordered ? " 1" : " 0";
    }
    return text;
  }
  std::string road(RoadId road) {
    roads_.insert(road);
    return std::to_string(road);
  }
  static std::string line(const Program& program, std::uint32_t instruction) {
    return program.line_of(instruction) + program.calls_of(instruction);
  }

  /// By which Q, K and V came to their products, and where the addresses are made that they are
  /// fetched from.
  void add_input_roads(std::string& text) {
    std::map<const Program*, AddressLines> addresses;
    for (const auto& [of, count] : replay_.input_roads()) {
      text += "input " + std::to_string(of.first) + " " + std::to_string(count) + " " +
              road(of.second) + "\n";
      const std::vector<Roads::Stop> stops = replay_.roads().stops(of.second);
      if (stops.empty()) continue;
      const Roads::Stop& fetch = stops.front();
      const auto own = addresses.try_emplace(fetch.program, *fetch.program).first;
      for (const std::string& line : own->second.of(fetch.instruction)) {
        text += "address " + std::to_string(of.second) + " " + line + "\n";
      }
    }
  }
  static void add_instructions(const std::string& words, const TermReplay::Instructions& all,
                               std::string& text) {
    std::set<std::string> lines;
    for (const auto& [program, instruction] : all) lines.insert(line(*program, instruction));
    for (const std::string& line : lines) text += words + line + "\n";
  }

  /// Numbers that instructions made, those first that came first.
  void add_made(std::string& text) {
    std::map<std::uint64_t, std::string> all;
    const Merges found = merges_of(replay_);
    replay_.each_made([&](const Program& program, std::uint32_t instruction,
                          const TermReplay::Made& made) {
      std::string own = "made 0 " + program.line_of(instruction) + "\n";
      for (const auto& [id, value] : made.some) {
        const Term& term = terms_[id];
        const bool tells = term.kind != TermKind::unknown && term.faults == 0 &&
                           (term.kind != TermKind::score || term.set == terms_.all_columns());
        if (tells)
          own += "value 0 " + number_text(term.negated ? -value : value, 9) + " " +
                 text_of(terms_, id) + "\n";
      }
      const bool merges = made.merges && found.at.contains({&program, instruction});
      if (merges) {
        own =
            "merge 0 " + program.line_of(instruction) + program.calls_of(instruction) + "\n" + own;
      }
      if (merges || own.find("value") != own.npos) all[made.first] += own;
    });
    for (const auto& [when, own] : all) text += own;
    for (const std::string& merging : found.lines) {
      text += "combine 0 " + merging + "\n";
    }
  }

  /// Where the device has what the host has at the rows' begin.
  const std::byte* device_of(const KnownRows& rows) {
    if (!rows.begin || rows.bytes == 0) return nullptr;
    for (const auto& [begin, area] : const_cast<GlobalMemory&>(memory_).areas()) {
      if (!area.host || rows.begin < area.host || rows.begin >= area.host + area.bytes()) continue;
      return std::bit_cast<const std::byte*>(begin) + (rows.begin - area.host);
    }
    return nullptr;
  }

  TermId origin(const std::byte* at) {
    const auto address = reinterpret_cast<std::uintptr_t>(at);
    if (!area_ || !area_->holds(address, 1)) area_ = memory_.find(address, 1);
    if (!area_ || !area_->host) return no_term;
    const std::byte* host = area_->host + (address - area_->begin);
    for (int array = 0; array < 3; ++array) {
      const KnownRows& rows = lookout_.rows[static_cast<std::size_t>(array)];
      const auto offset = static_cast<std::size_t>(host - rows.begin);
      if (offset >= rows.bytes) continue;
      const std::size_t column = offset % rows.row_bytes / element_bytes();
      if (column >= terms_.sides().columns) return no_term;  // zeroes, to fill the row
      return terms_.input(array, static_cast<std::uint32_t>(offset / rows.row_bytes),
                          static_cast<std::uint32_t>(column));
    }
    return no_term;
  }
  std::size_t element_bytes() const { return lookout_.terms->element_bytes; }

  /// Of each row of O, what its columns are: those that are alike in one line.
  void add_outputs(std::string& text) {
    const KnownRows& rows = lookout_.rows[3];
    const std::byte* const begin = device_of(rows);
    if (!begin) return;
    const std::size_t bytes = lookout_.terms->output_bytes;
    std::vector<std::uint32_t> before;  // of the row before it: what its columns are of V
    bool by_row = false;
    for (std::size_t row = 0; row < rows.bytes / rows.row_bytes; ++row) {
      std::map<std::string, std::uint32_t> alike;
      std::vector<std::uint32_t> order;
      std::set<std::uint32_t> of_v;
      std::uint32_t known = 0;
      for (std::uint32_t column = 0; column < terms_.sides().columns; ++column) {
        const std::byte* at = begin + row * rows.row_bytes + column * bytes;
        const Held held = shadow_.load(at + bytes - 1);
        ++alike[output(held, column)];
        if (!terms_.is_output(held.term)) continue;
        of_v.insert(terms_[held.term].column);
        order.push_back(terms_[held.term].column);
        ++known;
      }
      // A matrix product gives eight rows the columns of V in one order.
      const bool is_whole = of_v.size() == terms_.sides().columns;
      by_row = by_row || (is_whole && row % terms_.sides().len_q % 8 != 0 &&
                          before.size() == order.size() && before != order);
      before = is_whole ? std::move(order) : std::vector<std::uint32_t>();
      if (of_v.size() < known) text += "columns " + std::to_string(row) + "\n";
      for (const auto& [what, count] : alike) {
        text += "o " + std::to_string(row) + " " + std::to_string(count) + " " + what + "\n";
      }
    }
    if (by_row) text += "columns_by_row 1\n";
  }
  std::string output(const Held& held, std::uint32_t column) {
    const TermId id = held.term;
    if (id == no_term || Terms::is_input(id))
      return text_of(terms_, id) + " - - - " + road(held.road);
    const Term& term = terms_[id];
    const bool own = term.kind != TermKind::output || term.column == column;
    return text_of(terms_, id, false) + " " + (own ? "own" : "other") + " " +
           terms_.sets().text(term.values) + " " + terms_.sets().text(term.faults) + " " +
           road(held.road);
  }
  void add_log_sums(std::string& text) {
    const KnownRows& rows = lookout_.log_sums;
    const std::byte* const begin = device_of(rows);
    for (std::size_t row = 0; begin && row < rows.bytes / sizeof(float); ++row) {
      const std::byte* at = begin + row * sizeof(float);
      text += "lse " + std::to_string(row) + " 1 " + output(shadow_.load(at + 3), 0) + "\n";
    }
  }

  const GlobalMemory& memory_;
  const Lookout& lookout_;
  const GlobalMemory::Area* area_ = nullptr;
  std::map<Spot, std::uint32_t> numbers_;
  std::set<RoadId> roads_;  ///< that were named
  std::vector<Meeting> meetings_;
  Terms terms_;
  TermShadow shadow_;
  TermReplay replay_;
};

}  // namespace

void follow_terms(const History& history, const GlobalMemory& memory, const Lookout& lookout) {
  Following following(memory, lookout);
  following.go_over(history);
  const std::string text = "launch\n" + following.text();
  [[maybe_unused]] const ssize_t written = write(lookout.file, text.data(), text.size());
}

}  // namespace lanescope::ptx
