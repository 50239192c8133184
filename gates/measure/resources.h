#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "gates/build/module_catalogue.h"

namespace lanescope {

/// What one function that a cuda module launches takes.
struct Figures {
  std::int64_t registers = 0;                      ///< of a thread
  std::int64_t stack = 0;                          ///< bytes of a thread
  std::int64_t spill_stores = 0, spill_loads = 0;  ///< bytes of instructions in the code
  std::int64_t shared = 0;                         ///< bytes of a block, static and dynamic
  std::int64_t blocks = 0;                         ///< that fit on a multiprocessor at a time
  bool operator==(const Figures&) const = default;
};

/// A function that ptxas compiled, as `ptxas -v` tells it.
struct CompiledFunction {
  std::string name;  ///< mangled
  std::string arch;  ///< "sm_90"
  Figures figures;   ///< shared: static; blocks: not known
};
/// The entry functions in what `ptxas -v` says. Throws EnvironmentError where a figure is
/// missing.
std::vector<CompiledFunction> parse_ptxas(const std::string& report);

/// A line of a budget file: what a function of a module took when it was recorded.
struct Budget {
  std::string module;                   ///< "mma.fused.f16.d64.64x64.cuda.untraced"
  std::string pass;                     ///< "kernel"
  Figures figures;                      ///< at most these; blocks: at least
  std::string arch, compiler, sources;  ///< what it was recorded of: "sm_90", "13.0", a hash
};
/// Of kernels/budgets/KERNEL.txt, or of the folder that LANESCOPE_BUDGETS names; nothing where
/// there is no such file. Throws UsageError, naming the line, where it is no budget.
std::optional<std::vector<Budget>> read_budgets(const std::string& kernel);
/// Writes the file; returns its path. Throws UsageError where it cannot.
std::string write_budgets(const std::string& kernel, const std::vector<Budget>& budgets);

/// A figure that is not what the budget says.
struct Deviation {
  const char* figure;  ///< "registers"
  std::int64_t is, budget;
};

/// One function of one module, measured and judged.
struct ResourceUse {
  Budget now;  ///< figures as they are
  bool traced = false;
  int threads = 0;
  std::int64_t shared_static = 0;
  std::optional<int> driver_blocks;  ///< that the driver says fit, where a device answers
  std::optional<Budget> budget;
  std::vector<Deviation> over;  ///< than the budget allows
  std::vector<Deviation> fell;  ///< so far below the budget that code may be lost
  /// Of those that fell: how `diff` judges the gate, "match" or "diverged"; empty: not run.
  std::string verdict;
  std::string diff_command;  ///< that judges it
};

struct ResourceReport {
  std::string kernel;
  bool has_budgets = false;
  std::string recorded;  ///< the file that was written, empty: none
  std::vector<ResourceUse> uses;

  /// Nothing over budget, everything with a budget (where there are any), and what fell is right.
  bool within() const;
  static bool within(const ResourceUse& use, bool has_budgets);
};

struct ResourceOptions {
  std::string kernel;                   ///< a name, or the path of a cuda module (.so, .ptx)
  std::string against;                  ///< of PTX with markers: that without
  std::string gate, dtype, tile_shape;  ///< empty: all
  int d = 0;                            ///< 0: all
  bool record = false;
};

/// Builds the cuda modules that the options name, traced and untraced, and judges what they take by
/// the budgets. What is at hand is measured first: where others have to be built, which takes
/// minutes, `measured` gets it before that, with the number of modules that are to come. A module
/// that fell far below its budget is run and compared with the reference. `record`: writes the
/// budgets of these modules anew, unless a verdict is "diverged". Throws Error.
ResourceReport measure_resources(
    const ResourceOptions& options,
    const std::function<void(const ResourceReport& part, std::size_t to_come)>& measured = {});

/// The table of all uses, from the use `first` on: a row per function, traced and untraced side by
/// side; above the first row the heads of the columns.
std::string resource_rows(const ResourceReport& report, std::size_t first = 0);
/// The report without the rows of the uses before `first`: further rows, notes and the verdict.
std::string resources_text(const ResourceReport& report, std::size_t first = 0);
std::string resources_json(const ResourceReport& report);

}  // namespace lanescope
