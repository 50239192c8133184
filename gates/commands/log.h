#pragma once

#include <string>

// What is not a result: a line on stderr, "warning: ...", in colour on a terminal. Apart from the
// library behind it, which takes long to compile.
namespace lanescope::log {

/// What is said from now on: `verbose`: debug too; `quiet`: only errors. Else info and above.
void set_up(bool verbose, bool quiet);

void debug(const std::string& text);
void info(const std::string& text);
void warn(const std::string& text);
void error(const std::string& text);

}  // namespace lanescope::log
