#include <cstdio>
#include <nlohmann/json.hpp>

#include "debug/causes.h"
#include "gates/commands.h"
#include "gates/module_build.h"
#include "gates/module_catalogue.h"
#include "gates/presets.h"
#include "reference/inputs.h"

namespace lanescope {
namespace {

using nlohmann::ordered_json;

ordered_json describe_kernel(const std::string& kernel) {
  ordered_json gates = ordered_json::array(), dtypes = gates, head_dims = gates, tiles = gates;
  const auto add = [](ordered_json& list, const ordered_json& value) {
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

ordered_json describe_all() {
  ordered_json all;
  all["kernels"] = ordered_json::array();
  for (const std::string& kernel : declared_kernels())
    all["kernels"].push_back(describe_kernel(kernel));
  all["sites"] = ordered_json::array();
  for (int i = 0; i < site_id_count; ++i) all["sites"].push_back(name_of(static_cast<SiteId>(i)));
  all["specimens"] = declared_specimens();
  all["presets"] = ordered_json::array();
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
  all["backends"] = ordered_json::array();
  for (const std::string& backend : declared_backends()) {
    all["backends"].push_back(
        {{"backend", backend}, {"answers", backend == "sim" || cuda_device_answers()}});
  }
  return all;
}

std::string words(const ordered_json& list) {
  std::string text;
  for (const auto& word : list) {
    text += (text.empty() ? "" : " ") + (word.is_string() ? word.get<std::string>() : word.dump());
  }
  return text;
}

void print_text(const ordered_json& all) {
  std::puts("kernels");
  for (const auto& k : all["kernels"]) {
    std::printf("  %-14s gates %s\n", k["kernel"].get<std::string>().c_str(),
                words(k["gates"]).c_str());
    std::printf("                 types %s; d %s; tiles %s\n", words(k["dtypes"]).c_str(),
                words(k["head_dims"]).c_str(), words(k["tiles"]).c_str());
  }
  std::printf("sites      %s\n", words(all["sites"]).c_str());
  std::printf("inputs     %s, or a .safetensors file with q, k, v\n", words(all["inputs"]).c_str());
  std::printf("specimens  %s\n", words(all["specimens"]).c_str());
  std::puts("presets");
  for (const auto& p : all["presets"]) {
    const auto shape = "b=" + p["b"].dump() + ",h=" + p["h"].dump() + ",s=" + p["s"].dump() +
                       ",d=" + p["d"].dump();
    std::printf("  %-12s %-22s %s\n", p["preset"].get<std::string>().c_str(), shape.c_str(),
                p["about"].get<std::string>().c_str());
  }
  std::puts("backends");
  for (const auto& b : all["backends"]) {
    std::printf("  %-5s %s\n", b["backend"].get<std::string>().c_str(),
                b["answers"].get<bool>() ? "ready" : "no device answers");
  }
}

ExitCode list_causes(const Output& output) {
  ordered_json causes = ordered_json::array();
  for (int i = 0; i < cause_count; ++i) {
    const CauseText text = text_of(static_cast<Cause>(i));
    causes.push_back({{"cause", text.name}, {"explanation", text.explanation}});
    if (!output.json) std::printf("%-24s %s\n", text.name, text.explanation);
  }
  if (output.json) std::puts(causes.dump(2).c_str());
  return ExitCode::ok;
}

}  // namespace

ExitCode list_command(bool causes, const Output& output) {
  if (causes) return list_causes(output);
  const ordered_json all = describe_all();
  if (output.json) {
    std::puts(all.dump(2).c_str());
  } else {
    print_text(all);
  }
  return ExitCode::ok;
}

}  // namespace lanescope
