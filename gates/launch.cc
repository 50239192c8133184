#include "gates/launch.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <numbers>

#include "debug/error.h"
#include "debug/simt/checker.h"
#include "gates/declared_modules.h"
#include "gates/injection.h"
#include "gates/partition.h"
#include "gates/printed_trace.h"
#include "gates/slot_layout.h"
#include "reference/inputs.h"

namespace lanescope {
namespace {

bool is_taken(Gate gate, const Site& site) { return takes(gate, site.id) && !is_partial(site.id); }
bool is_shared_by_passes(Gate gate, const Site& site) {
  return has(gate, site.id) && is_partial(site.id);
}
bool is_left(Gate gate, const Site& site) { return leaves(gate, site.id); }

/// Memory aligned as kernels want it, filled with the poison pattern, as are its guards.
class Buffer {
 public:
  explicit Buffer(std::int64_t bytes)
      : bytes_(static_cast<std::size_t>(bytes)), words_((bytes_ + 15) / 16 + 2 * guard) {
    std::fill_n(reinterpret_cast<std::uint32_t*>(words_.data()), words_.size() * 4, poison32);
  }
  std::byte* data() { return reinterpret_cast<std::byte*>(words_.data() + guard); }
  simt::Region region(const char* name, simt::Region::Use use, std::size_t element = 4) {
    return {name, data(), bytes_, use, element};
  }

 private:
  struct alignas(16) Word {
    std::uint32_t x[4];
  };
  static constexpr std::size_t guard = simt::guard_bytes / sizeof(Word);
  std::size_t bytes_;
  std::vector<Word> words_;
};

/// `tensor` [..., d] with its rows widened to `width` columns, zeros behind d.
void copy_rows(const Tensor& tensor, int width, std::byte* to) {
  const auto row = static_cast<std::size_t>(tensor.dims.back() * size_of(tensor.type));
  const auto stride = static_cast<std::size_t>(width * size_of(tensor.type));
  for (std::size_t from = 0; from < tensor.bytes.size(); from += row, to += stride) {
    std::memcpy(to, tensor.bytes.data() + from, row);
    std::memset(to + row, 0, stride - row);
  }
}

/// The inverse of copy_rows: the first d columns of every row.
Tensor take_rows(ElementType type, std::vector<std::int64_t> dims, int width,
                 const std::byte* from) {
  Tensor tensor(type, std::move(dims));
  const auto row = static_cast<std::size_t>(tensor.dims.back() * size_of(type));
  const auto stride = static_cast<std::size_t>(width * size_of(type));
  for (std::size_t to = 0; to < tensor.bytes.size(); to += row, from += stride) {
    std::memcpy(tensor.bytes.data() + to, from, row);
  }
  return tensor;
}

Range checked(const std::optional<Range>& wish, std::int64_t count, const char* what) {
  if (!wish) return {0, count};
  if (wish->begin < 0 || wish->end > count || wish->begin >= wish->end) {
    throw UsageError(std::string("--where ") + what + ": this run has " + what + " 0.." +
                     std::to_string(count - 1));
  }
  return *wish;
}

std::string megabytes(std::int64_t bytes) { return std::to_string((bytes >> 20) + 1) + " MiB"; }

/// Bytes that programs can still have, as the kernel estimates it.
std::int64_t available_memory() {
  std::ifstream in("/proc/meminfo");
  for (std::string name; in >> name;) {
    std::int64_t kilobytes = 0;
    if (name == "MemAvailable:" && in >> kilobytes) return kilobytes << 10;
    in.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return std::numeric_limits<std::int64_t>::max();
}

/// Refuses before anything is launched what would not fit.
void check_memory(std::int64_t bytes) {
  const std::int64_t available = available_memory();
  if (bytes <= available) return;
  throw EnvironmentError("the run needs " + megabytes(bytes) + " and " + megabytes(available) +
                         " are free: narrow it with --where block=0..N,tile=A..B, or take a "
                         "smaller --shape");
}

void check_fits(const Module& module, const RunRequest& request) {
  const Problem& p = request.problem;
  constexpr std::int64_t most = std::numeric_limits<int>::max();
  const bool given = !request.inputs.q.dims.empty();
  if (given && request.inputs.type() != module.dtype) {
    throw UsageError(std::string("the module takes ") + name_of(module.dtype) +
                     ", the inputs are " + name_of(request.inputs.type()));
  }
  if (p.d > module.head_dim) {
    throw UsageError("d=" + std::to_string(p.d) + " is more than the module's head dimension " +
                     std::to_string(module.head_dim));
  }
  for (const std::int64_t side : {p.batch, p.heads, p.len_q, p.len_kv}) {
    if (side > most - module.br - module.bc) throw UsageError("a side of the shape passes 2^31");
  }
}

DumpSite describe(const Module& module, const Site& site) {
  DumpSite described{site, {}, {}};
  if (site.space == Space::registers) {
    for (int warp = 0; warp < site.warps; ++warp) {
      for (int lane = 0; lane < 32; ++lane) {
        for (int reg = 0; reg < site.regs; ++reg) {
          int row = 0, col = 0;
          module.coordinate(site.id, warp, lane, reg, &row, &col);
          described.coordinates.push_back(static_cast<std::int16_t>(row));
          described.coordinates.push_back(static_cast<std::int16_t>(col));
        }
      }
    }
  } else if (site.space == Space::shared) {
    for (int row = 0; row < site.rows; ++row) {
      for (int col = 0; col < site.cols; ++col) {
        described.owners.push_back(static_cast<std::int16_t>(module.owner(site.id, row, col)));
      }
    }
  }
  return described;
}

DumpInfo info_of(const Module& module, const std::string& module_name, const RunRequest& request) {
  char device[256] = "", arch[32] = "";
  if (module.device(device, sizeof device, arch, sizeof arch) != ModuleStatus::ok) {
    throw EnvironmentError(std::string("no device for the ") + module.backend +
                           " backend: " + device);
  }
  DumpInfo info;
  info.lanescope_version = LANESCOPE_VERSION;
  info.kernel = module.kernel;
  info.gate = name_of(module.gate);
  info.backend = module.backend;
  info.device = device;
  info.arch = arch;
  info.module = module_name;
  // Printed text is not in the dump.
  info.trace = std::string_view(module.trace) == "on" ? "on" : "off";
  info.dtype = module.dtype;
  info.products = module.products;
  info.problem = request.problem;
  info.head_dim = module.head_dim;
  info.br = module.br;
  info.bc = module.bc;
  const Partition partition = partition_of(module, request.problem, request.splits);
  info.splits = static_cast<int>(partition.splits);
  info.heads_per_tile = static_cast<int>(partition.heads_per_tile);
  info.input = request.input;
  info.seed = request.seed;
  info.source_hash = module.source_hash;
  info.compile_flags = module.compile_flags;
  return info;
}

}  // namespace

Dump launch(const Module& module, const std::string& module_name, const RunRequest& request) {
  check_fits(module, request);
  const Problem& p = request.problem;
  Dump dump;
  dump.info = info_of(module, module_name, request);
  DumpInfo& info = dump.info;
  info.blocks = checked(request.blocks, info.block_count(), "block");
  info.tiles = checked(request.tiles, info.kv_tiles(), "tile");
  const Range warps = checked(request.warps, module.threads / 32, "warp");
  const Range lanes = checked(request.lanes, 32, "lane");
  const bool prints = std::string_view(module.trace) == "printf";
  if (!prints && (request.warps || request.lanes)) {
    throw UsageError(
        "--where warp=, lane= narrows printed text (-Dtrace=printf); a dump is narrowed "
        "by block= and tile=, and `show --warp --lane` picks from it");
  }
  const Window all{0, info.block_count(),  0, static_cast<int>(info.kv_tiles()),
                   0, module.threads / 32, 0, 32};
  const Window window{info.blocks.begin,
                      info.blocks.end,
                      static_cast<int>(info.tiles.begin),
                      static_cast<int>(info.tiles.end),
                      static_cast<int>(warps.begin),
                      static_cast<int>(warps.end),
                      static_cast<int>(lanes.begin),
                      static_cast<int>(lanes.end)};

  const SlotLayout taken(module, is_taken, all);
  const SlotLayout left(module, is_left, all);
  const SlotLayout partials(module, is_shared_by_passes, all);
  const SlotLayout traced(module, traces, window);
  const std::int64_t traced_bytes = std::string_view(module.trace) == "on" ? traced.bytes() : 0;
  const std::int64_t row_bytes = std::int64_t{module.head_dim} * size_of(module.dtype);
  const std::int64_t queries = p.batch * p.heads * p.len_q;
  const std::int64_t keys = p.batch * p.heads_kv * p.len_kv;
  check_memory(2 * (taken.bytes() + left.bytes() + partials.bytes() + traced_bytes) +
               3 * (queries + 2 * keys) * row_bytes + 2 * queries * (row_bytes + 4));

  const bool given = !request.inputs.q.dims.empty();
  Inputs generated;
  if (!given) generated = generate_inputs(p, module.dtype, request.input, request.seed);
  const Inputs& inputs = given ? request.inputs : generated;
  info.input_hash = hash_inputs(inputs);
  Buffer q(queries * row_bytes), k(keys * row_bytes), v(keys * row_bytes), o(queries * row_bytes);
  Buffer lse(queries * 4), left_buffer(left.bytes()), traced_buffer(traced_bytes);
  Buffer partials_buffer(partials.bytes());
  copy_rows(inputs.q, module.head_dim, q.data());
  copy_rows(inputs.k, module.head_dim, k.data());
  copy_rows(inputs.v, module.head_dim, v.data());
  Buffer injected(taken.bytes());
  inject(module, taken, inputs, info, request.threads, injected.data());
  const bool gives_partials = takes(module.gate, SiteId::o_partial);
  if (gives_partials) {
    inject(module, partials, inputs, info, request.threads, partials_buffer.data());
  }

  char message[4096] = "";
  ModuleRun run{};
  run.q = q.data();
  run.k = k.data();
  run.v = v.data();
  run.o = o.data();
  run.lse = reinterpret_cast<float*>(lse.data());
  run.batch = static_cast<int>(p.batch);
  run.heads = static_cast<int>(p.heads);
  run.heads_kv = static_cast<int>(p.heads_kv);
  run.len_q = static_cast<int>(p.len_q);
  run.len_kv = static_cast<int>(p.len_kv);
  run.scale_log2 = static_cast<float>(std::numbers::log2e / std::sqrt(static_cast<double>(p.d)));
  run.causal = p.causal;
  run.splits = info.splits;
  run.heads_per_tile = info.heads_per_tile;
  run.blocks = info.block_count();
  run.combine_blocks = info.row_tiles();
  run.partials = partials_buffer.data();
  run.partials_bytes = partials.bytes();
  run.injected = injected.data();
  run.injected_bytes = taken.bytes();
  run.left = left_buffer.data();
  run.left_bytes = left.bytes();
  run.traced = traced_buffer.data();
  run.traced_bytes = traced_bytes;
  run.all = all;
  run.window = window;
  // Text of blocks that run side by side would mix within a line.
  run.workers = prints ? 1 : request.threads;
  run.schedule = request.schedule;
  if (request.checker) {
    using enum simt::Region::Use;
    const auto written = stores_outputs(module.gate) ? output_once : output;
    request.checker->watch({q.region("q", input), k.region("k", input), v.region("v", input),
                            o.region("o", written, static_cast<std::size_t>(size_of(module.dtype))),
                            lse.region("lse", written), injected.region("injected slots", input),
                            left_buffer.region("left slots", output),
                            traced_buffer.region("trace slots", output),
                            partials_buffer.region("partials", gives_partials ? input : output)});
    run.checker = request.checker;
  }
  run.message = message;
  run.message_bytes = sizeof message;
  ModuleStatus status{};
  if (prints) {
    PrintedTrace text;
    status = module.run(&run);
    text.finish(request.printed_to);
  } else {
    status = module.run(&run);
  }
  if (status == ModuleStatus::no_device || status == ModuleStatus::no_memory) {
    throw EnvironmentError(message);
  }
  if (status == ModuleStatus::kernel_fault) info.incomplete = message;

  dump.tensors.push_back({"q", inputs.q});
  dump.tensors.push_back({"k", inputs.k});
  dump.tensors.push_back({"v", inputs.v});
  for (int i = 0; i < module.site_count; ++i) {
    const Site& site = module.sites[i];
    const std::string name = name_of(site.id);
    const auto keep = [&](const SlotLayout& layout, const std::byte* buffer) {
      for (std::size_t j = 0; j < layout.sites().size(); ++j) {
        if (layout.sites()[j].id != site.id) continue;
        info.sites.push_back(describe(module, site));
        dump.tensors.push_back({name, layout.unpack(j, buffer, info.blocks, info.tiles)});
      }
    };
    keep(left, left_buffer.data());
    keep(partials, partials_buffer.data());
    if (traced_bytes > 0) keep(traced, traced_buffer.data());
    if (!stores_outputs(module.gate) || !is_output(site.id)) continue;
    info.sites.push_back(describe(module, site));
    dump.tensors.push_back({name, site.axes == Axes::query
                                      ? take_rows(site.type, {p.batch, p.heads, p.len_q},
                                                  static_cast<int>(p.len_q), lse.data())
                                      : take_rows(site.type, {p.batch, p.heads, p.len_q, p.d},
                                                  module.head_dim, o.data())});
  }
  return dump;
}

}  // namespace lanescope
