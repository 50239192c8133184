#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "debug/site.h"
#include "reference/problem.h"

namespace lanescope {

/// A half-open range of indices.
struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t count() const { return end - begin; }
  bool contains(std::int64_t index) const { return begin <= index && index < end; }
  bool operator==(const Range&) const = default;
};

/// A traced site as a dump describes it.
struct DumpSite {
  Site site;
  /// Registers: [warp, lane, reg, 2], the (row, col) in the tile that each element stands for;
  /// −1 where an element stands for none or another lane speaks for it.
  std::vector<std::int16_t> coordinates;
  /// Shared memory: [row, col], the thread of the block that wrote the element; −1 where not known.
  /// Empty where the kernel does not say.
  std::vector<std::int16_t> owners;
};

/// What broke a run off, and where, as far as that is known (−1: it is not).
struct Stop {
  enum class Kind : std::uint8_t {
    none,   ///< nothing: the run ended by itself
    rule,   ///< the kernel broke a rule of its backend
    crash,  ///< it ended its process, or the device refused to go on
    hang,   ///< it did not end in time
  };
  Kind kind = Kind::none;
  std::int64_t block = -1, warp = -1, lane = -1;
};

constexpr const char* name_of(Stop::Kind kind) {
  constexpr const char* names[] = {"none", "rule", "crash", "hang"};
  return names[static_cast<int>(kind)];
}

/// Everything about a run that its tensors do not hold.
struct DumpInfo {
  std::string lanescope_version;
  std::string kernel;   ///< e.g. "mma"
  std::string gate;     ///< e.g. "softmax_only"
  std::string backend;  ///< "sim" or "cuda"
  std::string device;   ///< e.g. "NVIDIA H200 (sm_90)" or "sim (Hopper rules)"
  std::string arch;     ///< whose rounding rules hold, e.g. "sm_90"
  std::string module;   ///< e.g. "mma.softmax_only.f16.d64.64x64.sim"
  std::string trace;    ///< "on" or "off"
  ElementType dtype = ElementType::f16;
  Products products = Products::fp32_fma;
  Problem problem;
  int head_dim = 64;  ///< D of the module; columns from problem.d on are zero padding
  int br = 64;        ///< query rows of a tile
  int bc = 64;        ///< keys of a tile
  std::string input;  ///< "random", ... or the path of the file
  std::uint64_t seed = 0;
  std::string input_hash;   ///< of the bytes of the inputs
  std::string source_hash;  ///< of the sources that went into the module
  std::string compile_flags;
  Range blocks;            ///< the blocks and tiles that the dump holds; block =
  Range tiles;             ///<   (batch · heads + head) · ceil(len_q / br) + q_tile
  std::string incomplete;  ///< empty, or why the run did not end
  Stop stop;               ///< the same for programs
  std::vector<DumpSite> sites;

  std::int64_t q_tiles() const { return (problem.len_q + br - 1) / br; }
  std::int64_t kv_tiles() const { return (problem.len_kv + bc - 1) / bc; }
  std::int64_t block_count() const { return problem.batch * problem.heads * q_tiles(); }
};

/// What a run leaves: the inputs q, k, v (of e4m3 their scales q_scale, k_scale, v_scale), the
/// outputs o_final [batch, heads, len_q, d] and lse [batch, heads, len_q] (gate `fused`), and a
/// tensor per traced site, with the dimensions [block, tile, warp, lane, reg] (registers) or
/// [block, tile, row, col] (shared memory).
struct Dump {
  struct Entry {
    std::string name;
    Tensor tensor;
  };
  DumpInfo info;
  std::vector<Entry> tensors;

  /// nullptr where there is none of that name.
  const Tensor* find(std::string_view name) const;
  const DumpSite* find_site(std::string_view name) const;
};

/// The inputs that `dump`, a checked one, holds.
Inputs inputs_of(const Dump& dump);

/// Whether `name` is that of a tensor of Inputs.
bool is_input(std::string_view name);

/// Writes `dump` as one safetensors file; the bytes depend on nothing but the dump.
/// Throws UsageError where the file cannot be written (nothing half-written stays behind).
void write_dump(const Dump& dump, const std::filesystem::path& path);

/// Reads a file that write_dump wrote. Throws UsageError, naming the file and what is wrong with
/// it, on anything else: a truncated file, a hostile header, a tensor that does not fit its site.
Dump read_dump(const std::filesystem::path& path);

}  // namespace lanescope
