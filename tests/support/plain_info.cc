#include "tests/support/plain_info.h"

namespace lanescope::testing {

DumpInfo plain_info(const std::string& kernel, const Problem& problem, const Inputs& inputs,
                    const std::string& input, std::uint64_t seed, int br, int bc) {
  DumpInfo info;
  info.kernel = kernel;
  info.gate = "fused";
  info.backend = "sim";
  info.arch = "sm_90";
  info.dtype = inputs.type();
  info.products = inputs.type() == ElementType::f32 ? Products::fp32_fma : Products::tensor_core;
  info.problem = problem;
  info.head_dim = static_cast<int>((problem.d + 15) / 16 * 16);
  info.br = br;
  info.bc = bc;
  info.input = input;
  info.seed = seed;
  info.input_hash = hash_inputs(inputs);
  return info;
}

}  // namespace lanescope::testing
