#include "gates/process/cuda_process.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

#include "gates/build/module_build.h"
#include "gates/process/machine_runtime.h"
#include "gates/process/marked_cuda.h"
#include "gates/process/run_record.h"
#include "reference/error.h"

namespace lanescope {
namespace {

constexpr double seconds_to_answer = 60;  // the driver may have a device to wake

/// What the process is asked; without a path: whether a device answers.
struct Task {
  char path[4096];  ///< ModuleFiles
  char ptx[4096];
  ModuleRun run;
  bool is_marked;
  char rewritten[64];  ///< the path of its PTX
  MarkedCuda marked;
  const std::byte* memory;  ///< where the asking process has it
  std::size_t bytes;
};

/// What goes with a task: the file of the memory, and that of stdout.
constexpr int file_count = 2;
struct alignas(cmsghdr) Control {
  char bytes[CMSG_SPACE(file_count * sizeof(int))];
};

void send_task(int socket, Task& task, const int* files) {
  iovec data{&task, sizeof task};
  Control control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (files) {
    message.msg_control = control.bytes;
    message.msg_controllen = sizeof control.bytes;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(file_count * sizeof(int));
    std::memcpy(CMSG_DATA(header), files, file_count * sizeof(int));
  }
  // Where it has ended meanwhile, listening to it says so.
  sendmsg(socket, &message, MSG_NOSIGNAL);
}

/// False at the end of the socket.
bool receive_task(int socket, Task& task, int* files) {
  iovec data{&task, sizeof task};
  Control control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof control.bytes;
  if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != sizeof task) return false;
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header) std::memcpy(files, CMSG_DATA(header), file_count * sizeof(int));
  return true;
}

bool driver_has_device() {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!driver) return false;
  const auto init = reinterpret_cast<int (*)(unsigned)>(dlsym(driver, "cuInit"));
  const auto get_count = reinterpret_cast<int (*)(int*)>(dlsym(driver, "cuDeviceGetCount"));
  int count = 0;
  return init && get_count && init(0) == 0 && get_count(&count) == 0 && count > 0;
}

/// Of the library that has launches pass through it, loaded before the module for all to find.
MarkedCudaFunction* find_mark() {
  const std::filesystem::path path = marked_cuda_path();
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (!library) return nullptr;
  return reinterpret_cast<MarkedCudaFunction*>(dlsym(library, marked_cuda_function));
}

/// The path of a copy of a file: a module that this process has loaded already has its calls bound.
std::string copy_of(const char* path) {
  const int from = open(path, O_RDONLY | O_CLOEXEC);
  const int to = memfd_create("marked module", MFD_CLOEXEC);
  struct stat is {};
  if (from < 0 || to < 0 || fstat(from, &is) != 0) return path;
  for (off_t at = 0; at < is.st_size;) {
    if (sendfile(to, from, &at, static_cast<std::size_t>(is.st_size - at)) <= 0) return path;
  }
  close(from);
  return "/proc/self/fd/" + std::to_string(to);  // open as long as the process is
}

/// The module of a task, and what its launches pass through where it is marked. Throws
/// EnvironmentError.
const Module* open_library(const Task& task, MarkedCudaFunction*& mark) {
  if (task.is_marked) mark = find_mark();
  void* library = nullptr;
  if (mark || !task.is_marked) {
    const std::string path = task.is_marked ? copy_of(task.path) : task.path;
    library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  if (!library) throw EnvironmentError(dlerror());
  // The driver compiles what has PTX alone, which may take longer than a kernel may: now.
  auto* const wake = reinterpret_cast<int (*)(void*)>(dlsym(library, "cudaFree"));
  if (wake && !task.is_marked) wake(nullptr);
  return reinterpret_cast<decltype(&lanescope_module)>(dlsym(library, "lanescope_module"))();
}
const Module* open_ptx(const Task& task, MarkedCudaFunction*& mark) {
  load_machine_runtime(task.path);
  const Module& module = open_ptx_module(task.ptx, true);
  if (task.is_marked) mark = ptx_mark();
  return &module;
}

void run_task(Task& task, const int* files) {
  dup2(files[1], STDOUT_FILENO);
  void* memory = mmap(nullptr, task.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, files[0], 0);
  close(files[0]);
  close(files[1]);
  if (memory == MAP_FAILED) _exit(1);
  ModuleRun& run = task.run;
  const auto bring_here = [&](ModuleBuffer& buffer) {
    const auto offset = static_cast<const std::byte*>(buffer.data) - task.memory;
    buffer.data = static_cast<std::byte*>(memory) + offset;
  };
  for (const auto buffer : module_inputs) bring_here(run.*buffer);
  for (const auto buffer : module_results) bring_here(run.*buffer);
  auto& record = *static_cast<RunRecord*>(memory);
  MarkedCudaFunction* mark = nullptr;
  if (task.is_marked) {
    for (MarkedCuda::Buffer& buffer : task.marked.buffers) {
      const auto offset = static_cast<const std::byte*>(buffer.data) - task.memory;
      buffer.data = static_cast<std::byte*>(memory) + offset;
    }
    task.marked.ptx = task.rewritten;
  }
  const Module* module = nullptr;
  std::string failure;
  try {
    module = task.ptx[0] != 0 ? open_ptx(task, mark) : open_library(task, mark);
  } catch (const Error& error) {
    failure = error.what();
  }
  record.loaded = true;
  if (module) {
    if (mark) mark(&task.marked, &record.marked);
    run_in_this_process(*module, run, record);
    const char* why = mark ? mark(nullptr, nullptr) : nullptr;
    if (why) {
      record.fail(ModuleStatus::refused, why);
    } else if (mark && record.status == ModuleStatus::ok && record.marked.rewritten_registers < 0) {
      record.fail(ModuleStatus::refused,
                  "its launches do not pass through CUDA's shared runtime, so nothing is traced: "
                  "compile it with -cudart shared and launch with <<<>>>, or give --untraced");
    }
  } else {
    record.fail(ModuleStatus::no_device, failure.c_str());
  }
  munmap(memory, task.bytes);
}

void serve(int socket) {
  setenv("CUDA_MODULE_LOADING", "EAGER", 1);  // not as the first kernel is launched
  Task task;
  int files[file_count];
  while (receive_task(socket, task, files)) {
    char answer = '0';
    if (task.path[0] == 0) {
      answer = driver_has_device() ? '1' : '0';
    } else {
      run_task(task, files);
    }
    send(socket, &answer, 1, MSG_NOSIGNAL);
  }
}

}  // namespace

CudaProcess& CudaProcess::instance() {
  static CudaProcess process;
  return process;
}

Child& CudaProcess::child() {
  if (!child_) child_ = std::make_unique<Child>(serve);
  return *child_;
}

bool CudaProcess::device_answers() {
  static const bool answers = [&] {
    Task task{};
    send_task(child().socket(), task, nullptr);
    const bool said = child().listen(seconds_to_answer) == Child::Heard::word;
    const bool yes = said && child().word() == '1';
    if (!said) end();
    return yes;
  }();
  return answers;
}

Child& CudaProcess::start(const ModuleFiles& module, const ModuleRun& run, const RunMemory& memory,
                          std::FILE* printed, const MarkedCuda* marked) {
  Task task{};
  if (marked) {
    task.is_marked = true;
    task.marked = *marked;
    std::snprintf(task.rewritten, sizeof task.rewritten, "%s", marked->ptx);
  }
  const auto set = [](auto& to, const std::string& path) {
    if (path.size() >= sizeof to) throw UsageError("the path of the module is too long: " + path);
    std::strcpy(to, path.c_str());
  };
  set(task.path, module.library);
  set(task.ptx, module.ptx);
  task.run = run;
  task.memory = static_cast<const std::byte*>(memory.head());
  task.bytes = memory.bytes();
  const int files[file_count] = {memory.file(), printed ? fileno(printed) : STDERR_FILENO};
  send_task(child().socket(), task, files);
  return child();
}

int CudaProcess::end() {
  if (!child_) return -1;
  const int status = child_->end();
  child_.reset();
  return status;
}

}  // namespace lanescope
