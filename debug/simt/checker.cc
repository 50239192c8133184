#include "debug/simt/checker.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>

#include <algorithm>
#include <filesystem>
#include <tuple>
#include <utility>

namespace lanescope::simt {
namespace {

/// Bytes from `base`, where an image is loaded, to the end of its last segment.
std::size_t size_of_image(std::uintptr_t base) {
  struct Search {
    std::uintptr_t base;
    std::size_t bytes;
  } search{base, 0};
  dl_iterate_phdr(
      [](dl_phdr_info* image, std::size_t, void* s) {
        auto& found = *static_cast<Search*>(s);
        if (image->dlpi_addr != found.base) return 0;
        for (int i = 0; i < image->dlpi_phnum; ++i) {
          const auto& segment = image->dlpi_phdr[i];
          if (segment.p_type != PT_LOAD) continue;
          found.bytes = std::max<std::size_t>(found.bytes, segment.p_vaddr + segment.p_memsz);
        }
        return 1;
      },
      &search);
  return search.bytes;
}

/// A lane that reads before another has written, with nothing between, meets either the old bytes
/// or none, as the order has it: where the race is found, the uninitialised read says no more.
/// Lanes that run in step, as where the use of such a read is known, have no such order within a
/// warp. What overtakes a wait may be the copy that another finding tells of.
bool is_consequence(const Finding& finding, const std::vector<Finding>& all) {
  if (finding.kind == Kind::overtaken_wait) {
    return std::any_of(all.begin(), all.end(), [](const Finding& other) {
      return is_fault(other.kind) && other.kind != Kind::overtaken_wait;
    });
  }
  if (finding.kind != Kind::uninitialised_read) return false;
  const bool in_step = finding.used.place != 0;
  return std::any_of(all.begin(), all.end(), [&](const Finding& other) {
    if (in_step && is_within_warp(other)) return false;
    return (other.kind == Kind::race || other.kind == Kind::race_with_read ||
            other.kind == Kind::missing_wait || other.kind == Kind::wrong_phase ||
            other.kind == Kind::operand_overwritten) &&
           other.region == finding.region &&
           (other.access.place == finding.access.place ||
            other.earlier.place == finding.access.place);
  });
}

}  // namespace

void merge(std::vector<Finding>& findings, const Finding& finding) {
  const auto same = std::find_if(findings.begin(), findings.end(), [&](const Finding& f) {
    return f.kind == finding.kind && f.region == finding.region &&
           f.access.place == finding.access.place && f.earlier.place == finding.earlier.place &&
           f.access.write == finding.access.write;
  });
  if (same == findings.end()) {
    findings.push_back(finding);
    return;
  }
  const std::int64_t count = same->count + finding.count;
  // Which of two blocks came second depends on their timing: the least instance stands for all.
  const auto place = [](const Finding& f) {
    return std::tuple(f.access.block, f.earlier.block, f.offset, f.access.thread);
  };
  const bool between_blocks =
      finding.earlier.place != 0 && finding.earlier.block != finding.access.block;
  // That warps race with each other says more than that lanes of one do.
  const bool between_warps = is_within_warp(*same) && !is_within_warp(finding);
  if (between_warps || (between_blocks && place(finding) < place(*same))) *same = finding;
  same->count = count;
}

void Checker::begin(const void* kernel, std::size_t shared_bytes, bool is_first) {
  Dl_info info{};
  if (dladdr(kernel, &info)) {
    image_ = std::filesystem::absolute(info.dli_fname).string();
    base_ = reinterpret_cast<std::uintptr_t>(info.dli_fbase);
  }
  image_bytes_ = size_of_image(base_);
  pthread_attr_t attributes;
  void* stack = nullptr;
  if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
    pthread_attr_getstack(&attributes, &stack, &stack_bytes_);
    pthread_attr_destroy(&attributes);
  }
  stack_ = reinterpret_cast<std::uintptr_t>(stack);
  begin(shared_bytes, is_first);
}

void Checker::begin(std::size_t shared_bytes, bool is_first) {
  // What came before may have been refused, and never begun.
  is_first = is_first || cells_.size() < regions_.size();
  shared_bytes_ = is_first ? shared_bytes : std::max(shared_bytes_, shared_bytes);
  found_.clear();
  if (!is_first) {
    for (auto& cells : cells_) {
      for (GlobalCell& global : cells) {
        global = {{}, -1, global.written(), global.filled, global.read};
      }
    }
    take_host_writes();
    return;
  }
  findings_.clear();
  notes_.clear();
  nan_origin_ = {};
  lines_.clear();
  tiles_.clear();
  cells_.clear();
  for (const Region& region : regions_) cells_.push_back(cells_of(region));
  take_host_writes();
}

void Checker::take_host_writes() {
  for (const HostWrite& write : host_writes_) {
    auto& cells = cells_[write.region];
    for (std::size_t i = write.first; i < std::min(write.end, cells.size()); ++i) {
      cells[i].filled = true;
    }
  }
  host_writes_.clear();
}

std::vector<Checker::GlobalCell> Checker::cells_of(const Region& region) {
  if (region.use == Region::Use::input) return {};
  GlobalCell cell;
  cell.before = region.filled;
  return std::vector<GlobalCell>((region.bytes + region.element - 1) / region.element, cell);
}

namespace {

/// Bytes from `begin` to the region; past all sizes where it lies before.
std::size_t distance_to(const Region& region, const void* begin) {
  return reinterpret_cast<std::uintptr_t>(region.begin) - reinterpret_cast<std::uintptr_t>(begin);
}

}  // namespace

void Checker::note_copy(const void* host, const void* copy, std::size_t bytes) {
  for (Region& region : regions_) {
    const std::size_t offset = distance_to(region, host);
    if (offset < bytes) region.begin = static_cast<const std::byte*>(copy) + offset;
  }
}

void Checker::note_host_write(const void* begin, std::size_t bytes) {
  const auto from = reinterpret_cast<std::uintptr_t>(begin), to = from + bytes;
  for (std::size_t i = 0; i < regions_.size(); ++i) {
    const Region& region = regions_[i];
    const auto own = reinterpret_cast<std::uintptr_t>(region.begin);
    const std::uintptr_t first = std::max(from, own), end = std::min(to, own + region.bytes);
    if (first >= end) continue;
    host_writes_.push_back(
        {i, (first - own) / region.element, (end - own + region.element - 1) / region.element});
  }
}

void Checker::watch_also(const Region& region) {
  regions_.push_back(region);
  // Where a launch has been already, its cells are there.
  if (cells_.size() + 1 == regions_.size()) cells_.push_back(cells_of(region));
}

bool Checker::watches(const void* begin, std::size_t bytes) const {
  return std::any_of(regions_.begin(), regions_.end(),
                     [&](const Region& region) { return distance_to(region, begin) < bytes; });
}

void Checker::name_places(const std::function<std::string(std::uint32_t)>& line_of) {
  for (const Finding& finding : findings_) {
    for (const std::uint32_t place :
         {finding.access.place, finding.earlier.place, finding.used.place, finding.waited.place}) {
      if (place != 0 && !lines_.contains(place)) lines_[place] = line_of(place);
    }
  }
}

void Checker::tell_early_reads(
    const std::function<bool(std::uint32_t, std::uint32_t)>& comes_first) {
  for (Finding& finding : findings_) {
    const bool is_written = finding.kind == Kind::operand_overwritten && finding.access.write &&
                            finding.access.agent == 0;
    if (is_written && comes_first(finding.access.place, finding.earlier.place)) {
      finding.kind = Kind::race_with_read;
    }
  }
}

void Checker::name_tile(const NamedTile& tile) {
  const std::lock_guard lock(mutex_);
  tiles_.insert(tile);
}

void Checker::take(std::int64_t block, std::vector<Finding> found) {
  const std::lock_guard lock(mutex_);
  for (Finding& finding : found) {
    if (finding.earlier.place != 0 && finding.earlier.block != block &&
        finding.kind != Kind::missing_grid_wait && finding.kind != Kind::missing_map_fence) {
      // Which of the two came second, and so how far it had come, is a matter of timing.
      if (finding.earlier.block > block) std::swap(finding.access, finding.earlier);
      finding.passed = {};
    }
    merge(found_[std::max(block, finding.access.block)], finding);
  }
}

Kind Checker::enter(const Region& region, std::size_t offset, bool write, bool rewrites,
                    std::int64_t block, Touch me, Past past, Party& earlier) {
  const std::lock_guard lock(mutex_);
  auto& cells = cells_[static_cast<std::size_t>(&region - regions_.data())];
  GlobalCell& global = cells[offset / region.element];
  Touch before;
  Kind kind = Kind::none;
  global.read = global.read || !write;
  if (global.cell.write.epoch == 0 || global.block == block) {
    if (write && region.use == Region::Use::output_once && global.written()) {
      kind = Kind::written_twice;
      before = global.cell.write;
      global.cell = {me, {}};
    } else {
      kind = write ? enter_write(global.cell, me, past, before)
                   : enter_read(global.cell, me, past, before);
      const bool known = global.before || global.filled;
      if (kind == Kind::uninitialised_read && known) kind = Kind::none;
    }
    earlier = {kind != Kind::race_with_read, before.place, block, thread_of(before.epoch)};
    if (write) global.block = block;
  } else {
    // Nothing orders the blocks of a grid. Of three that write here, the lowest is kept and meets
    // the two others: what is found does not depend on which ran first.
    kind = write && region.use == Region::Use::output_once ? Kind::written_twice : Kind::race;
    earlier = {true, global.cell.write.place, global.block, thread_of(global.cell.write.epoch)};
    if (write && block < global.block) global = {{me, {}}, block, false, false, global.read};
  }
  if (kind == Kind::race && rewrites) kind = Kind::none;
  return kind;
}

void Checker::end(std::int64_t last_block, bool complete) {
  for (auto& [block, found] : found_) {
    if (block > last_block) break;
    std::stable_sort(found.begin(), found.end(),
                     [](const Finding& a, const Finding& b) { return a.kind < b.kind; });
    for (const Finding& finding : found) merge(findings_, finding);
  }
  const std::vector<Finding> all = findings_;
  std::erase_if(findings_, [&](const Finding& finding) { return is_consequence(finding, all); });
  for (const Finding& finding : all) {
    const auto region = static_cast<std::size_t>(finding.region);
    const bool is_of_region =
        finding.kind == Kind::uninitialised_read && finding.region >= 0 && region < regions_.size();
    if (is_of_region) note_unread(finding.region, unread_of(region));
  }
  if (complete) find_never_written();
}

void Checker::note_unread(int region, std::int64_t bytes) {
  for (Finding& finding : findings_) {
    if (finding.kind == Kind::uninitialised_read && finding.region == region) {
      finding.unread = bytes;
    }
  }
}

std::int64_t Checker::unread_of(std::size_t region) const {
  std::int64_t written = 0, unread = 0;
  for (const GlobalCell& global : cells_[region]) {
    written += global.written();
    unread += global.written() && !global.read;
  }
  return written > 0 ? unread * static_cast<std::int64_t>(regions_[region].element) : -1;
}

void Checker::find_never_written() {
  for (std::size_t i = 0; i < regions_.size(); ++i) {
    const Region& region = regions_[i];
    if (region.use != Region::Use::output_once) continue;
    Finding finding;
    for (std::size_t element = 0; element < cells_[i].size(); ++element) {
      if (cells_[i][element].written() || finding.count++ > 0) continue;
      finding.kind = Kind::never_written;
      finding.region = static_cast<int>(i);
      finding.offset = static_cast<std::int64_t>(element * region.element);
      finding.bytes = static_cast<int>(region.element);
    }
    if (finding.count > 0) findings_.push_back(finding);
  }
}

}  // namespace lanescope::simt
