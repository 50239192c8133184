#pragma once

#include <filesystem>

namespace lanescope::testing {

/// Reads the file as a dump and as an input file, and looks at a dump through every view: all
/// sites as text and JSON, judged against the reference, compared with itself. A file that is
/// refused with a UsageError, or a view that is, is as good as one that is read; nothing else may
/// be thrown.
void read_anything(const std::filesystem::path& path);

}  // namespace lanescope::testing
