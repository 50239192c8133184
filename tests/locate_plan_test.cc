// The problems that `locate` runs.
#include "gates/run/locate_plan.h"

#include <algorithm>

#include "gates/run/plan_modules.h"
#include "tests/support/catch.h"

namespace lanescope {
namespace {

std::vector<Probe> plan_of(const std::string& kernel, int br, int bc, bool combines = false,
                           int resident_blocks = 0) {
  RunOptions given;
  given.kernel = kernel;
  return plan(given, br, bc, 64, combines, resident_blocks);
}

const Probe* find(const std::vector<Probe>& probes, const std::string& about) {
  const auto found = std::find_if(probes.begin(), probes.end(),
                                  [&](const Probe& probe) { return probe.about == about; });
  return found == probes.end() ? nullptr : &*found;
}

Problem problem_of(const Probe& probe) {
  return parse_shape("", probe.options.shape, probe.options.causal);
}

/// Whether one of the problems that are tried where it is refused is `what`.
template <class F>
bool has_other(const Probe& probe, F&& what) {
  return std::ranges::any_of(probe.other_shapes, [&](const std::string& shape) {
    return what(parse_shape("", shape, probe.options.causal));
  });
}

constexpr const char* stranger = "/tmp/stranger.so";

TEST_CASE("locate's plan: heads that share keys under a causal mask, in more than one block") {
  for (const int br : {1, 4, 16, 64}) {
    const std::vector<Probe> probes = plan_of(stranger, br, 32);
    const Probe* const probe = find(probes, "causal, heads that share keys");
    REQUIRE(probe);
    const Problem problem = problem_of(*probe);
    CHECK(problem.causal);
    CHECK(problem.heads / problem.heads_kv > 1);
    // Rows that are packed by groups see other keys than their own only where these are many.
    CHECK(problem.len_q > br);
    CHECK(problem.len_q < problem.len_kv);
    // Rows behind the last query, read where those of K are there still, no value shows.
    CHECK(probe->checked);
    if (br > 1) CHECK(problem.len_q % br != 0);
  }
}

TEST_CASE("locate's plan: a group of heads divides no tile of queries of all its heads") {
  for (const int br : {16, 32, 64, 128}) {
    const Problem problem =
        problem_of(*find(plan_of(stranger, br, 32), "causal, heads that share keys"));
    CHECK(br % (problem.heads / problem.heads_kv) != 0);
  }
}

TEST_CASE("locate's plan: a head begins in a tile of rows, and sees less than those before") {
  for (const int br : {16, 32, 64, 128}) {
    const Problem problem = problem_of(
        *find(plan_of("splitk", br, 32, true), "groups of heads that need several tiles"));
    const std::int64_t rows = problem.heads / problem.heads_kv * problem.len_q;
    const std::int64_t next = (br + problem.len_q - 1) / problem.len_q * problem.len_q;
    CHECK((problem.causal && br < next && next < rows));
    // The last key of a tile.
    CHECK((problem.visible_keys(0) % 32 == 31 && problem.visible_keys(1) % 32 == 0));
  }
}

TEST_CASE("locate's plan: other tiles of a persistent kernel go through several items, too") {
  constexpr int blocks = 12;
  const std::vector<Probe> probes = plan_of("wgmma", 128, 128, false, blocks);
  int tiles = 0;
  for (const Probe& probe : probes) {
    if (!probe.about.starts_with("several items per block, tiles of ")) continue;
    ++tiles;
    CHECK(probe.checked);
    CHECK(problem_of(probe).heads > 2 * blocks);
    CHECK(probe.options.tile_shape != "128x128");
  }
  CHECK(tiles >= 2);
}

TEST_CASE("locate's plan: a split that no lane has by itself at first is far above the others") {
  const std::vector<Probe> probes = plan_of("splitk", 16, 32, true);
  const bool is_steep = std::ranges::any_of(probes, [](const Probe& probe) {
    return probe.options.splits.value_or(1) > 32 && probe.options.input == "steep";
  });
  CHECK(is_steep);
}

TEST_CASE("locate's plan: several heads with several tiles of queries, whole ones, too") {
  for (const int br : {16, 64}) {
    const std::vector<Probe> probes = plan_of(stranger, br, 32);
    const Probe& probe = *find(probes, "several heads, ragged, many tiles");
    for (const bool square : {false, true}) {
      CHECK(has_other(probe, [&](const Problem& p) {
        return p.heads > 1 && p.len_q > br && p.len_q % br == 0 && p.len_kv % 32 == 0 &&
               (p.len_q == p.len_kv) == square;
      }));
    }
  }
}

TEST_CASE("locate's plan: lengths that are whole in tiles of another size") {
  const Problem problem = problem_of(*find(plan_of(stranger, 32, 64), "a tile and a half"));
  CHECK((problem.len_kv % 32 == 0 && problem.len_kv % 64 != 0));
  CHECK((problem.len_q % 16 == 0 && problem.len_q % 32 != 0));
  // Tables of rows, of batches that fill none of them.
  const std::vector<Probe> probes = plan_of(stranger, 16, 64);
  const Probe& ragged = *find(probes, "several heads, ragged, many tiles");
  CHECK(problem_of(ragged).batch > 1);
  CHECK(has_other(
      ragged, [](const Problem& p) { return p.batch > 1 && p.len_q == 1 && p.len_kv % 16 != 0; }));
}

TEST_CASE("locate's plan: each head dimension, and the shortest rings of tiles") {
  const auto plan_of_wgmma = [] {
    RunOptions given;
    given.kernel = "wgmma";
    return plan(given, 128, 128, 64, false, true);
  };
  const std::vector<Probe> probes = plan_of_wgmma();
  for (const int d : {128, 256}) {
    const Probe* const wide = find(probes, "a head dimension of " + std::to_string(d));
    REQUIRE(wide);
    CHECK(problem_of(*wide).d == d);
  }
  RunOptions scalar;
  scalar.kernel = "scalar";
  const std::vector<Probe> narrow = plan(scalar, 64, 64, 64, false, false);
  CHECK(find(narrow, "a head dimension of 4"));
  const Probe* const widest = find(probes, "inputs of e4m3, a head dimension of 256");
  REQUIRE(widest);
  CHECK((widest->checked && widest->options.dtype == "e4m3"));
  CHECK(problem_of(*widest).len_kv >= 6 * 128);
}

TEST_CASE("locate's plan: blocks come to places for two items for the third time, in each type") {
  constexpr int blocks = 16;
  RunOptions given;
  given.kernel = "wgmma";
  const std::vector<Probe> probes = plan(given, 128, 128, 64, false, blocks);
  const Probe* const few = find(probes, "several items per block, of few rows, inputs of e4m3");
  REQUIRE(few);
  CHECK((few->checked && few->options.dtype == "e4m3"));
  const Problem problem = problem_of(*few);
  CHECK(problem.heads >= 5 * blocks);
  CHECK(problem.len_q < 128);
}

TEST_CASE("locate's plan: each type has a causal problem that fills no tile") {
  const std::vector<Probe> probes = plan_of("wgmma", 128, 128);
  for (const std::string type : {"bf16", "e4m3"}) {
    const Probe* const probe = find(probes, "inputs of " + type + ", causal, ragged");
    REQUIRE(probe);
    const Problem problem = problem_of(*probe);
    CHECK((problem.causal && problem.len_q % 128 != 0 && problem.len_kv % 128 != 0));
    CHECK((problem.batch > 1 && problem.heads > problem.heads_kv));
  }
}

TEST_CASE("locate's plan: a diagonal that begins within a tile, of more rows than any block has") {
  for (const int bc : {32, 64, 128}) {
    const std::vector<Probe> probes = plan_of(stranger, 64, bc);
    const Probe* const probe =
        find(probes, "causal, rows of several blocks, from no multiple of a tile on");
    REQUIRE(probe);
    const Problem problem = problem_of(*probe);
    CHECK((problem.causal && problem.len_q > 256));
    CHECK((problem.len_kv - problem.len_q) % bc != 0);
  }
}

TEST_CASE("locate's plan: each type meets each head dimension, and tiles that have others") {
  const auto modules = [](const std::string& kernel, int br, int bc, const std::string& dtype) {
    RunOptions given;
    given.kernel = kernel;
    given.backend = "sim";
    given.dtype = dtype;
    return modules_of(plan(given, br, bc, 64, kernel == "splitk", 0));
  };
  const auto has = [](const std::vector<std::string>& all, const std::string& name) {
    return std::ranges::find(all, name) != all.end();
  };
  const std::vector<std::string> wgmma = modules("wgmma", 128, 128, "");
  for (const std::string type : {"f16", "bf16", "e4m3"}) {
    for (const std::string width : {"d64", "d128", "d256"}) {
      INFO(type << " " << width);
      CHECK(std::ranges::any_of(wgmma, [&](const std::string& name) {
        return name.find("." + type + "." + width + ".") != std::string::npos;
      }));
    }
  }
  CHECK(has(wgmma, "wgmma.fused.bf16.d128.128x192.sim"));
  CHECK(has(modules("splitk", 16, 32, ""), "splitk.fused.bf16.d128.64x64.sim"));
  // Who asks for a type has no other.
  CHECK_FALSE(has(modules("splitk", 16, 32, "f16"), "splitk.fused.bf16.d128.64x64.sim"));
}

TEST_CASE("locate's plan: the last row of a block sees the first key of a tile, and no more") {
  for (const int br : {8, 16, 64, 128}) {
    for (const int bc : {16, 32, 64, 128}) {
      const Problem problem = problem_of(*find(
          plan_of(stranger, br, bc), "causal, a diagonal that ends with the first key of a tile"));
      CHECK(problem.len_q == br);
      CHECK(problem.visible_keys(br - 1) % bc == 1);
      CHECK(problem.visible_keys(br - 1) > bc);
    }
  }
}

TEST_CASE("locate's plan: inputs with scales have several heads that share keys, of each its own") {
  const std::vector<Probe> probes = plan_of("wgmma", 128, 128);
  const Probe* const probe = find(probes, "inputs of e4m3");
  REQUIRE(probe);
  const Problem problem = problem_of(*probe);
  CHECK((problem.batch > 1 && problem.heads_kv > 1 && problem.heads > problem.heads_kv));
}

TEST_CASE("locate's plan: tiles of few rows get more of them, and fewer where that is refused") {
  for (const char* const about :
       {"a single tile", "several tiles", "the maximum rises in every tile"}) {
    const std::vector<Probe> few = plan_of(stranger, 1, 32), usual = plan_of(stranger, 64, 32);
    const Probe *small = find(few, about), *large = find(usual, about);
    REQUIRE(small);
    REQUIRE(large);
    CHECK(problem_of(*small).len_q == 16);
    CHECK(problem_of(*large).len_q == 64);
    REQUIRE_FALSE(small->other_shapes.empty());
    CHECK(parse_shape("", small->other_shapes[0], false).len_q == 1);
    // Kernels that take no other number of keys than of queries.
    const Problem square = parse_shape("", small->other_shapes.back(), false);
    CHECK(square.len_q == square.len_kv);
  }
  const std::vector<Probe> few = plan_of(stranger, 4, 32);
  const Probe* const large = find(few, "large scores");
  REQUIRE(large);
  CHECK(large->options.input == "large");
  CHECK(problem_of(*large).len_q == 64);
}

TEST_CASE("locate's plan: heads of Q are as far apart as rows, those of K as keys") {
  for (const int bc : {16, 32, 64}) {
    const std::vector<Probe> probes = plan_of(stranger, 32, bc);
    const Probe* const probe = find(probes, "several heads");
    REQUIRE(probe);
    const Problem problem = problem_of(*probe);
    CHECK(problem.len_q != problem.len_kv);
    CHECK(problem.heads * problem.len_q != problem.heads_kv * problem.len_kv);
    CHECK(problem.batch > 1);
    CHECK(problem.heads_kv > 1);
    CHECK(problem.heads > problem.heads_kv);
    CHECK(probe->checked);
    // A kernel may refuse heads that share keys, or other numbers of keys than of queries.
    const auto holds = [&](const auto& what) {
      return std::ranges::any_of(probe->other_shapes, [&](const std::string& shape) {
        return what(parse_shape("", shape, false));
      });
    };
    CHECK(holds([](const Problem& p) { return p.heads == p.heads_kv && p.heads > 1; }));
    CHECK(holds([](const Problem& p) { return p.len_q == p.len_kv && p.heads > p.heads_kv; }));
  }
}

TEST_CASE("locate's plan: rows that see no key, of a tile or at all") {
  const std::vector<Probe> probes = plan_of(stranger, 32, 32);
  for (const char* const about :
       {"causal, rows that see no key", "causal, rows that see no key of a tile that others see"}) {
    const Probe* const probe = find(probes, about);
    REQUIRE(probe);
    CHECK(problem_of(*probe).visible_keys(0) == 0);
  }
  // A block without keys passes other barriers.
  CHECK(find(probes, "causal, rows that see no key")->checked);
  // So does one in which a maximum rises by much.
  CHECK(find(probes, "large scores")->checked);
  CHECK(find(probes, "scores far below 0")->options.input == "low");
}

TEST_CASE("locate's plan: problems of kernels of which nothing is known") {
  const std::vector<Probe> own = plan_of("mma", 64, 64);
  for (const int br : {4, 16, 64}) {
    for (const int bc : {16, 64, 96}) {
      const std::vector<Probe> probes = plan_of(stranger, br, bc);
      // A tile of queries that sees no key, and others that do, of several heads.
      const Probe* const keyless = find(probes, "several heads, causal, rows that see no key");
      REQUIRE(keyless);
      CHECK((problem_of(*keyless).heads > 3 && problem_of(*keyless).visible_keys(br - 1) == 0));
      CHECK_FALSE(find(own, keyless->about));
      // As many splits as there are ranges of 64 keys leave the last key to none.
      for (const int ranges : {3, 6}) {
        const Probe* const uneven =
            find(probes, std::to_string(ranges) + " ranges of keys, and one key more");
        REQUIRE(uneven);
        CHECK(problem_of(*uneven).len_kv == 64 * ranges + 1);
        CHECK(has_other(*uneven, [](const Problem& p) { return p.len_q == 1; }));
      }
      // Many parts, of which later ones count for more.
      const Probe* const rising =
          find(probes, "one query, more tiles than a warp has lanes, the maximum rises");
      REQUIRE(rising);
      CHECK(rising->options.input == "rising");
      CHECK(has_other(*rising, [](const Problem& p) { return p.len_kv % 64 == 0; }));
      // Several batches and heads of keys, also of few queries, and of one.
      for (const bool one : {false, true}) {
        CHECK(has_other(*find(probes, "several heads"), [&](const Problem& p) {
          const bool few = one ? p.len_q == 1 : p.len_q > 1 && 4 * p.len_q <= std::max(br, 8);
          return few && p.batch > 1 && p.heads_kv > 1 && p.heads > p.heads_kv;
        }));
      }
    }
  }
}

TEST_CASE("locate's plan: a key far above all others is for kernels of which nothing is known") {
  const std::vector<Probe> own = plan_of("mma", 64, 64), theirs = plan_of(stranger, 64, 64);
  for (const auto* probes : {&own, &theirs}) {
    REQUIRE(find(*probes, "the maximum rises steeply"));
    CHECK(find(*probes, "the maximum rises steeply")->options.input == "steep");
  }
  CHECK_FALSE(find(own, "a key far above all others"));
  REQUIRE(find(theirs, "a key far above all others"));
  CHECK(find(theirs, "a key far above all others")->options.input == "lone");
}

TEST_CASE("locate's plan: what several heads leave each other, and no number of splits divides") {
  for (const int bc : {32, 64}) {
    const std::vector<Probe> probes = plan_of(stranger, 64, bc);
    const Probe* const together = find(probes, "several heads, ragged, many tiles");
    REQUIRE(together);
    const Problem problem = problem_of(*together);
    CHECK(together->checked);
    CHECK((problem.heads == 2 && problem.len_q % 64 != 0 && problem.len_kv % bc == 1));
    CHECK(problem.len_kv > 6 * bc);
    const auto decodes = [](const Problem& p) { return p.len_q == 1 && p.heads == 8; };
    CHECK(has_other(*together, decodes));
    CHECK(has_other(*together, [&](const Problem& p) { return decodes(p) && p.heads_kv == 1; }));
    CHECK(has_other(*find(probes, "a single tile"), decodes));
    // One key more than 2, 4, 8 or 16 splits have alike.
    CHECK(problem_of(*find(probes, "one query, more tiles than a warp has lanes")).len_kv %
              (16 * bc) ==
          1);
    CHECK((problem_of(*find(probes, "more tiles than rings of buffers hold")).len_kv + bc - 1) /
              bc ==
          11);
    const Probe* const steep = find(probes, "the maximum rises steeply");
    CHECK(problem_of(*steep).len_kv == 5 * bc + 1);
    CHECK(has_other(*steep, [=](const Problem& p) { return p.len_q > 1 && p.len_kv == 5 * bc; }));
  }
}

TEST_CASE("locate's plan: tiles behind the diagonal that a ring of buffers does not hold") {
  for (const auto& [bc, stages] : {std::pair{16, 4}, {64, 4}, {128, 2}}) {
    for (const int br : {16, 64, 128}) {
      const std::vector<Probe> probes = plan_of(stranger, br, bc);
      const Probe* const ends =
          find(probes, "causal, more tiles behind the diagonal than rings of buffers hold");
      REQUIRE(ends);
      const Problem problem = problem_of(*ends);
      CHECK((problem.causal && problem.len_q == problem.len_kv));
      // Those that the first block's last row does not see.
      CHECK((problem.len_kv - br) / bc > stages);
    }
  }
}

TEST_CASE("locate's plan: fewer keys than a tile") {
  for (const int bc : {8, 16, 32, 64, 128}) {
    const std::vector<Probe> probes = plan_of(stranger, 64, bc);
    const Probe* const probe = find(probes, "fewer keys than a tile");
    REQUIRE(probe);
    CHECK(problem_of(*probe).len_kv < bc);
    CHECK(probe->checked);
    CHECK_FALSE(has_other(*probe, [&](const Problem& p) { return p.len_kv >= bc; }));
    for (const int multiple : {8, 16}) {
      const auto is_square = [&](const Problem& p) {
        return p.len_q == multiple && p.len_kv == multiple;
      };
      CHECK(has_other(*probe, is_square) == (multiple < bc));
    }
  }
  // A tile of few has none.
  CHECK_FALSE(find(plan_of(stranger, 64, 4), "fewer keys than a tile"));
}

TEST_CASE("locate's plan: kernels that take a key at a time have loops over more") {
  const std::vector<Probe> probes = plan_of(stranger, 1, 1);
  CHECK(problem_of(*find(probes, "several tiles")).len_kv >= 192);
  CHECK(problem_of(*find(probes, "more tiles than rings of buffers hold")).len_kv > 512);
}

TEST_CASE("locate's plan: tails of kernels that take multiples of less than their tiles") {
  for (const int side : {32, 64, 128}) {
    const std::vector<Probe> probes = plan_of(stranger, side, side);
    for (const char* const about : {"a ragged tail", "causal, ragged, several tiles"}) {
      const Probe* const probe = find(probes, about);
      REQUIRE(probe);
      CHECK(probe->checked);
      for (const int multiple : {1, 8, 16}) {
        INFO(about << ", tiles of " << side << ", multiples of " << multiple);
        CHECK(has_other(*probe, [&](const Problem& p) {
          return p.len_q == p.len_kv && p.len_kv % multiple == 0 && p.len_kv % side != 0;
        }));
      }
    }
    // What has no tail is none.
    const auto is_whole = [&](const Problem& p) { return p.len_kv % side == 0; };
    CHECK_FALSE(has_other(*find(probes, "a ragged tail"), is_whole));
  }
}

TEST_CASE("locate's plan: kernels that take few queries, or one, get problems of their own") {
  for (const int br : {4, 16, 64}) {
    const std::vector<Probe> probes = plan_of(stranger, br, 32);
    for (const char* const about :
         {"several heads", "a ragged tail", "fewer keys than a tile", "causal",
          "causal, ragged, several tiles", "causal, fewer queries than keys"}) {
      INFO(about << ", tiles of " << br);
      const Probe* const probe = find(probes, about);
      REQUIRE(probe);
      const Problem asked = problem_of(*probe);
      const auto takes = [&](const auto& queries) {
        return has_other(*probe, [&](const Problem& p) {
          return p.heads == asked.heads && p.causal == asked.causal && queries(p.len_q);
        });
      };
      // One query sees all keys: of a mask it tells nothing.
      CHECK(takes([](std::int64_t queries) { return queries == 1; }) == !asked.causal);
      CHECK(takes([&](std::int64_t queries) { return queries > 1 && queries <= 2 * br; }));
    }
    // One batch alone, heads that share keys and heads that do not.
    const Probe& heads = *find(probes, "several heads");
    for (const std::int64_t heads_kv : {3, 6}) {
      CHECK(has_other(heads, [&](const Problem& p) {
        return p.batch == 1 && p.len_q == 1 && p.heads == 6 && p.heads_kv == heads_kv;
      }));
    }
    // The tail is one still.
    const auto of_one = [](const Problem& p) { return p.len_q == 1 && p.len_kv % 32 != 0; };
    CHECK(has_other(*find(probes, "a ragged tail"), of_one));
    const auto of_few = [](const Problem& p) { return p.len_q < p.len_kv && p.len_kv % 32 != 0; };
    CHECK(has_other(*find(probes, "causal, ragged, several tiles"), of_few));
  }
}

TEST_CASE("locate's plan: rising scores in every type, and from split to split") {
  const std::vector<Probe> probes = plan_of("splitk", 16, 32, true);
  const Probe* const types = find(probes, "inputs of bf16, the maximum rises in every tile");
  REQUIRE(types);
  CHECK((types->options.dtype == "bf16" && types->options.input == "rising"));
  const Probe* const splits = find(probes, "splits that are far above those before");
  REQUIRE(splits);
  CHECK((splits->options.splits == 9 && splits->options.input == "steep"));
  CHECK(problem_of(*splits).len_kv == 9 * 32);
}

}  // namespace
}  // namespace lanescope
