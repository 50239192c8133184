#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gates/module/module.h"
#include "reference/element_type.h"

namespace lanescope {

/// One product c + a·b of 16×16 matrices, f16 or bf16 (as bits) with fp32 accumulation.
struct ProductProbe {
  alignas(32) std::uint16_t a[16][16];
  std::uint16_t b[16][16];
  float c[16][16];
  float mma[16][16];   ///< out: of two mma.m16n8k16, left and right half
  float wmma[16][16];  ///< out: of one wmma.m16n16k16
  ElementType type;
};

/// One argument, or two of max.
struct FunctionProbe {
  float x, y;
  float ex2, lg2, max;        ///< out: of x; of x; of x and y
  std::uint16_t f16, bf16;    ///< out: x narrowed
  float from_f16, from_bf16;  ///< out: the lowest 16 bits of x, widened
};

/// What the modules probes.sim and probes.cuda do; the outputs of the probes are filled in.
struct ProbeLaunch {
  ProductProbe* products;
  FunctionProbe* functions;
  int product_count, function_count;
  const simt::RuleSet* rules;  ///< sim: what it rounds like
  char device[256], arch[32];  ///< out: "NVIDIA H200", "sm_90"
  char message[1024];          ///< out: why it failed, where it did
};
using RunProbes = ModuleStatus(ProbeLaunch* run);

/// Probes with the words that say what each of them looks at.
struct Probes {
  std::vector<ProductProbe> products;
  std::vector<std::string> product_names;
  std::vector<FunctionProbe> functions;
};

/// The same ones at every call: how far below the largest term of a sum bits are kept, how many
/// products are added at once and in which order, what becomes of the sum, of subnormal numbers, of
/// zeros, infinities and NaN; random matrices; the functions and conversions that kernels use.
Probes rounding_probes();

}  // namespace lanescope
