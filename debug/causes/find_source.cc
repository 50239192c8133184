#include <cmath>
#include <limits>
#include <map>
#include <unordered_map>

#include "debug/causes/detectors.h"
#include "debug/causes/phrases.h"

namespace lanescope {
namespace {

using Array = Scene::Array;
using reference::Index;

/// Rows of the loaded tile that lie beyond the end of the sequence.
void find_tail(const Scene& scene, Findings& findings) {
  const bool queries = scene.site() == SiteId::q_smem;
  const DumpInfo& info = scene.info();
  const std::int64_t valid = queries
                                 ? info.rows(scene.place())
                                 : info.problem.len_kv - info.key_of(scene.place(), scene.tile());
  int beyond = 0;
  bool written = false;
  std::vector<std::int64_t> rows;
  for (const Element& e : scene.elements()) {
    if (!e.wrong || e.row < valid) continue;
    written = written || !e.unwritten;  // memory beyond the inputs may hold any pattern
    ++beyond;
    if (!std::isfinite(e.got)) rows.push_back(e.row);
  }
  if (!written) return;
  Finding finding{Cause::rows_beyond_end, static_cast<double>(beyond) / scene.wrong_count()};
  finding.evidence = {"the sequence ends before row " +
                      std::to_string(std::max<std::int64_t>(valid, 0)) +
                      " of the tile, and what rows " + list_text(rows) + " hold is no number"};
  findings.push_back(finding);
}

/// Where a chunk of 8 neighbouring values lies.
struct Source {
  SiteId tensor;
  std::int64_t row, chunk;  ///< row: of all heads
  int copies;
};

std::string key_of(const double* values) {
  return {reinterpret_cast<const char*>(values), 8 * sizeof(double)};
}

std::unordered_map<std::string, Source> chunks_of_inputs(const Inputs& inputs) {
  std::unordered_map<std::string, Source> chunks;
  const std::pair<SiteId, const Tensor*> tensors[] = {
      {SiteId::q_smem, &inputs.q}, {SiteId::k_smem, &inputs.k}, {SiteId::v_smem, &inputs.v}};
  for (const auto& [id, tensor] : tensors) {
    const std::int64_t d = tensor->dims.back();
    for (std::int64_t i = 0; i + 8 <= tensor->size(); ++i) {
      if (i % d % 8 != 0 || i % d + 8 > d) continue;
      double values[8];
      for (int j = 0; j < 8; ++j) values[j] = tensor->at(i + j);
      const auto [entry, is_new] =
          chunks.try_emplace(key_of(values), Source{id, i / d, i % d / 8, 0});
      ++entry->second.copies;
    }
  }
  return chunks;
}

/// Chunks of a loaded tile that are chunks of the inputs, but others.
void find_loaded_chunks(const Scene& scene, Findings& findings) {
  const auto chunks = chunks_of_inputs(scene.judge().inputs());
  const Problem& problem = scene.info().problem;
  const bool queries = scene.site() == SiteId::q_smem;
  const std::int64_t length = queries ? problem.len_q : problem.len_kv;
  const std::int64_t first = queries ? scene.info().first_q_row(scene.place())
                                     : scene.info().first_kv_row(scene.place(), scene.tile());
  std::map<std::tuple<SiteId, std::int64_t, std::int64_t>, int> shifts;
  int explained = 0, of_other_heads = 0;
  for (Index row = 0; row < scene.rows(); ++row) {
    for (Index col = 0; col + 8 <= scene.cols(); col += 8) {
      double values[8];
      int wrong = 0;
      for (Index j = 0; j < 8; ++j) {
        values[j] = scene.got()(row, col + j);
        wrong += scene.wrong(row, col + j);
      }
      const auto found = wrong > 0 ? chunks.find(key_of(values)) : chunks.end();
      if (found == chunks.end() || found->second.copies > 1) continue;
      explained += wrong;
      const Source& source = found->second;
      of_other_heads += source.row / length == (first + row) / length ? 0 : wrong;
      shifts[{source.tensor, source.row - (first + row), source.chunk - col / 8}] += wrong;
    }
  }
  const double share = static_cast<double>(explained) / scene.wrong_count();
  if (share < 0.5) return;
  const auto most =
      std::max_element(shifts.begin(), shifts.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  const auto [tensor, rows, chunk] = most->first;
  const bool of_own_input = static_cast<int>(tensor) == static_cast<int>(scene.site());
  const bool of_a_head = chunk == 0 && rows != 0 && rows % length == 0 && of_own_input &&
                         10 * most->second >= 9 * explained;
  const bool of_a_tile = chunk == 0 && rows != 0 && rows % scene.info().bc == 0 && of_own_input &&
                         scene.site() != SiteId::q_smem && 10 * most->second >= 9 * explained &&
                         2 * of_other_heads < explained;
  Finding finding{of_a_head   ? Cause::wrong_head
                  : of_a_tile ? Cause::stale_operand
                              : Cause::wrong_source,
                  share};
  const char names[] = {'q', 'k', 'v'};
  const auto off = [](std::int64_t count, const char* what) {
    const std::string number = std::to_string(std::abs(count));
    return " (" + number + " " + what + (std::abs(count) == 1 ? "" : "s") + " off)";
  };
  std::string text =
      share_text(most->second, scene.wrong_count()) + " wrong values come from input ";
  text += names[static_cast<int>(tensor)];
  if (rows != 0) {
    text += ", " + std::to_string(std::abs(rows)) + (rows > 0 ? " rows later" : " rows earlier");
    if (rows % length == 0) {
      text += off(rows / length, "head");
    } else if (of_own_input && 2 * of_other_heads >= explained) {
      text += ", of another head";
    } else if (rows % scene.info().bc == 0) {
      text += off(rows / scene.info().bc, "tile");
    }
  }
  if (chunk != 0) {
    text += ", " + std::to_string(std::abs(chunk) * 8) +
            (chunk > 0 ? " columns right" : " columns left");
  }
  finding.evidence = {text};
  if (explained > most->second) {
    finding.evidence.push_back("other places of the inputs explain " +
                               std::to_string(explained - most->second) + " more");
  }
  findings.push_back(finding);
}

/// Rows of the input taken with another distance between them than it has.
void find_loaded_stride(const Scene& scene, Findings& findings) {
  const Inputs& inputs = scene.judge().inputs();
  const bool queries = scene.site() == SiteId::q_smem;
  const Tensor& tensor = queries ? inputs.q : scene.site() == SiteId::k_smem ? inputs.k : inputs.v;
  const Problem& problem = scene.info().problem;
  const std::int64_t d = problem.d, length = queries ? problem.len_q : problem.len_kv;
  const std::int64_t from = queries ? scene.info().first_q_row(scene.place())
                                    : scene.info().first_kv_row(scene.place(), scene.tile());
  const std::int64_t head = from / length * length, first = from - head;
  for (std::int64_t stride = d / 2; stride <= 4 * d; stride += stride < d + 16 ? 1 : d / 2) {
    if (stride == d) continue;
    int explained = 0, wrong = 0;
    for (const Element& e : scene.elements()) {
      if (!e.wrong || e.col >= d) continue;
      ++wrong;
      const std::int64_t at = head * d + (first + e.row) * stride + e.col;
      explained += !e.unwritten && at < tensor.size() && tensor.at(at) == e.got;
      if (wrong > 64 && explained < wrong / 4) break;
    }
    if (wrong < 16 || explained < 0.98 * wrong) continue;
    Finding finding{Cause::wrong_stride, static_cast<double>(explained) / wrong, 1, true};
    finding.evidence = {"its rows are read " + std::to_string(stride) +
                        " elements apart, they lie " + std::to_string(d) + " apart"};
    findings.push_back(finding);
    return;
  }
}

/// A site and tile whose values may turn up elsewhere.
struct Place {
  SiteId site;
  std::int64_t tile;
  Index row, col;
  int copies;
};

/// Whether a site is what another one held at last, as it stands: where the one has a value that
/// is of another place of the other, it is of another place of its own.
bool is_stored_as(SiteId held, SiteId site) {
  return (held == SiteId::o && site == SiteId::o_partial) ||
         (held == SiteId::m && site == SiteId::m_partial) ||
         (held == SiteId::l && site == SiteId::l_partial);
}

/// Wrong values that are, bit for bit, values of other sites and tiles.
void find_other_sites(const Scene& scene, Findings& findings) {
  const std::int64_t last = scene.at_end() ? scene.end_tile() : scene.tile();
  // The nearest place counts: this tile before earlier ones, the own site before others.
  std::unordered_map<double, Place> places;
  int values = 0;
  const auto add = [&](SiteId id, std::int64_t tile, const std::optional<Scene::Array>& held) {
    if (!held) return;
    for (Index row = 0; row < held->rows(); ++row) {
      for (Index col = 0; col < held->cols(); ++col) {
        const double value = (*held)(row, col);
        if (!std::isfinite(value) || value == 0 || value == 1) continue;
        ++places.try_emplace(value, Place{id, tile, row, col, 0}).first->second.copies;
        ++values;
      }
    }
  };
  for (int visits = 0; visits < 3; ++visits) {
    const std::int64_t tile = scene.earlier(last, visits);
    if (tile < 0) break;
    for (int id = static_cast<int>(SiteId::s); id <= static_cast<int>(SiteId::o); ++id) {
      const auto other = static_cast<SiteId>(id);
      if (tile == last && (other >= scene.site() || is_stored_as(other, scene.site()))) continue;
      add(other, tile, scene.held(other, tile));
      // As the softmax takes them, where that is not how they are held.
      if (other == SiteId::s) add(other, tile, scene.scores(tile));
    }
  }
  std::map<std::pair<SiteId, std::int64_t>, int> sites;
  std::vector<std::string> examples;
  int explained = 0;
  for (const Element& e : scene.elements()) {
    if (!e.wrong || e.unwritten) continue;
    const auto found = places.find(e.got);
    if (found == places.end()) continue;
    const Place& place = found->second;
    ++explained;
    ++sites[{place.site, place.tile}];
    if (examples.size() >= 3) continue;
    const Index cols = scene.judge().slots(place.site)->site().cols;
    examples.push_back(element_text(name_of(scene.site()), e.row, e.col, scene.cols()) + " (" +
                       holder_text(e.holder) + ") equals " +
                       element_text(name_of(place.site), place.row, place.col, cols) + " of tile " +
                       std::to_string(place.tile) + ", " + value_text(e.got));
  }
  const double share = static_cast<double>(explained) / scene.wrong_count();
  if (explained < 3 || share < 0.5) return;
  Finding finding{Cause::stale_value, share};
  finding.bits = symptom_bits * explained;  // which of them each holds is open
  // A maximum is one of some scores, or that of before, whatever made it so.
  const auto count_of = [&](SiteId id) {
    const auto found = sites.find({id, last});
    return found == sites.end() ? 0 : found->second;
  };
  if (scene.site() == SiteId::m && count_of(SiteId::s) + count_of(SiteId::m_prev) == explained) {
    finding.explained *= 0.9;
  }
  for (const auto& [site, count] : sites) {
    if (2 * count < explained) continue;
    finding.evidence = {share_text(count, scene.wrong_count()) + " wrong values are values of " +
                        name_of(site.first) + ", tile " + std::to_string(site.second) +
                        ", bit for bit"};
  }
  finding.evidence.insert(finding.evidence.end(), examples.begin(), examples.end());
  findings.push_back(finding);
}

/// Rows of a loaded tile, or of its scores or weights, that are still those of a tile before.
void find_old_rows(const Scene& scene, Findings& findings) {
  for (const std::int64_t age : {1, 2, 3}) {
    const std::int64_t tile = scene.earlier(scene.tile(), age);
    const auto old = scene.held(scene.site(), tile);
    if (!old || scene.site() == SiteId::q_smem) continue;
    int explained = 0;
    std::vector<std::int64_t> rows;
    for (const Element& e : scene.elements()) {
      if (!e.wrong || e.got != (*old)(e.row, e.col)) continue;
      ++explained;
      rows.push_back(e.row);
    }
    const double share = static_cast<double>(explained) / scene.wrong_count();
    if (share < 0.5) continue;
    Finding finding{Cause::stale_value, share};
    finding.evidence = {"rows " + list_text(rows) + " still hold those of tile " +
                        std::to_string(tile)};
    findings.push_back(finding);
    return;
  }
}

}  // namespace

void find_source(const Scene& scene, Findings& findings) {
  if (scene.first().stage == Stage::load) {
    find_tail(scene, findings);
    find_old_rows(scene, findings);
    find_loaded_stride(scene, findings);
    find_loaded_chunks(scene, findings);
  } else {
    if (scene.site() == SiteId::s || scene.site() == SiteId::p) find_old_rows(scene, findings);
    find_other_sites(scene, findings);
  }
}

}  // namespace lanescope
