#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reference/element_type.h"
#include "reference/gate.h"

namespace lanescope {

/// "64x32", as names of modules and --tile-shape have it.
inline std::string tile_text(int br, int bc) {
  return std::to_string(br) + "x" + std::to_string(bc);
}

/// Which one of the modules of a build: each is kernel, gate, type, head dimension, tile, backend.
/// The kernel of a specimen is KERNEL+NAME.
struct ModuleName {
  std::string kernel;
  Gate gate = Gate::fused;
  ElementType dtype = ElementType::f16;
  int head_dim = 64;
  int br = 64, bc = 64;
  std::string backend;  ///< "sim" or "cuda"
  bool untraced = false;
  bool checked = false;

  /// "mma.softmax_only.f16.d64.64x64.sim", with ".untraced" for the build without tracing,
  /// ".checked" for the one with the memory checker.
  std::string text() const;
  bool operator==(const ModuleName&) const = default;
};

/// Every module that this build declares (their traced form), as the build orders them: a kernel's
/// default tile comes first.
const std::vector<ModuleName>& declared_modules();

/// A kernel with a bug planted, and what shows it.
struct DeclaredSpecimen {
  std::string kernel;   ///< KERNEL+NAME
  std::string command;  ///< "diff" or "check" of the gate fused; "-": nothing, it is no bug
  std::string options;  ///< "--shape s=64,d=64 --causal"
};
std::span<const DeclaredSpecimen> declared_specimens();
/// How the bug that is planted in `kernel` shows: "mma fused --specimen NAME --shape ...", behind
/// the command; empty where `kernel` is no specimen, or nothing shows it.
std::string shown_by(const std::string& kernel);

/// The kernels and the backends that this build declares modules of.
std::vector<std::string> declared_kernels();
std::vector<std::string> declared_backends();
/// The types of inputs that `kernel` takes, the one that it takes by default first.
std::vector<std::string> declared_dtypes(const std::string& kernel);

/// A Meson option of this build.
struct BuildSetting {
  std::string name, value, usual;  ///< lists with commas
};
/// Those that say which modules there are and how they are compiled.
std::span<const BuildSetting> build_settings();

/// Throws UsageError, listing the kernels, where `name` is none of this build.
void demand_kernel(const std::string& name);
/// Throws UsageError, listing the gates, where `name` is none.
Gate parse_gate(std::string_view name);
/// Throws UsageError where `name` is no type of inputs.
ElementType parse_dtype(std::string_view name);

/// What a user asks for; what is not given is chosen.
struct ModuleWish {
  std::string kernel;
  Gate gate = Gate::fused;
  std::optional<ElementType> dtype;
  std::int64_t d = 64;                      ///< columns of Q, K and V
  std::optional<std::pair<int, int>> tile;  ///< Br, Bc
  std::string backend;
  bool untraced = false;
  bool checked = false;
};

/// The declared module for a wish: the smallest head dimension that holds d, the kernel's first
/// type and tile where none is given. Throws UsageError that lists what there is.
ModuleName choose_module(const ModuleWish& wish);
/// The same with every tile of the kernel where none is given, its first one first.
std::vector<ModuleName> choose_tiles(const ModuleWish& wish);

/// The sources of a kernel's modules, a specimen's patch included; empty where there is no such
/// kernel.
std::vector<std::filesystem::path> sources_of(const std::string& kernel);

/// The hash of a kernel's sources as they lie in the checkout now; empty where there is no checkout
/// or no such kernel.
std::string hash_of_sources_at_hand(const std::string& kernel);

/// Throws MismatchError, with both hashes and then `advice`, where the sources of `kernel` at hand
/// are not those of `hash`, from which `what` was built; an empty one is that of no kernel of ours.
void demand_fresh(const std::string& what, const std::string& kernel, const std::string& hash,
                  const std::string& advice);

}  // namespace lanescope
