#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "debug/simt/checker.h"
#include "debug/simt/machine.h"
#include "debug/simt/source_lines.h"
#include "kernels/device/device.h"
#include "tests/support/catch.h"

// Small kernels under the memory checker. The files that include this are compiled as checked
// modules are: with -fsanitize=thread, on our own runtime.

namespace lanescope::testing {

using simt::Kind;
using Use = simt::Region::Use;

constexpr int threads = 64;
constexpr std::size_t shared_bytes = 1024;

/// A buffer in global memory with its guards.
template <class T>
class Global {
 public:
  explicit Global(std::size_t count) : bytes_(count * sizeof(T)) {
    memory_ = std::make_unique<std::byte[]>(bytes_ + 2 * simt::guard_bytes);
  }
  T* data() const { return reinterpret_cast<T*>(memory_.get() + simt::guard_bytes); }
  simt::Region region(const char* name, Use use) const {
    return {name, data(), bytes_, use, sizeof(T)};
  }

 private:
  std::size_t bytes_;
  std::unique_ptr<std::byte[]> memory_;
};

struct Result {
  simt::Checker checker;
  std::string fault;

  const std::vector<simt::Finding>& findings() const { return checker.findings(); }
  std::vector<Kind> kinds() const {
    std::vector<Kind> kinds;
    for (const simt::Finding& finding : findings()) kinds.push_back(finding.kind);
    return kinds;
  }
  int line(const simt::Party& party) const {
    std::string warning;
    const std::string text =
        simt::source_lines(checker.image(), {party.place}, warning).at(party.place);
    INFO(text << " " << warning);
    REQUIRE(text.starts_with("tests/checker_"));
    return std::stoi(text.substr(text.rfind(':') + 1));
  }
};

template <class Kernel>
std::unique_ptr<Result> check(const Kernel& kernel, std::vector<simt::Region> regions = {},
                              std::int64_t blocks = 1, std::uint64_t schedule = 0, int workers = 2,
                              int block_threads = threads, std::size_t bytes = shared_bytes) {
  auto result = std::make_unique<Result>();
  result->checker.watch(std::move(regions));
  try {
    simt::launch(
        {blocks, block_threads, bytes, workers, schedule, &result->checker},
        [](const void* k) { (*static_cast<const Kernel*>(k))(); }, &kernel);
  } catch (const simt::Fault& fault) {
    result->fault = fault.what();
  }
  return result;
}

template <class Kernel>
std::vector<Kind> kinds_of(const Kernel& kernel, std::vector<simt::Region> regions = {},
                           std::int64_t blocks = 1) {
  return check(kernel, std::move(regions), blocks)->kinds();
}

inline int* shared() { return reinterpret_cast<int*>(simt::shared_memory()); }
/// Uses a value, so that the compiler keeps its load.
inline void use(int x) { asm volatile("" : : "r"(x)); }

using Kinds = std::vector<Kind>;

}  // namespace lanescope::testing
