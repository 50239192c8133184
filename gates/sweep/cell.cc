#include "gates/sweep/cell.h"

#include <tuple>

#include "debug/report/suggested_command.h"
#include "gates/run/options_text.h"

namespace lanescope {
namespace {

/// Of the kernel's first type and tile.
bool is_usual(const Cell& cell) {
  for (const ModuleName& m : declared_modules()) {
    if (m.kernel != cell.kernel) continue;
    return m.dtype == cell.dtype && m.br == cell.br && m.bc == cell.bc;
  }
  return false;
}

}  // namespace

RunOptions options_of(const Cell& cell) {
  RunOptions options;
  const std::size_t plus = cell.is_module_path() ? cell.kernel.npos : cell.kernel.find('+');
  options.kernel = cell.kernel.substr(0, plus);
  if (plus != cell.kernel.npos) options.specimen = cell.kernel.substr(plus + 1);
  options.gate = name_of(cell.gate);
  options.backend = cell.backend;
  options.shape = shape_option(cell.problem);
  options.causal = cell.problem.causal;
  if (!cell.is_module_path() && !is_usual(cell)) {
    options.dtype = name_of(cell.dtype);
    options.tile_shape = tile_text(cell.br, cell.bc);
  }
  options.input = cell.input;
  options.seed = cell.seed;
  if (cell.splits > 0) options.splits = cell.splits;
  options.checked = cell.checked;
  return options;
}

ModuleName module_of(const Cell& cell) {
  return {cell.kernel, cell.gate,    cell.dtype, cell.head_dim, cell.br,
          cell.bc,     cell.backend, false,      cell.checked};
}

std::string command_of(const Cell& cell) {
  return (cell.checked ? "check " : "diff ") + options_text(options_of(cell), cell.problem);
}

double work_of(const Cell& cell) {
  const auto padded = [](std::int64_t length, int tile) {
    return static_cast<double>((length + tile - 1) / tile * tile);
  };
  const Problem& p = cell.problem;
  return static_cast<double>(p.batch * p.heads) * padded(p.len_q, cell.br) *
         padded(p.len_kv, cell.bc) * cell.head_dim / 64;
}

bool is_simpler(const Cell& a, const Cell& b) {
  const auto order = [](const Cell& cell) {
    const Problem& p = cell.problem;
    return std::tuple(work_of(cell), p.d != cell.head_dim, p.len_q + p.len_kv, p.len_q, p.causal,
                      cell.input != "random", cell.splits, cell.seed);
  };
  return order(a) < order(b);
}

Json cell_json(const Cell& cell) {
  const Problem& p = cell.problem;
  return {{"kernel", cell.kernel},
          {"gate", name_of(cell.gate)},
          {"backend", cell.backend},
          {"dtype", name_of(cell.dtype)},
          {"tile", tile_text(cell.br, cell.bc)},
          {"head_dim", cell.head_dim},
          {"b", p.batch},
          {"h", p.heads},
          {"hkv", p.heads_kv},
          {"s", p.len_q},
          {"skv", p.len_kv},
          {"d", p.d},
          {"causal", p.causal},
          {"splits", cell.splits},
          {"input", cell.input},
          {"seed", cell.seed},
          {"checked", cell.checked}};
}

Cell cell_of(const Json& json) {
  Cell cell;
  cell.kernel = json["kernel"].text();
  cell.gate = parse_gate(json["gate"].text());
  cell.backend = json["backend"].text();
  cell.dtype = parse_dtype(json["dtype"].text());
  const auto tile = parse_tile(json["tile"].text()).value();
  cell.br = tile.first;
  cell.bc = tile.second;
  cell.head_dim = static_cast<int>(json["head_dim"].integer());
  Problem& p = cell.problem;
  p.batch = json["b"].integer();
  p.heads = json["h"].integer();
  p.heads_kv = json["hkv"].integer();
  p.len_q = json["s"].integer();
  p.len_kv = json["skv"].integer();
  p.d = json["d"].integer();
  p.causal = json["causal"].boolean();
  cell.splits = json["splits"].integer();
  cell.input = json["input"].text();
  cell.seed = static_cast<std::uint64_t>(json["seed"].integer());
  cell.checked = json["checked"].boolean();
  return cell;
}

}  // namespace lanescope
