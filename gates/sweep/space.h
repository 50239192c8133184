#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "gates/build/module_catalogue.h"
#include "gates/sweep/cell.h"

namespace lanescope {

/// What a sweep goes over, as --over says it.
struct SweepSpace {
  /// An end of a range: a number, or that of another side, "s".
  struct End {
    std::int64_t number = 0;
    std::string side;  ///< empty: the number
  };
  struct Span {
    End least, most;  ///< both included
  };
  struct Bounds {
    std::int64_t least, most;  ///< both included; there is nothing between them where least is more
  };
  /// b, h, hkv, s, skv, d, splits: each is drawn from one of its spans; none: as it is usual.
  std::map<std::string, std::vector<Span>> sides;
  bool both_masks = false;  ///< causal and not; else not causal
  bool causal_alone = false;
  /// None: the kernel's first (of inputs: random); "*": all.
  std::vector<std::string> dtypes, tiles, inputs;
};

/// What a sweep goes over where nobody says.
inline constexpr const char* usual_space =
    "b=1..3,h=1..8,hkv=1..h,s=1..300,skv=1..600,d=1..128,splits=1..5,causal,dtype=*,tile=*,input=*";

/// "s=1..300,skv=s..2000,d=64,128,causal,dtype=f16,bf16,tile=*": sides with their values and
/// ranges, of which an end may be another side; `causal`: with and without, `causal=yes`: with.
/// What is not named stays as it is usual: b=1, h=1, hkv=h, skv=s, d=64, no mask, the kernel's
/// first type and tile, random inputs. Throws UsageError.
SweepSpace parse_space(const std::string& text);

/// The numbers between which one of a side's spans lies for a cell, whose sides are known as far as
/// the span names them.
SweepSpace::Bounds bounds_of(const SweepSpace::Span& span, const Cell& cell);

/// Those of `modules`, a kernel's first type and tile first, that the space leaves. Throws
/// UsageError where it leaves none.
std::vector<ModuleName> modules_of(const std::vector<ModuleName>& modules, const SweepSpace& space);

/// Whether the sides of the cell are among those of the space.
bool allows(const SweepSpace& space, const Cell& cell);

}  // namespace lanescope
