
#include "debug/report/report.h"
#include "debug/text/json.h"

namespace lanescope {
namespace {

Json place_json(const Divergence& at) {
  return {{"tile", index_json(at.tile)},   {"block", index_json(at.block)},
          {"batch", index_json(at.batch)}, {"head", index_json(at.head)},
          {"query", index_json(at.query)}, {"key", index_json(at.key)},
          {"warp", index_json(at.warp)},   {"lane", index_json(at.lane)},
          {"reg", index_json(at.reg)},     {"row", index_json(at.row)},
          {"col", index_json(at.col)}};
}

Json divergence_json(const std::optional<Divergence>& divergence) {
  if (!divergence) return nullptr;
  const Divergence& at = *divergence;
  Json json = {{"stage", name_of(at.stage)},
               {"site", name_of(at.site)},
               {"judgement", name_of(at.judgement)}};
  json.update(place_json(at));
  json["got"] = at.unwritten ? Json() : number_json(at.got);
  json["want"] = number_json(at.want);
  json["bound"] = number_json(at.bound);
  json["unwritten"] = at.unwritten;
  return json;
}

Json site_json(const SiteReport& site) {
  return {{"site", name_of(site.site)},
          {"stage", name_of(site.stage)},
          {"judgement", name_of(site.judgement)},
          {"compared", site.compared},
          {"failed", site.failed},
          {"vacuous", site.vacuous},
          {"unwritten", site.unwritten},
          {"non_finite", site.non_finite},
          {"max_error", number_json(site.max_error)},
          {"max_error_over_bound", number_json(site.max_error_over_bound)},
          {"first", divergence_json(site.first)},
          {"worst", divergence_json(site.worst)}};
}

Json bit_difference_json(const BitReport& report) {
  if (!report.first) return nullptr;
  const Divergence& at = *report.first;
  Json json = {{"tensor", report.name}};
  json.update(place_json(at));
  json["got"] = at.unwritten ? Json() : number_json(at.got);
  json["want"] = number_json(at.want);
  json["unwritten"] = at.unwritten;
  return json;
}

/// What broke the run off; null where nothing did.
Json stop_json(const DumpInfo& info) {
  if (info.stop.kind == Stop::Kind::none) return nullptr;
  return {{"kind", name_of(info.stop.kind)},
          {"block", index_json(info.stop.block)},
          {"warp", index_json(info.stop.warp)},
          {"lane", index_json(info.stop.lane)},
          {"combining", info.stop.combining}};
}

Json machine_json(const DumpInfo& info) {
  return {{"backend", info.backend}, {"device", info.device}, {"module", info.module}};
}

}  // namespace

std::string diff_json(const DumpInfo& info, const DiffReport& report) {
  Json sites = Json::array(), rows = sites, last_sites = sites, untold = sites;
  for (const auto& [site, values] : report.untold) {
    untold.push_back({{"site", name_of(site)}, {"values", values}});
  }
  for (const SiteReport& site : report.sites) sites.push_back(site_json(site));
  for (const RowError& row : report.rows) {
    rows.push_back({{"batch", row.batch},
                    {"head", row.head},
                    {"query", row.query},
                    {"max_error", number_json(row.max_error)},
                    {"error_over_bound", number_json(row.error_over_bound)}});
  }
  for (const LastSite& last : report.last_sites) {
    last_sites.push_back({{"block", last.block},
                          {"warp", index_json(last.warp)},
                          {"lane", index_json(last.lane)},
                          {"site", last.site ? Json(name_of(*last.site)) : Json()},
                          {"tile", index_json(last.tile)}});
  }
  return document_text(
      {{"kernel", info.kernel},
       {"gate", info.gate},
       {"backend", info.backend},
       {"device", info.device},
       {"module", info.module},
       {"dtype", name_of(info.dtype)},
       {"shape", shape_json(info.problem)},
       {"tile",
        {{"br", info.br},
         {"bc", info.bc},
         {"head_dim", info.head_dim},
         {"splits", info.splits},
         {"heads_per_tile", info.heads_per_tile}}},
       {"input", info.input},
       {"seed", info.seed},
       {"incomplete", info.incomplete},
       {"stop", stop_json(info)},
       {"verdict", verdict_of(report)},
       {"first", divergence_json(report.first)},
       {"recurrence", report.recurrence ? Json(report.recurrence->differences()) : Json::array()},
       {"rounded_operands", report.rounded ? Json(report.rounded->text()) : Json::array()},
       {"sites", sites},
       {"untold", untold},
       {"rows", rows},
       {"last_sites", last_sites},
       {"warnings", report.warnings},
       {"contradictions", report.contradictions},
       {"unchecked", report.unchecked}});
}

std::string bits_json(const DumpInfo& a, const DumpInfo& b, const std::vector<BitReport>& reports) {
  Json tensors = Json::array();
  Json first;
  for (const BitReport& report : reports) {
    const Json difference = bit_difference_json(report);
    if (first.is_null()) first = difference;
    tensors.push_back({{"tensor", report.name},
                       {"compared", report.compared},
                       {"differing", report.differing},
                       {"first", difference}});
  }
  return document_text({{"kernel", a.kernel},
                        {"gate", a.gate},
                        {"shape", shape_json(a.problem)},
                        {"a", machine_json(a)},
                        {"b", machine_json(b)},
                        {"verdict", same_bits(reports) ? "match" : "diverged"},
                        {"first", first},
                        {"tensors", tensors}});
}

}  // namespace lanescope
