#pragma once

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/files.h"

namespace lanescope::testing {

/// A line of tests/specimens/list.txt.
struct Specimen {
  std::string name, kernel, stage, site, cause, shape;
  std::string finding;  ///< what check must find, empty: it is not asked
  std::string dtype;    ///< empty: f16
  bool causal = false;
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
    if (s.stage == "check") s.finding = s.cause;
    if (const std::size_t at = s.shape.find(",check="); at != std::string::npos) {
      s.finding = s.shape.substr(at + 7);
      s.shape.erase(at);
    }
    if (const std::size_t at = s.shape.find(",dtype="); at != std::string::npos) {
      s.dtype = s.shape.substr(at + 7);
      s.shape.erase(at);
    }
    if (const std::size_t at = s.shape.find(",causal"); at != std::string::npos) {
      s.shape.erase(at);
      s.causal = true;
    }
    all.push_back(s);
  }
  return all;
}

/// Those that show in values.
inline std::vector<Specimen> specimens() {
  auto shown = all_specimens();
  std::erase_if(shown, [](const Specimen& s) { return s.stage == "check" || s.stage == "clean"; });
  return shown;
}

/// Those that look like a bug and are none.
inline std::vector<Specimen> controls() {
  auto clean = all_specimens();
  std::erase_if(clean, [](const Specimen& s) { return s.stage != "clean"; });
  return clean;
}

}  // namespace lanescope::testing
