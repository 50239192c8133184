#include "gates/commands/log.h"

#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/ansicolor_sink.h>

#include "debug/text/progress.h"
#include "debug/text/text.h"

namespace lanescope::log {
namespace {

spdlog::logger& logger() {
  static spdlog::logger logger = [] {
    spdlog::logger made("lanescope", std::make_shared<spdlog::sinks::ansicolor_stderr_sink_mt>());
    made.set_pattern("%^%l%$: %v");
    return made;
  }();
  return logger;
}

void say(spdlog::level::level_enum level, const std::string& text) {
  Progress::wipe();
  logger().log(level, without_controls(text, true));
}

}  // namespace

void set_up(bool verbose, bool quiet) {
  logger().set_level(quiet     ? spdlog::level::err
                     : verbose ? spdlog::level::debug
                               : spdlog::level::info);
}

void debug(const std::string& text) { say(spdlog::level::debug, text); }
void info(const std::string& text) { say(spdlog::level::info, text); }
void warn(const std::string& text) { say(spdlog::level::warn, text); }
void error(const std::string& text) { say(spdlog::level::err, text); }

}  // namespace lanescope::log
