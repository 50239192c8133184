#include "debug/dump/input_file.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <utility>

#include "debug/dump/safetensors.h"
#include "debug/text/text.h"
#include "reference/error.h"
#include "reference/inputs.h"
#include "reference/quantise.h"

namespace lanescope {
namespace {

constexpr const char* layout_text(Layout layout) {
  return layout == Layout::bhsd ? "[batch, heads, length, d]" : "[batch, length, heads, d]";
}

/// q, k and v are told from each other by name alone.
class Reader {
 public:
  Reader(const std::filesystem::path& path, Layout layout) : file_(path), layout_(layout) {}

  /// The tensor as [batch, heads, length, d].
  Tensor read(const char* name) const {
    const SafetensorsEntry* entry = file_.find(name);
    if (entry == nullptr) {
      fail("there is no tensor '" + std::string(name) + "'; q, k and v are needed, and it has " +
           names());
    }
    const std::string subject = "tensor '" + std::string(name) + "' ";
    const std::string_view known[] = {"F16", "BF16", "F32", "F8_E4M3"};
    if (std::find(std::begin(known), std::end(known), entry->dtype) == std::end(known)) {
      fail(subject + "has dtype " + printable(entry->dtype, 20) +
           "; F16, BF16, F32 or F8_E4M3 is needed, so convert it first");
    }
    if (entry->dims.size() != 4) {
      fail(subject + "has " + std::to_string(entry->dims.size()) +
           " dimensions; four are needed, " + layout_text(layout_));
    }
    for (const std::int64_t dim : entry->dims) {
      if (dim == 0) fail(subject + "is empty: one of its dimensions is 0");
    }
    const Tensor tensor = file_.tensor(*entry);
    return layout_ == Layout::bhsd ? tensor : heads_first(tensor);
  }

  /// The scales of the heads of `tensor` [batch, heads, length, d], as [batch, heads].
  Tensor read_scales(const std::string& name, const Tensor& tensor,
                     std::vector<std::string>& warnings) const {
    const std::int64_t batch = tensor.dims[0], heads = tensor.dims[1];
    const SafetensorsEntry* entry = file_.find(name);
    if (entry == nullptr) {
      warnings.push_back("there is no tensor '" + name + "' in the file: every scale is 1");
      Tensor ones(ElementType::f32, {batch, heads});
      for (std::int64_t i = 0; i < ones.size(); ++i) ones.set(i, 1);
      return ones;
    }
    const std::string subject = "tensor '" + name + "' ";
    if (entry->dtype != "F32" || entry->dims != std::vector<std::int64_t>{batch, heads}) {
      fail(subject + "is not F32 [batch, heads] = [" + std::to_string(batch) + ", " +
           std::to_string(heads) + "], a scale for each head");
    }
    Tensor scales = file_.tensor(*entry);
    for (std::int64_t i = 0; i < scales.size(); ++i) {
      if (scales.at(i) > 0 && std::isfinite(scales.at(i))) continue;
      fail(subject + "holds " + number_text(scales.at(i), 6) + " for batch " +
           std::to_string(i / heads) + ", head " + std::to_string(i % heads) +
           "; a scale is positive and finite");
    }
    return scales;
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw UsageError(file_.path().string() + ": " + what);
  }

 private:
  std::string names() const {
    std::string text;
    for (const SafetensorsEntry& entry : file_.entries()) {
      text += (text.empty() ? "'" : ", '") + printable(entry.name) + "'";
    }
    return text.empty() ? "none" : clip(text, 300);
  }

  /// [batch, length, heads, d] → [batch, heads, length, d].
  static Tensor heads_first(const Tensor& from) {
    const std::int64_t batch = from.dims[0], length = from.dims[1], heads = from.dims[2];
    const std::int64_t row_bytes = from.dims[3] * size_of(from.type);
    Tensor to(from.type, {batch, heads, length, from.dims[3]});
    for (std::int64_t b = 0; b < batch; ++b) {
      for (std::int64_t h = 0; h < heads; ++h) {
        for (std::int64_t i = 0; i < length; ++i) {
          std::memcpy(to.bytes.data() + ((b * heads + h) * length + i) * row_bytes,
                      from.bytes.data() + ((b * length + i) * heads + h) * row_bytes,
                      static_cast<std::size_t>(row_bytes));
        }
      }
    }
    return to;
  }

  SafetensorsFile file_;
  Layout layout_;
};

/// A problem that fits the inputs.
Problem problem_of(const Inputs& inputs, bool causal, const Reader& reader) {
  const auto &q = inputs.q.dims, &k = inputs.k.dims, &v = inputs.v.dims;
  const auto same = [&](std::int64_t a, std::int64_t b, const std::string& what) {
    if (a != b) reader.fail(what + ": " + std::to_string(a) + " and " + std::to_string(b));
  };
  same(q[0], k[0], "q and k differ in their batch");
  same(k[0], v[0], "k and v differ in their batch");
  same(k[1], v[1], "k and v differ in their number of heads");
  same(k[2], v[2], "k and v differ in their length");
  same(q[3], k[3], "q and k differ in d");
  same(k[3], v[3], "k and v differ in d");
  if (q[1] % k[1] != 0) {
    reader.fail("q has " + std::to_string(q[1]) + " heads, which is no multiple of the " +
                std::to_string(k[1]) +
                " heads of k and v; if these numbers are lengths, give the other layout");
  }
  return {.batch = q[0],
          .heads = q[1],
          .heads_kv = k[1],
          .len_q = q[2],
          .len_kv = k[2],
          .d = q[3],
          .causal = causal};
}

std::string counted(std::int64_t count, const char* what) {
  return std::to_string(count) + " " + what;
}

void warn_non_finite(const Inputs& inputs, std::vector<std::string>& warnings) {
  const auto found = scan_non_finite(inputs);
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i].first < 0) continue;
    warnings.push_back(std::string(1, "qkv"[i]) + " of the file holds " +
                       counted(found[i].nan, "NaN and ") + counted(found[i].inf, "inf"));
  }
}

/// What a tensor and its scales stand for.
double value_at(const Tensor& elements, const Tensor& scales, std::int64_t i) {
  if (scales.dims.empty()) return elements.at(i);
  return elements.at(i) * scales.at(i / (elements.dims[2] * elements.dims[3]));
}

/// Rounds `elements` with their `scales` into `type`, or quantises them; a NaN stays one and counts
/// as unchanged.
void convert(const char* name, Tensor& elements, Tensor& scales, ElementType type,
             std::vector<std::string>& warnings) {
  const Tensor from = std::exchange(elements, {}), from_scales = std::exchange(scales, {});
  std::int64_t saturated = 0;
  if (type == ElementType::e4m3) {
    Quantised quantised = quantise(from);
    elements = std::move(quantised.elements);
    scales = std::move(quantised.scales);
    saturated = quantised.saturated;
  } else {
    elements = Tensor(type, from.dims);
    for (std::int64_t i = 0; i < from.size(); ++i) {
      elements.set(i, value_at(from, from_scales, i));
    }
  }
  std::int64_t changed = 0, overflowed = 0;
  for (std::int64_t i = 0; i < from.size(); ++i) {
    const double value = value_at(from, from_scales, i), now = value_at(elements, scales, i);
    changed += !std::isnan(value) && now != value;
    overflowed += std::isfinite(value) && std::isinf(now);
  }
  const bool quantised = type == ElementType::e4m3;
  warnings.push_back(std::string(name) +
                     (quantised ? " was quantised from " : " was rounded from ") +
                     name_of(from.type) + " to " + name_of(type) +
                     (quantised ? " with a scale per head: " : ": ") + counted(changed, "of ") +
                     counted(from.size(), "values changed, ") +
                     (quantised ? counted(saturated, "infinities saturated")
                                : counted(overflowed, "overflowed to inf")));
}

}  // namespace

InputFile read_input_file(const std::filesystem::path& path, Layout layout,
                          std::optional<ElementType> dtype, bool causal, ElementType for_f32) {
  const Reader reader(path, layout);
  InputFile result;
  Inputs& inputs = result.inputs;
  inputs.q = reader.read("q");
  inputs.k = reader.read("k");
  inputs.v = reader.read("v");
  if (inputs.q.type != inputs.k.type || inputs.k.type != inputs.v.type) {
    reader.fail(std::string("q, k and v have different dtypes: ") +
                safetensors_name(inputs.q.type) + ", " + safetensors_name(inputs.k.type) + " and " +
                safetensors_name(inputs.v.type) + "; convert them to one");
  }
  result.problem = problem_of(inputs, causal, reader);

  const ElementType as_given = inputs.type();
  if (as_given == ElementType::e4m3) {
    inputs.q_scale = reader.read_scales("q_scale", inputs.q, result.warnings);
    inputs.k_scale = reader.read_scales("k_scale", inputs.k, result.warnings);
    inputs.v_scale = reader.read_scales("v_scale", inputs.v, result.warnings);
  }
  const ElementType type = dtype.value_or(as_given == ElementType::f32 ? for_f32 : as_given);
  warn_non_finite(inputs, result.warnings);
  if (type == as_given) return result;
  convert("q", inputs.q, inputs.q_scale, type, result.warnings);
  convert("k", inputs.k, inputs.k_scale, type, result.warnings);
  convert("v", inputs.v, inputs.v_scale, type, result.warnings);
  return result;
}

}  // namespace lanescope
