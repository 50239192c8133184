#include "gates/run/launch.h"

#include <cstdio>
#include <optional>
#include <string_view>
#include <utility>

#include "debug/ptx/recognise.h"
#include "debug/simt/checker.h"
#include "debug/text/text.h"
#include "gates/process/isolated_run.h"
#include "gates/process/printed_trace.h"
#include "gates/run/dump_of_run.h"
#include "gates/run/marked_sites.h"
#include "gates/run/run_buffers.h"
#include "gates/run/run_plan.h"
#include "reference/error.h"
#include "reference/inputs.h"

namespace lanescope {
namespace {

ModuleRun module_run_of(const Module& module, const RunPlan& plan, const RunRequest& request,
                        const RunBuffers& buffers) {
  ModuleRun run{};
  run.problem = plan.info.problem;
  run.splits = plan.info.splits;
  run.heads_per_tile = plan.info.heads_per_tile;
  run.blocks = plan.info.block_count();
  run.combine_blocks = plan.info.row_tiles();
  buffers.give_to(run);
  run.all = plan.all;
  run.window = plan.window;
  // Text of blocks that run side by side would mix within a line.
  run.workers = prints(module) ? 1 : request.threads;
  run.schedule = request.schedule;
  run.checker = request.checker;
  run.rules = request.rules;
  run.timing = request.timing;
  return run;
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

/// A kernel that writes outside of its buffers, or into its inputs, is wrong, whatever is in them.
/// The memory checker says more of it itself, with the line that does it.
void note_strays(const RunBuffers& buffers, const RunRequest& request, RunEnd& end) {
  if (request.checker) return;
  const auto note = [&](Stop::Kind kind, const std::string& strays) {
    if (strays.empty()) return;
    if (end.stop.kind == Stop::Kind::none) end.stop.kind = kind;
    end.message += (end.message.empty() ? "" : "\n") + strays;
  };
  note(Stop::Kind::stray, buffers.strays());
  note(Stop::Kind::input, buffers.changed_inputs());
}

/// Says in the file of a slice where the inputs lie, as read_slice takes it.
void name_inputs(const Module& module, const Problem& problem, const ModuleRun& run, int file) {
  const auto bytes = static_cast<std::int64_t>(size_of(module.dtype)) * module.head_dim;
  const std::pair<const char*, const ModuleBuffer&> inputs[] = {
      {"q", run.q}, {"k", run.k}, {"v", run.v}};
  for (const auto& [name, buffer] : inputs) {
    const bool of_q = *name == 'q';
    dprintf(file, "input %s %llu %lld %lld %lld %lld\n", name,
            static_cast<unsigned long long>(reinterpret_cast<std::uintptr_t>(buffer.data)),
            static_cast<long long>(buffer.bytes), static_cast<long long>(bytes),
            static_cast<long long>(of_q ? problem.len_q : problem.len_kv),
            static_cast<long long>(of_q ? problem.heads : problem.heads_kv));
  }
}

/// Says where Q, K, V and O lie.
void name_rows(const Module& module, const ModuleRun& run, ptx::Lookout& lookout) {
  const auto rows_of = [&](const ModuleBuffer& buffer, ElementType type) {
    return ptx::KnownRows{
        static_cast<const std::byte*>(buffer.data), static_cast<std::size_t>(buffer.bytes),
        static_cast<std::size_t>(size_of(type)) * static_cast<std::size_t>(module.head_dim)};
  };
  lookout.rows = {rows_of(run.q, module.dtype), rows_of(run.k, module.dtype),
                  rows_of(run.v, module.dtype), rows_of(run.o, operand_type(module.dtype))};
  lookout.log_sums = {static_cast<const std::byte*>(run.lse.data),
                      static_cast<std::size_t>(run.lse.bytes), sizeof(float)};
}

/// Runs the kernel, and prints what it printed.
RunEnd run_kernel(const Module& module, const RunPlan& plan, const RunRequest& request,
                  const RunBuffers& buffers) {
  if (request.checker) request.checker->watch(buffers.regions(plan));
  std::optional<PrintedTrace> text;
  if (prints(module)) text.emplace();
  const ModuleRun run = module_run_of(module, plan, request, buffers);
  std::optional<ptx::MarkerRun> markers;
  if (module.marked_ptx) markers = marker_run_of(module, run);
  IsolatedRun isolated{run,
                       buffers.memory(),
                       request.timeout_seconds,
                       text ? text->file() : nullptr,
                       request.checker,
                       markers ? &*markers : nullptr};
  if (request.slice) {
    isolated.slice_bytes = static_cast<std::size_t>(size_of(operand_type(module.dtype)));
    isolated.slice = buffers.data(&ModuleRun::o) +
                     static_cast<std::size_t>(request.slice->element) * isolated.slice_bytes;
    isolated.slice_file = request.slice->file;
    name_inputs(module, plan.info.problem, run, request.slice->file);
  }
  if (request.lookout) {
    name_rows(module, run, *request.lookout);
    isolated.lookout = request.lookout;
  }
  RunEnd end = run_isolated(module, isolated);
  if (end.status == ModuleStatus::kernel_fault && std::string_view(module.backend) == "cuda") {
    run_again(module, isolated, end);
  }
  if (text && request.printed_to) text->finish(request.printed_to);
  note_strays(buffers, request, end);
  return end;
}

/// Throws where there is nothing to collect.
void demand_begun(const RunEnd& end, const std::string& module_name) {
  if (end.status == ModuleStatus::no_device || end.status == ModuleStatus::no_memory) {
    throw EnvironmentError(module_name + ": " + end.message);
  }
  const std::string refusal = module_name + " refuses this run" +
                              (end.message.empty() ? ", and does not say why" : ": " + end.message);
  if (end.status == ModuleStatus::refused) throw UsageError(refusal);
  if (end.status == ModuleStatus::not_executed) throw NotExecutedError(refusal);
}

/// What the markers of a kernel cost on the GPU that ran them.
std::string marked_text(const MarkedResources& r) {
  const auto each = [](int registers, int local) {
    return std::to_string(registers) + " registers and " + std::to_string(local) +
           " bytes of local memory";
  };
  return "markers as code: " + each(r.rewritten_registers, r.rewritten_local) +
         " a thread, without them " + each(r.registers, r.local);
}

Dump collect(const Module& module, RunPlan plan, const RunRequest& request, const Inputs& inputs,
             const RunBuffers& buffers, const RunEnd& end) {
  Dump dump;
  dump.info = std::move(plan.info);
  DumpInfo& info = dump.info;
  info.input_hash = hash_inputs(inputs);
  const bool any_rules = end.arch == "any";  // it rounds as it is told to
  info.device =
      end.device + (any_rules ? std::string(" (") + request.rules->title + " rules)" : "");
  info.arch = any_rules ? request.rules->arch : end.arch;
  info.incomplete = without_controls(end.message, true);  // it may be the kernel's words
  info.stop = end.stop;
  if (end.marked.rewritten_registers > 0) info.compile_flags = marked_text(end.marked);

  dump.tensors.push_back({"q", inputs.q});
  dump.tensors.push_back({"k", inputs.k});
  dump.tensors.push_back({"v", inputs.v});
  if (inputs.scaled()) {
    dump.tensors.push_back({"q_scale", inputs.q_scale});
    dump.tensors.push_back({"k_scale", inputs.k_scale});
    dump.tensors.push_back({"v_scale", inputs.v_scale});
  }
  const FilledSlots slots[] = {{plan.left, buffers.data(&ModuleRun::left)},
                               {plan.partials, buffers.data(&ModuleRun::partials)},
                               {plan.traced, buffers.data(&ModuleRun::traced)}};
  add_sites(module, slots, buffers.data(&ModuleRun::o), buffers.data(&ModuleRun::lse), dump);
  if (module.marked_ptx) {
    const std::byte* holders = buffers.data(&ModuleRun::holders);
    settle_marked(module, reinterpret_cast<const std::int16_t*>(holders), dump);
  }
  return dump;
}

}  // namespace

Dump launch(const Module& module, const std::string& module_name, const RunRequest& request) {
  RunPlan plan = plan_run(module, module_name, request);
  const bool given = !request.inputs.q.dims.empty();
  Inputs generated;
  if (!given) {
    generated = generate_inputs(request.problem, module.dtype, request.input, request.seed);
  }
  const Inputs& inputs = given ? request.inputs : generated;
  const RunBuffers buffers(module, plan, inputs, request.threads);
  const RunEnd end = run_kernel(module, plan, request, buffers);
  demand_begun(end, module_name);
  return collect(module, std::move(plan), request, inputs, buffers, end);
}

}  // namespace lanescope
