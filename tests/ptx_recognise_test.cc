// Numbers that are recognised on a kernel's way, and what follows from them.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "debug/ptx/recognise.h"
#include "gates/process/shared_file.h"
#include "gates/run/known_numbers.h"
#include "gates/run/sightings.h"
#include "reference/inputs.h"
#include "tests/support/catch.h"
#include "tests/support/ptx_kernel.h"

using namespace lanescope;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr std::size_t lanes = 32;

/// What look_out writes of a warp that runs `body`: %f1 is the lane's number of the input, %rd1
/// where its number of the output lies. Looked for are the squares of the input.
std::string seen(const std::string& body, double relative = 1e-6) {
  PtxKernel kernel(
      ptx_module(".reg .f32 %f<8>; .reg .b32 %r<4>; .reg .b64 %rd<8>;\n"
                 "mov.u32 %r0, %tid.x; ld.param.u64 %rd0, [p0]; ld.param.u64 %rd3, [p1];\n"
                 "mul.wide.u32 %rd2, %r0, 4; add.s64 %rd1, %rd0, %rd2; add.s64 %rd4, %rd3, %rd2;\n"
                 "ld.global.f32 %f1, [%rd4];\n" +
                     body + "ret;",
                 2));
  std::vector<float> out(lanes), in(lanes);
  ptx::Lookout lookout;
  ptx::KnownKind& squares = lookout.kinds.emplace_back();
  squares.elements = lanes;
  squares.relative = relative;
  for (std::size_t i = 0; i < lanes; ++i) {
    in[i] = std::cbrt(50.3f + static_cast<float>(i));
    squares.numbers.push_back({in[i] * in[i], static_cast<std::uint32_t>(i)});
  }
  const auto rows_of = [](const std::vector<float>& array, std::size_t in_row) {
    return ptx::KnownRows{reinterpret_cast<const std::byte*>(array.data()),
                          array.size() * sizeof(float), in_row * sizeof(float)};
  };
  lookout.rows[2] = rows_of(in, 8);
  lookout.rows[3] = rows_of(out, 4);
  const SharedFile file("lookout");
  lookout.file = file.number();
  kernel.use(out, out.data());
  kernel.use(in, in.data());
  kernel.grid.lookout = &lookout;
  ptx::History history;
  kernel.grid.history = &history;
  history.begin_launch({std::shared_ptr<void>(), &kernel.program()});
  kernel.run({address(out.data()), address(in.data())});
  std::ostringstream text;
  text << std::ifstream(file.path()).rdbuf();
  return text.str();
}

Sightings::Part part(std::int64_t seen, std::int64_t needed, std::int64_t least) {
  return {needed, seen, {"x.cu:1"}, least};
}

}  // namespace

TEST_CASE("recognise: which instruction made which known numbers, and rows read and written") {
  const std::string all = seen("mul.f32 %f2, %f1, %f1;\nst.global.f32 [%rd1], %f2;\n");
  INFO(all);
  CHECK_THAT(all, ContainsSubstring("\nkind 0 ffffffff\n"));
  CHECK_THAT(all, ContainsSubstring("\nline 0 32 test.ptx:"));
  CHECK_THAT(all, ContainsSubstring("block 0 0 0 f ff\n"));
  // Lanes below 16 alone; they store nothing.
  const std::string half = seen(
      ".reg .pred %p1; setp.lt.u32 %p1, %r0, 16;\n"
      "@%p1 mul.f32 %f2, %f1, %f1;\n");
  INFO(half);
  CHECK_THAT(half, ContainsSubstring("\nkind 0 ffff\n"));
  CHECK_THAT(half, ContainsSubstring("block 0 0 0 f 0\n"));
}

TEST_CASE("recognise: what is a little off is not known, and what is known by chance is not made") {
  const std::string off =
      seen("mul.f32 %f2, %f1, %f1;\nmul.f32 %f2, %f2, 0f3F800100;\n");  // 1 + 2^-15
  CHECK_THAT(off, ContainsSubstring("\nkind 0 ffffffff\n"));
  CHECK_THAT(off, !ContainsSubstring("test.ptx:10"));
  const std::string late = seen("mul.f32 %f2, %f1, 0f3F800100;\nmul.f32 %f3, %f2, %f1;\n");
  CHECK_THAT(late, ContainsSubstring("\nkind 0 0\n"));
  // With a width of a tenth, numbers a little off are known as often as the right ones.
  CHECK_THAT(seen("mul.f32 %f2, %f1, %f1;\n", 0.1), ContainsSubstring("\nkind 0 0\n"));
}

TEST_CASE("recognise: weights relative to the maximum of any tiles are known") {
  Problem problem;
  problem.len_q = 3;
  problem.len_kv = 37;
  problem.d = 16;
  problem.causal = true;
  const Inputs inputs = generate_inputs(problem, ElementType::f16, "random", 1);
  const ptx::Lookout lookout = lookout_for(problem, inputs);
  const auto& weights = lookout.kinds[static_cast<std::size_t>(Known::weights)];
  const auto is_known = [&](double value, std::uint32_t element) {
    for (const ptx::KnownNumber& number : weights.numbers) {
      if (number.element == element && std::abs(number.value - value) <= weights.relative * value) {
        return true;
      }
    }
    return value == 1;  // many numbers are: it is none of them
  };
  const auto any_known = [&](std::uint32_t element) {
    return std::any_of(weights.numbers.begin(), weights.numbers.end(),
                       [&](const ptx::KnownNumber& number) { return number.element == element; });
  };
  std::int64_t compared = 0;
  for (std::int64_t row = 0; row < problem.len_q; ++row) {
    std::vector<double> scores;
    for (std::int64_t key = 0; key < problem.visible_keys(row); ++key) {
      double score = 0;
      for (std::int64_t i = 0; i < problem.d; ++i) {
        score += inputs.q.at(row * problem.d + i) * inputs.k.at(key * problem.d + i);
      }
      scores.push_back(score / 4);
    }
    // Keys from `begin` on before `end`, whatever they are.
    for (std::size_t begin = 0; begin < scores.size(); ++begin) {
      double maximum = scores[begin];
      for (std::size_t end = begin; end < scores.size(); ++end) {
        maximum = std::max(maximum, scores[end]);
        for (std::size_t key = begin; key <= end; ++key) {
          const auto element = static_cast<std::uint32_t>(row * problem.len_kv + std::int64_t(key));
          if (!any_known(element)) continue;
          ++compared;
          CHECK(is_known(std::exp(scores[key] - maximum), element));
        }
      }
    }
    for (const ptx::KnownNumber& number : weights.numbers) {
      const std::int64_t key = number.element - row * problem.len_kv;
      if (key < 0 || key >= problem.len_kv) continue;
      CHECK(key < problem.visible_keys(row));
    }
  }
  CHECK(compared > 10000);
  problem.len_q = problem.len_kv = 4096;
  CHECK_FALSE(may_be_looked_for(problem, 1 << 21));
}

TEST_CASE("sightings: the first kind that wrong rows lack has the stage") {
  Sightings s;
  CHECK(s.allows(Stage::qk));
  CHECK(s.stage() == std::nullopt);
  s.scores = part(100, 4096, 32);  // by chance
  CHECK(s.stage() == std::nullopt);
  s.weights = part(0, 4096, 32);
  CHECK(s.stage() == Stage::qk);
  s.weights = {};
  s.scores = part(1000, 4096, 32);
  CHECK(s.stage() == Stage::qk);
  CHECK_FALSE(s.allows(Stage::pv));
  s.keys = 128;
  s.unread_k = 64;
  CHECK(s.stage() == Stage::load);
  s.unread_k = 0;
  s.scores = part(4096, 4096, 32);
  s.weights = part(2048, 4096, 32);
  CHECK(s.stage() == Stage::softmax);
  CHECK(s.allows(Stage::qk));  // a mask leaves scores as they are
  CHECK_FALSE(s.allows(Stage::epilogue));
  s.weights = part(4096, 4096, 32);
  CHECK(s.stage() == std::nullopt);
  s.sums = part(16, 64, 4);
  CHECK(s.stage() == Stage::softmax);
  CHECK(s.allows(Stage::combine));
  CHECK_FALSE(s.allows(Stage::pv));
  s.sums = part(64, 64, 4);
  CHECK(s.stage() == Stage::pv);
  CHECK(s.allows(Stage::epilogue));
  CHECK_FALSE(s.allows(Stage::qk));
  s.unread_v = 16;  // few
  CHECK(s.stage() == Stage::pv);
  s.unread_v = 33;
  CHECK(s.stage() == Stage::load);
  s.unread_v = 0;
  s.outputs = part(2048, 2048, 32);
  CHECK(s.stage() == Stage::epilogue);
  CHECK_FALSE(s.allows(Stage::softmax));
  s.sums = part(16, 64, 4);  // keys too many, with no V
  CHECK(s.stage() == Stage::softmax);
  CHECK(s.allows(Stage::qk));
  CHECK_FALSE(s.allows(Stage::pv));
  s.outputs = {};
  s.sums = {};
  s.lacks_sums = true;
  CHECK(s.stage() == Stage::softmax);
  CHECK_FALSE(s.allows(Stage::epilogue));
  s.combines = true;
  CHECK(s.stage() == Stage::combine);
  s.lacks_sums = false;
  s.scores = part(4096, 4096, 32);
  s.weights = s.outputs = {};
  s.sums = part(0, 64, 4);
  CHECK(s.stage() == Stage::combine);
  s.combines = false;
  CHECK(s.stage() == Stage::softmax);
  s.sums = part(64, 64, 4);
  CHECK(s.stage() == Stage::pv);
  s.scores = part(2, 31, 32);  // too few to tell
  s.sums = {};
  CHECK(s.stage() == std::nullopt);
  s.log_sums = true;  // O alone is wrong
  CHECK(s.stage() == Stage::pv);
  CHECK_FALSE(s.allows(Stage::qk));
}
