#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gates/module/module.h"
#include "reference/marker_words.h"

namespace lanescope {

/// A kernel whose PTX has markers (kernels/trace/lanescope.h), as a module of a gate.
struct MarkedModule {
  Module module;
  std::vector<Site> sites;
  std::string ptx;  ///< path of the text that has them
};

/// Where the markers of a module lie: in itself, or in x.ptx beside x.so, since nvcc keeps no
/// comments in a program. Nothing where there is no such file.
std::optional<std::filesystem::path> ptx_beside(const std::filesystem::path& module);

/// Each marker that the file has, once. Throws UsageError.
std::vector<Marker> read_markers(const std::filesystem::path& ptx);

/// The module of `gate` of the kernel that `plain` runs and `markers` are in; nullptr where there
/// are none. It keeps its values by their place in the tile, whichever lane holds them
/// (debug/ptx/marker_run.h); settle_marked says afterwards which lanes did. Throws UsageError where
/// the gate needs markers that are not there.
std::shared_ptr<const MarkedModule> marked_module(const Module& plain,
                                                  const std::vector<Marker>& markers, Gate gate,
                                                  const std::filesystem::path& ptx);

}  // namespace lanescope
