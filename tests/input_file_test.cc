#include "debug/dump/input_file.h"

#include <cmath>
#include <map>

#include "debug/dump/safetensors.h"
#include "reference/inputs.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"

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
      std::size_t bytes = dtype == "F32" ? 4 : dtype == "F8_E4M3" ? 1 : 2;
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
}

TEST_CASE("input file: any type becomes e4m3 with a scale per head where that is asked for") {
  const auto path = data_file("inputs_f32_bhsd.safetensors");
  const InputFile file = read_input_file(path, Layout::bhsd, ElementType::e4m3, false);
  CHECK(file.inputs.type() == ElementType::e4m3);
  CHECK(file.inputs.q_scale.dims == Dims{2, 4});
  CHECK(file.inputs.v_scale.dims == Dims{2, 2});
  CHECK(std::isnan(file.inputs.q.at(3)));
  CHECK(file.inputs.q.at(4) == 448);
  const double first = file.inputs.k.at(0) * file.inputs.k_scale.at(0);
  CHECK(std::abs(first / expected(0, 2) - 1) <= 0x1p-4);
  CHECK(file.warnings.at(0) == "q of the file holds 1 NaN and 1 inf");
  CHECK_THAT(file.warnings.at(1),
             ContainsSubstring("q was quantised from f32 to e4m3 with a scale per head: ") &&
                 ContainsSubstring(" of 320 values changed, 1 infinities saturated"));
  CHECK(read_input_file(data_file("inputs_f16_bshd.safetensors"), Layout::bshd, ElementType::e4m3,
                        false)
            .inputs.k_scale.bytes == read_input_file(data_file("inputs_f16_bhsd.safetensors"),
                                                     Layout::bhsd, ElementType::e4m3, false)
                                         .inputs.k_scale.bytes);
}

TEST_CASE("input file: e4m3 and its scales are read as they are, or with scales of 1") {
  const Dims dims = {1, 2, 3, 4};
  const std::pair<std::string, Dims> codes{"F8_E4M3", dims}, scales{"F32", {1, 2}};
  const InputFile bare = File({{"q", codes}, {"k", codes}, {"v", codes}}).read();
  CHECK(bare.inputs.type() == ElementType::e4m3);
  CHECK(bare.inputs.q_scale.dims == Dims{1, 2});
  CHECK(bare.inputs.q_scale.at(1) == 1);
  CHECK(bare.warnings ==
        std::vector<std::string>{"there is no tensor 'q_scale' in the file: every scale is 1",
                                 "there is no tensor 'k_scale' in the file: every scale is 1",
                                 "there is no tensor 'v_scale' in the file: every scale is 1"});
  CHECK_THAT(File({{"q", codes}, {"k", codes}, {"v", codes}, {"k_scale", scales}}).error(),
             ContainsSubstring("tensor 'k_scale' holds 0 for batch 0, head 0; a scale is positive "
                               "and finite"));
  CHECK_THAT(File({{"q", codes}, {"k", codes}, {"v", codes}, {"v_scale", {"F32", {2}}}}).error(),
             ContainsSubstring("tensor 'v_scale' is not F32 [batch, heads] = [1, 2]"));
}

TEST_CASE("input file: e4m3 with its scales, written, is read back and becomes f16") {
  const Problem problem{1, 4, 2, 8, 12, 16, false};
  const Inputs inputs = generate_inputs(problem, ElementType::e4m3, "random", 3);
  const TemporaryFolder folder;
  const auto path = folder / "in.safetensors";
  std::vector<SafetensorsEntry> entries;
  const std::pair<const char*, const Tensor*> tensors[] = {{"q", &inputs.q},
                                                           {"k", &inputs.k},
                                                           {"v", &inputs.v},
                                                           {"q_scale", &inputs.q_scale},
                                                           {"k_scale", &inputs.k_scale},
                                                           {"v_scale", &inputs.v_scale}};
  for (const auto& [name, tensor] : tensors) {
    entries.push_back({name, safetensors_name(tensor->type), tensor->dims, tensor->bytes});
  }
  write_safetensors(path, entries, {});
  const InputFile same = read_input_file(path, Layout::bhsd, {}, false);
  CHECK(hash_inputs(same.inputs) == hash_inputs(inputs));
  CHECK(same.warnings.empty());
  const InputFile half = read_input_file(path, Layout::bhsd, ElementType::f16, false);
  CHECK_FALSE(half.inputs.scaled());
  int wrong = 0;
  for (std::int64_t i = 0; i < inputs.k.size(); ++i) {
    const double value = inputs.k.at(i) * inputs.k_scale.at(i / (12 * 16));
    wrong += half.inputs.k.at(i) != value_of(ElementType::f16, round_to(ElementType::f16, value));
  }
  CHECK(wrong == 0);
}

TEST_CASE("input file: tensors that cannot be used are named") {
  CHECK_THAT(usage_error([] {
               read_input_file(data_file("inputs_f64.safetensors"), Layout::bhsd, {}, false);
             }),
             ContainsSubstring("inputs_f64.safetensors: tensor 'q' has dtype F64; F16, BF16, "
                               "F32 or F8_E4M3 is needed"));
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
