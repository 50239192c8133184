#include "gates/process/starvation.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

namespace lanescope {

Starvation::Starvation(pid_t process) : process_(process), begin_(waits_of(process)) {}

Starvation::Waits Starvation::waits_of(pid_t process) {
  Waits waits;
  std::error_code error;
  std::filesystem::directory_iterator threads("/proc/" + std::to_string(process) + "/task", error);
  for (; !error && threads != std::filesystem::directory_iterator(); threads.increment(error)) {
    std::ifstream in(threads->path() / "schedstat");
    double ran = 0, waited = 0;  // nanoseconds
    if (in >> ran >> waited) waits[std::stoi(threads->path().filename().string())] = waited * 1e-9;
  }
  return waits;
}

double Starvation::seconds() const {
  double most = 0;
  for (const auto& [thread, waited] : waits_of(process_)) {
    const auto before = begin_.find(thread);
    most = std::max(most, before == begin_.end() ? waited : waited - before->second);
  }
  return most;
}

}  // namespace lanescope
