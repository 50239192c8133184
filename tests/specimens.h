#pragma once

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/files.h"

namespace lanescope::testing {

/// A line of tests/specimens/list.txt.
struct Specimen {
  std::string name, kernel, stage, site, cause, shape;
  std::string finding;  ///< what check must find, empty: it is not asked
  std::string dtype;    ///< empty: f16
  std::string input;    ///< empty: random
  bool causal = false;
  bool of_memory = false;  ///< its cause is one that check finds: values may be right by luck
};

/// All of the list.
inline std::vector<Specimen> all_specimens() {
  const auto path = data_file("../specimens/list.txt");
  std::vector<Specimen> all;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    Specimen s;
    if (line.starts_with("#") ||
        !(words >> s.name >> s.kernel >> s.stage >> s.site >> s.cause >> s.shape))
      continue;
    for (const char* kind :
         {"race", "wrong_phase", "missing_wait", "written_twice", "out_of_bounds",
          "uninitialised_read", "missing_proxy_fence", "operand_overwritten", "register_in_flight",
          "missing_register_fence", "layout_disagrees", "wrong_expect_tx", "unfenced_barrier",
          "barrier_overwritten", "unfinished_copy", "double_arrival"}) {
      if (s.cause == kind) s.finding = kind;
    }
    s.of_memory = !s.finding.empty();
    const auto take_value = [&](const std::string& option, std::string& value) {
      const std::size_t at = s.shape.find("," + option + "=");
      if (at == std::string::npos) return;
      value = s.shape.substr(at + option.size() + 2);
      s.shape.erase(at);
    };
    take_value("check", s.finding);
    take_value("dtype", s.dtype);
    take_value("input", s.input);
    const auto take_flag = [&](const std::string& flag) {
      const std::size_t at = s.shape.find("," + flag);
      if (at != std::string::npos) s.shape.erase(at, flag.size() + 1);
      return at != std::string::npos;
    };
    s.causal = take_flag("causal");
    take_flag("small");
    all.push_back(s);
  }
  return all;
}

inline bool breaks_off(const Specimen& s) { return s.cause == "crash" || s.cause == "hang"; }

/// Those that show in values.
inline std::vector<Specimen> specimens() {
  auto shown = all_specimens();
  std::erase_if(
      shown, [](const Specimen& s) { return s.stage == "clean" || s.of_memory || breaks_off(s); });
  return shown;
}

/// Those that look like a bug and are none.
inline std::vector<Specimen> controls() {
  auto clean = all_specimens();
  std::erase_if(clean, [](const Specimen& s) { return s.stage != "clean"; });
  return clean;
}

}  // namespace lanescope::testing
