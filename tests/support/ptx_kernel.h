#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "debug/ptx/machine.h"
#include "debug/ptx/program.h"
#include "debug/ptx/syntax.h"

namespace lanescope {

/// A kernel given as PTX text, and the memory that it may use.
class PtxKernel {
 public:
  /// `variables`: where those of the module lie.
  explicit PtxKernel(const std::string& text, const std::string& name = "kernel",
                     const std::vector<std::uint64_t>& variables = {})
      : module_(ptx::parse(text, "test.ptx")), program_(ptx::decode(module_, name, variables)) {}

  const ptx::Program& program() const { return program_; }
  ptx::Grid grid;

  /// `host`: of what the buffer is a copy, if that is known.
  template <class T>
  void use(std::vector<T>& data, const T* host = nullptr) {
    memory_.add(data.data(), data.size() * sizeof(T), "a buffer of the test", false).host =
        reinterpret_cast<const std::byte*>(host);
  }
  /// The parameters one after the other, 8 bytes each.
  std::int64_t run(const std::vector<std::uint64_t>& parameters) {
    grid.parameters = parameters.data();
    grid.memory = &memory_;
    return ptx::launch(grid, program_);
  }

 private:
  ptx::Module module_;
  ptx::Program program_;
  ptx::GlobalMemory memory_;
};

inline std::uint64_t address(const void* memory) { return reinterpret_cast<std::uint64_t>(memory); }

/// A module with one kernel, whose parameters are `count` numbers of 64 bits, p0, p1, ...
inline std::string ptx_module(const std::string& body, int count = 4,
                              const std::string& before = "") {
  std::string text =
      ".version 8.5\n.target sm_90\n.address_size 64\n" + before + ".visible .entry kernel(";
  for (int i = 0; i < count; ++i) {
    text += (i > 0 ? ", " : "") + std::string(".param .u64 p") + std::to_string(i);
  }
  return text + ") {\n" + body + "\n}\n";
}

}  // namespace lanescope
