#pragma once

#include <string>
#include <string_view>

#include "debug/diff.h"
#include "debug/dump.h"

namespace lanescope {

/// `problem` as the option --shape takes it: "b=1,h=8,hkv=2,s=128,skv=256,d=64".
std::string shape_option(const Problem& problem);

/// The command that makes this run again and leaves its dump at `path`.
std::string run_command(const DumpInfo& info, std::string_view path);

/// The command that shows the values around `at` in tensor `name` of the dump at `path`.
std::string show_command(std::string_view path, std::string_view name, const Divergence& at);

}  // namespace lanescope
