#include "gates/launch.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <new>
#include <numbers>

#include "debug/error.h"
#include "debug/simt/checker.h"
#include "gates/dump_of_run.h"
#include "gates/injection.h"
#include "gates/isolated_run.h"
#include "gates/partition.h"
#include "gates/printed_trace.h"
#include "gates/run_memory.h"
#include "gates/slot_layout.h"
#include "reference/inputs.h"

namespace lanescope {
namespace {

bool is_taken(Gate gate, const Site& site) { return takes(gate, site.id) && !is_partial(site.id); }
bool is_shared_by_passes(Gate gate, const Site& site) {
  return has(gate, site.id) && is_partial(site.id);
}
bool is_left(Gate gate, const Site& site) { return leaves(gate, site.id); }

/// What the memory checker knows the parts of the buffer `whole` by.
void add_partials(const SlotLayout& layout, const simt::Region& whole, std::int64_t blocks,
                  std::vector<simt::Region>& regions) {
  for (std::size_t i = 0; i < layout.sites().size(); ++i) {
    simt::Region& region = regions.emplace_back(whole);
    region.name = name_of(layout.sites()[i].id);
    region.begin = static_cast<const std::byte*>(whole.begin) + layout.shared_offset(i, 0, 0, 0, 0);
    region.bytes = static_cast<std::size_t>(blocks * layout.sites()[i].bytes());
  }
}

Range checked(const std::optional<Range>& wish, std::int64_t count, const char* what) {
  if (!wish) return {0, count};
  if (wish->begin < 0 || wish->end > count || wish->begin >= wish->end) {
    throw UsageError(std::string("--where ") + what + ": this run has " + what + " 0.." +
                     std::to_string(count - 1));
  }
  return *wish;
}

std::int64_t bytes_of(const Tensor& tensor) {
  return static_cast<std::int64_t>(tensor.bytes.size());
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
                     std::to_string(module.head_dim) +
                     ": give --shape d=" + std::to_string(module.head_dim) + " or less");
  }
  for (const std::int64_t side : {p.batch, p.heads, p.len_q, p.len_kv}) {
    if (side > most - module.br - module.bc) throw UsageError("a side of the shape passes 2^31");
  }
}

/// A fault takes the device's memory with it: the run once more, with what it writes in the host's.
void run_again(const Module& module, IsolatedRun isolated, RunEnd& end) {
  isolated.run.surviving = 1;
  isolated.run.timing = nullptr;
  const RunEnd again = run_isolated(module, isolated);
  end.message += again.status == ModuleStatus::kernel_fault
                     ? "\n(run again with its buffers in host memory, to keep what it writes)"
                     : "\n(run again with its buffers in host memory, it did not fault: what was "
                       "kept is of that run)";
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
  const int element = size_of(module.dtype), o_element = size_of(operand_type(module.dtype));
  const std::int64_t row_bytes = std::int64_t{module.head_dim} * element;
  const std::int64_t o_row_bytes = std::int64_t{module.head_dim} * o_element;
  const std::int64_t queries = p.batch * p.heads * p.len_q;
  const std::int64_t keys = p.batch * p.heads_kv * p.len_kv;
  check_memory(2 * (taken.bytes() + left.bytes() + partials.bytes() + traced_bytes) +
               3 * (queries + 2 * keys) * row_bytes + 2 * queries * (o_row_bytes + 4));

  const bool given = !request.inputs.q.dims.empty();
  Inputs generated;
  if (!given) generated = generate_inputs(p, module.dtype, request.input, request.seed);
  const Inputs& inputs = given ? request.inputs : generated;
  info.input_hash = hash_inputs(inputs);
  enum Buffer : std::size_t {
    q,
    k,
    v,
    q_scale,
    k_scale,
    v_scale,
    o,
    lse,
    injected,
    left_slots,
    partial_slots,
    trace_slots,
    timing
  };
  RunMemory memory(
      run_record_bytes(),
      {queries * row_bytes, keys * row_bytes, keys * row_bytes, bytes_of(inputs.q_scale),
       bytes_of(inputs.k_scale), bytes_of(inputs.v_scale), queries * o_row_bytes, queries * 4,
       taken.bytes(), left.bytes(), partials.bytes(), traced_bytes,
       request.timing ? std::int64_t{sizeof(ModuleTiming)} : 0});
  copy_rows(inputs.q, module.head_dim, memory.buffer(q));
  copy_rows(inputs.k, module.head_dim, memory.buffer(k));
  copy_rows(inputs.v, module.head_dim, memory.buffer(v));
  inject(module, taken, inputs, info, request.threads, memory.buffer(injected));
  const bool gives_partials = takes(module.gate, SiteId::o_partial);
  if (gives_partials) {
    inject(module, partials, inputs, info, request.threads, memory.buffer(partial_slots));
  }

  ModuleRun run{};
  run.q = memory.buffer(q);
  run.k = memory.buffer(k);
  run.v = memory.buffer(v);
  if (inputs.scaled()) {
    const auto scale = [&](const Tensor& tensor, Buffer index) {
      std::copy(tensor.bytes.begin(), tensor.bytes.end(), memory.buffer(index));
      return reinterpret_cast<const float*>(memory.buffer(index));
    };
    run.q_scale = scale(inputs.q_scale, q_scale);
    run.k_scale = scale(inputs.k_scale, k_scale);
    run.v_scale = scale(inputs.v_scale, v_scale);
  }
  run.o = memory.buffer(o);
  run.lse = reinterpret_cast<float*>(memory.buffer(lse));
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
  run.partials = memory.buffer(partial_slots);
  run.partials_bytes = partials.bytes();
  run.injected = memory.buffer(injected);
  run.injected_bytes = taken.bytes();
  run.left = memory.buffer(left_slots);
  run.left_bytes = left.bytes();
  run.traced = memory.buffer(trace_slots);
  run.traced_bytes = traced_bytes;
  run.all = all;
  run.window = window;
  // Text of blocks that run side by side would mix within a line.
  run.workers = prints ? 1 : request.threads;
  run.schedule = request.schedule;
  run.rules = request.rules;
  if (request.timing) run.timing = new (memory.buffer(timing)) ModuleTiming(*request.timing);
  if (request.checker) {
    using enum simt::Region::Use;
    const auto written = stores_outputs(module.gate) ? output_once : output;
    std::vector<simt::Region> regions = {memory.region(q, "q", input, element),
                                         memory.region(k, "k", input, element),
                                         memory.region(v, "v", input, element),
                                         memory.region(q_scale, "q_scale", input),
                                         memory.region(k_scale, "k_scale", input),
                                         memory.region(v_scale, "v_scale", input),
                                         memory.region(o, "o", written, o_element),
                                         memory.region(lse, "lse", written),
                                         memory.region(injected, "injected slots", input),
                                         memory.region(left_slots, "left slots", output),
                                         memory.region(trace_slots, "trace slots", output)};
    add_partials(partials,
                 memory.region(partial_slots, "partials", gives_partials ? input : output),
                 run.blocks, regions);
    request.checker->watch(std::move(regions));
    run.checker = request.checker;
  }
  std::optional<PrintedTrace> text;
  if (prints) text.emplace();
  const IsolatedRun isolated{run, memory, request.timeout_seconds, text ? text->file() : nullptr,
                             request.checker};
  RunEnd end = run_isolated(module, isolated);
  if (end.status == ModuleStatus::kernel_fault && std::string_view(module.backend) == "cuda") {
    run_again(module, isolated, end);
  }
  if (text) text->finish(request.printed_to);
  if (end.status == ModuleStatus::no_device || end.status == ModuleStatus::no_memory) {
    throw EnvironmentError(module_name + ": " + end.message);
  }
  if (end.status == ModuleStatus::refused) {
    throw UsageError(module_name + " refuses this run: " + end.message);
  }
  if (run.timing) *request.timing = *run.timing;
  const bool any_rules = end.arch == "any";  // it rounds as it is told to
  info.device =
      end.device + (any_rules ? std::string(" (") + request.rules->title + " rules)" : "");
  info.arch = any_rules ? request.rules->arch : end.arch;
  info.incomplete = end.message;
  info.stop = end.stop;

  dump.tensors.push_back({"q", inputs.q});
  dump.tensors.push_back({"k", inputs.k});
  dump.tensors.push_back({"v", inputs.v});
  if (inputs.scaled()) {
    dump.tensors.push_back({"q_scale", inputs.q_scale});
    dump.tensors.push_back({"k_scale", inputs.k_scale});
    dump.tensors.push_back({"v_scale", inputs.v_scale});
  }
  const FilledSlots buffers[] = {{left, memory.buffer(left_slots)},
                                 {partials, memory.buffer(partial_slots)},
                                 {traced, traced_bytes > 0 ? memory.buffer(trace_slots) : nullptr}};
  add_sites(module, buffers, memory.buffer(o), memory.buffer(lse), dump);
  return dump;
}

}  // namespace lanescope
