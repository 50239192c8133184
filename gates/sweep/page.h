#pragma once

#include <string>

#include "gates/sweep/sweep.h"

namespace lanescope {

/// `report` as one HTML file that needs nothing but a browser: what fails and by which rule, a map
/// of the cells over two sides that are chosen there, the cells that take longest, the errors of
/// each site. Nothing in it is judged or learnt anew: its script only counts what is here.
std::string sweep_page(const SweepReport& report);

}  // namespace lanescope
