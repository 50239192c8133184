#include <cmath>
#include <cstdio>

#include "debug/report/suggested_command.h"
#include "debug/text/json.h"
#include "gates/measure/bench.h"

namespace lanescope {
namespace {

std::string fixed(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

/// With four digits, as far as there are that many before the point.
std::string microseconds(double value) {
  return fixed(value, value < 10 ? 3 : value < 100 ? 2 : value < 1000 ? 1 : 0);
}

/// `value` with the prefix of a thousand, million, ... that fits: "2.15 G".
std::string scaled(double value) {
  const char* prefixes[] = {" ", " k", " M", " G", " T", " P"};
  std::size_t i = 0;
  while (value >= 1000 && i + 1 < std::size(prefixes)) {
    value /= 1000;
    ++i;
  }
  return fixed(value, value < 10 ? 2 : value < 100 ? 1 : 0) + prefixes[i];
}

double per_second(double amount, const BenchResult& result) {
  return amount / (1e-6 * result.time.median);
}

std::optional<Floor> floor_of(const BenchResult& result) {
  if (!result.work || !result.rates) return std::nullopt;
  return floor_of(*result.work, *result.rates);
}

bool is_memory_bound(const BenchResult& result) {
  const std::optional<Floor> floor = floor_of(result);
  return floor && floor->is_memory;
}

const char* unit_name(Products products) {
  return products == Products::fp32_fma           ? "fp32 FMA"
         : products == Products::tensor_core_e4m3 ? "tensor cores in e4m3"
         : products == Products::tensor_core_tf32 ? "tensor cores in tf32"
                                                  : "tensor cores";
}

void write_problem(Page& page, const BenchResult& result) {
  page.line();
  page.line(shape_option(result.problem) + (result.problem.causal ? " causal" : "") + "  " +
                name_of(result.dtype) + "  input " + result.input + "  seed " +
                std::to_string(result.seed),
            Colour::bold);
}

void write_floor(Page& page, const BenchResult& result) {
  if (!result.work) return;
  if (!result.rates) {
    page.whole("no floor: the peak rates of " + result.arch + " are not known here");
    return;
  }
  const auto time = [](double amount, double rate) { return microseconds(1e6 * amount / rate); };
  const Work& work = *result.work;
  const DeviceRates& rates = *result.rates;
  page.whole("floor " + microseconds(floor_of(result)->microseconds) +
             " µs: " + scaled(work.flops) + "FLOP at " + scaled(rates.flops_per_second) +
             "FLOP/s (" + unit_name(result.products) + ") take " +
             time(work.flops, rates.flops_per_second) + ", " + scaled(work.bytes) + "B at " +
             scaled(rates.bytes_per_second) + "B/s " + time(work.bytes, rates.bytes_per_second));
  if (result.in_l2()) {
    page.whole("Q, K, V and O (" + scaled(work.bytes) + "B) stay in L2 (" +
               scaled(static_cast<double>(result.l2_bytes)) + "B) from launch to launch");
  }
}

std::vector<std::string> cells(const BenchResult& result) {
  const std::optional<Floor> floor = floor_of(result);
  std::string rate = "-";
  if (result.work) {
    rate = is_memory_bound(result) ? fixed(1e-9 * per_second(result.work->bytes, result), 0)
                                   : fixed(1e-12 * per_second(result.work->flops, result), 1);
  }
  return {result.tile + (result.splits > 1 ? ", " + std::to_string(result.splits) + " splits" : ""),
          microseconds(result.time.median),
          microseconds(result.time.least),
          microseconds(result.time.p90),
          rate,
          floor ? fixed(100 * floor->microseconds / result.time.median, 1) + " %" : "-",
          std::to_string(result.samples) + " x " + std::to_string(result.launches),
          std::to_string(result.row_tiles_judged) + "/" + std::to_string(result.row_tiles)};
}

/// Of one problem.
void write_results(Page& page, const std::vector<const BenchResult*>& results) {
  write_problem(page, *results[0]);
  std::vector<std::vector<std::string>> rows;
  for (const BenchResult* result : results) {
    if (!result->is_right()) continue;
    if (rows.empty()) {
      write_floor(page, *result);
      rows.push_back({"tile", "median µs", "min", "p90",
                      is_memory_bound(*result) ? "GB/s" : "TFLOP/s", "of floor", "timed",
                      "judged"});
    }
    rows.push_back(cells(*result));
  }
  const std::vector<std::string> lines = table_lines(rows, 1);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i == 0) {
      page.line(lines[i], Colour::dim);
    } else {
      page.line(lines[i]);
    }
  }
  for (const BenchResult* result : results) {
    if (result->is_right()) continue;
    page.whole(result->tile + " is not timed: " + result->fault, Colour::red);
    page.whole("  " + result->diff_command);
  }
}

Json result_json(const BenchResult& result) {
  Json json = {{"module", result.module},
               {"tile", result.tile},
               {"splits", result.splits},
               {"shape", shape_json(result.problem)},
               {"dtype", name_of(result.dtype)},
               {"input", result.input},
               {"seed", result.seed},
               {"device", result.device},
               {"arch", result.arch},
               {"verdict", result.is_right() ? "match" : "diverged"},
               {"fault", result.is_right() ? Json() : Json(result.fault)},
               {"row_tiles", result.row_tiles},
               {"row_tiles_judged", result.row_tiles_judged}};
  if (!result.is_right()) return json;
  json["microseconds"] = {{"median", number_json(result.time.median)},
                          {"min", number_json(result.time.least)},
                          {"p90", number_json(result.time.p90)}};
  json["samples"] = result.samples;
  json["launches_per_sample"] = result.launches;
  if (!result.work) return json;
  json["flops"] = result.work->flops;
  json["bytes"] = result.work->bytes;
  json["flops_per_second"] = number_json(per_second(result.work->flops, result));
  json["bytes_per_second"] = number_json(per_second(result.work->bytes, result));
  json["in_l2"] = result.in_l2();
  const std::optional<Floor> floor = floor_of(result);
  json["floor"] = nullptr;
  json["share_of_floor"] = nullptr;
  if (!floor) return json;
  json["floor"] = {{"microseconds", floor->microseconds},
                   {"bound", floor->is_memory ? "memory" : unit_name(result.products)},
                   {"peak_flops_per_second", result.rates->flops_per_second},
                   {"peak_bytes_per_second", result.rates->bytes_per_second}};
  json["share_of_floor"] = number_json(floor->microseconds / result.time.median);
  return json;
}

}  // namespace

std::string bench_text(const BenchReport& report, const Style& style) {
  Page page(style);
  const BenchResult& any = report.results.front();
  page.line(report.kernel + " " + report.gate + "  " + any.device + " (" + any.arch + ")",
            Colour::bold);
  for (std::size_t i = 0; i < report.results.size();) {
    std::vector<const BenchResult*> results;
    const Problem& problem = report.results[i].problem;
    for (; i < report.results.size() && report.results[i].problem == problem; ++i) {
      results.push_back(&report.results[i]);
    }
    write_results(page, results);
  }
  return page.text();
}

std::string bench_json(const BenchReport& report) {
  Json json = {{"kernel", report.kernel}, {"gate", report.gate}, {"results", Json::array()}};
  for (const BenchResult& result : report.results) json["results"].push_back(result_json(result));
  json["warnings"] = report.warnings;
  return document_text(json);
}

}  // namespace lanescope
