// Instructions of PTX (ISA 9.0) of which the machine executes no form, and why: what the other
// families do not know comes here.

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>

#include "debug/ptx/decoder.h"

namespace lanescope::ptx {
namespace {

struct NotExecuted {
  std::string_view begin;  ///< of the opcode
  const char* why;
};

}  // namespace

bool decode_not_executed(Decoder& d) {
  constexpr const char* textures = "textures and surfaces";
  constexpr const char* video =
      "scalar video instructions, which no GPU since sm_30 has a unit for";
  constexpr const char* newer = "no GPU before sm_100 has it: compile for sm_90a or older";
  constexpr const char* stack = "a stack that grows while a function runs";
  constexpr NotExecuted all[] = {
      {"tex", textures},       {"tld4", textures},
      {"txq", textures},       {"suld", textures},
      {"sust", textures},      {"sured", textures},
      {"suq", textures},       {"istypep", textures},
      {"tcgen05", newer},      {"clusterlaunchcontrol", newer},
      {"alloca", stack},       {"stacksave", stack},
      {"stackrestore", stack}, {"vadd", video},
      {"vsub", video},         {"vabsdiff", video},
      {"vmin", video},         {"vmax", video},
      {"vshl", video},         {"vshr", video},
      {"vmad", video},         {"vset", video},
  };
  const std::string_view opcode = d.statement().opcode;
  const auto* known = std::find_if(std::begin(all), std::end(all), [&](const NotExecuted& its) {
    return opcode.starts_with(its.begin);
  });
  if (known == std::end(all)) return false;
  d.refuse(known->why);
}

}  // namespace lanescope::ptx
