#include "gates/build/module_trial.h"

#include <dlfcn.h>

#include <algorithm>
#include <bitset>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "debug/text/text.h"
#include "gates/module/module.h"
#include "gates/module/products_of_type.h"
#include "gates/process/child.h"
#include "reference/error.h"

namespace lanescope {
namespace {

constexpr int most_side = 1 << 14;  // of a tile, and of a head
constexpr int most_threads = 1024;  // of a block: CUDA C++ Programming Guide, compute capabilities
constexpr std::size_t most_text = 4096;  // of a text of the description

/// What the child found.
struct Finding {
  ExitCode code = ExitCode::ok;
  char text[1024] = "";
};

/// `what` names the module's part that cannot be.
[[noreturn]] void fail(const std::string& what) {
  throw UsageError("its description (gates/module/module.h) is wrong: " + what +
                   ": build the module again, or mend what lanescope_module returns");
}

void demand(bool holds, const std::string& what) {
  if (!holds) fail(what);
}

void check_text(const char* text, const std::string& name) {
  demand(text != nullptr, name + " is a null pointer");
  const std::size_t length = strnlen(text, most_text + 1);
  demand(length <= most_text && without_controls({text, length}) == std::string_view(text, length),
         name + " is no text, or holds control characters");
}

void check_number(std::int64_t value, std::int64_t least, std::int64_t most,
                  const std::string& name) {
  demand(value >= least && value <= most, name + " is " + std::to_string(value) + ", not " +
                                              std::to_string(least) +
                                              (least == most ? "" : " to " + std::to_string(most)));
}

template <class Enum>
void check_enum(Enum value, Enum last, const std::string& name) {
  check_number(static_cast<int>(value), 0, static_cast<int>(last), name);
}

void check_one_of(std::string_view text, std::initializer_list<std::string_view> known,
                  const std::string& name) {
  demand(std::find(known.begin(), known.end(), text) != known.end(),
         name + " is '" + std::string(text) + "'");
}

/// Every place that this process will ask for.
void check_places(const Module& module, const Site& site, const std::string& name) {
  std::vector<bool> held(static_cast<std::size_t>(site.rows) * static_cast<std::size_t>(site.cols));
  for (int warp = 0; site.space == Space::registers && warp < site.warps; ++warp) {
    for (int lane = 0; lane < 32; ++lane) {
      for (int reg = 0; reg < site.regs; ++reg) {
        int row = 0, col = 0;
        module.coordinate(site.id, warp, lane, reg, &row, &col);
        if (row == -1 && col == -1) continue;  // it holds no element
        if (row < 0 || row >= site.rows || col < 0 || col >= site.cols) {
          fail(name + " has an element at row " + std::to_string(row) + ", column " +
               std::to_string(col));
        }
        held[static_cast<std::size_t>(row * site.cols + col)] = true;
      }
    }
  }
  const auto missing = std::find(held.begin(), held.end(), false);
  if (site.space == Space::registers && missing != held.end()) {
    const auto at = static_cast<int>(missing - held.begin());
    fail("no register of " + name + " stands for row " + std::to_string(at / site.cols) +
         ", column " + std::to_string(at % site.cols) +
         " of the tile: warps, regs or coordinate()");
  }
  for (int row = 0; site.space == Space::shared && row < site.rows; ++row) {
    for (int col = 0; col < site.cols; ++col) {
      const int owner = module.owner(site.id, row, col);
      if (owner < -1 || owner >= most_threads) {
        fail(name + " has the owner " + std::to_string(owner));
      }
    }
  }
}

void check_site(const Module& module, const Site& site) {
  check_enum(site.id, SiteId::lse, "the number of a site");
  const std::string name = std::string("site ") + name_of(site.id);
  check_enum(site.stage, Stage::combine, "the stage of " + name);
  check_enum(site.space, Space::global, "the space of " + name);
  check_enum(site.type, ElementType::e4m3, "the type of " + name);
  check_enum(site.axes, Axes::query, "the axes of " + name);
  const int rows = site.axes == Axes::key_d ? module.bc : module.br;
  const int cols = site.axes == Axes::query_key ? module.bc
                   : site.axes == Axes::query   ? 1
                                                : module.head_dim;
  check_number(site.rows, rows, rows, "rows of " + name);
  check_number(site.cols, cols, cols, "cols of " + name);
  if (site.space == Space::registers) {
    check_number(site.warps, 1, module.threads / 32, "warps of " + name);
    check_number(site.regs, 1, most_side, "regs of " + name);
  }
  check_places(module, site, name);
}

/// m may stay behind the scores as long as P holds what comes of it: a reference that follows a
/// rule beyond that would cut P off as well, and find it right.
void check_rescale_rule(const Module& module) {
  const std::span sites(module.sites, static_cast<std::size_t>(module.site_count));
  ElementType held = ElementType::f32;
  for (const Site& site : sites) {
    if (site.id == SiteId::p) held = site.type;
  }
  const ElementType type = type_of_weights(module.products, module.dtype, held);
  for (const Site& site : sites) {
    check_number(site.rescale.above, 0, highest_power(type),
                 std::string("the rescale rule of site ") + name_of(site.id) + ", of P in " +
                     name_of(type) + ",");
  }
}

void check_description(const Module& module) {
  check_text(module.kernel, "kernel");
  check_text(module.backend, "backend");
  check_text(module.trace, "trace");
  check_text(module.source_hash, "source_hash");
  check_text(module.compile_flags, "compile_flags");
  check_one_of(module.backend, {"sim", "cuda"}, "backend");
  check_one_of(module.trace, {"on", "off", "printf"}, "trace");
  check_enum(module.gate, Gate::combine_only, "gate");
  check_enum(module.dtype, ElementType::e4m3, "dtype");
  check_enum(module.products, last_products, "products");
  const std::string no_products = why_no_products(module.products, module.dtype);
  demand(no_products.empty(), no_products);
  check_number(module.head_dim, 1, most_side, "head_dim");
  check_number(module.br, 1, most_side, "br");
  check_number(module.bc, 1, most_side, "bc");
  check_number(module.threads, 1, most_threads, "threads");
  check_number(module.shared_bytes, 0, std::int64_t{1} << 30, "shared_bytes");
  demand(module.coordinate && module.owner && module.shared_element && module.device &&
             module.run && module.passes,
         "one of its functions is a null pointer");
  check_number(module.site_count, 0, site_id_count, "site_count");
  demand(module.sites != nullptr || module.site_count == 0, "sites is a null pointer");
  std::bitset<site_id_count> seen;
  for (const Site& site : std::span(module.sites, static_cast<std::size_t>(module.site_count))) {
    check_site(module, site);
    demand(!seen[static_cast<std::size_t>(site.id)],
           std::string(name_of(site.id)) + " is there twice");
    seen.set(static_cast<std::size_t>(site.id));
  }
  check_rescale_rule(module);
}

/// In the child: loads the module, and unloads it. Throws Error whose text goes behind the path.
void load(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const std::string reason = dlerror();
    const std::string text = "it cannot be loaded: " + printable(reason, 600);
    const bool is_text = printable(reason, reason.size()) == reason;  // not the rubbish of a table
    if (reason.starts_with(path) || !is_text) {
      throw UsageError(text + ": build the module again, or copy it again");
    }
    throw EnvironmentError(text + ": have the library where the loader looks for it");
  }
  const auto entry =
      reinterpret_cast<decltype(&lanescope_module)>(dlsym(library, "lanescope_module"));
  if (!entry) {
    throw UsageError("it does not export lanescope_module (gates/module/module.h)");
  }
  const Module* module = entry();
  if (!module) throw UsageError("its lanescope_module returns a null pointer");
  if (module->abi != module_abi) {
    throw MismatchError("it was built for version " + std::to_string(module->abi) +
                        " of gates/module/module.h, this program for " +
                        std::to_string(module_abi) + ": build the module again");
  }
  check_description(*module);
  dlclose(library);
}

void demand_library(const std::filesystem::path& path, const std::string& about) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {
    throw UsageError(about + "it is no regular file");
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) throw UsageError(about + "it cannot be read: " + std::strerror(errno));
  char start[4] = "";
  file.read(start, sizeof start);
  if (std::string_view(start, sizeof start) !=
      "\x7f"
      "ELF") {
    throw UsageError(about + "it is no shared library");
  }
}

}  // namespace

void try_module(const std::filesystem::path& path, const std::string& file, double seconds) {
  const std::string about = "the module " + path.string() + ": ";
  demand_library(path, about);
  Finding finding;
  const auto note = [&](ExitCode code, const char* text) {
    finding.code = code;
    std::snprintf(finding.text, sizeof finding.text, "%s", text);
  };
  const std::string breakdown =
      try_in_child({std::as_writable_bytes(std::span(&finding, 1))}, seconds, [&] {
        try {
          load(file);
        } catch (const Error& error) {
          note(error.code(), error.what());
        } catch (const std::exception& error) {
          note(ExitCode::usage, error.what());
        }
      });
  if (!breakdown.empty()) {
    throw UsageError(about + "loading it was tried in a process of its own, and " + breakdown +
                     ": where the file is whole (build or copy it again), what it runs when it is "
                     "loaded is at fault");
  }
  if (finding.code != ExitCode::ok) throw Error(finding.code, about + finding.text);
}

}  // namespace lanescope
