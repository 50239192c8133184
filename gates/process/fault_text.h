#pragma once

#include <string>

#include "debug/dump/dump.h"
#include "debug/simt/last_words.h"
#include "gates/module/module.h"

namespace lanescope {

/// Why a kernel's process ended before its time.
struct Fault {
  std::string text;  ///< what happened to which block and lane, at which source line
  Stop stop;
  bool out_of_memory = false;
};

/// Of a process of `module`, forked from this one, that ended with `status` (as waitpid has it).
Fault fault_of(const Module& module, const simt::LastWords& words, int status);

/// Whether the thread was last seen in code of the kernel's own, not of the machine that runs it.
bool is_in_kernel(const Module& module, const simt::Seat& seat);

/// Of one that has had `seconds`, and was asked where it is.
Fault hang_of(const Module& module, const simt::LastWords& words, double seconds);

/// Of a kernel that broke a rule of the machine: which lane did, where that is one.
Stop stop_of_rule(const Module& module, const simt::LastWords& words);

}  // namespace lanescope
