// What a process that ran under the memory checker leaves its parent.

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "debug/simt/checker.h"

namespace lanescope::simt {
namespace {

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

}  // namespace

void Checker::save(int file) const {
  const auto write_number = [&](std::size_t number) { write_all(file, &number, sizeof number); };
  const auto write_text = [&](const std::string& text) {
    write_number(text.size());
    write_all(file, text.data(), text.size());
  };
  write_text(image_);
  write_number(shared_bytes_);
  write_number(findings_.size());
  write_all(file, findings_.data(), findings_.size() * sizeof(Finding));
  write_number(lines_.size());
  for (const auto& [place, line] : lines_) {
    write_number(place);
    write_text(line);
  }
  write_number(notes_.size());
  for (const std::string& note : notes_) write_text(note);
  write_all(file, &nan_origin_.kind, sizeof nan_origin_.kind);
  write_all(file, &nan_origin_.stage, sizeof nan_origin_.stage);
  write_text(nan_origin_.line);
  write_number(tiles_.size());
  for (const NamedTile& tile : tiles_) write_all(file, &tile, sizeof tile);
  // Of the regions those that were added where the kernel ran.
  write_number(regions_.size());
  for (const Region& region : regions_) {
    write_text(region.name);
    write_number(region.bytes);
    write_number(region.element);
  }
}

void Checker::load(int file) {
  lseek(file, 0, SEEK_SET);
  const auto read_number = [&] {
    std::size_t number = 0;
    read_all(file, &number, sizeof number);
    return number;
  };
  const auto read_text = [&] {
    std::string text(read_number(), '\0');
    read_all(file, text.data(), text.size());
    return text;
  };
  image_ = read_text();
  shared_bytes_ = read_number();
  findings_.resize(read_number());
  read_all(file, findings_.data(), findings_.size() * sizeof(Finding));
  lines_.clear();
  for (std::size_t left = read_number(); left > 0; --left) {
    const auto place = static_cast<std::uint32_t>(read_number());
    lines_[place] = read_text();
  }
  notes_.resize(read_number());
  for (std::string& note : notes_) note = read_text();
  read_all(file, &nan_origin_.kind, sizeof nan_origin_.kind);
  read_all(file, &nan_origin_.stage, sizeof nan_origin_.stage);
  nan_origin_.line = read_text();
  tiles_.clear();
  for (std::size_t left = read_number(); left > 0; --left) {
    NamedTile tile;
    read_all(file, &tile, sizeof tile);
    tiles_.insert(tile);
  }
  const std::size_t regions = read_number();
  for (std::size_t i = 0; i < regions; ++i) {
    Region region;
    region.name = read_text();
    region.bytes = read_number();
    region.element = read_number();
    if (i >= regions_.size()) regions_.push_back(region);
  }
}

}  // namespace lanescope::simt
