#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>

namespace lanescope {

/// The bytes of a regular file, mapped read-only, and how many they are; no bytes where it is
/// empty. The file must not shrink while they are in use: what reads them then gets a SIGBUS.
/// Throws UsageError where it is no regular file or cannot be read.
std::pair<std::shared_ptr<const std::byte>, std::uint64_t> map_file(
    const std::filesystem::path& path);

/// A file that appears whole under its name or, after an error or a signal, not at all: it is
/// written without a name (or, where the file system cannot do that, under one of its own next to
/// its target, which a signal leaves behind), and replaces its target when it is complete. What
/// stood there stays until then. Only a regular file is replaced, never a device or a pipe; of a
/// link, what it leads to. Everything throws UsageError, saying why, where the file cannot be
/// created, EnvironmentError where it cannot be written (the disk is full).
class NewFile {
 public:
  explicit NewFile(const std::filesystem::path& path);
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  ~NewFile();

  void write(std::span<const std::byte> bytes);
  /// Puts the file under its name. Nothing is written afterwards.
  void complete();

 private:
  std::filesystem::path folder() const;
  int create();
  /// Tries names next to the target until `make` succeeds with one (0 or more), which it returns.
  int take_name(const std::function<int(const char*)>& make);

  std::filesystem::path target_;
  std::string name_;  ///< while it is not complete; empty: it has none yet
  int file_;          ///< its descriptor, −1 once it is closed
};

}  // namespace lanescope
