#include "gates/sweep/plan.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>

#include "debug/dump/dump.h"
#include "gates/build/module_build.h"
#include "gates/process/cuda_process.h"
#include "reference/error.h"

namespace lanescope {
namespace {

/// FNV-1a, 64 bits, as 16 hex digits. Source: Fowler, Noll, Vo; draft-eastlake-fnv.
std::string hash_text(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(hash));
  return digits;
}

/// Of the file that this process runs, and of a module by its path.
std::string hash_of_file(const std::string& path) {
  std::string bytes(std::filesystem::file_size(path), '\0');
  std::ifstream(path, std::ios::binary).read(bytes.data(), std::ssize(bytes));
  return hash_text(bytes);
}

std::vector<std::string> backends_of(const std::string& wish) {
  if (wish != "both") return {choose_backend(wish)};
  return {choose_backend("sim"), choose_backend("cuda")};
}

std::vector<std::string> kernels_of(const SweepOptions& options) {
  if (options.kernel == "all") {
    if (!options.specimen.empty()) throw UsageError("sweep all: --specimen is of one kernel");
    return declared_kernels();
  }
  demand_kernel(options.kernel);
  return {options.kernel + (options.specimen.empty() ? "" : "+" + options.specimen)};
}

void take_declared(const SweepOptions& options, DrawPlan& plan) {
  std::vector<Gate> gates;
  for (const std::string& name : options.gates) gates.push_back(parse_gate(name));
  if (gates.empty()) gates.push_back(Gate::fused);
  const std::vector<std::string> backends = backends_of(options.backend);
  for (const std::string& kernel : kernels_of(options)) {
    for (const Gate gate : gates) {
      for (const std::string& backend : backends) {
        // Which says what there is instead.
        if (options.kernel != "all") choose_module({kernel, gate, {}, 1, {}, backend});
        for (const ModuleName& m : declared_modules()) {
          if (m.kernel == kernel && m.gate == gate && m.backend == backend) {
            plan.modules.push_back(m);
          }
        }
      }
    }
    const auto combines = [&](const ModuleName& m) {
      return m.kernel == kernel && m.gate == Gate::combine_only;
    };
    if (std::any_of(declared_modules().begin(), declared_modules().end(), combines)) {
      plan.combining.push_back(kernel);
    }
  }
}

void take_file(const SweepOptions& options, DrawPlan& plan) {
  if (options.backend == "both") throw UsageError("sweep: a module is of one backend");
  const bool on_machine =
      options.backend == "sim" || (options.backend == "auto" && !cuda_device_answers());
  const ModuleFile file = open_module_at(options.kernel, false, on_machine);
  const Gate gate = file->gate;
  const auto is = [&](const std::string& name) { return parse_gate(name) == gate; };
  if (!options.gates.empty() && std::none_of(options.gates.begin(), options.gates.end(), is)) {
    throw UsageError("the module " + options.kernel + " is gate " + name_of(gate));
  }
  plan.modules.push_back(
      {options.kernel, gate, file->dtype, file->head_dim, file->br, file->bc, file->backend});
  if (file->combines) plan.combining.push_back(options.kernel);
  if (!file->checked) plan.checked_percent = 0;
}

struct Shard {
  std::int64_t number = 1, count = 1;
};
Shard parse_shard(const std::string& text) {
  Shard shard;
  if (text.empty()) return shard;
  const char* end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, shard.number);
  const bool slash = first.ec == std::errc() && first.ptr != end && *first.ptr == '/';
  const auto second = std::from_chars(slash ? first.ptr + 1 : end, end, shard.count);
  if (!slash || second.ec != std::errc() || second.ptr != end || shard.count < 1 ||
      shard.number < 1 || shard.number > shard.count) {
    throw UsageError("--shard: '" + text + "' is not like 1/8, 2/8, ... 8/8 (Slurm: --array=1-8)");
  }
  return shard;
}

}  // namespace

SweepPlan plan_sweep(const SweepOptions& options) {
  SweepPlan plan;
  plan.draw.space = parse_space(options.over);
  plan.draw.seed = options.seed;
  plan.draw.checked_percent = options.checked_percent;
  const bool given = is_module_path(options.kernel);
  given ? take_file(options, plan.draw) : take_declared(options, plan.draw);
  plan.draw.modules = modules_of(plan.draw.modules, plan.draw.space);
  CudaProcess::instance().end();  // processes that are forked have one of their own

  std::string cells = options.over + "\n" + std::to_string(options.seed) + "\n" +
                      std::to_string(plan.draw.checked_percent);
  std::string sources = hash_of_file("/proc/self/exe");
  std::set<std::string> kernels;
  for (const ModuleName& m : plan.draw.modules) {
    cells += "\n" + m.text();
    kernels.insert(m.kernel);
  }
  for (const std::string& kernel : kernels) {
    sources += given ? hash_of_file(kernel) : hash_of_sources_at_hand(kernel);
  }
  plan.id = hash_text(cells);
  plan.build = hash_text(sources);
  const Shard shard = parse_shard(options.shard);
  for (std::int64_t i = shard.number - 1; i < options.runs; i += shard.count) {
    plan.indices.push_back(i);
  }
  return plan;
}

void build_modules_of(const std::vector<Cell>& cells) {
  std::set<std::string> names;
  for (const Cell& cell : cells) {
    if (!cell.is_module_path()) names.insert(module_of(cell).text());
  }
  if (!names.empty()) build_modules({names.begin(), names.end()});
}

}  // namespace lanescope
