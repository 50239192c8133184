#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "reference/error.h"

namespace lanescope {

/// A file without a name, which processes that are forked from this one have too.
class SharedFile {
 public:
  /// `what` for those who look at a process. Throws EnvironmentError.
  explicit SharedFile(const char* what) : file_(memfd_create(what, MFD_CLOEXEC)) {
    if (file_ < 0) throw EnvironmentError("no memory for a " + std::string(what));
  }
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;
  ~SharedFile() { close(file_); }
  int number() const { return file_; }
  std::string path() const { return "/proc/self/fd/" + std::to_string(file_); }

 private:
  int file_;
};

}  // namespace lanescope
