#include "debug/show/show.h"

#include <cstdio>
#include <memory>

#include "gates/commands/command.h"
#include "gates/commands/pager.h"

namespace lanescope {
namespace {

struct ShownDump {
  std::string path;
  ShowOptions show;
  std::string mapped_site;  ///< a site to be shown as a map of errors, empty: none
};

ExitCode run_show(const ShownDump& given, const Output& output) {
  ShowOptions options = given.show;
  if (!given.mapped_site.empty()) {
    if (!options.site.empty()) {
      throw UsageError("show: the site is given twice, " + printable(options.site) +
                       " and --site " + printable(given.mapped_site) + ": give it once");
    }
    options.site = given.mapped_site;
    if (!options.as && !options.watch) options.as = ShowAs::heat;
  }
  const Dump dump = read_dump(given.path);
  if (output.json) {
    std::puts(show_json(dump, options).c_str());
  } else {
    print_paged(show_text(dump, options, output.style), output.style);
  }
  return ExitCode::ok;
}

/// The tensors that a dump may have.
std::vector<std::string> site_names() {
  std::vector<std::string> names = {"q", "k", "v"};
  for (int i = 0; i < site_id_count; ++i) names.emplace_back(name_of(static_cast<SiteId>(i)));
  return names;
}

}  // namespace

Action show_command(Options& options) {
  const auto given = std::make_shared<ShownDump>();
  ShowOptions& show = given->show;
  options.add("dump", given->path, "x.safetensors").required().suggest({}, ".safetensors");
  options.add("what", show.site, "a site, or q, k, v, o_final, lse").suggest(site_names());
  options.add("--site", given->mapped_site, "the same, as a map of errors unless --as says else")
      .suggest(site_names());
  options.add("--block", show.block, "of the grid [the first]");
  options.add("--tile", show.tile, "of keys [the first]");
  options.add("--warp", show.warp, "of the block [0]");
  options.add("--lane", show.lane, "its registers alone, with bits and bounds");
  options.add("--col", show.col, "the first column of a matrix");
  options
      .add_choice(
          "--as", [&show](const std::string& text) { show.as = parse_show_as(text); },
          "lanes|tile|heat",
          "lanes: 8 rows of 4, as a fragment is held; tile: rows x columns; heat: a map of errors")
      .suggest({"lanes", "tile", "heat"});
  options.add_flag(
      "--watch", show.watch,
      "follow the site over the tiles; for a lane of m, alpha or l with its invariants");
  return [given](const Output& output) { return run_show(*given, output); };
}

}  // namespace lanescope
