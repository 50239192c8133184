#include "gates/build/source_watch.h"

#include <poll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <cerrno>

#include "debug/dump/source_hash.h"
#include "reference/error.h"

namespace lanescope {
namespace {

namespace fs = std::filesystem;

constexpr int settling_ms = 120;  // between two saves that belong together
constexpr std::uint32_t events_of_interest = IN_CLOSE_WRITE | IN_CREATE | IN_DELETE |
                                             IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE_SELF |
                                             IN_MOVE_SELF;

}  // namespace

SourceWatch::SourceWatch(std::vector<fs::path> files)
    : files_(std::move(files)), events_(inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {
  if (events_ < 0) {
    throw EnvironmentError(
        "cannot follow files: inotify has no instance left (see "
        "/proc/sys/fs/inotify/max_user_instances)");
  }
  for (const fs::path& file : files_) {
    folders_.insert(file.parent_path());
    std::error_code error;
    const fs::path target = fs::canonical(file, error);  // where `file` is a link
    if (!error) folders_.insert(target.parent_path());
  }
  follow_folders();
  known_ = contents();
}

SourceWatch::~SourceWatch() { ::close(events_); }

std::vector<std::string> SourceWatch::contents() const {
  std::vector<std::string> hashes;
  hashes.reserve(files_.size());
  for (const fs::path& file : files_) hashes.push_back(hash_sources("/", {file.string()}));
  return hashes;
}

/// Again each time: a folder may have been replaced, and one that is followed stays as it is.
void SourceWatch::follow_folders() {
  for (const fs::path& folder : folders_) {
    if (inotify_add_watch(events_, folder.c_str(), events_of_interest) < 0 && errno == ENOSPC) {
      throw EnvironmentError("cannot follow " + folder.string() + ": inotify has no watch left " +
                             "(see /proc/sys/fs/inotify/max_user_watches)");
    }
  }
}

std::vector<fs::path> SourceWatch::wait(int stop) {
  for (bool settled = false;;) {
    follow_folders();
    const std::vector<std::string> now = contents();
    std::vector<fs::path> changed;
    for (std::size_t i = 0; i < files_.size(); ++i) {
      if (now[i] != known_[i]) changed.push_back(files_[i]);
    }
    if (settled && !changed.empty()) {
      known_ = now;
      return changed;
    }
    pollfd sources[] = {{events_, POLLIN, 0}, {stop, POLLIN, 0}};
    const int ready = ::poll(sources, 2, changed.empty() ? -1 : settling_ms);
    if (sources[1].revents != 0) return {};
    settled = ready == 0;
    char buffer[4096];
    while (::read(events_, buffer, sizeof buffer) > 0) {
    }
  }
}

}  // namespace lanescope
