#include <optional>
#include <stdexcept>
#include <string>

#include "debug/dump/dump_metadata.h"
#include "debug/dump/safetensors_header.h"
#include "debug/judge/verdict_change.h"
#include "debug/text/json.h"
#include "reference/error.h"
#include "tests/support/read_anything.h"

namespace lanescope::testing {
namespace {

/// The metadata of a dump that nothing is wrong with.
SafetensorsMetadata good_metadata() {
  DumpInfo info;
  info.backend = "sim";
  info.trace = "on";
  info.head_dim = info.br = info.bc = 64;
  info.stop.kind = Stop::Kind::crash;
  return metadata_of(info);
}

void write_and_read(std::string_view text) {
  const std::optional<Json> value = Json::parse(text);
  if (!value) return;
  for (const int indent : {-1, 2}) {
    const std::string written = value->dump(indent);
    const std::optional<Json> again = Json::parse(written);
    if (!again || again->dump(indent) != written) {
      throw std::logic_error("what was written as JSON is read as something else");
    }
  }
}

void read_as_metadata(std::string_view text) {
  for (const char* key : {"shape", "tile", "traced", "sites", "stop"}) {
    SafetensorsMetadata metadata = good_metadata();
    for (auto& [name, value] : metadata) {
      if (name == key) value = text;
    }
    try {
      info_of(metadata);
    } catch (const Error&) {
    }
  }
}

void read_as_header(std::string_view text) {
  for (const std::uint64_t data_bytes : {0, 64}) {
    try {
      info_of(parse_header(text, data_bytes, "file").metadata);
    } catch (const Error&) {
    }
  }
}

void read_as_verdict(std::string_view text) {
  const std::optional<Json> report = Json::parse(text);
  if (!report) return;
  for (const Json& before : {Json(), *report}) {
    try {
      change_text(verdict_change(before, *report), {});
    } catch (const Error&) {
    }
  }
}

}  // namespace

void read_any_json(std::string_view text) {
  write_and_read(text);
  read_as_metadata(text);
  read_as_header(text);
  read_as_verdict(text);
}

}  // namespace lanescope::testing
