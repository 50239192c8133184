#include "debug/dump/dump.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <span>

#include "debug/dump/dump_check.h"
#include "debug/dump/dump_metadata.h"
#include "debug/dump/safetensors.h"
#include "debug/text/text.h"
#include "reference/error.h"

namespace lanescope {

std::string range_text(const Range& range) {
  if (range.count() == 1) return std::to_string(range.begin);
  return std::to_string(range.begin) + " to " + std::to_string(range.end - 1);
}

namespace {

using Numbers = std::vector<std::int16_t> DumpSite::*;

/// The tensors that go with a site besides its values: ".coordinates" and ".owners".
struct Companion {
  std::string_view suffix;
  Numbers numbers;
};
constexpr Companion companions[] = {{".coordinates", &DumpSite::coordinates},
                                    {".owners", &DumpSite::owners}};

std::vector<std::int64_t> companion_dims(const Site& site, Numbers numbers) {
  if (numbers == &DumpSite::owners) return {site.rows, site.cols};
  return {site.warps, 32, site.regs, 2};
}

std::string companion_name(const Site& site, const Companion& companion) {
  return std::string(name_of(site.id)).append(companion.suffix);
}

/// Takes `entry` where it is the coordinates or owners of a site of `info`.
bool take_companion(const SafetensorsEntry& entry, DumpInfo& info) {
  for (DumpSite& site : info.sites) {
    for (const Companion& companion : companions) {
      if (entry.name != companion_name(site.site, companion)) continue;
      if (entry.dtype != "I16" || entry.dims != companion_dims(site.site, companion.numbers)) {
        throw UsageError("tensor '" + entry.name +
                         "' does not have the type and shape of its site");
      }
      auto& numbers = site.*companion.numbers;
      numbers.resize(entry.bytes.size() / sizeof(std::int16_t));
      if (!numbers.empty()) std::memcpy(numbers.data(), entry.bytes.data(), entry.bytes.size());
      return true;
    }
  }
  return false;
}

}  // namespace

const Tensor* Dump::find(std::string_view name) const {
  for (const Entry& entry : tensors) {
    if (entry.name == name) return &entry.tensor;
  }
  return nullptr;
}

const DumpSite* Dump::find_site(std::string_view name) const {
  for (const DumpSite& site : info.sites) {
    if (name_of(site.site.id) == name) return &site;
  }
  return nullptr;
}

Inputs inputs_of(const Dump& dump) {
  const auto tensor = [&](const char* name) {
    const Tensor* found = dump.find(name);
    return found ? *found : Tensor();
  };
  return {tensor("q"),       tensor("k"),       tensor("v"),
          tensor("q_scale"), tensor("k_scale"), tensor("v_scale")};
}

bool is_input(std::string_view name) {
  constexpr std::string_view names[] = {"q", "k", "v", "q_scale", "k_scale", "v_scale"};
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

void write_dump(const Dump& dump, const std::filesystem::path& path) {
  try {
    check_dump(dump);
  } catch (const UsageError& error) {
    throw UsageError(path.string() + " is not written, the dump is inconsistent: " + error.what());
  }
  std::vector<SafetensorsEntry> entries;
  for (const auto& [name, tensor] : dump.tensors) {
    entries.push_back({name, safetensors_name(tensor.type), tensor.dims, tensor.bytes});
  }
  for (const DumpSite& site : dump.info.sites) {
    for (const Companion& companion : companions) {
      const auto& numbers = site.*companion.numbers;
      if (numbers.empty()) continue;
      entries.push_back({companion_name(site.site, companion), "I16",
                         companion_dims(site.site, companion.numbers),
                         std::as_bytes(std::span(numbers))});
    }
  }
  write_safetensors(path, entries, metadata_of(dump.info));
}

Dump read_dump(const std::filesystem::path& path) {
  const SafetensorsFile file(path);
  Dump dump;
  try {
    dump.info = info_of(file.metadata());
  } catch (const UsageError& error) {
    throw UsageError(path.string() + " is no dump that this lanescope can read: " + error.what() +
                     "; `lanescope run KERNEL GATE -o FILE` writes one");
  }
  try {
    for (const SafetensorsEntry& entry : file.entries()) {
      if (take_companion(entry, dump.info)) continue;
      dump.tensors.push_back({entry.name, file.tensor(entry)});
    }
    check_dump(dump);
  } catch (const UsageError& error) {
    throw UsageError(path.string() + " is a damaged dump: " + error.what());
  }
  return dump;
}

}  // namespace lanescope
