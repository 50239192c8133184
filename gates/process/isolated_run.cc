#include "gates/process/isolated_run.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <new>
#include <vector>

#include "debug/simt/checker.h"
#include "debug/text/progress.h"
#include "gates/build/module_build.h"
#include "gates/process/child.h"
#include "gates/process/cuda_process.h"
#include "gates/process/fault_text.h"
#include "gates/process/machine_runtime.h"
#include "gates/process/printed_text.h"
#include "gates/process/run_record.h"
#include "gates/process/starvation.h"

namespace lanescope {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// This process may have what is free, so that an allocation that is too large fails here and
/// nothing else suffers.
void limit_memory() {
  std::ifstream in("/proc/self/statm");
  rlim_t pages = 0;
  for (int i = 0; i < 6; ++i) in >> pages;  // the sixth: data and stack
  const auto page = static_cast<rlim_t>(sysconf(_SC_PAGESIZE));
  rlimit limit{};
  if (!in || getrlimit(RLIMIT_DATA, &limit) != 0) return;
  const rlim_t most = pages * page + static_cast<rlim_t>(available_memory()) / 8 * 7;
  limit.rlim_cur = std::min(limit.rlim_cur, most);
  setrlimit(RLIMIT_DATA, &limit);
}

/// What the machine's CUDA runtime knows of a run.
void tell_of(const ptx::RuntimeEntry& runtime, RunRecord& record) {
  std::snprintf(record.arch, sizeof record.arch, "any");
  if (*runtime.failure() == '\0') {
    // The module has said by which of CUDA's errors.
    if (record.status == ModuleStatus::kernel_fault && *runtime.refused_launch() != '\0') {
      const std::string said = record.message;
      record.fail(ModuleStatus::kernel_fault,
                  (said + ": the launch was refused: " + runtime.refused_launch()).c_str());
    }
    return;
  }
  record.fail(runtime.refused()         ? ModuleStatus::not_executed
              : runtime.lacked_memory() ? ModuleStatus::no_memory
                                        : ModuleStatus::kernel_fault,
              runtime.failure());
}

/// Of a run that code of the module ends itself, with exit: what the machine's runtime refused.
struct Unfinished {
  const ptx::RuntimeEntry* runtime;
  RunRecord* record;
};
Unfinished unfinished{};

void tell_at_exit() {
  if (unfinished.runtime && !unfinished.record->ended) {
    tell_of(*unfinished.runtime, *unfinished.record);
  }
}

/// Ends without a word where the kernel does.
void run_and_tell(const Module& module, const IsolatedRun& wish, RunRecord& record, int findings,
                  int socket, const PrintedText& printed) {
  simt::note_last_words(record.words);
  limit_memory();
  printed.take(STDERR_FILENO);
  printed.take(STDOUT_FILENO);
  if (wish.printed) dup2(fileno(wish.printed), STDOUT_FILENO);
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);  // a crash loses no line
  ModuleRun run = wish.run;
  const ptx::RuntimeEntry* runtime = machine_runtime();
  if (runtime) {
    unfinished = {runtime, &record};
    std::atexit(tell_at_exit);
    run.surviving = 1;  // what was written before a fault is kept
    runtime->begin({run.workers, run.schedule, run.checker, run.rules->tensor_core, 0, wish.markers,
                    module.marked_ptx, wish.slice, wish.slice_bytes, wish.slice_file,
                    &record.launched, wish.ends_of, wish.items, wish.lookout},
                   record.words);
  }
  run_in_this_process(module, run, record);
  if (runtime) tell_of(*runtime, record);
  if (wish.checker) {
    if (runtime && *runtime->failure() == '\0') wish.checker->finish();
    wish.checker->save(findings);
  }
  std::fflush(stdout);
  send(socket, "", 1, MSG_NOSIGNAL);
}

/// How waiting for a process ended.
enum class Waited : std::uint8_t { ended, hangs, too_slow };

/// Until it says a word or ends; it hangs where no block ends in time. What others took of the
/// cores is not its time. `in_all`: seconds for all blocks, 0: any. `loads`: before it runs the
/// kernel, its driver compiles it, which is not the kernel's time either.
Waited wait_for(Child& child, const RunRecord& record, double timeout,
                PrintedText* printed = nullptr, double in_all = 0, bool loads = false) {
  constexpr double seconds_to_load = 120;
  Clock::time_point begin = Clock::now();
  const Clock::time_point first = begin;
  Starvation starvation(child.id());
  const Starvation from_first = starvation;
  for (std::int64_t ended = 0;;) {
    const Child::Heard heard = child.listen(std::min(printed ? 0.25 : 1.0, timeout));
    if (printed) printed->pass_on();
    if (heard != Child::Heard::nothing) return Waited::ended;
    const bool goes_on = record.words.blocks_ended != ended || (loads && record.loaded);
    if (goes_on) {
      begin = Clock::now();
      starvation = Starvation(child.id());
    }
    ended = record.words.blocks_ended;
    loads = loads && !record.loaded;
    const double limit = loads ? std::max(timeout, seconds_to_load) : timeout;
    const double taken = seconds_since(begin);
    if (taken >= limit && taken - starvation.seconds() >= limit) return Waited::hangs;
    const double all = seconds_since(first);
    if (in_all > 0 && all - from_first.seconds() >= in_all) return Waited::too_slow;
  }
}

/// Has a process that hangs say where it is: of PTX the machine says it, of other kernels their
/// threads do; those that are between two lanes again, some times.
void ask_where(pid_t id, const Module& module, simt::LastWords& words) {
  constexpr int times = 10;
  words.asks = true;
  for (int i = 0; machine_runtime() && i < 1000 && !words.told; ++i) usleep(2000);
  if (words.told) return;
  for (int time = 0; time < times; ++time) {
    std::vector<simt::Seat*> asked;
    for (simt::Seat& seat : words.seats) {
      if (seat.thread_id == 0 || is_in_kernel(module, seat)) continue;
      seat.told = false;
      if (syscall(SYS_tgkill, id, seat.thread_id.load(), simt::ask_signal) == 0) {
        asked.push_back(&seat);
      }
    }
    if (asked.empty()) return;
    const auto told = [](const simt::Seat* seat) { return seat->told.load(); };
    for (int i = 0; i < 100 && !std::all_of(asked.begin(), asked.end(), told); ++i) usleep(2000);
  }
}

RunEnd fail(RunEnd end, const Fault& fault) {
  end.status = fault.out_of_memory ? ModuleStatus::no_memory : ModuleStatus::kernel_fault;
  end.message = fault.text;
  end.stop = fault.stop;
  return end;
}

RunEnd end_of(const RunRecord& record) {
  return {record.status, record.message, {}, record.device, record.arch,
          record.marked, record.launched};
}

/// Blocks of the passes that the gate has.
std::int64_t blocks_to_run(const Module& module, const ModuleRun& run) {
  const bool combines =
      module.combines && (module.gate == Gate::fused || module.gate == Gate::combine_only);
  return (module.gate == Gate::combine_only ? 0 : run.blocks) + (combines ? run.combine_blocks : 0);
}

std::string progress_name(const Module& module) {
  return std::string(module.checked ? "checking " : "running ") + module.kernel + " " +
         name_of(module.gate);
}

RunEnd run_on_sim(const Module& module, const IsolatedRun& wish, RunRecord& record) {
  const Progress progress(progress_name(module), blocks_to_run(module, wish.run), "blocks",
                          [&] { return record.words.blocks_ended.load(); });
  const int findings = wish.checker ? memfd_create("findings", MFD_CLOEXEC) : -1;
  PrintedText printed;
  Child child([&](int socket) { run_and_tell(module, wish, record, findings, socket, printed); });
  RunEnd end;
  const Waited waited =
      wait_for(child, record, wish.timeout_seconds, &printed, wish.seconds_in_all);
  if (waited != Waited::ended) {
    ask_where(child.id(), module, record.words);
    child.end();
    end = fail(end_of(record), hang_of(module, record.words, wish.timeout_seconds));
    end.too_slow = waited == Waited::too_slow;
  } else if (!record.ended) {
    const int status = child.end();
    printed.pass_on();
    Fault fault = fault_of(module, record.words, status);
    const std::string lines = printed.last_lines();
    if (!lines.empty()) fault.text += "\n  the last that it printed:" + lines;
    end = fail(end_of(record), fault);
  } else {
    end = end_of(record);
    if (end.status == ModuleStatus::kernel_fault) end.stop = stop_of_rule(module, record.words);
    if (wish.checker) wish.checker->load(findings);
  }
  printed.pass_on();
  if (findings >= 0) close(findings);
  return end;
}

/// Writes the PTX of a marked kernel to `file`, its markers instructions. Returns its path for
/// other processes.
std::string rewrite_for_gpu(const Module& module, const IsolatedRun& wish, int file,
                            MarkedCuda& marked) {
  const ModuleBuffer own[] = {wish.run.left, wish.run.traced, wish.run.injected, wish.run.holders};
  ptx::MarkerBuffers buffers;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    marked.buffers[i] = {own[i].data, own[i].bytes};
    buffers[i] = {static_cast<const std::byte*>(own[i].data), own[i].bytes};
  }
  if (ptx_path_of(module).empty()) build_marked_cuda();
  rewrite_marked_ptx(build_machine_runtime(), module.marked_ptx, *wish.markers, buffers, file);
  return "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(file);
}

RunEnd run_on_cuda(const Module& module, const IsolatedRun& wish, RunRecord& record) {
  Dl_info image{};
  dladdr(reinterpret_cast<const void*>(module.run), &image);
  const std::string ptx = ptx_path_of(module);
  // A kernel given as PTX is run by the library that the machine's runtime is, of which this
  // process has a copy of its own.
  const std::string library =
      ptx.empty() ? std::filesystem::absolute(image.dli_fname).string() : machine_runtime_path();
  const Progress progress(progress_name(module) + " on the device");
  MarkedCuda marked{};
  std::string rewritten;
  const int text = wish.markers ? memfd_create("rewritten PTX", MFD_CLOEXEC) : -1;
  const auto close_text = std::shared_ptr<void>(nullptr, [&](void*) {
    if (text >= 0) close(text);
  });
  if (wish.markers) {
    rewritten = rewrite_for_gpu(module, wish, text, marked);
    marked.ptx = rewritten.c_str();
  }
  CudaProcess& process = CudaProcess::instance();
  Child& child = process.start({library, ptx}, wish.run, wish.memory, wish.printed,
                               wish.markers ? &marked : nullptr);
  if (wait_for(child, record, wish.timeout_seconds, nullptr, 0, true) != Waited::ended) {
    process.end();
    return fail(end_of(record), hang_of(module, record.words, wish.timeout_seconds));
  }
  if (!record.ended) {
    const int status = process.end();
    return fail(end_of(record), fault_of(module, record.words, status));
  }
  RunEnd end = end_of(record);
  if (end.status == ModuleStatus::kernel_fault) {
    end.stop.kind = Stop::Kind::crash;
    process.end();  // its context is lost
  }
  return end;
}

}  // namespace

std::size_t run_record_bytes() { return sizeof(RunRecord); }

void RunRecord::fail(ModuleStatus why, const char* text) {
  status = why;
  std::snprintf(message, sizeof message, "%s", text);
  ended = true;
}

void run_in_this_process(const Module& module, ModuleRun& run, RunRecord& record) {
  if (module.device(record.device, sizeof record.device, record.arch, sizeof record.arch) !=
      ModuleStatus::ok) {
    record.fail(ModuleStatus::no_device, record.device);
    return;
  }
  run.message = record.message;
  run.message_bytes = sizeof record.message;
  if (run.timing) run.timing = &record.timing;
  record.status = module.run(&run);
  std::fflush(stdout);
  record.ended = true;
}

RunEnd run_isolated(const Module& module, const IsolatedRun& wish) {
  auto& record = *new (wish.memory.head()) RunRecord();
  if (wish.run.timing) record.timing = *wish.run.timing;
  const bool on_cuda = std::string_view(module.backend) == "cuda";
  RunEnd end = on_cuda ? run_on_cuda(module, wish, record) : run_on_sim(module, wish, record);
  if (wish.run.timing) *wish.run.timing = record.timing;
  if (end.stop.combining && end.stop.block >= 0) end.stop.block *= wish.run.splits;
  return end;
}

}  // namespace lanescope
