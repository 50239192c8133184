#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>

#include "gates/commands.h"
#include "gates/declared_modules.h"
#include "gates/module_build.h"
#include "gates/shared_options.h"

namespace {

using namespace lanescope;

/// The arguments of a `watch` as those of the `diff` that it runs.
std::vector<std::string> diff_arguments(int argc, char** argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  *std::find(arguments.begin(), arguments.end(), "watch") = "diff";
  arguments.insert(arguments.end(), {"--format", "json"});
  return arguments;
}

Style terminal_style() {
  Style style;
  style.colour = isatty(STDOUT_FILENO) && !std::getenv("NO_COLOR");
  winsize window{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 0) {
    style.width = window.ws_col;
    style.height = window.ws_row;
  }
  return style;
}

void set_up_logging(bool verbose, bool quiet) {
  spdlog::set_default_logger(spdlog::stderr_color_mt("lanescope"));
  spdlog::set_pattern("%^%l%$: %v");
  spdlog::set_level(quiet     ? spdlog::level::err
                    : verbose ? spdlog::level::debug
                              : spdlog::level::info);
}

int run(int argc, char** argv) {
  CLI::App app{"A lab for fused attention kernels: build one stage, diff its intermediates"};
  app.name("lanescope");
  app.set_version_flag("--version", LANESCOPE_VERSION);
  app.require_subcommand(1);
  app.fallthrough();
  bool verbose = false, quiet = false;
  std::string format = "text";
  app.add_flag("-v,--verbose", verbose, "say more on stderr");
  app.add_flag("-q,--quiet", quiet, "say only errors on stderr");
  app.add_option("--format", format, "text or json")
      ->check(CLI::IsMember({"text", "json"}))
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);

  bool list_maps = false;
  std::string list_backend = "auto";
  CLI::App* list = app.add_subcommand("list", "kernels, gates, sites, presets, devices");
  CLI::Option* maps =
      list->add_flag("--maps", list_maps, "which matrix element each lane holds of each fragment");
  list->add_option("--backend", list_backend, "that shows the maps: auto, sim or cuda")
      ->needs(maps);

  bool list_causes = false;
  list->add_flag("--causes", list_causes, "the causes that locate can name, and what they mean");

  RunOptions run_options;
  std::string run_path;
  CLI::App* run = app.add_subcommand("run", "run one gate of a kernel and write a dump");
  run->add_option("kernel", run_options.kernel, "a kernel, or the path of a module")->required();
  run->add_option("gate", run_options.gate, "a gate of the kernel: see `lanescope list`")
      ->required();
  run->add_option("-o,--output", run_path, "the dump: x.safetensors")->check(check_dump_path);
  add_run_options(*run, run_options);

  DiffOptions diff_options;
  CLI::App* diff =
      app.add_subcommand("diff", "run and compare with the reference, or compare dumps");
  diff->add_option("what", diff_options.what, "KERNEL GATE, or one dump, or two")->required();
  diff->add_option("-o,--output", diff_options.output, "keep the dump: x.safetensors")
      ->check(check_dump_path);
  diff->add_flag("--stale-ok", diff_options.run.stale_ok,
                 "judge a dump or a module (.so) although the sources have changed since");
  add_run_options(*diff, diff_options.run);

  WatchOptions watch_options;
  CLI::App* watch = app.add_subcommand("watch", "diff again whenever a source is saved");
  watch->add_option("kernel", watch_options.run.kernel, "a kernel, or the path of a module")
      ->required();
  watch->add_option("gate", watch_options.run.gate, "qk_only, softmax_only, pv_only or fused")
      ->required();
  add_run_options(*watch, watch_options.run);
  const auto dump_options = [](const std::string& name) {
    return name == "what" || name == "--stale-ok" || name == "--threads";
  };

  RunOptions check_options;
  CLI::App* check = app.add_subcommand("check", "run one gate on sim under the memory checker");
  check->add_option("kernel", check_options.kernel, "a kernel, or the path of a module")
      ->required();
  check->add_option("gate", check_options.gate, "a gate of the kernel: see `lanescope list`")
      ->required();
  add_run_options(*check, check_options);
  RunOptions locate_options;
  CLI::App* locate = app.add_subcommand("locate", "name stage, site, tile, lane and cause");
  locate->add_option("kernel", locate_options.kernel, "a kernel, or the path of a fused module")
      ->required();
  add_run_options(*locate, locate_options);

  std::string calibrate_backend = "cuda", calibrate_arch;
  CLI::App* calibrate = app.add_subcommand("calibrate", "which rounding rules the device follows");
  calibrate->add_option("--backend", calibrate_backend, "cuda or sim [cuda]");
  calibrate->add_option("--arch", calibrate_arch, "sim: round like hopper or ampere [hopper]");

  ResourceOptions resource_options;
  CLI::App* resources =
      app.add_subcommand("resources", "registers, spills, shared memory of cuda modules");
  resources->add_option("kernel", resource_options.kernel, "a kernel, or the path of a cuda module")
      ->required();
  resources->add_option("--gate", resource_options.gate, "only this gate");
  resources->add_option("--dtype", resource_options.dtype, "only this type");
  resources->add_option("--d", resource_options.d, "only this head dimension");
  resources->add_option("--tile-shape", resource_options.tile_shape, "only this tile, e.g. 64x32");
  resources->add_flag("--record", resource_options.record,
                      "write what they take as their budgets (kernels/budgets)");

  BenchOptions bench_options;
  bench_options.run.gate = name_of(Gate::fused);
  CLI::App* bench = app.add_subcommand("bench", "judge a kernel, then time it on the GPU");
  add_bench_options(*bench, bench_options);

  ShowOptions show_options;
  std::string show_path;
  CLI::App* show = app.add_subcommand("show", "one site of a dump, lane by lane");
  show->add_option("dump", show_path, "x.safetensors")->required();
  CLI::Option_group* of_site = show->add_option_group("site");
  of_site->add_option("site", show_options.site, "a site, or q, k, v, o_final, lse");
  std::string mapped_site;
  of_site->add_option("--site", mapped_site, "the same, as a map of errors unless --as says else");
  of_site->require_option(1);
  show->add_option("--block", show_options.block);
  show->add_option("--tile", show_options.tile);
  show->add_option("--warp", show_options.warp);
  show->add_option("--lane", show_options.lane);
  show->add_option("--col", show_options.col, "the first column of a matrix");
  show->add_option_function<std::string>(
          "--as", [&](const std::string& text) { show_options.as = parse_show_as(text); },
          "lanes: 8 rows of 4, as a fragment is held; tile: rows x columns; heat: a map of errors")
      ->type_name("lanes|tile|heat");
  show->add_flag("--watch", show_options.watch,
                 "follow the site over the tiles; for a lane of m, alpha or l with its invariants");

  ReportOptions report_options;
  CLI::App* report = app.add_subcommand("report", "a dump as a page: stages, heat maps, lanes");
  report->add_option("dumps", report_options.dumps, "x.safetensors, or two to compare")->required();
  report->add_option("-o,--output", report_options.output, "the page: x.html")
      ->required()
      ->check(check_page_path);
  report->add_option("--block", report_options.block, "judge only these: 3 or 0..3, ends included");
  report->add_option("--tile", report_options.tile, "keep only these");
  report->add_option("--threads", report_options.threads, "of this machine [0: all]")
      ->check(CLI::Range(0, 1024));
  report->add_flag("--stale-ok", report_options.stale_ok,
                   "judge a dump although the sources have changed since");

  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    app.exit(error);
    if (app.get_subcommands().empty()) {
      std::string names;
      for (const CLI::App* command : app.get_subcommands({})) names += " " + command->get_name();
      std::fprintf(stderr, "Subcommands:%s\n", names.c_str());
    }
    return static_cast<int>(ExitCode::usage);
  }
  set_up_logging(verbose, quiet);
  if (quiet) build_quietly();
  const Output output{format == "json", terminal_style()};
  ExitCode code = ExitCode::ok;
  if (list->parsed()) {
    code = list_maps ? list_maps_command(list_backend, output) : list_command(list_causes, output);
  }
  if (run->parsed()) code = run_command(run_options, run_path, output);
  for (const CLI::Option* option : diff->get_options()) {
    const std::string name = option->get_name();
    if (option->count() > 0 && !dump_options(name)) diff_options.for_runs.push_back(name);
  }
  if (diff->parsed()) code = diff_command(diff_options, output);
  if (watch->parsed()) {
    watch_options.arguments = diff_arguments(argc, argv);
    code = watch_command(watch_options, output);
  }
  if (check->parsed()) code = check_command(check_options, output);
  if (locate->parsed()) code = locate_command(locate_options, output);
  if (calibrate->parsed()) code = calibrate_command(calibrate_backend, calibrate_arch, output);
  if (resources->parsed()) code = resources_command(resource_options, output);
  if (bench->parsed()) code = bench_command(bench_options, output);
  if (!mapped_site.empty()) {
    show_options.site = mapped_site;
    if (!show_options.as && !show_options.watch) show_options.as = ShowAs::heat;
  }
  if (show->parsed()) code = show_command(show_path, show_options, output);
  if (report->parsed()) code = report_command(report_options, output);
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    throw EnvironmentError("the result could not be written to stdout: is the disk full?");
  }
  return static_cast<int>(code);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const Error& error) {
    spdlog::error("{}", error.what());
    return static_cast<int>(error.code());
  } catch (const std::bad_alloc&) {
    spdlog::error("out of memory: take a smaller --shape, or narrow the trace with --where");
    return static_cast<int>(ExitCode::environment);
  } catch (const std::exception& error) {
    spdlog::error("unexpected: {}", error.what());
    return static_cast<int>(ExitCode::environment);
  }
}
