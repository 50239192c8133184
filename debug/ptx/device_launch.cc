// A launch on the device: its grid, who looks at it, and what is told of it.

#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "debug/ptx/marker_run.h"
#include "debug/ptx/notes.h"
#include "debug/ptx/runtime.h"
#include "debug/simt/checker.h"
#include "reference/error.h"

namespace lanescope::ptx {
namespace {

/// Of this process.
double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

/// The grid, or one of a block per item (RunSettings::items), of whole clusters.
std::array<std::uint32_t, 3> blocks_of_items(const RunSettings& settings,
                                             std::array<std::uint32_t, 3> blocks,
                                             const std::array<std::uint32_t, 3>& cluster) {
  if (blocks[1] != 1 || blocks[2] != 1 || settings.items <= blocks[0]) return blocks;
  const std::int64_t side = std::max(cluster[0], 1U);
  blocks[0] = static_cast<std::uint32_t>((settings.items + side - 1) / side * side);
  return blocks;
}

/// Takes a launch into the record; returns the first block of it that is run.
std::array<std::uint32_t, 3> note_launch(const RunSettings& settings,
                                         const std::array<std::uint32_t, 3>& blocks) {
  std::array<std::uint32_t, 3> first{};
  const int index = settings.launched->count++;
  if (index >= LaunchedGrids::most) return first;
  const auto place = static_cast<std::size_t>(index);
  settings.launched->blocks[place] = blocks;
  if (!settings.ends_of || index >= settings.ends_of->count) return first;
  const auto& last = settings.ends_of->blocks[place];
  for (std::size_t i = 0; i < 3; ++i) first[i] = blocks[i] - std::min(blocks[i], last[i]);
  return first;
}

}  // namespace

Device::Outcome Device::run(const Grid& grid, const Program& program, std::string& fault) {
  try {
    const double begin = cpu_seconds();
    work_.instructions += ptx::launch(grid, program);
    work_.cpu_seconds += cpu_seconds() - begin;
    return Outcome::ok;
  } catch (const LaunchError& error) {
    fault = error.what();
    return Outcome::refused_sides;
  } catch (const KernelFault& error) {
    fault = error.what();
    fault_ = error.kind;
    fail(fault, false);
  } catch (const Error& error) {
    fault = error.what();
    fail(fault, true);
  }
  return Outcome::failed;
}

/// Of an instruction of any kernel that was launched under the memory checker.
std::string Device::line_of(std::uint32_t place) const {
  for (const auto& [handle, kernel] : kernels_) {
    const std::uint32_t instruction = place - kernel.first_place;
    if (!kernel.program || kernel.first_place == 0 || instruction >= kernel.program->code.size())
      continue;
    return kernel.program->line_of(instruction) + kernel.program->calls_of(instruction);
  }
  return "";
}

Device::Outcome Device::launch(Kernel& kernel, const std::array<std::uint32_t, 3>& blocks,
                               const std::array<std::uint32_t, 3>& threads,
                               std::size_t dynamic_shared, void* const* arguments,
                               const Manner& manner) {
  if (!failure_.empty()) return Outcome::failed;
  refused_ = false;
  // What was decoded before this run was known takes no part in it.
  if ((settings.markers && settings.markers->injects != kernel.program->injects) ||
      (names_accesses() && !kernel.program->names_accesses)) {
    decode_kernel(kernel);
  }
  const Program& program = *kernel.program;
  std::vector<std::byte> parameters(program.parameter_bytes + 16);
  for (std::size_t i = 0; i < program.parameters.size(); ++i) {
    std::memcpy(&parameters[program.parameter_offsets[i]], arguments[i],
                program.parameters[i].bytes);
  }
  name_allocations(program, arguments);
  simt::Checker of_session;
  simt::Checker* checker = session_ ? &of_session : settings.checker;
  Grid grid;
  grid.cluster = program.cluster[0] != 0 ? program.cluster : manner.cluster;
  grid.blocks = blocks_of_items(settings, blocks, grid.cluster);
  grid.threads = threads;
  grid.dynamic_shared = dynamic_shared;
  if (manner.cooperative) grid.workspace = grid_workspace();
  grid.parameters = parameters.data();
  grid.memory = &memory_;
  grid.workers = settings.workers;
  grid.schedule = settings.schedule;
  grid.checker = checker;
  grid.tensor_core = settings.tensor_core;
  grid.timeout_seconds = settings.timeout_seconds;
  grid.markers = settings.markers;
  if (settings.launched) grid.first_block = note_launch(settings, grid.blocks);
  NumbersMade numbers;
  Tally tally;
  if (checker) grid.numbers = &numbers;
  if (session_) {
    grid.tally = &tally;
    grid.tallies_accesses = session_->tallies_accesses();
  }
  std::atomic<bool> lets_next_start = false;
  grid.lets_next_start = &lets_next_start;
  grid.beside_last = manner.overlaps && ending_ == manner.stream;
  if (checker) {
    watch_memory(*checker, grid.beside_last);
    grid.line_elsewhere = [this](std::uint32_t place) { return line_of(place); };
    grid.is_first = session_ || next_place_ == 1;
    if (kernel.first_place == 0) {
      kernel.first_place = next_place_;
      next_place_ += static_cast<std::uint32_t>(program.code.size());
    }
    grid.first_place = kernel.first_place;
  }
  std::string fault;
  std::optional<SliceWish> slice;
  if (settings.slice_bytes > 0) slice = SliceWish{settings.slice, settings.slice_bytes};
  try {
    if (session_) slice = session_->slice_in(memory_);
  } catch (const UsageError& error) {
    fail(error.what(), true);
    fault = error.what();
  }
  if (slice) grid.slice = &*slice;
  grid.lookout = settings.lookout;
  grid.history = history();
  if (grid.history) grid.history->begin_launch(kernel.program);
  Outcome outcome = fault.empty() ? Outcome::refused_memory : Outcome::failed;
  if (!fault.empty()) {
    // It is told below.
  } else if (dynamic_shared <= kernel.most_dynamic_shared) {
    outcome = run(grid, program, fault);
  } else {
    fault = "the launch asks for " + std::to_string(dynamic_shared) +
            " bytes of dynamic shared memory, and the kernel may have " +
            std::to_string(kernel.most_dynamic_shared) +
            ": cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, ...) "
            "allows more";
  }
  // Of several launches, the first in which there is one.
  if (checker && !session_ && checker->notes().empty()) {
    checker->note(number_notes(numbers, program));
    checker->note_nan(nan_origin(numbers, program));
  }
  for (const auto& [begin, area] : memory_.areas()) {
    if (!checker || checker->findings().empty()) break;
    if (!area.shadow || area.freed || area.region < 0) continue;
    checker->note_unread(area.region, static_cast<std::int64_t>(area.shadow->unread()));
  }
  ending_.reset();
  if (lets_next_start) ending_ = manner.stream;
  if (session_) {
    session_->note_launch(kernel.name, grid, of_session, &program, fault, refused_);
    session_->note_work(work_);
  }
  if (slice && settings.slice_file >= 0 && !slice->found.lines.empty()) {
    write_slice(slice->found, settings.slice_file);
  }
  refusal_ = outcome == Outcome::ok ? "" : fault;
  const bool is_refused = outcome == Outcome::refused_sides || outcome == Outcome::refused_memory;
  if (is_refused && refused_launch_.empty()) refused_launch_ = fault;
  return outcome;
}

}  // namespace lanescope::ptx
