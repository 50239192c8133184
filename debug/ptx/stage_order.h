#pragma once

#include <cstdint>
#include <vector>

#include "debug/ptx/syntax.h"

// The stages of statements, by what stands before and behind them. `of`: a bit for each Stage, as
// stages_by_numbers gives them, 0 where they are not known.
namespace lanescope::ptx {

/// Where S, P and O go through shared memory, the registers of no matrix product say what it is:
/// those that stand before all powers of two are qk, those behind all of them pv, with the
/// matrices that they load and store. Between the powers and the last product, what is read and
/// computed otherwise is pv, too: O on its way to the next maximum.
void give_by_order(const Function& function, std::vector<std::uint8_t>& of);

/// A barrier of the block stands behind what it completes; where no way leads there from what
/// stands before it, before what it lets begin. So does one of some threads behind a wait at an
/// mbarrier, by which warpgroups take turns at their products: the wait is complete by itself.
void give_to_barriers(const Function& function, std::vector<std::uint8_t>& of);

}  // namespace lanescope::ptx
