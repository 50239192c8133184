#pragma once

#include <stdlib.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "reference/error.h"

namespace lanescope::testing {

/// An empty folder that is gone at the end of its scope.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "lanescope.XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw EnvironmentError("no temporary folder");
    path_ = name;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline std::string read_bytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void write_bytes(const std::filesystem::path& path, std::string_view bytes) {
  // Anew, not over the old file, which some file systems would force to the disk at once.
  std::filesystem::remove(path);
  std::ofstream(path, std::ios::binary).write(bytes.data(), std::ssize(bytes));
}

/// The folder of a source of the tests, given its __FILE__: a path from the folder of the build,
/// wherever the tests are called.
inline std::filesystem::path folder_of(const char* file) {
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe");
  return (program.parent_path().parent_path() / file).parent_path();
}

/// What lies in tests/data/, as long as the tests run where they were compiled.
inline std::filesystem::path data_file(std::string_view name) {
  return folder_of(__FILE__).parent_path() / "data" / name;
}

/// The text of the UsageError that `action` throws, empty where it throws none.
template <class Action>
std::string usage_error(Action&& action) {
  try {
    std::forward<Action>(action)();
  } catch (const UsageError& error) {
    return error.what();
  }
  return {};
}

/// A safetensors file by hand: the length of `json` as 8 bytes, `json`, `data`.
inline std::string safetensors_bytes(std::string_view json, std::string_view data) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(json.size() >> (8 * i) & 0xff);
  return bytes.append(json).append(data);
}

}  // namespace lanescope::testing
