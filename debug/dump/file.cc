#include "debug/dump/file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "reference/error.h"

namespace lanescope {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const fs::path& path, const std::string& what, int error) {
  throw UsageError(path.string() + ": " + what + ": " + std::generic_category().message(error));
}

/// The disk is full, or a limit is reached.
[[noreturn]] void fail_to_write(const fs::path& path, int error) {
  throw EnvironmentError(path.string() +
                         ": cannot be written: " + std::generic_category().message(error));
}

/// Where writing to `path` leads.
fs::path target_of(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) {
    if (error && error != std::errc::no_such_file_or_directory) {
      fail(path, "cannot be created", error.value());
    }
    if (!fs::is_symlink(fs::symlink_status(path, error))) return path;
    throw UsageError(path.string() + " is a link that leads nowhere");
  }
  if (!fs::is_regular_file(status)) {
    throw UsageError(path.string() + " is not a regular file; give the name of a file to write");
  }
  const fs::path target = fs::canonical(path, error);
  return error ? path : target;
}

/// While it lives, no signal ends this thread's process but those that cannot wait.
class SignalsHeld {
 public:
  SignalsHeld() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  SignalsHeld(const SignalsHeld&) = delete;
  SignalsHeld& operator=(const SignalsHeld&) = delete;
  ~SignalsHeld() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

}  // namespace

std::pair<std::shared_ptr<const std::byte>, std::uint64_t> map_file(const fs::path& path) {
  // Not blocking: opening a pipe would otherwise wait for someone to write to it.
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) fail(path, "cannot be opened", errno);
  const std::shared_ptr<void> close(nullptr, [file](void*) { ::close(file); });
  struct stat status {};
  if (::fstat(file, &status) != 0) fail(path, "cannot be read", errno);
  if (!S_ISREG(status.st_mode)) throw UsageError(path.string() + " is not a regular file");
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size == 0) return {nullptr, 0};
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
  if (address == MAP_FAILED) fail(path, "cannot be mapped into memory", errno);
  const auto unmap = [size](const std::byte* bytes) {
    ::munmap(const_cast<std::byte*>(bytes), size);
  };
  return {{static_cast<const std::byte*>(address), unmap}, size};
}

NewFile::NewFile(const fs::path& path) : target_(target_of(path)), file_(create()) {}

NewFile::~NewFile() {
  if (file_ >= 0) ::close(file_);
  if (!name_.empty()) ::unlink(name_.c_str());
}

void NewFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_to_write(target_, errno);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void NewFile::complete() {
  const SignalsHeld held;
  if (name_.empty()) {
    const std::string unnamed = "/proc/self/fd/" + std::to_string(file_);
    take_name([&](const char* name) {
      return ::linkat(AT_FDCWD, unnamed.c_str(), AT_FDCWD, name, AT_SYMLINK_FOLLOW);
    });
  }
  // Some file systems report a full disk only here.
  if (::close(std::exchange(file_, -1)) != 0) fail_to_write(target_, errno);
  if (::rename(name_.c_str(), target_.c_str()) != 0) fail_to_write(target_, errno);
  name_.clear();
}

fs::path NewFile::folder() const { return target_.has_parent_path() ? target_.parent_path() : "."; }

/// Without a name where the file system can do that.
int NewFile::create() {
  const int unnamed = ::open(folder().c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
  if (unnamed >= 0) return unnamed;
  return take_name(
      [](const char* name) { return ::open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666); });
}

int NewFile::take_name(const std::function<int(const char*)>& make) {
  const std::string stem = ".lanescope" + std::to_string(::getpid()) + ".";
  for (int attempt = 0; attempt < 100; ++attempt) {
    name_ = folder() / (stem + std::to_string(attempt));
    const int made = make(name_.c_str());
    if (made >= 0) return made;
    if (errno != EEXIST) break;
  }
  const int error = errno;
  name_.clear();
  fail(target_, "cannot be created", error);
}

}  // namespace lanescope
