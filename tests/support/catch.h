#pragma once

// What the tests take of Catch2: version 3 where it is, else 2 (Debian 12, Ubuntu 22.04). The one
// place that knows that they differ. Outside of it stand macros, which both have, and these names.
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>

using Catch::Approx;
#else
#include <catch2/catch.hpp>

namespace Catch::Matchers {
inline auto ContainsSubstring(const std::string& text) { return Contains(text); }
}  // namespace Catch::Matchers
#endif
