#include "gates/build/ninja_record.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <optional>
#include <system_error>

namespace lanescope {
namespace {

/// Takes a number off the front of `bytes`, which has as many.
std::uint32_t take_number(std::string_view& bytes) {
  std::uint32_t number = 0;
  std::memcpy(&number, bytes.data(), sizeof number);
  bytes.remove_prefix(sizeof number);
  return number;
}

/// In nanoseconds; nothing where there is no such file.
std::optional<std::int64_t> time_of(const std::filesystem::path& file) {
  struct stat status {};
  if (stat(file.c_str(), &status) != 0) return std::nullopt;
  return std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
}

bool is_object_of(std::string_view path, std::string_view target) {
  return path.starts_with(target) &&
         (path.size() == target.size() || path.substr(target.size()).starts_with(".p/"));
}

}  // namespace

// Behind the head, and a version of 4 bytes, stand entries: their length, of which the uppermost
// bit tells the two kinds apart. A path, filled up with zeros to 4 bytes, and 4 bytes of a
// checksum; paths are numbered as they come. Or the number of an output, 8 bytes of its time, and
// the numbers of what it included; the last entry of an output counts.
std::vector<std::string> recorded_includes(std::string_view record, std::string_view target) {
  constexpr std::string_view head = "# ninjadeps\n";
  constexpr std::uint32_t version = 4, is_output = 1u << 31;
  if (!record.starts_with(head)) return {};
  record.remove_prefix(head.size());
  if (record.size() < sizeof version || take_number(record) != version) return {};
  std::vector<std::string_view> paths;
  std::vector<std::pair<std::uint32_t, std::string_view>> included;  // by outputs of the target
  while (record.size() >= sizeof(std::uint32_t)) {
    const std::uint32_t word = take_number(record);
    const std::size_t length = word & ~is_output;
    if (length > record.size()) break;  // ninja is writing it
    std::string_view entry = record.substr(0, length);
    record.remove_prefix(length);
    if ((word & is_output) == 0) {
      if (length < 4) return {};
      entry.remove_suffix(4);
      paths.push_back(entry.substr(0, entry.find('\0')));
      continue;
    }
    if (length < 12 || length % 4 != 0) return {};
    const std::uint32_t output = take_number(entry);
    entry.remove_prefix(8);
    if (output >= paths.size() || !is_object_of(paths[output], target)) continue;
    std::erase_if(included, [&](const auto& older) { return older.first == output; });
    included.emplace_back(output, entry);
  }
  std::vector<std::string> names;
  for (auto& [output, numbers] : included) {
    while (!numbers.empty()) {
      const std::uint32_t number = take_number(numbers);
      if (number >= paths.size()) return {};
      names.emplace_back(paths[number]);
    }
  }
  return names;
}

bool is_newer_than_includes(const std::filesystem::path& build_root, const std::string& target) {
  const std::optional<std::int64_t> made = time_of(build_root / target);
  if (!made || access((build_root / target).c_str(), X_OK) != 0) return false;
  const auto is_older = [&](const std::filesystem::path& file) {
    const std::optional<std::int64_t> time = time_of(build_root / file);
    return time && *time <= *made;
  };
  const std::filesystem::path file = build_root / ".ninja_deps";
  std::error_code failed;
  const std::uintmax_t size = std::filesystem::file_size(file, failed);
  std::string record(failed ? 0 : size, '\0');  // some hundred KB, for each command: read at once
  std::ifstream(file, std::ios::binary)
      .read(record.data(), static_cast<std::streamsize>(record.size()));
  const std::vector<std::string> included = recorded_includes(record, target);
  return !included.empty() && is_older("build.ninja") &&
         std::all_of(included.begin(), included.end(), is_older);
}

}  // namespace lanescope
