#include "debug/input_file.h"

#include <cmath>
#include <map>

#include "debug/safetensors.h"
#include "tests/catch.h"
#include "tests/files.h"

namespace lanescope {
namespace {

using Catch::Matchers::ContainsSubstring;
using testing::data_file;
using testing::TemporaryFolder;
using testing::usage_error;
using Dims = std::vector<std::int64_t>;

/// What tests/data/make_input_files.py puts at index `i` of [batch, heads, length, d].
double expected(std::int64_t i, int seed) {
  return static_cast<double>((i * 37 + seed * 11) % 251 - 125) / 16;
}

void check_values(const Tensor& tensor, int seed, std::int64_t from = 0) {
  std::int64_t wrong = 0;
  for (std::int64_t i = from; i < tensor.size(); ++i) wrong += tensor.at(i) != expected(i, seed);
  CHECK(wrong == 0);
}

/// A file with zeros of the given types and shapes, in the order of their names.
class File {
 public:
  explicit File(std::map<std::string, std::pair<std::string, Dims>> tensors) {
    std::vector<SafetensorsEntry> entries;
    for (const auto& [name, tensor] : tensors) {
      const auto& [dtype, dims] = tensor;
      std::size_t bytes = dtype == "F32" ? 4 : 2;
      for (const std::int64_t dim : dims) bytes *= static_cast<std::size_t>(dim);
      entries.push_back({name, dtype, dims, std::span(zeros_).first(bytes)});
    }
    write_safetensors(folder_ / "in.safetensors", entries, {});
  }

  InputFile read(Layout layout = Layout::bhsd, std::optional<ElementType> dtype = {}) const {
    return read_input_file(folder_ / "in.safetensors", layout, dtype, false);
  }
  std::string error() const {
    return usage_error([&] { read(); });
  }

 private:
  TemporaryFolder folder_;
  std::vector<std::byte> zeros_ = std::vector<std::byte>(1 << 16);
};

std::string shape_error(const Dims& q, const Dims& k, const Dims& v) {
  return File({{"q", {"F16", q}}, {"k", {"F16", k}}, {"v", {"F16", v}}}).error();
}

TEST_CASE("input file: numpy's f16 and bf16 are read as they are") {
  const auto [name, type] = GENERATE(std::pair("inputs_f16_bhsd.safetensors", ElementType::f16),
                                     std::pair("inputs_bf16_bhsd.safetensors", ElementType::bf16));
  const InputFile file = read_input_file(data_file(name), Layout::bhsd, {}, true);
  CHECK(
      file.problem ==
      Problem{
          .batch = 2, .heads = 4, .heads_kv = 2, .len_q = 5, .len_kv = 7, .d = 8, .causal = true});
  CHECK(file.inputs.type() == type);
  CHECK(file.inputs.q.dims == Dims{2, 4, 5, 8});
  CHECK(file.inputs.v.dims == Dims{2, 2, 7, 8});
  CHECK(file.warnings.empty());
  if (type == ElementType::bf16) {
    CHECK(file.inputs.k.at(0) == expected(0, 2));
  } else {
    check_values(file.inputs.q, 1);
    check_values(file.inputs.k, 2);
    check_values(file.inputs.v, 3);
  }
}

TEST_CASE("input file: the length may come before the heads") {
  const auto a = read_input_file(data_file("inputs_f16_bhsd.safetensors"), Layout::bhsd, {}, false);
  const auto b = read_input_file(data_file("inputs_f16_bshd.safetensors"), Layout::bshd, {}, false);
  CHECK(a.problem == b.problem);
  CHECK(a.inputs.q.bytes == b.inputs.q.bytes);
  CHECK(a.inputs.k.bytes == b.inputs.k.bytes);
  CHECK(a.inputs.v.bytes == b.inputs.v.bytes);
}

TEST_CASE("input file: f32 is rounded, and what that cost is told") {
  const auto path = data_file("inputs_f32_bhsd.safetensors");
  const InputFile half = read_input_file(path, Layout::bhsd, {}, false);
  CHECK(half.inputs.type() == ElementType::f16);
  CHECK(half.inputs.q.at(0) == 1.0);
  CHECK(half.inputs.q.at(1) == INFINITY);
  CHECK(half.inputs.q.at(2) == -INFINITY);
  CHECK(std::isnan(half.inputs.q.at(3)));
  CHECK(half.inputs.q.at(4) == INFINITY);
  CHECK(half.inputs.q.at(5) == 0);
  check_values(half.inputs.q, 1, 6);
  check_values(half.inputs.v, 3);
  CHECK(half.warnings ==
        std::vector<std::string>{
            "q of the file holds 1 NaN and 1 inf",
            "q was rounded from f32 to f16: 4 of 320 values changed, 2 overflowed to inf",
            "k was rounded from f32 to f16: 0 of 224 values changed, 0 overflowed to inf",
            "v was rounded from f32 to f16: 0 of 224 values changed, 0 overflowed to inf"});

  const InputFile bfloat = read_input_file(path, Layout::bhsd, ElementType::bf16, false);
  CHECK(bfloat.inputs.type() == ElementType::bf16);
  CHECK(bfloat.inputs.q.at(1) == 999424);
  CHECK_THAT(bfloat.warnings[1], ContainsSubstring("values changed, 0 overflowed to inf"));
}

TEST_CASE("input file: f16 becomes bf16 only where that is asked for") {
  const auto path = data_file("inputs_f16_bhsd.safetensors");
  CHECK(read_input_file(path, Layout::bhsd, ElementType::f16, false).warnings.empty());
  const InputFile file = read_input_file(path, Layout::bhsd, ElementType::bf16, false);
  CHECK(file.inputs.type() == ElementType::bf16);
  CHECK_THAT(file.warnings.at(0), ContainsSubstring("q was rounded from f16 to bf16"));
  CHECK_THAT(usage_error([&] { read_input_file(path, Layout::bhsd, ElementType::e4m3, false); }),
             ContainsSubstring("--dtype e4m3: inputs from a file can be f16 or bf16"));
}

TEST_CASE("input file: tensors that cannot be used are named") {
  CHECK_THAT(usage_error([] {
               read_input_file(data_file("inputs_f64.safetensors"), Layout::bhsd, {}, false);
             }),
             ContainsSubstring("inputs_f64.safetensors: tensor 'q' has dtype F64; F16, BF16 or "
                               "F32 is needed"));
  const Dims dims = {1, 2, 3, 4};
  CHECK_THAT(File({}).error(), ContainsSubstring("no tensor 'q'; q, k and v are needed, and it has "
                                                 "none"));
  CHECK_THAT(File({{"Q", {"F16", dims}}, {"query", {"F16", dims}}}).error(),
             ContainsSubstring("q, k and v are needed, and it has 'Q', 'query'"));
  CHECK_THAT(File({{"q", {"F16", dims}}, {"k", {"F16", dims}}}).error(),
             ContainsSubstring("there is no tensor 'v'"));
  CHECK_THAT(File({{"q", {"F16", dims}}, {"k", {"BF16", dims}}, {"v", {"F16", dims}}}).error(),
             ContainsSubstring("q, k and v have different dtypes: F16, BF16 and F16"));
}

TEST_CASE("input file: shapes that make no attention are refused") {
  const Dims dims = {1, 2, 3, 4};
  CHECK(shape_error(dims, dims, dims) == "");
  CHECK(shape_error({1, 6, 3, 4}, {1, 3, 9, 4}, {1, 3, 9, 4}) == "");
  CHECK_THAT(shape_error({2, 3, 4}, dims, dims),
             ContainsSubstring("tensor 'q' has 3 dimensions; four are needed, [batch, heads, "));
  CHECK_THAT(shape_error(dims, {1, 2, 0, 4}, dims), ContainsSubstring("tensor 'k' is empty"));
  CHECK_THAT(shape_error({2, 2, 3, 4}, dims, dims),
             ContainsSubstring("q and k differ in their batch: 2 and 1"));
  CHECK_THAT(shape_error(dims, dims, {1, 1, 3, 4}),
             ContainsSubstring("k and v differ in their number of heads: 2 and 1"));
  CHECK_THAT(shape_error(dims, dims, {1, 2, 5, 4}),
             ContainsSubstring("k and v differ in their length: 3 and 5"));
  CHECK_THAT(shape_error({1, 2, 3, 8}, dims, dims), ContainsSubstring("q and k differ in d"));
  CHECK_THAT(shape_error(dims, dims, {1, 2, 3, 8}), ContainsSubstring("k and v differ in d"));
  CHECK_THAT(shape_error({1, 3, 3, 4}, dims, dims),
             ContainsSubstring("q has 3 heads, which is no multiple of the 2 heads of k and v"));
}

}  // namespace
}  // namespace lanescope
