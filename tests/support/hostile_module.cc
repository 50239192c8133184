// A module that misbehaves in the way that the environment variable HOSTILE names: when it is
// loaded, in what it says of itself, or in its kernel (tests/support/hostile_cases.py).

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "gates/module/plain_kernel.h"

namespace {

bool does(std::string_view way) {
  const char* chosen = std::getenv("HOSTILE");
  return chosen && way == chosen;
}

struct WhenLoaded {
  WhenLoaded() {
    if (does("exits")) std::exit(0);
    if (does("hangs")) pause();
    if (does("aborts")) std::abort();
    if (does("prints")) std::puts("loaded");
  }
  ~WhenLoaded() {
    if (does("prints")) std::puts("unloaded");
  }
} when_loaded;

const char* launch(const lanescope::PlainRun& r) {
  if (does("prints")) std::puts("launched");
  if (does("forks") || does("forks_and_crashes")) {
    if (fork() == 0) {
      sleep(60);
      _exit(0);
    }
    if (does("forks_and_crashes")) _exit(9);
  }
  (void)r;
  return nullptr;
}

}  // namespace

extern "C" const lanescope::Module* lanescope_module() {
  using namespace lanescope;
  if (does("null")) return nullptr;
  static const PlainKernel kernel{"hostile", ElementType::f16,   64,   64,
                                  64,        Products::fp32_fma, false};
  static Module module = *plain_module(kernel, launch);
  static Site site = {
      SiteId::m, Stage::softmax, Space::registers, ElementType::f32, Axes::query, true, 64, 1, 1,
      2};
  if (does("other_abi")) module.abi = 1;
  if (does("null_name")) module.kernel = nullptr;
  if (does("wild_name")) module.kernel = reinterpret_cast<const char*>(16);
  if (does("escape_in_name")) module.kernel = "\x1b[31mred";
  if (does("null_function")) module.run = nullptr;
  if (does("null_sites")) module.sites = nullptr;
  if (does("many_sites")) module.site_count = 1 << 30;
  if (does("no_threads")) module.threads = 0;
  if (does("huge_tile")) module.br = 1 << 30;
  if (does("unknown_gate")) module.gate = static_cast<Gate>(99);
  if (does("wild_coordinate") || does("coordinate_crashes")) {
    module.sites = &site;
    module.site_count = 1;
    module.coordinate = [](SiteId, int, int lane, int, int* row, int* col) {
      if (does("coordinate_crashes")) *reinterpret_cast<volatile int*>(16) = lane;
      *row = 1000 + lane;
      *col = 0;
    };
  }
  if (does("rule_beyond_p")) {
    site.id = SiteId::alpha;
    site.rescale.above = 12;
    module.dtype = ElementType::e4m3;
    module.products = Products::tensor_core_e4m3;
    module.sites = &site;
    module.site_count = 1;
    module.coordinate = [](SiteId, int, int lane, int reg, int* row, int* col) {
      *row = 32 * reg + lane;
      *col = 0;
    };
  }
  return &module;
}
