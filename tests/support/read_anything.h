#pragma once

#include <filesystem>
#include <string_view>

namespace lanescope::testing {

/// Reads the file as a dump and as an input file, and looks at a dump through every view: all
/// sites as text and JSON, judged against the reference, compared with itself. A file that is
/// refused with a UsageError, or a view that is, is as good as one that is read; nothing else may
/// be thrown.
void read_anything(const std::filesystem::path& path);

/// Reads `text` as everything that is JSON to the program: as a value, which is written and read
/// again; as the header of a safetensors file; as each part of a dump's metadata; as the verdict
/// of a diff, which `watch` compares with the one before. What is refused with an Error is as good
/// as what is read; nothing else may be thrown, and a value that is written must come back: else
/// throws std::logic_error.
void read_any_json(std::string_view text);

}  // namespace lanescope::testing
