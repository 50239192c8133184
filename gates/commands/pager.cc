#include "gates/commands/pager.h"

#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace lanescope {

void print_paged(const std::string& text, const Style& style) {
  const char* named = std::getenv("PAGER");
  const std::string pager = named ? named : "less";
  const bool is_long =
      style.height > 0 && std::count(text.begin(), text.end(), '\n') >= style.height;
  std::fflush(stdout);
  if (is_long && !pager.empty()) {
    setenv("LESS", "FRX", 0);  // colours as they are, and the text stays on the terminal
    const auto before = signal(SIGPIPE, SIG_IGN);  // a pager may be left before the end of the text
    constexpr int not_found = 127;                 // of the shell
    int status = not_found << 8;
    if (std::FILE* pipe = popen(pager.c_str(), "w")) {
      std::fputs(text.c_str(), pipe);
      status = pclose(pipe);
    }
    signal(SIGPIPE, before);
    if (status >> 8 != not_found) return;
  }
  std::fputs(text.c_str(), stdout);
}

}  // namespace lanescope
