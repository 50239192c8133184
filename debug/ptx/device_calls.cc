#include "debug/ptx/device_calls.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>
#include <string>

#include "debug/ptx/block.h"
#include "debug/ptx/program_builder.h"
#include "debug/ptx/warp.h"

namespace lanescope::ptx {
namespace {

constexpr std::size_t most_text = 1 << 16;

template <class T>
T read(Warp& warp, int lane, std::uint64_t address) {
  T value;
  std::memcpy(&value, warp.locate(Space::generic, address, sizeof(T), lane), sizeof(T));
  return value;
}

std::string read_text(Warp& warp, int lane, std::uint64_t address) {
  std::string text;
  for (char c;
       text.size() < most_text && (c = read<char>(warp, lane, address + text.size())) != 0;) {
    text += c;
  }
  return text;
}

/// One conversion of a format: "%-8.3f" with the value that it takes from the arguments at `from`.
std::string print_one(Warp& warp, int lane, const std::string& format, std::uint64_t& from) {
  const char kind = format.back();
  const bool is_wide = format.find('l') != std::string::npos || kind == 'p' || kind == 's' ||
                       std::strchr("fFeEgGaA", kind) || format.find('z') != std::string::npos ||
                       format.find('j') != std::string::npos;
  const std::uint64_t size = is_wide ? 8 : 4;
  from = (from + size - 1) / size * size;
  const std::uint64_t bits =
      is_wide ? read<std::uint64_t>(warp, lane, from) : read<std::uint32_t>(warp, lane, from);
  from += size;
  std::string text(most_text, '\0');
  int written = 0;
  if (kind == 's') {
    const std::string value = read_text(warp, lane, bits);
    written = std::snprintf(text.data(), text.size(), format.c_str(), value.c_str());
  } else if (kind == 'p') {
    written = std::snprintf(text.data(), text.size(), format.c_str(), std::bit_cast<void*>(bits));
  } else if (std::strchr("fFeEgGaA", kind)) {
    written = std::snprintf(text.data(), text.size(), format.c_str(), std::bit_cast<double>(bits));
  } else if (is_wide) {
    written = std::snprintf(text.data(), text.size(), format.c_str(), bits);
  } else {
    written =
        std::snprintf(text.data(), text.size(), format.c_str(), static_cast<std::uint32_t>(bits));
  }
  text.resize(
      std::min<std::size_t>(written < 0 ? 0 : static_cast<std::size_t>(written), most_text - 1));
  return text;
}

/// Text as printf has it (CUDA C++ Programming Guide, "Formatted Output"), of one lane.
std::string print(Warp& warp, int lane, std::uint64_t format_at, std::uint64_t arguments) {
  const std::string format = read_text(warp, lane, format_at);
  std::string text;
  for (std::size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%') {
      text += format[i];
      continue;
    }
    if (i + 1 < format.size() && format[i + 1] == '%') {
      text += '%';
      ++i;
      continue;
    }
    const std::size_t end = format.find_first_of("diouxXcspfFeEgGaA", i + 1);
    const std::string one = format.substr(i, end == std::string::npos ? end : end - i + 1);
    if (end == std::string::npos ||
        one.find_first_not_of("%0123456789.-+ #hljzdiouxXcspfFeEgGaA") != std::string::npos) {
      text += one;  // no conversion: CUDA prints it as it is
      break;
    }
    text += print_one(warp, lane, one, arguments);
    i = end;
  }
  return text;
}

/// immediate: where the parameters lie in local memory, the second at immediate2; kind 1: assert.
Flow call_print(Warp& warp, const Instruction& in, std::uint32_t mask) {
  std::string text;
  for (int lane = 0; lane < 32; ++lane) {
    if (!(mask >> lane & 1)) continue;
    std::uint64_t format = 0, arguments = 0;
    std::memcpy(&format, warp.local_memory(lane) + in.immediate, 8);
    std::memcpy(&arguments, warp.local_memory(lane) + in.immediate2, 8);
    text += print(warp, lane, format, arguments);
    constexpr std::int32_t done = 1;
    if (in.target != 0) std::memcpy(warp.local_memory(lane) + in.target - 1, &done, 4);
  }
  std::fwrite(text.data(), 1, text.size(), stdout);
  return Flow::next;
}

/// immediate: where the addresses of the condition and of the file lie; target: of the line.
Flow fail_assertion(Warp& warp, const Instruction& in, std::uint32_t mask) {
  if (mask == 0) return Flow::next;
  const int lane = std::countr_zero(mask);
  std::uint64_t condition = 0, file = 0;
  std::uint32_t line = 0;
  std::memcpy(&condition, warp.local_memory(lane) + in.immediate, 8);
  std::memcpy(&file, warp.local_memory(lane) + in.immediate2, 8);
  std::memcpy(&line, warp.local_memory(lane) + in.target, 4);
  warp.fail(lane,
            "the assertion " + read_text(warp, lane, condition) + " at " +
                read_text(warp, lane, file) + ":" + std::to_string(line) + " does not hold",
            FaultKind::assertion);
}

}  // namespace

bool decode_device_call(Decoder& d, std::string_view name, const std::vector<Operand>& results,
                        const std::vector<Operand>& arguments) {
  const bool prints = name == "vprintf", asserts = name == "__assertfail";
  if (!prints && !asserts) return false;
  if (arguments.size() < (prints ? 2u : 3u)) d.fail("arguments are missing");
  const auto offset = [&](const Operand& operand) {
    if (operand.kind != Operand::Kind::variable) d.refuse("arguments that are no .param");
    return d.program().local_offset(d.function(), operand.index);
  };
  d.in.immediate = static_cast<std::int64_t>(offset(arguments[0]));
  d.in.immediate2 = static_cast<std::int64_t>(offset(arguments[1]));
  if (asserts) d.in.target = static_cast<std::uint32_t>(offset(arguments[2]));
  if (prints && !results.empty()) d.in.target = static_cast<std::uint32_t>(offset(results[0])) + 1;
  d.in.act = prints ? call_print : fail_assertion;
  return true;
}

}  // namespace lanescope::ptx
