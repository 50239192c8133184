#include "gates/process/printed_text.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>

#include "debug/text/text.h"

namespace lanescope {
namespace {

constexpr std::size_t bytes_kept = 1024;
constexpr int lines_told = 4;

}  // namespace

PrintedText::PrintedText() : file_(memfd_create("printed", MFD_CLOEXEC)) {}

PrintedText::~PrintedText() {
  if (file_ >= 0) close(file_);
}

void PrintedText::take(int descriptor) const {
  if (file_ >= 0) dup2(file_, descriptor);
}

void PrintedText::pass_on() {
  if (file_ < 0) return;
  char bytes[4096];
  const std::int64_t before = passed_on_;
  for (;;) {
    const ssize_t count = pread(file_, bytes, sizeof bytes, passed_on_);
    if (count <= 0) break;
    passed_on_ += count;
    last_.append(bytes, static_cast<std::size_t>(count));
    if (last_.size() > bytes_kept) last_.erase(0, last_.size() - bytes_kept);
    for (ssize_t done = 0; done < count;) {
      const ssize_t written =
          write(STDERR_FILENO, bytes + done, static_cast<std::size_t>(count - done));
      if (written <= 0) break;
      done += written;
    }
  }
  // A kernel may print more than memory holds.
  if (passed_on_ > before) {
    fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, passed_on_);
  }
}

std::string PrintedText::last_lines() const {
  std::string text, rest = last_;
  for (int line = 0; line < lines_told; ++line) {
    while (!rest.empty() && rest.back() == '\n') rest.pop_back();
    if (rest.empty()) break;
    const std::size_t end = rest.rfind('\n');
    const std::size_t begin = end == std::string::npos ? 0 : end + 1;
    text = "\n  " + printable(rest.substr(begin)) + text;
    rest.erase(begin);
  }
  return text;
}

}  // namespace lanescope
