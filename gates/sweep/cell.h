#pragma once

#include <cstdint>
#include <string>

#include "debug/dump/dump.h"
#include "debug/text/json.h"
#include "gates/run/run_options.h"

namespace lanescope {

/// One cell of the matrix that a sweep goes through: a module and what it is run on.
struct Cell {
  std::string kernel;  ///< a name, that of a specimen (KERNEL+NAME), or the path of a module (.so)
  Gate gate = Gate::fused;
  ElementType dtype = ElementType::f16;
  int head_dim = 64;  ///< of the module: the smallest that holds problem.d
  int br = 64, bc = 64;
  std::string backend;  ///< "sim" or "cuda"
  Problem problem;
  std::int64_t splits = 0;  ///< of the keys; 0: as the program chooses, or the kernel has none
  std::string input = "random";
  std::uint64_t seed = 0;
  bool checked = false;  ///< under the memory checker, not compared

  bool operator==(const Cell&) const = default;
  bool is_module_path() const { return lanescope::is_module_path(kernel); }
};

/// What a run of the cell takes: that of the command that command_of names.
RunOptions options_of(const Cell& cell);

/// The declared module that runs the cell.
ModuleName module_of(const Cell& cell);

/// "diff mma fused --backend sim --shape ... --tile-shape 64x32 --seed 7": what runs the cell
/// again, and by what cells of several files are the same.
std::string command_of(const Cell& cell);

/// Scores that the cell computes, padding rows and keys included, times d / 64: how long it takes.
double work_of(const Cell& cell);

/// Whether `a` is the simpler one of two that fail alike: less work; then fewer rows and keys, no
/// mask, plain inputs.
bool is_simpler(const Cell& a, const Cell& b);

/// {kernel, gate, backend, dtype, tile: "64x32", head_dim, b, h, hkv, s, skv, d, causal, splits,
/// input, seed, checked}, each a column of a table.
Json cell_json(const Cell& cell);
/// The inverse; other members are left alone. Throws std::exception where one is missing or of
/// another kind.
Cell cell_of(const Json& json);

}  // namespace lanescope
