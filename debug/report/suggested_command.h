#pragma once

#include <string>
#include <string_view>

#include "debug/judge/diff.h"
#include "reference/problem.h"

namespace lanescope {

/// How the user calls this program, with which commands to copy begin ("lanescope" at first), and
/// the file that it is, for a debugger.
void set_program(std::string_view called, std::string_view file);
const std::string& program_name();
const std::string& program_file();

/// `text` as one word of a POSIX shell.
std::string shell_word(std::string_view text);

/// `problem` as the option --shape takes it: "b=1,h=8,hkv=2,s=128,skv=256,d=64",
/// hkv and skv only where they differ from h and s.
std::string shape_option(const Problem& problem);

/// "block=0,tile=1..2": what of the sites the run traced, as --where takes it; empty: all of them.
std::string where_option(const DumpInfo& info);

/// KERNEL GATE, or without a gate KERNEL, and the options of the run that `info` is of.
std::string run_text(const DumpInfo& info, std::string_view gate);

/// The command that shows the values around `at` in tensor `name` of the dump at `path`.
std::string show_command_text(std::string_view path, std::string_view name, const Divergence& at);

/// The command that makes a page of the dump at `path`, compared with the one at `other` where that
/// is not empty, without the options that follow.
std::string report_command_text(std::string_view path, std::string_view other = {});

}  // namespace lanescope
