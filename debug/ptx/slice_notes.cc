// What a slice says, for people and for another process.

#include <unistd.h>

#include <algorithm>

#include "debug/ptx/slice.h"
#include "debug/simt/describe.h"

namespace lanescope::ptx {
namespace {

/// "from 128 bytes of allocation 1, between byte 64 and 191"
std::string source_note(const Slice::Source& source) {
  const std::string text = "from " + std::to_string(source.bytes) +
                           (source.bytes == 1 ? " byte of " : " bytes of ") + source.name;
  if (source.last == 0) return text;
  return text + ", between byte " + std::to_string(source.first) + " and " +
         std::to_string(source.last);
}

/// A line each of what it came through in a block.
void add_line_notes(const std::vector<SliceLine>& lines, std::vector<std::string>& notes) {
  constexpr std::size_t most_warps = 4;
  for (const SliceLine& line : lines) {
    std::string text = line.line + ": ";
    for (std::size_t i = 0; i < line.instructions.size(); ++i) {
      const auto& [opcode, times] = line.instructions[i];
      text += (i > 0 ? ", " : "") + opcode;
      if (times > 1) text += " x " + std::to_string(times);
    }
    if (!line.value.empty()) text += "; last " + line.value;
    for (std::size_t i = 0; i < line.lanes.size(); ++i) {
      if (i == most_warps) {
        text += "; " + std::to_string(line.lanes.size() - i) + " more warps";
        break;
      }
      const bool all = line.lanes[i].lanes == ~0u;
      text += "; warp " + std::to_string(line.lanes[i].warp) +
              (all ? ", all lanes" : ", lanes " + simt::describe_lanes(line.lanes[i].lanes));
    }
    notes.push_back(text);
  }
}

/// A line each of what it came through.
std::vector<std::string> line_notes(const Slice& slice) {
  std::vector<std::string> notes;
  add_line_notes(slice.lines, notes);
  // Blocks of a launch that did the same are told together.
  struct Group {
    std::string launch, blocks;
    std::vector<std::string> notes;
    int count = 0;
  };
  std::vector<Group> groups;
  for (const Slice::Earlier& earlier : slice.earlier) {
    const std::string launch =
        " of " + earlier.kernel + ", launch " + std::to_string(earlier.launch) + ":";
    std::vector<std::string> own;
    add_line_notes(earlier.lines, own);
    auto group = std::find_if(groups.begin(), groups.end(), [&](const Group& other) {
      return other.launch == launch && other.notes == own;
    });
    if (group == groups.end()) group = groups.insert(groups.end(), {launch, "", own});
    group->blocks += (group->count++ > 0 ? ", " : "") + std::to_string(earlier.block);
  }
  for (const Group& group : groups) {
    notes.push_back((group.count > 1 ? "stored before by blocks " : "stored before by block ") +
                    group.blocks + group.launch);
    notes.insert(notes.end(), group.notes.begin(), group.notes.end());
  }
  return notes;
}

}  // namespace

void write_slice(const Slice& slice, int file) {
  std::string text = "slice " + std::to_string(slice.block) + "\n";
  for (const Recording::Mark& mark : slice.marks) {
    text += "mark";
    for (const std::int64_t number :
         {static_cast<std::int64_t>(mark.site), mark.block, mark.tile,
          static_cast<std::int64_t>(mark.row), static_cast<std::int64_t>(mark.col),
          static_cast<std::int64_t>(mark.thread)}) {
      text += " " + std::to_string(number);
    }
    text += "\n";
  }
  for (const std::string& note : line_notes(slice)) text += "note " + note + "\n";
  for (const Slice::Source& source : slice.sources) {
    const auto host = reinterpret_cast<std::uintptr_t>(source.host);
    text += "from " + std::to_string(source.bytes) + " " +
            std::to_string(host == 0 ? 0 : host + source.first) + " " +
            std::to_string(host == 0 ? 0 : host + source.last) + " " + source_note(source) + "\n";
  }
  for (const std::string& what : slice.not_followed) text += "note not followed: " + what + "\n";
  [[maybe_unused]] const ssize_t written = write(file, text.data(), text.size());
}

std::vector<std::string> slice_notes(const Slice& slice) {
  std::vector<std::string> notes = line_notes(slice);
  for (const Slice::Source& source : slice.sources) notes.push_back(source_note(source));
  for (const std::string& what : slice.not_followed) notes.push_back("not followed: " + what);
  return notes;
}

}  // namespace lanescope::ptx
