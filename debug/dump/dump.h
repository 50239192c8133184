#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "reference/inputs.h"
#include "reference/site.h"

namespace lanescope {

/// A half-open range of indices.
struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t count() const { return end - begin; }
  bool contains(std::int64_t index) const { return begin <= index && index < end; }
  bool operator==(const Range&) const = default;
};

/// "2 to 5", or "2" where there is one.
std::string range_text(const Range& range);

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

/// What broke a run off, or makes it worthless, and where, as far as that is known (−1: it is not).
struct Stop {
  enum class Kind : std::uint8_t {
    none,   ///< nothing: the run ended by itself
    rule,   ///< the kernel broke a rule of its backend
    crash,  ///< it ended its process, or the device refused to go on
    hang,   ///< it did not end in time
    stray,  ///< nothing, but it wrote outside of its buffers
    input,  ///< nothing, but it wrote into an input
  };
  Kind kind = Kind::none;
  std::int64_t block = -1, warp = -1, lane = -1;
  /// In the combine pass, whose warps are others: `block` is then the first of those it combines.
  bool combining = false;

  friend bool operator==(const Stop&, const Stop&) = default;
};

constexpr const char* name_of(Stop::Kind kind) {
  constexpr const char* names[] = {"none", "rule", "crash", "hang", "stray", "input"};
  return names[static_cast<int>(kind)];
}

/// A block's place in the problem. Its rows are br of those of a group of heads_per_tile
/// neighbouring heads, which stand behind each other; its keys are those of one split.
struct BlockPlace {
  std::int64_t batch;
  std::int64_t head;    ///< the first of the group
  std::int64_t q_tile;  ///< of the group's rows
  std::int64_t split;
};

/// Whether what a user names is a module of his own, by its path: a library, or PTX.
inline bool is_module_path(std::string_view kernel) {
  return kernel.ends_with(".so") || kernel.ends_with(".ptx");
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
  // What the site table says, wherever the site is not in the dump too.
  ScoreUnit scores = ScoreUnit::base_2;  ///< Site::unit of s
  ScoreUnit maxima = ScoreUnit::base_2;  ///< of m
  bool lane_sums = false;                ///< Site::in_lanes of l
  RescaleRule rescale;                   ///< of alpha
  Problem problem;
  int head_dim = 64;  ///< D of the module; columns from problem.d on are zero padding
  int br = 64;        ///< query rows of a tile
  int bc = 64;        ///< keys of a tile
  int splits = 1;     ///< equal ranges of K/V tiles, with blocks of their own
  int heads_per_tile = 1;
  std::string input;  ///< "random", ... or the path of the file
  std::uint64_t seed = 0;
  std::string input_hash;   ///< of the bytes of the inputs
  std::string source_hash;  ///< of the sources that went into the module
  std::string compile_flags;
  Range blocks;            ///< the blocks and tiles that the dump holds; place says which they are
  Range tiles;             ///< counted from the first of the block's split
  std::string incomplete;  ///< empty, or why the run did not end, or not without harm
  Stop stop;               ///< the same for programs
  std::vector<DumpSite> sites;

  /// Whether the run did not end: what it did not write is a consequence of that.
  bool broke_off() const { return !incomplete.empty() && !strayed(); }
  /// It ended, and wrote where it must not.
  bool strayed() const { return stop.kind == Stop::Kind::stray || stop.kind == Stop::Kind::input; }
  /// `incomplete` as a sentence.
  std::string end_text() const { return (broke_off() ? "the run did not end: " : "") + incomplete; }
  /// Rows of Q of a group of heads, and their tiles.
  /// Whether values are traced that are no outputs.
  bool is_traced() const {
    for (const DumpSite& entry : sites) {
      if (!is_output(entry.site.id)) return true;
    }
    return false;
  }
  std::int64_t group_rows() const { return heads_per_tile * problem.len_q; }
  std::int64_t q_tiles() const { return (group_rows() + br - 1) / br; }
  /// K/V tiles of a split; the last ones have fewer, or none.
  std::int64_t kv_tiles() const { return ((problem.len_kv + bc - 1) / bc + splits - 1) / splits; }
  /// Tiles of Q of the whole problem, each with a block per split.
  std::int64_t row_tiles() const {
    return problem.batch * (problem.heads / heads_per_tile) * q_tiles();
  }
  std::int64_t block_count() const { return row_tiles() * splits; }

  /// block = ((batch · groups + group) · q_tiles() + q_tile) · splits + split
  BlockPlace place(std::int64_t block) const {
    const std::int64_t row_tile = block / splits, group = row_tile / q_tiles();
    const std::int64_t groups = problem.heads / heads_per_tile;
    return {group / groups, group % groups * heads_per_tile, row_tile % q_tiles(), block % splits};
  }
  /// Rows of the block that exist.
  std::int64_t rows(const BlockPlace& at) const {
    const std::int64_t left = group_rows() - at.q_tile * br;
    return left < br ? left : br;
  }
  /// Head and query that `row` of the block is.
  std::int64_t head_of(const BlockPlace& at, std::int64_t row) const {
    return at.head + (at.q_tile * br + row) / problem.len_q;
  }
  std::int64_t query_of(const BlockPlace& at, std::int64_t row) const {
    return (at.q_tile * br + row) % problem.len_q;
  }
  /// The first key of a tile of the block.
  std::int64_t key_of(const BlockPlace& at, std::int64_t tile) const {
    return (at.split * kv_tiles() + tile) * bc;
  }
  /// Where the block's first row lies in q, seen as [·, d], and a tile's first key in k.
  std::int64_t first_q_row(const BlockPlace& at) const {
    return (at.batch * problem.heads + at.head) * problem.len_q + at.q_tile * br;
  }
  std::int64_t first_kv_row(const BlockPlace& at, std::int64_t tile) const {
    return (at.batch * problem.heads_kv + problem.kv_head(at.head)) * problem.len_kv +
           key_of(at, tile);
  }
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
/// Throws as NewFile does where the file cannot be written (nothing half-written stays behind).
void write_dump(const Dump& dump, const std::filesystem::path& path);

/// Reads a file that write_dump wrote; its tensors share a mapping of the file, so that a large
/// dump opens at once and takes the memory of what is looked at. Throws UsageError, naming the file
/// and what is wrong with it, on anything else: a truncated file, a hostile header, a tensor that
/// does not fit its site.
Dump read_dump(const std::filesystem::path& path);

}  // namespace lanescope
