#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "debug/dump/dump.h"
#include "debug/simt/checker.h"
#include "reference/problem.h"

namespace lanescope {

/// What a run under the memory checker found.
struct CheckReport {
  std::string kernel, gate, module;
  Problem problem;
  int head_dim = 0;   ///< columns of the rows of o
  std::string fault;  ///< where the run did not end: why
  Stop::Kind stop = Stop::Kind::none;
  std::vector<std::string> warnings;
  struct Item {
    simt::Finding finding;
    std::string access_line, earlier_line, used_line, waited_line;  ///< "kernels/mma.h:113"
    std::string region;               ///< "shared memory", "o"; empty: none
    std::int64_t region_bytes = 0;    ///< of a region in global memory
    std::string element;              ///< "q[3][17]", "o[batch 0][head 1][row 3][d 17]"
    std::optional<SiteId> site;       ///< what the element is one of, where that is known
    std::optional<Stage> stage;       ///< that the access is in, where the kernel says so
    std::int64_t row = -1, col = -1;  ///< of the element in its tile, or in its tensor
  };
  std::vector<Item> items;
  std::optional<Item> unfenced_read;  ///< which is no fault (simt::Kind::unfenced_read)
  std::vector<Site> sites;            ///< of the kernel
  bool knows_progress = true;         ///< whether lanes say which sites they have passed
  bool in_step = false;               ///< the lanes of a warp ran in step, as those of PTX do
  std::vector<std::string> notes;     ///< simt::Checker::notes, and findings that are no faults
  simt::NanOrigin nan;                ///< the first NaN that the kernel made

  bool clean() const { return items.empty() && fault.empty(); }
  /// Whether the kernel shows more than its outputs.
  bool shows_stages() const {
    return std::ranges::any_of(sites, [](const Site& site) { return !is_output(site.id); });
  }
};

/// An element of a tile in shared memory.
struct SharedPlace {
  std::string tile;  ///< "q", "k[1]"
  int row, col;
};
/// The element of shared memory at an offset; nothing where there is none.
using SharedElement = std::function<std::optional<SharedPlace>(std::int64_t offset)>;

/// Fills the items of `report` from what `checker` found, and adds to its notes.
void describe_findings(const simt::Checker& checker, const SharedElement& shared_element,
                       CheckReport& report);

/// The stage that a line says its code is of (ptx/program.h, stage_of), where it is one alone.
std::optional<Stage> stage_named_in(const std::string& text);

/// The file and the number of a line of the source, "x.cu:17 in pv"; nothing where it names none.
std::optional<std::pair<std::string, int>> place_in_source(const std::string& line);

const char* name_of(simt::Kind kind);
/// What a finding means, in a line.
const char* explanation_of(const simt::Finding& finding);
/// "site v_smem of tile 2": how far a lane had come.
std::string progress_text(const simt::Progress& passed);
/// An end of an access: what it does (nullptr: reads or writes), its source line, its lane.
std::string party_text(const simt::Party& party, const std::string& line,
                       const char* does = nullptr);

}  // namespace lanescope
