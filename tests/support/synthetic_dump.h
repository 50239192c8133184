#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "debug/dump/dump.h"
#include "tests/support/emulated_kernel.h"

namespace lanescope::testing {

/// What an emulated kernel is run on.
struct Setup {
  Problem problem;
  std::string gate = "fused";
  std::string input = "random";
  ElementType dtype = ElementType::f16;
  Products products = Products::tensor_core;
  std::string arch = "sm_90";
  int br = 32, bc = 32;
  Fault fault = Fault::none;
  bool traced = true;
  bool unrounded_p = false;           ///< P is traced in f32, before it is made an operand
  Range blocks{}, tiles{};            ///< empty: all
  std::optional<Inputs> inputs = {};  ///< in place of those that `input` names
};

/// The dump that the emulated kernel leaves. With matrix units, scores, P and O lie in accumulator
/// fragments of mma.m16n8 (warp w owns rows 16w to 16w + 15, m, alpha and l are held by all four
/// lanes of a row); without, a thread owns a row, with s and p in shared memory. Tiles that no row
/// of a block sees are left out.
Dump synthetic_dump(const Setup& setup);

/// Index in the site's tensor of the `copy`-th slot that stands for (row, col), −1 where none does.
std::int64_t slot_index(const Dump& dump, SiteId id, std::int64_t block, std::int64_t tile,
                        std::int64_t row, std::int64_t col, int copy = 0);

Tensor& tensor_of(Dump& dump, SiteId id);

/// Puts the poison of an unwritten slot into element `index`.
void poison(Tensor& tensor, std::int64_t index);

}  // namespace lanescope::testing
