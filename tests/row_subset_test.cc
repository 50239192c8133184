#include "debug/causes/row_subset.h"

#include "tests/support/catch.h"

using lanescope::subset_text;

TEST_CASE("row subsets: the rows of a lane's register, of a warp's half") {
  CHECK(subset_text("rows", {8, 13, 28, 45}, {0, 5, 17, 34}, 64) == "rows 8 to 15 of every 16");
  CHECK(subset_text("rows", {0, 5, 17, 34}, {8, 13, 28, 45}, 64) == "rows 0 to 7 of every 16");
  CHECK(subset_text("rows", {1, 5, 11}, {2, 4, 8}, 16) == "odd rows");
  CHECK(subset_text("rows", {1, 5, 11}, {2, 4, 7}, 16).empty());
  CHECK(subset_text("columns", {32, 40, 63}, {0, 1, 31}, 64) == "columns 32 to 63");
  CHECK(subset_text("columns", {48, 52, 63}, {0, 31, 47}, 64) == "columns from 48 on");
  CHECK(subset_text("rows", {0, 9, 23}, {24, 30, 40}, 48) == "rows below 24");
  CHECK(subset_text("rows", {0, 9, 23}, {20, 30, 40}, 48).empty());
  CHECK(subset_text("columns", {2, 6, 34}, {0, 1, 3, 35}, 64) == "columns i with i mod 4 = 2");
  CHECK(subset_text("columns", {5, 13, 29}, {1, 4, 9, 21}, 64).empty());
  // Too few rows tell nothing, nor does a bit beyond the tile.
  CHECK(subset_text("rows", {1, 5}, {2, 4}, 16).empty());
  CHECK(subset_text("rows", {32, 48, 64}, {0, 2, 3}, 16).empty());
}
