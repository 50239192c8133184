#include <algorithm>
#include <cstdio>

#include "debug/text/json.h"
#include "gates/measure/resources.h"

namespace lanescope {
namespace {

std::string number(std::int64_t value) { return std::to_string(value); }

std::string name_of_row(const ResourceUse& use) {
  std::string name = use.now.module;
  const std::string suffix = ".untraced";
  if (name.ends_with(suffix)) name.resize(name.size() - suffix.size());
  return use.now.pass == "kernel" ? name : name + " " + use.now.pass;
}

std::string spills(const Figures& f) {
  return number(f.spill_stores) + "/" + number(f.spill_loads);
}

/// What may explain that a figure is not the recorded one.
std::string changes(const ResourceUse& use) {
  std::string text;
  const auto add = [&](const char* what, const std::string& then, const std::string& now) {
    if (then == now) return;
    text += std::string(text.empty() ? "" : ", ") + what + " " + then.substr(0, 12) + " -> " +
            now.substr(0, 12);
  };
  add("sources", use.budget->sources, use.now.sources);
  add("nvcc", use.budget->compiler, use.now.compiler);
  return text.empty() ? "neither the sources nor nvcc have changed since the record"
                      : "changed since the record: " + text;
}

std::string excess(const ResourceUse& use) {
  std::string text;
  for (const Deviation& d : use.over) {
    const bool least = std::string_view(d.figure) == "blocks";
    text += "  " + number(d.is) + " " + d.figure + (least ? " per multiprocessor" : "") +
            ", the budget is " + (least ? "at least " : "") + number(d.budget) + ": " +
            number(least ? d.budget - d.is : d.is - d.budget) + (least ? " fewer\n" : " more\n");
  }
  return text;
}

std::string fall(const ResourceUse& use) {
  std::string text;
  for (const Deviation& d : use.fell) {
    text += "  " + number(d.is) + " " + d.figure + ", recorded are " + number(d.budget) + ": " +
            number(d.budget - d.is) + " fewer\n";
  }
  if (use.verdict == "match") {
    text += "  the gate matches the reference: an improvement, --record keeps it\n";
  } else if (use.verdict == "diverged") {
    text += "  the gate DIVERGES from the reference: code was lost, not saved\n  " +
            use.diff_command + "\n";
  } else {
    text += "  lost code looks like this too: judge the gate first\n  " + use.diff_command + "\n";
  }
  return text;
}

std::string notes(const ResourceUse& use, bool has_budgets) {
  std::string text;
  if (!use.budget) {
    if (has_budgets) text = "  no budget is recorded for it: --record does\n";
  } else {
    text = excess(use) + (use.fell.empty() ? "" : fall(use));
    if (!text.empty()) text += "  " + changes(use) + "\n";
  }
  if (use.driver_blocks && *use.driver_blocks != use.now.figures.blocks) {
    text += "  the driver says that " + std::to_string(*use.driver_blocks) +
            " blocks fit; from the limits of " + use.now.arch + " follow " +
            number(use.now.figures.blocks) + "\n";
  }
  return text.empty() ? "" : "\n" + use.now.module + ", " + use.now.pass + "\n" + text;
}

/// What stands in one row.
struct BothBuilds {
  std::string name;
  const ResourceUse *untraced = nullptr, *traced = nullptr;
};

/// Of the uses from `first` on.
std::vector<BothBuilds> rows_of(const ResourceReport& report, std::size_t first) {
  std::vector<BothBuilds> rows;
  for (std::size_t i = first; i < report.uses.size(); ++i) {
    const ResourceUse& use = report.uses[i];
    const std::string name = name_of_row(use);
    auto row = std::find_if(rows.begin(), rows.end(),
                            [&](const BothBuilds& other) { return other.name == name; });
    if (row == rows.end()) row = rows.insert(row, BothBuilds{name});
    (use.traced ? row->traced : row->untraced) = &use;
  }
  return rows;
}

Json deviations(const std::vector<Deviation>& list) {
  Json json = Json::array();
  for (const Deviation& d : list) {
    json.push_back({{"figure", d.figure}, {"is", d.is}, {"budget", d.budget}});
  }
  return json;
}

Json figures_json(const Figures& f) {
  return {{"registers", f.registers},
          {"stack", f.stack},
          {"spill_stores", f.spill_stores},
          {"spill_loads", f.spill_loads},
          {"shared", f.shared},
          {"blocks_per_multiprocessor", f.blocks}};
}

}  // namespace

std::string resource_rows(const ResourceReport& report, std::size_t first) {
  std::string text;
  char line[512];
  const auto row = [&](const auto&... cells) {
    std::snprintf(line, sizeof line, "%-44s %9s %11s %13s %11s %11s %9s\n", cells...);
    text += line;
  };
  if (first == 0) {
    const Budget& any = report.uses.front().now;
    text = report.kernel + "  " + any.arch + "  nvcc " + any.compiler +
           "\nuntraced | traced; spills: bytes of stores/loads; blocks, warps: that a "
           "multiprocessor holds\n\n";
    row("module", "registers", "stack", "spills", "shared", "blocks", "warps");
  }
  for (const BothBuilds& builds : rows_of(report, first)) {
    const auto both = [&](const auto& of) {
      const auto one = [&](const ResourceUse* use) { return use ? of(*use) : std::string("-"); };
      return one(builds.untraced) + " | " + one(builds.traced);
    };
    const std::string cells[] = {
        both([](const ResourceUse& u) { return number(u.now.figures.registers); }),
        both([](const ResourceUse& u) { return number(u.now.figures.stack); }),
        both([](const ResourceUse& u) { return spills(u.now.figures); }),
        both([](const ResourceUse& u) { return number(u.now.figures.shared); }),
        both([](const ResourceUse& u) { return number(u.now.figures.blocks); }),
        both([](const ResourceUse& u) { return number(u.now.figures.blocks * u.threads / 32); })};
    row(builds.name.c_str(), cells[0].c_str(), cells[1].c_str(), cells[2].c_str(), cells[3].c_str(),
        cells[4].c_str(), cells[5].c_str());
  }
  return text;
}

std::string resources_text(const ResourceReport& report, std::size_t first) {
  std::string text = resource_rows(report, first);
  std::vector<std::string> more_spills;
  for (const auto& [name, untraced, traced] : rows_of(report, 0)) {
    if (untraced && traced &&
        (traced->now.figures.spill_stores > untraced->now.figures.spill_stores ||
         traced->now.figures.spill_loads > untraced->now.figures.spill_loads)) {
      more_spills.push_back(name + ": tracing adds spills, " + spills(untraced->now.figures) +
                            " -> " + spills(traced->now.figures));
    }
  }
  if (!more_spills.empty()) text += "\n";
  for (const std::string& note : more_spills) text += note + "\n";
  std::int64_t outside = 0;
  for (const ResourceUse& use : report.uses) {
    text += notes(use, report.has_budgets);
    outside += !ResourceReport::within(use, report.has_budgets);
  }
  const std::string all = std::to_string(report.uses.size());
  if (!report.recorded.empty()) {
    return text + "\nrecorded: " + all + " in " + report.recorded + "\n";
  }
  if (!report.has_budgets) {
    return text + "\nno budgets of " + report.kernel + " are recorded: --record does\n";
  }
  return text + (outside ? "\nover budget: " + number(outside) + " of " + all + "\n"
                         : "\nwithin budget: " + all + "\n");
}

std::string resources_json(const ResourceReport& report) {
  Json json = {{"kernel", report.kernel},
               {"verdict", !report.recorded.empty() ? "recorded"
                           : !report.has_budgets    ? "no budgets"
                           : report.within()        ? "within"
                                                    : "over"},
               {"modules", Json::array()}};
  for (const ResourceUse& use : report.uses) {
    Json one = {{"module", use.now.module},     {"pass", use.now.pass},
                {"traced", use.traced},         {"arch", use.now.arch},
                {"compiler", use.now.compiler}, {"sources", use.now.sources},
                {"threads", use.threads}};
    one.update(figures_json(use.now.figures));
    one["shared_static"] = use.shared_static;
    one["warps_per_multiprocessor"] = use.now.figures.blocks * use.threads / 32;
    one["blocks_by_driver"] = use.driver_blocks ? Json(*use.driver_blocks) : Json();
    one["budget"] = use.budget ? figures_json(use.budget->figures) : Json();
    one["over"] = deviations(use.over);
    one["fell"] = deviations(use.fell);
    one["diff"] = use.verdict.empty() ? Json() : Json(use.verdict);
    json["modules"].push_back(one);
  }
  return document_text(json);
}

}  // namespace lanescope
