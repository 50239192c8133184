#include "debug/text/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <mutex>

#include "debug/text/text.h"

namespace lanescope {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds quiet_time(1000), between_drawings(100);

std::atomic<bool> wanted{false};
std::mutex drawing;  // guards what follows
Progress* innermost = nullptr;
bool on_screen = false;
std::atomic<Clock::rep> next_drawing{0};  // not before

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// "9 s", "3 min 20 s": no finer than an estimate is.
std::string time_text(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::ceil(seconds));
  if (whole < 100) return std::to_string(whole) + " s";
  return std::to_string(whole / 60) + " min " + std::to_string(whole % 60 / 10 * 10) + " s";
}

void put(const std::string& text) {
  [[maybe_unused]] const auto written = write(STDERR_FILENO, text.data(), text.size());
}

void erase() {
  if (on_screen) put("\r\x1b[K");
  on_screen = false;
}

int columns() {
  winsize window{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 0 ? window.ws_col : 80;
}

}  // namespace

Progress::Progress(std::string what, std::int64_t total, const char* unit)
    : Progress(std::move(what), total, unit, nullptr) {}

Progress::Progress(std::string what, std::int64_t total, const char* unit,
                   std::function<std::int64_t()> done)
    : what_(std::move(what)), unit_(unit), source_(std::move(done)), total_(total) {
  const std::lock_guard<std::mutex> guard(drawing);
  around_ = innermost;
  innermost = this;
}

Progress::~Progress() {
  const std::lock_guard<std::mutex> guard(drawing);
  innermost = around_;
  erase();
}

void Progress::at(std::int64_t done, std::int64_t total) {
  done_ = done;
  total_ = total;
  draw();
}

void Progress::step() {
  ++done_;
  draw();
}

std::string Progress::text(double seconds) const {
  const std::int64_t total = total_, done = std::min(source_ ? source_() : done_.load(), total);
  double left = total > 0 && done > 0
                    ? seconds * static_cast<double>(total - done) / static_cast<double>(done)
                    : expected_ - seconds;
  std::string text = what_;
  if (total > 0) {
    text += ": " + std::to_string(done) + " of " + std::to_string(total) + " " + unit_;
  }
  return text + (left > 0 ? ", about " + time_text(left) + " left" : ", " + time_text(seconds));
}

void Progress::draw() {
  if (!wanted || Clock::now().time_since_epoch().count() < next_drawing) return;
  const std::unique_lock<std::mutex> guard(drawing, std::try_to_lock);
  if (!guard || innermost == nullptr) return;
  next_drawing = (Clock::now() + between_drawings).time_since_epoch().count();
  std::string line;
  for (const Progress* part = innermost; part != nullptr; part = part->around_) {
    line = part->text(seconds_since(part->begin_)) + (line.empty() ? "" : " | " + line);
  }
  put("\r" + clip(line, columns() - 1) + "\x1b[K");
  on_screen = true;
}

void Progress::wipe() {
  const std::lock_guard<std::mutex> guard(drawing);
  erase();
}

void Progress::show(bool shown) {
  wanted = shown;
  next_drawing = (Clock::now() + quiet_time).time_since_epoch().count();
}
bool Progress::shown() { return wanted; }

}  // namespace lanescope
