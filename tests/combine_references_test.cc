// What the weights of a combine are relative to.
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <numbers>
#include <string>

#include "debug/causes/diagnose.h"
#include "debug/dump/site_slots.h"
#include "gates/run/run_options.h"
#include "tests/support/catch.h"

namespace lanescope {
namespace {

/// One head, 16 queries, three splits of two tiles each.
Dump dump_of(const std::string& input) {
  RunOptions options;
  options.kernel = "splitk";
  options.gate = name_of(Gate::fused);
  options.backend = "sim";
  options.shape = "h=1,s=16,skv=192,d=64";
  options.splits = 3;
  options.input = input;
  const PreparedRun run = prepare(options);
  return launch(*run.module, run.module_name, run.request);
}

/// 2^x as single precision holds it.
double weight_of(double x) {
  return x >= 128 ? std::numeric_limits<double>::infinity() : std::exp2(x);
}

/// What is said where the weight of a split is `weight` of its maximum and those of all, and a
/// part of nothing weighs `beside`.
std::string named(const std::string& input, const std::function<double(double, double)>& reference,
                  const std::function<double(double)>& beside) {
  Dump dump = dump_of(input);
  const auto of = [&](SiteId id, int split) {
    return SiteSlots(dump, *dump.find_site(name_of(id))).elements(split, 0, 16);
  };
  Tensor& out = const_cast<Tensor&>(*dump.find("o_final"));
  Tensor& lse = const_cast<Tensor&>(*dump.find("lse"));
  for (int row = 0; row < 16; ++row) {
    double top = -std::numeric_limits<double>::infinity();
    for (int i = 0; i < 3; ++i) top = std::fmax(top, of(SiteId::m_partial, i)(row));
    const double m = reference(of(SiteId::m_partial, 0)(row), top);
    double sum = 0 * beside(top);
    for (int i = 0; i < 3; ++i) {
      sum += of(SiteId::l_partial, i)(row) * weight_of(of(SiteId::m_partial, i)(row) - m);
    }
    lse.set(row, (m + std::log2(sum)) * std::numbers::ln2);
    for (int col = 0; col < 64; ++col) {
      double o = 0 * beside(top);
      for (int i = 0; i < 3; ++i) {
        const double weight = weight_of(of(SiteId::m_partial, i)(row) - m);
        o += of(SiteId::o_partial, i)(row, col) * weight;
      }
      out.set(row * 64 + col, o / sum);
    }
  }
  const Diagnosis diagnosis = diagnose(dump, diff_against_reference(dump));
  REQUIRE(diagnosis.first);
  return std::string(name_of(diagnosis.first->stage)) + " " + name_of(diagnosis.cause) +
         (diagnosis.certain ? "" : "?");
}

TEST_CASE("splits: weights that are relative to another number than the largest maximum") {
  const auto largest = [](double, double top) { return top; };
  const auto none = [](double) { return 0.0; };
  CHECK(named(
            "steep", [](double first, double) { return first; }, none) == "combine overflow");
  CHECK(named("low", largest, [](double top) { return weight_of(-top); }) ==
        "combine reduction_too_wide");
}

TEST_CASE("splits: O that begins with what was in its registers") {
  Dump dump = dump_of("random");
  Tensor& out = const_cast<Tensor&>(*dump.find("o_final"));
  for (std::int64_t i = 0; i < out.size(); ++i) out.set(i, std::nan(""));
  const auto cause = [&] { return diagnose(dump, diff_against_reference(dump)).cause; };
  CHECK(cause() == Cause::accumulator_not_cleared);
  // Where l is none either, it may be of what both are made of.
  Tensor& lse = const_cast<Tensor&>(*dump.find("lse"));
  for (std::int64_t i = 0; i < lse.size(); ++i) lse.set(i, std::nan(""));
  CHECK(cause() != Cause::accumulator_not_cleared);
}

}  // namespace
}  // namespace lanescope
