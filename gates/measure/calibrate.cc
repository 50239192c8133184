#include "gates/measure/calibrate.h"

#include <dlfcn.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <span>

#include "gates/build/module_build.h"
#include "gates/process/child.h"
#include "reference/error.h"

namespace lanescope {
namespace {

void run_on(const std::string& backend, ProbeLaunch& run) {
  const std::filesystem::path path = build_module("probes." + backend);
  ModuleStatus status = ModuleStatus::refused;
  const auto count = [](int number) { return static_cast<std::size_t>(number); };
  run_in_child(
      {std::as_writable_bytes(std::span(&run, 1)), std::as_writable_bytes(std::span(&status, 1)),
       std::as_writable_bytes(std::span(run.products, count(run.product_count))),
       std::as_writable_bytes(std::span(run.functions, count(run.function_count)))},
      [&] {
        void* library = dlopen(std::filesystem::absolute(path).c_str(), RTLD_NOW | RTLD_LOCAL);
        void* function = library ? dlsym(library, "run_probes") : nullptr;
        if (function) {
          status = reinterpret_cast<RunProbes*>(function)(&run);
        } else {
          std::snprintf(run.message, sizeof run.message, "%s", dlerror());
        }
      });
  if (status != ModuleStatus::ok) throw EnvironmentError(path.string() + ": " + run.message);
}

/// The probes of one run with what a rule set makes of them.
class BitJudge {
 public:
  explicit BitJudge(const simt::RuleSet& rules) { fit_.rules = &rules; }

  void judge(const ProductProbe& probe, const std::string& name) {
    float want[16][16];
    for (int first = 0; first < 16; first += 8) {
      std::uint16_t b[16][8];
      float c[16][8];
      for (int i = 0; i < 16; ++i) {
        std::copy_n(&probe.b[i][first], 8, b[i]);
        std::copy_n(&probe.c[i][first], 8, c[i]);
      }
      simt::multiply_accumulate(probe.type, fit_.rules->tensor_core, probe.a, b, c);
      for (int i = 0; i < 16; ++i) std::copy_n(c[i], 8, &want[i][first]);
    }
    for (int row = 0; row < 16; ++row) {
      for (int col = 0; col < 16; ++col) {
        compare({name, "mma.m16n8k16", row, col}, probe.mma[row][col], want[row][col]);
        compare({name, "wmma.m16n16k16", row, col}, probe.wmma[row][col], want[row][col]);
      }
    }
  }

  void judge(const FunctionProbe& probe) {
    char argument[64], two[128];
    std::snprintf(argument, sizeof argument, "%.9g", static_cast<double>(probe.x));
    std::snprintf(two, sizeof two, "%s, %.9g", argument, static_cast<double>(probe.y));
    const auto value = [&](const char* function, const char* of, float got, float want) {
      compare({std::string(function) + "(" + of + ")", function}, got, want);
    };
    value("ex2", argument, probe.ex2, simt::ex2(probe.x));
    value("lg2", argument, probe.lg2, simt::lg2(probe.x));
    value("max", two, probe.max, simt::max(probe.x, probe.y));
    const auto low = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(probe.x));
    char bits[16];
    std::snprintf(bits, sizeof bits, "0x%04x", low);
    value("cvt.f32.f16", bits, probe.from_f16, simt::f16_to_f32(low));
    value("cvt.f32.bf16", bits, probe.from_bf16, std::bit_cast<float>(std::uint32_t{low} << 16));
    compare16({std::string("cvt.f16.f32(") + argument + ")", "cvt.f16.f32"}, probe.f16,
              simt::f32_to_f16(probe.x));
    compare16({std::string("cvt.bf16.f32(") + argument + ")", "cvt.bf16.f32"}, probe.bf16,
              simt::f32_to_bf16(probe.x));
  }

  const RuleFit& fit() const { return fit_; }

 private:
  struct Where {
    std::string probe;
    const char* instruction;
    int row = 0, col = 0;
  };
  void compare(const Where& where, float got, float want) {
    const bool same = std::isnan(got)
                          ? std::isnan(want)
                          : std::bit_cast<std::uint32_t>(got) == std::bit_cast<std::uint32_t>(want);
    count(where, same, std::bit_cast<std::uint32_t>(got), std::bit_cast<std::uint32_t>(want), 32);
  }
  void compare16(const Where& where, std::uint16_t got, std::uint16_t want) {
    count(where, got == want, got, want, 16);
  }
  void count(const Where& where, bool same, std::uint32_t got, std::uint32_t want, int bits) {
    ++fit_.compared;
    if (same) return;
    ++fit_.differing;
    if (fit_.first) return;
    fit_.first = {where.probe, where.instruction, where.row, where.col, got, want, bits};
  }

  RuleFit fit_;
};

}  // namespace

const simt::RuleSet* Calibration::rules() const {
  for (const RuleFit& fit : fits) {
    if (fit.compared > 0 && fit.differing == 0) return fit.rules;
  }
  return nullptr;
}

Calibration calibrate(const std::string& backend, const simt::RuleSet& rules) {
  Probes probes = rounding_probes();
  // An instruction that writes nothing must not look like one that gives zero.
  for (ProductProbe& probe : probes.products) {
    std::memset(probe.mma, 0xb1, sizeof probe.mma);
    std::memset(probe.wmma, 0xb1, sizeof probe.wmma);
  }
  ProbeLaunch run{};
  run.products = probes.products.data();
  run.functions = probes.functions.data();
  run.product_count = static_cast<int>(probes.products.size());
  run.function_count = static_cast<int>(probes.functions.size());
  run.rules = &rules;
  run_on(backend, run);
  Calibration calibration{backend, run.device, run.arch, {}};
  for (const simt::RuleSet& candidate : simt::rule_sets) {
    BitJudge judge(candidate);
    for (std::size_t i = 0; i < probes.products.size(); ++i) {
      judge.judge(probes.products[i], probes.product_names[i]);
    }
    for (const FunctionProbe& probe : probes.functions) judge.judge(probe);
    calibration.fits.push_back(judge.fit());
  }
  return calibration;
}

}  // namespace lanescope
