#include <algorithm>
#include <cstdio>
#include <memory>

#include "debug/causes/causes.h"
#include "debug/text/json.h"
#include "gates/build/module_build.h"
#include "gates/build/module_catalogue.h"
#include "gates/commands/command.h"
#include "gates/commands/list_maps.h"
#include "gates/run/presets.h"
#include "reference/inputs.h"

namespace lanescope {
namespace {

Json describe_kernel(const std::string& kernel) {
  Json gates = Json::array(), dtypes = gates, head_dims = gates, tiles = gates;
  const auto add = [](Json& list, const Json& value) {
    if (std::find(list.begin(), list.end(), value) == list.end()) list.push_back(value);
  };
  for (const ModuleName& m : declared_modules()) {
    if (m.kernel != kernel) continue;
    add(gates, name_of(m.gate));
    add(dtypes, name_of(m.dtype));
    add(head_dims, m.head_dim);
    add(tiles, tile_text(m.br, m.bc));
  }
  return {{"kernel", kernel},
          {"gates", gates},
          {"dtypes", dtypes},
          {"head_dims", head_dims},
          {"tiles", tiles}};
}

Json describe_all() {
  Json all;
  all["kernels"] = Json::array();
  for (const std::string& kernel : declared_kernels())
    all["kernels"].push_back(describe_kernel(kernel));
  all["sites"] = Json::array();
  for (int i = 0; i < site_id_count; ++i) all["sites"].push_back(name_of(static_cast<SiteId>(i)));
  all["specimens"] = Json::array();
  for (const DeclaredSpecimen& specimen : declared_specimens()) {
    const bool bug = specimen.command != "-";
    all["specimens"].push_back({{"specimen", specimen.kernel},
                                {"command", bug ? Json(specimen.command) : Json()},
                                {"options", specimen.options}});
  }
  all["presets"] = Json::array();
  for (const Preset& preset : presets()) {
    const Problem& p = preset.problem;
    all["presets"].push_back({{"preset", preset.name},
                              {"b", p.batch},
                              {"h", p.heads},
                              {"s", p.len_q},
                              {"d", p.d},
                              {"about", preset.about}});
  }
  all["inputs"] = input_kinds();
  for (const BuildSetting& setting : build_settings()) {
    all["build"][setting.name] = setting.value;
  }
  all["backends"] = Json::array();
  for (const std::string& backend : declared_backends()) {
    all["backends"].push_back(
        {{"backend", backend}, {"answers", backend == "sim" || cuda_device_answers()}});
  }
  return all;
}

std::string words(const Json& list) {
  std::string text;
  for (const auto& word : list) {
    text += (text.empty() ? "" : " ") + (word.is_string() ? word.text() : word.dump());
  }
  return text;
}

void print_text(const Json& all) {
  std::puts("kernels");
  for (const auto& k : all["kernels"]) {
    std::printf("  %-14s gates %s\n", k["kernel"].text().c_str(), words(k["gates"]).c_str());
    std::printf("                 types %s; d %s; tiles %s\n", words(k["dtypes"]).c_str(),
                words(k["head_dims"]).c_str(), words(k["tiles"]).c_str());
  }
  std::printf("sites      %s\n", words(all["sites"]).c_str());
  std::printf("inputs     %s, or a .safetensors file with q, k, v\n", words(all["inputs"]).c_str());
  std::puts("specimens: --specimen NAME of a kernel plants it, the command shows it");
  std::vector<std::vector<std::string>> rows;
  for (const DeclaredSpecimen& specimen : declared_specimens()) {
    const std::size_t plus = specimen.kernel.find('+');
    rows.push_back({"  " + std::string(specimen.kernel.substr(0, plus)),
                    std::string(specimen.kernel.substr(plus + 1)),
                    specimen.command == "-"
                        ? "no bug"
                        : std::string(specimen.command) + " " + std::string(specimen.options)});
  }
  for (const std::string& line : table_lines(rows, 3)) std::puts(line.c_str());
  std::puts("presets");
  for (const auto& p : all["presets"]) {
    const auto shape = "b=" + p["b"].dump() + ",h=" + p["h"].dump() + ",s=" + p["s"].dump() +
                       ",d=" + p["d"].dump();
    std::printf("  %-12s %-22s %s\n", p["preset"].text().c_str(), shape.c_str(),
                p["about"].text().c_str());
  }
  std::puts("build");
  for (const BuildSetting& setting : build_settings()) {
    const bool usual = setting.value == setting.usual;
    if (usual && setting.name != "trace") continue;
    const std::string option = "-D" + std::string(setting.name) + "=";
    std::printf(
        "  %s%s%s\n", option.c_str(), std::string(setting.value).c_str(),
        usual
            ? ""
            : ("   ./lanescope " + option + std::string(setting.usual) + " sets it back").c_str());
  }
  std::puts("backends");
  for (const auto& b : all["backends"]) {
    std::printf("  %-5s %s\n", b["backend"].text().c_str(),
                b["answers"].boolean() ? "ready" : "no device answers");
  }
}

ExitCode list_causes(const Output& output) {
  Json causes = Json::array();
  for (const CauseRow& row : cause_table) {
    causes.push_back({{"cause", row.name}, {"explanation", row.explanation}});
    if (!output.json) std::printf("%-24s %s\n", row.name, row.explanation);
  }
  if (output.json) std::puts(document_text({{"causes", causes}}).c_str());
  return ExitCode::ok;
}

ExitCode list_declared(const Output& output) {
  const Json all = describe_all();
  if (output.json) {
    std::puts(document_text(all).c_str());
  } else {
    print_text(all);
  }
  return ExitCode::ok;
}

struct ListOptions {
  bool maps = false, causes = false;
  std::string backend = "auto";
};

}  // namespace

Action list_command(Options& options) {
  const auto given = std::make_shared<ListOptions>();
  const Option maps = options.add_flag("--maps", given->maps,
                                       "which matrix element each lane holds of each fragment");
  options.add("--backend", given->backend, "that shows the maps: auto, sim or cuda")
      .needs(maps)
      .suggest({"auto", "sim", "cuda"});
  options.add_flag("--causes", given->causes,
                   "the causes that locate can name, and what they mean");
  return [given](const Output& output) {
    return given->maps     ? list_maps(given->backend, output)
           : given->causes ? list_causes(output)
                           : list_declared(output);
  };
}

}  // namespace lanescope
