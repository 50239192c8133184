#pragma once

#include <string>
#include <string_view>

#include "debug/judge/diff.h"
#include "reference/problem.h"

namespace lanescope {

/// `problem` as the option --shape takes it: "b=1,h=8,hkv=2,s=128,skv=256,d=64",
/// hkv and skv only where they differ from h and s.
std::string shape_option(const Problem& problem);

/// The command that shows the values around `at` in tensor `name` of the dump at `path`.
std::string show_command_text(std::string_view path, std::string_view name, const Divergence& at);

/// The command that makes a page of the dump at `path`, compared with the one at `other` where that
/// is not empty, without the options that follow.
std::string report_command_text(std::string_view path, std::string_view other = {});

}  // namespace lanescope
