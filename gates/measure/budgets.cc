#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "gates/build/this_build.h"
#include "gates/measure/resources.h"
#include "reference/error.h"

namespace lanescope {
namespace {

std::filesystem::path budget_path(const std::string& kernel) {
  const char* moved = std::getenv("LANESCOPE_BUDGETS");
  const std::filesystem::path folder =
      moved && *moved ? moved : this_build::source_root() + "/kernels/budgets";
  return folder / (kernel + ".txt");
}

}  // namespace

std::optional<std::vector<Budget>> read_budgets(const std::string& kernel) {
  const std::filesystem::path path = budget_path(kernel);
  if (!std::filesystem::exists(path)) return std::nullopt;
  std::ifstream in(path);
  std::vector<Budget> budgets;
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.empty() || line.starts_with('#')) continue;
    std::istringstream fields(line);
    Budget b;
    Figures& f = b.figures;
    std::string rest;
    fields >> b.module >> b.pass >> f.registers >> f.stack >> f.spill_stores >> f.spill_loads >>
        f.shared >> f.blocks >> b.arch >> b.compiler >> b.sources;
    if (!fields || fields >> rest) {
      throw UsageError(path.string() + ":" + std::to_string(number) +
                       ": not a module, a pass, six figures, arch, compiler and sources: '" + line +
                       "'; `lanescope resources " + kernel + " --record` writes it anew");
    }
    budgets.push_back(b);
  }
  if (in.bad()) throw UsageError("cannot read " + path.string());
  return budgets;
}

std::string write_budgets(const std::string& kernel, const std::vector<Budget>& budgets) {
  const std::filesystem::path path = budget_path(kernel);
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  std::ofstream out(path);
  out << "# The most that the functions of a cuda module may take, and the least blocks of it that "
         "a\n"
         "# multiprocessor must hold. `lanescope resources "
      << kernel
      << " --record` writes this file, on purpose.\n"
         "# module pass | registers stack spill_stores spill_loads shared blocks | arch compiler "
         "sources\n";
  for (const Budget& b : budgets) {
    const Figures& f = b.figures;
    out << b.module << ' ' << b.pass << "  " << f.registers << ' ' << f.stack << ' '
        << f.spill_stores << ' ' << f.spill_loads << ' ' << f.shared << ' ' << f.blocks << "  "
        << b.arch << ' ' << b.compiler << ' ' << b.sources << '\n';
  }
  out.close();
  if (!out) throw UsageError("cannot write " + path.string());
  return path.string();
}

}  // namespace lanescope
