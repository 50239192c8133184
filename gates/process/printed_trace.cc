#include "gates/process/printed_trace.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "reference/error.h"
#include "reference/site.h"

namespace lanescope {
namespace {

struct Line {
  std::array<long long, 7> key;
  std::string text;
};

int site_index(std::string_view name) {
  for (int i = 0; i < site_id_count; ++i) {
    if (name == name_of(static_cast<SiteId>(i))) return i;
  }
  return site_id_count;
}

/// The labels that PrintTrace (kernels/trace/trace.h) writes.
Line parse(const char* text) {
  long long block = 0;
  int tile = 0, warp = 0, lane = 0, reg = 0, row = 0, col = 0;
  char site[16] = "";
  std::sscanf(text, "block=%lld tile=%d site=%15s warp=%d lane=%d reg=%d row=%d col=%d", &block,
              &tile, site, &warp, &lane, &reg, &row, &col);
  // In shared memory an element belongs to no lane: it goes by its row and column.
  const std::array<long long, 4> place = reg < 0 ? std::array<long long, 4>{row, col, 0, 0}
                                                 : std::array<long long, 4>{warp, lane, reg, 0};
  return {{block, tile, site_index(site), place[0], place[1], place[2], place[3]}, text};
}

}  // namespace

PrintedTrace::PrintedTrace() : file_(std::tmpfile()) {
  if (!file_) {
    throw EnvironmentError("cannot hold back the printed trace: no temporary file to be had");
  }
}

PrintedTrace::~PrintedTrace() { std::fclose(file_); }

void PrintedTrace::finish(std::FILE* out) {
  std::rewind(file_);
  std::vector<Line> lines;
  char* text = nullptr;
  std::size_t size = 0;
  while (getline(&text, &size, file_) > 0) lines.push_back(parse(text));
  std::free(text);
  std::stable_sort(lines.begin(), lines.end(),
                   [](const Line& a, const Line& b) { return a.key < b.key; });
  for (const Line& line : lines) std::fputs(line.text.c_str(), out);
  std::fflush(out);
}

}  // namespace lanescope
