#pragma once

#include <cstdint>
#include <vector>

#include "debug/ptx/syntax.h"

namespace lanescope::ptx {

/// In which stage of attention each statement is that fills shared memory, reads memory, computes
/// with floats, waits for copies or stores results, as far as the numbers say so. A store to shared
/// memory is `load` where what it stores comes from global memory as it is, scaled or converted, or
/// is copied asynchronously; `softmax` where that is a power of two. A read is `softmax` where what
/// it reads goes into an exponential, `qk` where a product with another number from memory lies
/// between, `pv` where such a product goes into global memory instead, or where one with a power of
/// two goes into shared memory; what goes from shared to global memory as it is is `epilogue`; an
/// integer in shared memory that says where global memory is read is `load`. What is computed on
/// the way to an exponential is `qk` before a maximum was taken, then `softmax`; what a reciprocal
/// or logarithm takes part in is `epilogue`. Of wmma whose results all go through shared memory,
/// what stands before all powers of two is `qk`, behind all of them `pv`, as what is read and
/// computed between these and the last product. A function that weighs what it reads by powers of
/// two, and multiplies no inputs, is `combine`. A bit for each Stage as in stages_of
/// (ptx/control_flow.h), 0 of all other statements. For kernels of attention without markers.
std::vector<std::uint8_t> stages_by_numbers(const Function& function);

}  // namespace lanescope::ptx
