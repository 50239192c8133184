#include "gates/build/module_catalogue.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <fstream>

#include "debug/dump/source_hash.h"
#include "debug/text/nearest.h"
#include "gates/build/this_build.h"
#include "reference/error.h"

namespace lanescope {
namespace {

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

/// What `text` gives for the values, each once, in their order.
template <class Values, class Text>
std::vector<std::string> distinct(const Values& values, Text text) {
  std::vector<std::string> seen;
  for (const auto& value : values) {
    if (std::find(seen.begin(), seen.end(), text(value)) == seen.end()) seen.push_back(text(value));
  }
  return seen;
}

template <class Values, class Text>
std::string list_of(const Values& values, Text text) {
  return listed(distinct(values, text));
}

bool is_specimen(std::string_view kernel) { return kernel.find('+') != kernel.npos; }

struct KernelSources {
  std::string kernel, files;  ///< with colons between them
};

/// What a build declares: modules.txt in its folder of modules, a row per line, fields with tabs
/// between them.
struct Catalogue {
  std::vector<std::string> modules;
  std::vector<DeclaredSpecimen> specimens;
  std::vector<KernelSources> sources;
  std::vector<BuildSetting> settings;
};

/// Beside the program, which may have been copied with its modules; else where this build is.
std::filesystem::path catalogue_file() {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  for (const auto& folder : {program, program.parent_path(), program.parent_path() / "gates"}) {
    if (std::filesystem::exists(folder / "modules.txt", error)) return folder / "modules.txt";
  }
  return std::filesystem::path(this_build::module_folder()) / "modules.txt";
}

const Catalogue& catalogue() {
  static const Catalogue read = [] {
    const std::filesystem::path path = catalogue_file();
    std::ifstream file(path);
    Catalogue rows;
    for (std::string line; std::getline(file, line);) {
      std::vector<std::string> field = split(line, '\t');
      field.resize(4);
      if (field[0] == "module") rows.modules.push_back(field[1]);
      if (field[0] == "specimen") rows.specimens.push_back({field[1], field[2], field[3]});
      if (field[0] == "sources") rows.sources.push_back({field[1], field[2]});
      if (field[0] == "setting") rows.settings.push_back({field[1], field[2], field[3]});
    }
    if (!file.eof() || rows.settings.empty()) {
      throw EnvironmentError(path.string() +
                             " cannot be read, which says what modules there are: the build was "
                             "moved or emptied. ./lanescope sets it up");
    }
    return rows;
  }();
  return read;
}

/// The kernel in the name of a module.
std::string_view kernel_of(std::string_view text) { return text.substr(0, text.find('.')); }

ModuleName parse_name(std::string_view text) {
  const std::vector<std::string> part = split(text, '.');
  const std::size_t x = part[4].find('x');
  ModuleName name;
  name.kernel = part[0];
  name.gate = parse_gate(part[1]);
  name.dtype = parse_dtype(part[2]);
  name.head_dim = std::stoi(part[3].substr(1));
  name.br = std::stoi(part[4].substr(0, x));
  name.bc = std::stoi(part[4].substr(x + 1));
  name.backend = part[5];
  return name;
}

/// The declared modules of a kernel: those of all take longer to parse than most commands do.
std::vector<ModuleName> modules_of_kernel(const std::string& kernel) {
  std::vector<ModuleName> parsed;
  for (const std::string& name : catalogue().modules) {
    if (kernel_of(name) == kernel) parsed.push_back(parse_name(name));
  }
  return parsed;
}

std::string tile_of(const ModuleName& m) { return tile_text(m.br, m.bc); }

/// Why there may be fewer than one expects, where the option `name` chooses some of them.
std::string left_out_by(std::string_view name) {
  for (const BuildSetting& setting : build_settings()) {
    if (setting.name != name || setting.value == setting.usual) continue;
    const std::string option = "-D" + std::string(name) + "=";
    return ". This build is set to " + option + setting.value + "; ./lanescope " + option +
           setting.usual + " sets it back";
  }
  return {};
}

/// Keeps the candidates for which `holds`; none left: an error that lists what there is.
template <class Holds, class Text>
void narrow(std::vector<ModuleName>& candidates, const std::string& what, Holds holds, Text text,
            std::string_view setting = {}) {
  std::vector<ModuleName> kept;
  std::copy_if(candidates.begin(), candidates.end(), std::back_inserter(kept), holds);
  if (kept.empty())
    throw UsageError(what + "; there is: " + list_of(candidates, text) + left_out_by(setting));
  candidates = std::move(kept);
}

/// Which kernels take inputs of a type.
std::string takers_text(ElementType type) {
  std::vector<ModuleName> takers = declared_modules();
  std::erase_if(takers,
                [&](const ModuleName& m) { return m.dtype != type || is_specimen(m.kernel); });
  if (takers.empty()) return {};
  return " (" + list_of(takers, [](const ModuleName& m) { return m.kernel; }) +
         (distinct(takers, [](const ModuleName& m) { return m.kernel; }).size() == 1 ? " does)"
                                                                                     : " do)");
}

}  // namespace

std::string ModuleName::text() const {
  return kernel + "." + name_of(gate) + "." + name_of(dtype) + ".d" + std::to_string(head_dim) +
         "." + tile_of(*this) + "." + backend +
         (checked    ? ".checked"
          : untraced ? ".untraced"
                     : "");
}

const std::vector<ModuleName>& declared_modules() {
  static const std::vector<ModuleName> modules = [] {
    std::vector<ModuleName> parsed;
    for (const std::string& name : catalogue().modules) parsed.push_back(parse_name(name));
    return parsed;
  }();
  return modules;
}

std::vector<std::string> declared_kernels() {
  static const std::vector<std::string> kernels = [] {
    std::vector<std::string> names;
    for (const std::string& name : catalogue().modules) {
      const std::string_view kernel = kernel_of(name);
      const bool again = !names.empty() && names.back() == kernel;
      if (!again && !is_specimen(kernel)) names.emplace_back(kernel);
    }
    return distinct(names, [](const std::string& name) { return name; });
  }();
  return kernels;
}

std::span<const DeclaredSpecimen> declared_specimens() { return catalogue().specimens; }

std::string shown_by(const std::string& kernel) {
  for (const DeclaredSpecimen& specimen : declared_specimens()) {
    if (specimen.kernel != kernel || specimen.command == "-") continue;
    const std::size_t plus = kernel.find('+');
    return specimen.command + " " + kernel.substr(0, plus) + " fused --specimen " +
           kernel.substr(plus + 1) + " " + specimen.options;
  }
  return {};
}

std::vector<std::string> declared_backends() {
  static const std::vector<std::string> backends =
      distinct(declared_modules(), [](const ModuleName& m) { return m.backend; });
  return backends;
}

std::vector<std::string> declared_dtypes(const std::string& kernel) {
  return distinct(modules_of_kernel(kernel),
                  [](const ModuleName& m) { return std::string(name_of(m.dtype)); });
}

std::span<const BuildSetting> build_settings() { return catalogue().settings; }

void demand_kernel(const std::string& name) {
  const auto is = [&](const std::string& module) { return kernel_of(module) == name; };
  if (std::any_of(catalogue().modules.begin(), catalogue().modules.end(), is)) return;
  const std::vector<std::string> kernels = declared_kernels();
  throw UsageError("there is no kernel '" + name + "' in this build" + did_you_mean(name, kernels) +
                   "; there is: " + listed(kernels) + ", or the path of a module (.so, .ptx)" +
                   left_out_by("kernels"));
}

Gate parse_gate(std::string_view name) {
  for (const Gate gate : all_gates) {
    if (name == name_of(gate)) return gate;
  }
  const auto names = distinct(all_gates, [](Gate g) { return std::string(name_of(g)); });
  throw UsageError("there is no gate '" + std::string(name) + "'" + did_you_mean(name, names) +
                   "; gates: " + listed(names));
}

ElementType parse_dtype(std::string_view name) {
  for (const ElementType type : all_element_types) {
    if (name == name_of(type)) return type;
  }
  throw UsageError("there is no type '" + std::string(name) + "'; types: f16, bf16, e4m3, f32");
}

ModuleName choose_module(const ModuleWish& wish) { return choose_tiles(wish).front(); }

std::vector<ModuleName> choose_tiles(const ModuleWish& wish) {
  demand_kernel(wish.kernel);
  std::vector<ModuleName> left = modules_of_kernel(wish.kernel);
  narrow(
      left, "kernel " + wish.kernel + " has no gate '" + name_of(wish.gate) + "' in this build",
      [&](const ModuleName& m) { return m.gate == wish.gate; },
      [](const ModuleName& m) { return std::string(name_of(m.gate)); }, "gates");
  narrow(
      left, "kernel " + wish.kernel + " is not built for backend '" + wish.backend + "'",
      [&](const ModuleName& m) { return m.backend == wish.backend; },
      [](const ModuleName& m) { return m.backend; }, "backends");
  const ElementType dtype = wish.dtype.value_or(left.front().dtype);
  const auto takes = [&](const ModuleName& m) { return m.dtype == dtype; };
  const bool any = std::any_of(left.begin(), left.end(), takes);
  narrow(left,
         "kernel " + wish.kernel + " does not take " + name_of(dtype) + " inputs" +
             (any ? "" : takers_text(dtype)),
         takes, [](const ModuleName& m) { return std::string(name_of(m.dtype)); });
  narrow(
      left,
      "kernel " + wish.kernel + " has no head dimension of " + std::to_string(wish.d) + " or more",
      [&](const ModuleName& m) { return m.head_dim >= wish.d; },
      [](const ModuleName& m) { return "d=" + std::to_string(m.head_dim); });
  int head_dim = left.front().head_dim;
  for (const ModuleName& m : left) head_dim = std::min(head_dim, m.head_dim);
  std::erase_if(left, [&](const ModuleName& m) { return m.head_dim != head_dim; });
  if (wish.tile) {
    narrow(
        left,
        "kernel " + wish.kernel + " has no tile " + std::to_string(wish.tile->first) + "x" +
            std::to_string(wish.tile->second),
        [&](const ModuleName& m) { return std::pair(m.br, m.bc) == *wish.tile; }, tile_of);
  }
  for (ModuleName& chosen : left) {
    chosen.untraced = wish.untraced;
    chosen.checked = wish.checked;
  }
  return left;
}

std::vector<std::filesystem::path> sources_of(const std::string& kernel) {
  std::vector<std::filesystem::path> files;
  for (const KernelSources& declared : catalogue().sources) {
    if (declared.kernel != kernel) continue;
    for (const std::string& file : split(declared.files, ':')) {
      files.push_back(std::filesystem::path(this_build::source_root()) / file);
    }
  }
  return files;
}

std::string hash_of_sources_at_hand(const std::string& kernel) {
  const char* moved = std::getenv("LANESCOPE_SOURCES");  // where the checkout lies now
  for (const KernelSources& declared : catalogue().sources) {
    if (declared.kernel == kernel) {
      return hash_sources(moved && *moved ? moved : this_build::source_root(),
                          split(declared.files, ':'));
    }
  }
  return {};
}

void demand_fresh(const std::string& what, const std::string& kernel, const std::string& hash,
                  const std::string& advice) {
  const std::string at_hand = hash_of_sources_at_hand(kernel);
  const bool is_ours = !hash.empty() && !at_hand.empty();
  if (!is_ours || at_hand == hash) return;
  throw MismatchError(what + " was not built from the sources at hand: built from " + hash +
                      ", at hand " + at_hand + ". " + advice);
}

}  // namespace lanescope
