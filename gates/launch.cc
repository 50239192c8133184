#include "gates/launch.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "debug/error.h"
#include "debug/simt/checker.h"
#include "gates/dump_of_run.h"
#include "gates/injection.h"
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

Range checked(const std::optional<Range>& wish, std::int64_t count, const char* what) {
  if (!wish) return {0, count};
  if (wish->begin < 0 || wish->end > count || wish->begin >= wish->end) {
    throw UsageError(std::string("--where ") + what + ": this run has " + what + " 0.." +
                     std::to_string(count - 1));
  }
  return *wish;
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
  Buffer q(queries * row_bytes), k(keys * row_bytes), v(keys * row_bytes), o(queries * o_row_bytes);
  Buffer lse(queries * 4), left_buffer(left.bytes()), traced_buffer(traced_bytes);
  Buffer partials_buffer(partials.bytes());
  copy_rows(inputs.q, module.head_dim, q.data());
  copy_rows(inputs.k, module.head_dim, k.data());
  copy_rows(inputs.v, module.head_dim, v.data());
  Buffer q_scale = buffer_of(inputs.q_scale), k_scale = buffer_of(inputs.k_scale),
         v_scale = buffer_of(inputs.v_scale);
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
  if (inputs.scaled()) {
    run.q_scale = reinterpret_cast<const float*>(q_scale.data());
    run.k_scale = reinterpret_cast<const float*>(k_scale.data());
    run.v_scale = reinterpret_cast<const float*>(v_scale.data());
  }
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
  run.rules = request.rules;
  run.timing = request.timing;
  if (request.checker) {
    using enum simt::Region::Use;
    const auto written = stores_outputs(module.gate) ? output_once : output;
    request.checker->watch({q.region("q", input, element), k.region("k", input, element),
                            v.region("v", input, element), q_scale.region("q_scale", input),
                            k_scale.region("k_scale", input), v_scale.region("v_scale", input),
                            o.region("o", written, o_element), lse.region("lse", written),
                            injected.region("injected slots", input),
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
  if (inputs.scaled()) {
    dump.tensors.push_back({"q_scale", inputs.q_scale});
    dump.tensors.push_back({"k_scale", inputs.k_scale});
    dump.tensors.push_back({"v_scale", inputs.v_scale});
  }
  const FilledSlots buffers[] = {{left, left_buffer.data()},
                                 {partials, partials_buffer.data()},
                                 {traced, traced_bytes > 0 ? traced_buffer.data() : nullptr}};
  add_sites(module, buffers, o.data(), lse.data(), dump);
  return dump;
}

}  // namespace lanescope
