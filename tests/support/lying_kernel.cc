// The kernel of tests/strangers/plain.cc, which is right, and then does what no kernel should: what
// the environment variable LIE names (tests/support/hostile_cases.py).

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cfenv>
#include <clocale>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>

#define lanescope_module honest_module
#define launch honest_launch
#include "tests/strangers/plain.cc"
#undef launch
#undef lanescope_module

namespace {

bool does(std::string_view way) {
  const char* chosen = std::getenv("LIE");
  return chosen && way == chosen;
}

struct Tensors {
  _Float16 *q, *k, *v, *o;
  std::size_t queries, keys;  ///< elements of q and o, of k and v
};

/// Before the kernel, which is then right of what is left.
void lie_before(const Tensors& t) {
  if (does("scales_q_in_place"))
    std::transform(t.q, t.q + t.queries, t.q, [](auto x) { return x * 2; });
  if (does("clears_v")) std::fill_n(t.v, t.keys, _Float16(0));
  if (does("rounds_to_zero")) std::fesetround(FE_TOWARDZERO);
}

/// Behind the kernel: values.
void lie_after(const Tensors& t) {
  if (does("spoils_q")) std::fill_n(t.q, t.queries, _Float16(7));
  if (does("spoils_last_v")) t.v[t.keys - 1] = 7;
  if (does("nan_at_the_end")) t.o[t.queries - 1] = _Float16(NAN);
  if (does("negates")) std::transform(t.o, t.o + t.queries, t.o, [](auto x) { return -x; });
  if (does("swaps_rows")) std::swap_ranges(t.o, t.o + 64, t.o + 64);
  if (does("leaves_poison")) std::fill_n(reinterpret_cast<std::uint16_t*>(t.o), 64, 0xffb1);
  if (does("writes_far_behind")) t.o[t.queries + 8192] = 1;
  if (does("late_thread")) {
    std::thread([o = t.o] {
      usleep(300'000);
      *o = 99;
    }).detach();
  }
  if (does("late_process") && fork() == 0) {
    setsid();
    sleep(1);
    *t.o = 99;
    _exit(0);
  }
}

/// To its process.
void misbehave() {
  if (does("stops")) raise(SIGSTOP);
  if (does("throws")) throw std::runtime_error("a reason");
  if (does("throws_number")) throw 3;
  if (does("leaves")) _exit(0);
  if (does("interrupts_itself")) {
    signal(SIGINT, SIG_DFL);  // whoever started the program in the background had it ignored
    raise(SIGINT);
  }
  if (does("kills_itself")) raise(SIGKILL);
  if (does("ignores_signals") || does("hangs_deaf")) {
    for (int number = 1; number < NSIG; ++number) signal(number, SIG_IGN);
  }
  while (does("hangs_deaf")) pause();
  if (does("changes_folder") && chdir("/") != 0) abort();
  if (does("changes_locale")) {
    setenv("LC_ALL", "tr_TR.UTF-8", 1);
    std::setlocale(LC_ALL, "");
  }
  if (does("takes_limits")) {
    const rlimit few{4096, 4096};
    setrlimit(RLIMIT_FSIZE, &few);
    setrlimit(RLIMIT_AS, &few);
  }
  if (does("leaves_its_session")) setsid();
  if (does("floods_stdout")) {
    for (int i = 0; i < 20'000; ++i) std::puts("a line of a kernel that talks too much");
  }
}

const char* launch(const lanescope::PlainRun& r) {
  const auto tensor = [](const void* data) {
    return static_cast<_Float16*>(const_cast<void*>(data));
  };
  const Tensors tensors{tensor(r.q),
                        tensor(r.k),
                        tensor(r.v),
                        tensor(r.o),
                        static_cast<std::size_t>(r.batch * r.heads * r.len_q * 64),
                        static_cast<std::size_t>(r.batch * r.heads_kv * r.len_kv * 64)};
  lie_before(tensors);
  honest_launch(r);
  lie_after(tensors);
  misbehave();
  if (does("says_an_escape")) return "not \x1b[31mthis\x1b[0m shape";
  if (does("says_nothing")) return "";
  static const std::string much(1 << 20, 'x');
  if (does("says_much")) return much.c_str();
  if (does("says_nowhere")) return reinterpret_cast<const char*>(16);
  return nullptr;
}

}  // namespace

extern "C" const lanescope::Module* lanescope_module() {
  const char* name = std::getenv("LIE_NAME");
  static const lanescope::PlainKernel mine{name ? name : "liar",
                                           lanescope::ElementType::f16,
                                           64,
                                           64,
                                           64,
                                           lanescope::Products::fp32_fma,
                                           false};
  return lanescope::plain_module(mine, launch);
}
