#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "reference/element_type.h"
#include "reference/problem.h"
#include "reference/site.h"

namespace lanescope {

/// How a kernel given as PTX is launched on a problem, or several, one after the other. It is the
/// JSON file x.launch.json beside x.ptx; what Triton writes beside a kernel (x.json) is read for
/// what that leaves out.
struct LaunchDescription {
  /// One of the launches that make O, of a kernel of its own.
  struct Launch {
    std::filesystem::path ptx;
    std::string kernel;                  ///< name of the entry; empty: the only one
    std::vector<std::string> grid;       ///< 1 to 3 words (gates/module/launch_words.h)
    std::vector<std::string> block;      ///< likewise; empty: what the PTX asks for
    std::string shared = "0";            ///< dynamic shared memory, bytes
    std::vector<std::string> arguments;  ///< a word for each parameter
    bool fmad = true;                    ///< ptxas may contract sums of products
    /// Bytes per block of the pointers that Triton adds behind the parameters.
    std::vector<std::int64_t> hidden;
  };
  std::vector<Launch> launches;         ///< one after the other
  std::vector<std::string> conditions;  ///< of problems that the kernel takes
  std::optional<bool> causal;           ///< what the kernel is compiled for; not given: both
  ElementType dtype = ElementType::f16;
  int head_dim = 64;
  int br = 64, bc = 64;
  /// Where it is not given: those that f32 has without tensor cores, of other types with them.
  std::optional<Products> products;

  bool writes_lse() const;
  /// Whether that is log2 of the sum of 2^s, of scores in base 2.
  bool lse_base_2() const;

 private:
  bool has_argument(const char* word) const;
};

/// Reads the files beside a PTX file. Throws UsageError with what is wrong and where.
LaunchDescription read_launch_description(const std::filesystem::path& ptx);

/// Where it is looked for: "x.launch.json".
inline std::filesystem::path launch_description_path(const std::filesystem::path& ptx) {
  return std::filesystem::path(ptx).replace_extension(".launch.json");
}

}  // namespace lanescope
