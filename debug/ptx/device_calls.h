#pragma once

#include <string_view>
#include <vector>

#include "debug/ptx/decoder.h"

namespace lanescope::ptx {

/// Decodes a call of a function that CUDA brings: vprintf, __assertfail. False where it is none.
bool decode_device_call(Decoder& decoder, std::string_view name,
                        const std::vector<Operand>& results, const std::vector<Operand>& arguments);

}  // namespace lanescope::ptx
