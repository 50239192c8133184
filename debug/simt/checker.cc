#include "debug/simt/checker.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <unistd.h>

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

void write_all(int file, const void* data, std::size_t bytes) {
  const auto* from = static_cast<const char*>(data);
  for (ssize_t n; bytes > 0 && (n = write(file, from, bytes)) > 0;) {
    from += n;
    bytes -= static_cast<std::size_t>(n);
  }
}

void read_all(int file, void* data, std::size_t bytes) {
  auto* to = static_cast<char*>(data);
  for (ssize_t n; bytes > 0 && (n = read(file, to, bytes)) > 0;) {
    to += n;
    bytes -= static_cast<std::size_t>(n);
  }
}

/// A lane that reads before another has written, with nothing between, meets either the old bytes
/// or none, as the order has it: where the race is found, the uninitialised read says no more.
bool is_consequence(const Finding& finding, const std::vector<Finding>& all) {
  if (finding.kind != Kind::uninitialised_read) return false;
  return std::any_of(all.begin(), all.end(), [&](const Finding& other) {
    return (other.kind == Kind::race || other.kind == Kind::race_with_read ||
            other.kind == Kind::missing_wait) &&
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
  if (between_blocks && place(finding) < place(*same)) *same = finding;
  same->count = count;
}

void Checker::begin(const void* kernel, std::size_t shared_bytes, bool is_first) {
  shared_bytes_ = is_first ? shared_bytes : std::max(shared_bytes_, shared_bytes);
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
  found_.clear();
  if (!is_first) {
    for (auto& cells : cells_) {
      for (GlobalCell& global : cells) global = {{}, -1, global.written()};
    }
    return;
  }
  findings_.clear();
  cells_.assign(regions_.size(), {});
  for (std::size_t i = 0; i < regions_.size(); ++i) {
    if (regions_[i].use == Region::Use::input) continue;
    cells_[i].resize((regions_[i].bytes + regions_[i].element - 1) / regions_[i].element);
  }
}

void Checker::take(std::int64_t block, std::vector<Finding> found) {
  const std::lock_guard lock(mutex_);
  for (Finding& finding : found) {
    if (finding.earlier.place != 0 && finding.earlier.block > block) {
      std::swap(finding.access, finding.earlier);
      finding.passed = {};
    }
    merge(found_[std::max(block, finding.access.block)], finding);
  }
}

Kind Checker::enter(const Region& region, std::size_t offset, bool write, std::int64_t block,
                    Touch me, Past past, Party& earlier) {
  const std::lock_guard lock(mutex_);
  auto& cells = cells_[static_cast<std::size_t>(&region - regions_.data())];
  GlobalCell& global = cells[offset / region.element];
  Touch before;
  Kind kind = Kind::none;
  if (global.cell.write.epoch == 0 || global.block == block) {
    if (write && region.use == Region::Use::output_once && global.written()) {
      kind = Kind::written_twice;
      before = global.cell.write;
      global.cell = {me, {}};
    } else {
      kind = write ? enter_write(global.cell, me, past, before)
                   : enter_read(global.cell, me, past, before);
      if (kind == Kind::uninitialised_read && global.before) kind = Kind::none;
    }
    earlier = {kind != Kind::race_with_read, before.place, block, thread_of(before.epoch)};
    if (write) global.block = block;
  } else {
    // Nothing orders the blocks of a grid. Of three that write here, the lowest is kept and meets
    // the two others: what is found does not depend on which ran first.
    kind = write && region.use == Region::Use::output_once ? Kind::written_twice : Kind::race;
    earlier = {true, global.cell.write.place, global.block, thread_of(global.cell.write.epoch)};
    if (write && block < global.block) global = {{me, {}}, block};
  }
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
  if (complete) find_never_written();
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

void Checker::save(int file) const {
  const std::size_t lengths[] = {image_.size(), findings_.size(), shared_bytes_};
  write_all(file, lengths, sizeof lengths);
  write_all(file, image_.data(), image_.size());
  write_all(file, findings_.data(), findings_.size() * sizeof(Finding));
}

void Checker::load(int file) {
  std::size_t lengths[3] = {};
  lseek(file, 0, SEEK_SET);
  read_all(file, lengths, sizeof lengths);
  image_.resize(lengths[0]);
  findings_.resize(lengths[1]);
  shared_bytes_ = lengths[2];
  read_all(file, image_.data(), image_.size());
  read_all(file, findings_.data(), findings_.size() * sizeof(Finding));
}

}  // namespace lanescope::simt
