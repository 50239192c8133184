#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

namespace lanescope {

/// What is being done, for as long as the object lives: from the second second on a line on stderr
/// says how far it has come and how long it will take. What is begun meanwhile stands behind it.
/// The line is drawn where a terminal shows it and by whoever waits or works (no thread of its own:
/// this program forks), at most ten times a second; it vanishes with the object. The objects begin
/// and end in one thread, the last first.
class Progress {
 public:
  /// `unit`: what is counted up to `total`, "blocks"; 0: nothing is, and there is no estimate.
  explicit Progress(std::string what, std::int64_t total = 0, const char* unit = "");
  /// `done` says how much there is of it; called only where the line is drawn.
  Progress(std::string what, std::int64_t total, const char* unit,
           std::function<std::int64_t()> done);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// It will take so long, says experience: where nothing is counted.
  void expect(double seconds) { expected_ = seconds; }
  /// So many of `total` are done. Any thread may call it, as often as it likes.
  void at(std::int64_t done, std::int64_t total);
  /// One more is done; likewise.
  void step();

  /// Draws what there is to draw; for whoever waits.
  static void draw();
  /// Takes the line away, before something else is written to stderr; `draw` brings it back.
  static void wipe();
  /// Whether lines are drawn at all from now on. Not at first.
  static void show(bool shown);
  static bool shown();

  /// "judging: 12 of 48 row tiles, about 9 s left" after so many seconds.
  std::string text(double seconds) const;

 private:
  std::string what_;
  const char* unit_;
  std::function<std::int64_t()> source_;
  std::atomic<std::int64_t> done_{0}, total_;
  std::atomic<double> expected_{0};
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  Progress* around_ = nullptr;  ///< what it is a part of
};

}  // namespace lanescope
