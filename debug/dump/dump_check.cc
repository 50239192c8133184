#include "debug/dump/dump_check.h"

#include <algorithm>
#include <limits>

#include "debug/text/text.h"
#include "reference/error.h"

namespace lanescope {
namespace {

using Dims = std::vector<std::int64_t>;

constexpr int max_side = 2048;  // of a tile: what the reference computes in takes its square
constexpr int max_warps = 32;
constexpr int max_threads = 1024;  // of a block
constexpr int max_regs = 1024;
constexpr int max_splits = 1 << 20;

[[noreturn]] void fail(const std::string& subject, const std::string& what) {
  throw UsageError(subject + " " + what);
}

std::string text_of(const Dims& dims) {
  std::string text;
  for (const std::int64_t dim : dims) text += (text.empty() ? "" : ", ") + std::to_string(dim);
  return "[" + text + "]";
}

void check_in(const char* what, std::int64_t value, std::int64_t low, std::int64_t high) {
  if (low <= value && value <= high) return;
  fail(what, "is " + std::to_string(value) + ", outside " + std::to_string(low) + " to " +
                 std::to_string(high));
}

void check_tensor(const std::string& name, const Tensor* tensor, ElementType type,
                  const Dims& dims) {
  const std::string subject = "tensor '" + name + "'";
  if (tensor == nullptr) fail(subject, "is missing");
  if (tensor->type != type) {
    fail(subject,
         std::string("has type ") + name_of(tensor->type) + " instead of " + name_of(type));
  }
  if (tensor->dims != dims) {
    fail(subject, "has shape " + text_of(tensor->dims) + " instead of " + text_of(dims));
  }
  std::int64_t bytes = size_of(type);
  bool overflow = false;
  for (const std::int64_t dim : dims) overflow |= __builtin_mul_overflow(bytes, dim, &bytes);
  if (overflow || static_cast<std::uint64_t>(bytes) != tensor->bytes.size()) {
    fail(subject, "does not have the bytes of its shape");
  }
}

Dims query_dims(const Problem& problem) {
  return {problem.batch, problem.heads, problem.len_q, problem.d};
}

void check_sizes(const DumpInfo& info) {
  const Problem& problem = info.problem;
  constexpr std::int64_t max = std::numeric_limits<std::int64_t>::max();
  check_in("the batch", problem.batch, 1, max);
  check_in("the number of heads", problem.heads, 1, max);
  check_in("the number of kv heads", problem.heads_kv, 1, problem.heads);
  check_in("the length of Q", problem.len_q, 1, max);
  check_in("the length of K and V", problem.len_kv, 1, max);
  check_in("br", info.br, 1, max_side);
  check_in("bc", info.bc, 1, max_side);
  check_in("head_dim", info.head_dim, 1, max_side);
  check_in("d", problem.d, 1, info.head_dim);
  if (problem.heads % problem.heads_kv != 0) {
    fail("the number of heads", "is no multiple of the number of kv heads");
  }
  check_in("the number of splits", info.splits, 1, max_splits);
  check_in("heads_per_tile", info.heads_per_tile, 1, problem.heads / problem.heads_kv);
  if (problem.heads / problem.heads_kv % info.heads_per_tile != 0) {
    fail("heads_per_tile", "does not divide the query heads of a kv head");
  }
}

/// Q has as many bytes as the problem says, and splits are few, so no product of the problem's
/// lengths overflows here.
void check_ranges(const DumpInfo& info) {
  check_in("the end of the blocks", info.blocks.end, 0, info.block_count());
  check_in("the end of the tiles", info.tiles.end, 0, info.kv_tiles());
  const int least = info.sites.empty() ? 0 : 1;  // of what a site's tensor must hold
  check_in("the first block", info.blocks.begin, 0, info.blocks.end - least);
  check_in("the first tile", info.tiles.begin, 0, info.tiles.end - least);
}

void check_size(const DumpInfo& info, const Site& site, const std::string& subject) {
  const int rows = site.axes == Axes::key_d ? info.bc : info.br;
  const int cols = site.axes == Axes::query       ? 1
                   : site.axes == Axes::query_key ? info.bc
                                                  : info.head_dim;
  if (site.rows != rows || site.cols != cols) {
    fail(subject, "has " + std::to_string(site.rows) + " x " + std::to_string(site.cols) +
                      " elements instead of " + std::to_string(rows) + " x " +
                      std::to_string(cols));
  }
  const bool registers = site.space == Space::registers;
  if (registers && (site.warps < 1 || site.warps > max_warps)) {
    fail(subject, "is held by no number of warps from 1 to " + std::to_string(max_warps));
  }
  if (registers && (site.regs < 1 || site.regs > max_regs)) {
    fail(subject, "is held by no number of registers from 1 to " + std::to_string(max_regs));
  }
  if (!registers && (site.warps != 0 || site.regs != 0)) {
    fail(subject, "is not in registers, but has warps or registers");
  }
}

void check_coordinates(const DumpSite& entry, const std::string& subject) {
  const Site& site = entry.site;
  const auto& coordinates = entry.coordinates;
  const bool registers = site.space == Space::registers;
  const std::size_t count = registers ? std::size_t(site.warps) * 32 * site.regs * 2 : 0;
  if (coordinates.size() != count) fail(subject, "does not have the coordinates it needs");
  for (std::size_t i = 0; i < count; i += 2) {
    const int row = coordinates[i], col = coordinates[i + 1];
    const bool none = row == -1 && col == -1;
    if (!none && (row < 0 || row >= site.rows || col < 0 || col >= site.cols)) {
      fail(subject, "has the coordinates (" + std::to_string(row) + ", " + std::to_string(col) +
                        ") outside its tile");
    }
  }
}

void check_owners(const DumpSite& entry, const std::string& subject) {
  const auto& owners = entry.owners;
  if (owners.empty()) return;
  if (entry.site.space != Space::shared) fail(subject, "has owners, but is not in shared memory");
  if (owners.size() != std::size_t(entry.site.rows) * entry.site.cols) {
    fail(subject, "does not have one owner for each element");
  }
  const auto known = [](std::int16_t owner) { return owner >= -1 && owner < max_threads; };
  if (!std::all_of(owners.begin(), owners.end(), known)) {
    fail(subject, "has an owner that is no thread of a block");
  }
}

Dims tensor_dims(const DumpInfo& info, const Site& site) {
  const std::int64_t tiles = site.per_tile ? info.tiles.count() : 1;
  if (site.space == Space::registers) {
    return {info.blocks.count(), tiles, site.warps, 32, site.regs};
  }
  return {info.blocks.count(), tiles, site.rows, site.cols};
}

void check_site(const Dump& dump, const DumpSite& entry) {
  const Site& site = entry.site;
  const std::string name = name_of(site.id), subject = "site " + name;
  if (dump.find_site(name) != &entry) fail(subject, "is there twice");
  const bool output = is_output(site.id);
  if ((output || is_partial(site.id)) != (site.space == Space::global)) {
    fail(subject, std::string("is in the memory space ") + name_of(site.space) +
                      "; the outputs and the partials alone are global");
  }
  if (size_of(site.type) < 2) {
    fail(subject, "is of 8 bits, where nothing tells a value that was never written");
  }
  check_size(dump.info, site, subject);
  check_coordinates(entry, subject);
  check_owners(entry, subject);
  if (!output) check_tensor(name, dump.find(name), site.type, tensor_dims(dump.info, site));
}

void check_output(const Dump& dump, const std::string& name, const Dims& dims) {
  const Tensor* tensor = dump.find(name);
  const DumpSite* entry = dump.find_site(name);
  if (tensor == nullptr && entry == nullptr) return;
  check_tensor(name, tensor, entry ? entry->site.type : tensor->type, dims);
}

}  // namespace

void check_dump(const Dump& dump) {
  const DumpInfo& info = dump.info;
  const Problem& problem = info.problem;
  check_sizes(info);
  const Dims key_dims = {problem.batch, problem.heads_kv, problem.len_kv, problem.d};
  check_tensor("q", dump.find("q"), info.dtype, query_dims(problem));
  check_tensor("k", dump.find("k"), info.dtype, key_dims);
  check_tensor("v", dump.find("v"), info.dtype, key_dims);
  if (info.dtype == ElementType::e4m3) {
    const Dims of_heads = {problem.batch, problem.heads};
    const Dims of_heads_kv = {problem.batch, problem.heads_kv};
    check_tensor("q_scale", dump.find("q_scale"), ElementType::f32, of_heads);
    check_tensor("k_scale", dump.find("k_scale"), ElementType::f32, of_heads_kv);
    check_tensor("v_scale", dump.find("v_scale"), ElementType::f32, of_heads_kv);
  }
  check_output(dump, "o_final", query_dims(problem));
  check_output(dump, "lse", {problem.batch, problem.heads, problem.len_q});
  check_ranges(info);
  for (const DumpSite& site : info.sites) check_site(dump, site);
  for (const auto& [name, tensor] : dump.tensors) {
    const bool scale = name.ends_with("_scale");
    const bool known = (is_input(name) && (!scale || info.dtype == ElementType::e4m3)) ||
                       name == "o_final" || name == "lse" || dump.find_site(name) != nullptr;
    if (!known) fail("tensor '" + printable(name) + "'", "belongs to no site");
    if (dump.find(name) != &tensor) fail("tensor '" + printable(name) + "'", "is there twice");
  }
}

}  // namespace lanescope
