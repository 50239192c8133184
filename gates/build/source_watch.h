#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <vector>

namespace lanescope {

/// Follows the contents of files, whatever an editor does on saving: writes them in place, or puts
/// a new file under the old name. A save that leaves a file as it was is none.
class SourceWatch {
 public:
  /// Remembers what is in `files` now. Throws EnvironmentError where the system cannot follow
  /// files.
  explicit SourceWatch(std::vector<std::filesystem::path> files);
  SourceWatch(const SourceWatch&) = delete;
  SourceWatch& operator=(const SourceWatch&) = delete;
  ~SourceWatch();

  /// Waits until files differ from what is remembered and no more of them change for a moment, so
  /// that saving several at once is one change; remembers and returns them. Empty where the file
  /// descriptor `stop` becomes readable before.
  std::vector<std::filesystem::path> wait(int stop);

 private:
  std::vector<std::string> contents() const;
  void follow_folders();

  std::vector<std::filesystem::path> files_;
  std::vector<std::string> known_;  ///< a hash per file, empty where there is none
  std::set<std::filesystem::path> folders_;
  int events_;
};

}  // namespace lanescope
