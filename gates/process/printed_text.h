#pragma once

#include <cstdint>
#include <string>

namespace lanescope {

/// What a child prints: passed on to stderr while it runs, and its last lines kept, for one that
/// ends without another word.
class PrintedText {
 public:
  PrintedText();
  ~PrintedText();
  PrintedText(const PrintedText&) = delete;
  PrintedText& operator=(const PrintedText&) = delete;

  /// In the child: what it writes to `descriptor` goes here.
  void take(int descriptor) const;
  /// In its parent: passes on what has come since.
  void pass_on();
  /// The last lines, each behind a line break and two blanks; empty where nothing was printed.
  std::string last_lines() const;

 private:
  int file_ = -1;  ///< −1: there is none, and the child prints where this process does
  std::int64_t passed_on_ = 0;
  std::string last_;
};

}  // namespace lanescope
