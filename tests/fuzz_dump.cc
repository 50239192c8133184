// A target of libFuzzer over everything that reads a file. Run on a copy of tests/data/fuzz/dumps:
// fuzz_dump -max_len=65536 CORPUS. tests/meson.build says how it is built.

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "tests/support/read_anything.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

namespace {

using nlohmann::ordered_json;

constexpr std::size_t prefix = sizeof(std::uint64_t);
constexpr std::ptrdiff_t deepest = 1000;

/// A safetensors file taken apart, so that a change of one thing leaves the rest right: else nearly
/// every change would be refused for the length of the header or the places of the tensors.
class File {
 public:
  File(const std::uint8_t* data, std::size_t size, unsigned seed) : random_(seed) {
    std::uint64_t length = 0;
    if (size < prefix) return;
    std::memcpy(&length, data, prefix);
    if (length > size - prefix) return;
    const std::uint8_t* first = data + prefix;
    if (std::count(first, first + length, '[') > deepest) return;  // each may be a call of the next
    header_ = ordered_json::parse(first, first + length, nullptr, false);
    if (header_.is_object()) values_.assign(first + length, data + size);
  }

  bool is_readable() const { return header_.is_object() && !header_.empty(); }

  void change() {
    auto entry = any_of(header_);
    if (below(2) == 0 && header_.contains("__metadata__")) entry = header_.find("__metadata__");
    if (entry.key() == "__metadata__") {
      change_text(*entry);
    } else if (below(8) == 0) {
      header_.erase(entry);
    } else if (below(4) == 0) {
      change_leaf(*entry);
    } else if (entry->is_object() && entry->contains("shape")) {
      change_leaf((*entry)["shape"]);
    }
  }

  /// The file with its tensors one behind the other; nothing where it would pass `most` bytes.
  std::vector<std::uint8_t> bytes(std::size_t most) const {
    ordered_json header = header_;
    std::vector<std::uint8_t> values;
    for (auto& [name, tensor] : header.items()) {
      if (name == "__metadata__" || !tensor.is_object() || !tensor.contains("data_offsets"))
        continue;
      const std::size_t size = size_of(tensor);
      if (values.size() + size > most) return {};
      const ordered_json& offsets = tensor["data_offsets"];
      const bool known =
          offsets.is_array() && offsets.size() == 2 && offsets[0].is_number_unsigned();
      const std::size_t from = known ? offsets[0].get<std::size_t>() : values_.size();
      tensor["data_offsets"] = {values.size(), values.size() + size};
      for (std::size_t i = 0; i < size; ++i) {
        values.push_back(from + i < values_.size() ? values_[from + i] : 0);
      }
    }
    const std::string text = header.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
    const std::uint64_t length = text.size();
    if (prefix + length + values.size() > most) return {};
    std::vector<std::uint8_t> file(prefix);
    std::memcpy(file.data(), &length, prefix);
    file.insert(file.end(), text.begin(), text.end());
    file.insert(file.end(), values.begin(), values.end());
    return file;
  }

 private:
  std::size_t below(std::size_t count) { return random_() % count; }

  ordered_json::iterator any_of(ordered_json& json) {
    return std::next(json.begin(), static_cast<std::ptrdiff_t>(below(json.size())));
  }

  static std::size_t size_of(const ordered_json& tensor) {
    const std::string type = tensor.contains("dtype") && tensor["dtype"].is_string()
                                 ? tensor["dtype"].get<std::string>()
                                 : "F32";
    std::size_t size = type.ends_with("64")   ? 8
                       : type.ends_with("32") ? 4
                       : type.ends_with("16") ? 2
                                              : 1;
    if (!tensor.contains("shape")) return size;
    for (const ordered_json& side : tensor["shape"]) {
      size *=
          side.is_number_integer() ? static_cast<std::size_t>(side.get<std::int64_t>()) % 65536 : 1;
      size %= std::size_t{1} << 20;
    }
    return size;
  }

  /// A string of the metadata: JSON in it by its leaves, else any bytes.
  void change_text(ordered_json& metadata) {
    if (!metadata.is_object() || metadata.empty()) return;
    ordered_json& entry = *(any_of(metadata));
    if (!entry.is_string()) return;
    auto text = entry.get<std::string>();
    ordered_json inner = ordered_json::parse(text, nullptr, false);
    if (inner.is_structured()) {
      change_leaf(inner);
      text = inner.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
    } else {
      const std::size_t size = text.size();
      text.resize(size + 16);
      text.resize(
          LLVMFuzzerMutate(reinterpret_cast<std::uint8_t*>(text.data()), size, text.size()));
    }
    entry = text;
  }

  void change_leaf(ordered_json& json) {
    if (json.is_structured() && !json.empty()) {
      auto entry = any_of(json);
      if (below(32) == 0) {
        json.erase(entry);
      } else {
        change_leaf(*entry);
      }
      return;
    }
    static const ordered_json others[] = {
        0,           1,        2,        3,         -1,        4,           8,       16,
        32,          33,       4096,     1 << 20,   INT64_MAX, "F16",       "BF16",  "F32",
        "F8_E4M3",   "I16",    "s",      "p",       "o",       "m",         "lse",   "o_partial",
        "registers", "shared", "global", "query_d", "key_d",   "query_key", "query", "f16",
        "f32",       true,     false,    nullptr};
    if (json.is_number_integer() && below(2) == 0) {
      json = static_cast<std::int64_t>(json.get<std::uint64_t>() + (below(2) == 0 ? 1 : ~0ull));
    } else {
      json = others[below(std::size(others))];
    }
  }

  std::minstd_rand random_;
  ordered_json header_;
  std::vector<std::uint8_t> values_;
};

}  // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t most, unsigned seed) {
  File file(data, size, seed);
  if (seed % 4 == 0 || !file.is_readable()) return LLVMFuzzerMutate(data, size, most);
  file.change();
  const std::vector<std::uint8_t> bytes = file.bytes(most);
  if (bytes.empty()) return LLVMFuzzerMutate(data, size, most);
  std::copy(bytes.begin(), bytes.end(), data);
  return bytes.size();
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const int file = memfd_create("fuzz", 0);
  static const std::string path = "/proc/self/fd/" + std::to_string(file);
  if (ftruncate(file, 0) != 0 || pwrite(file, data, size, 0) != static_cast<ssize_t>(size)) {
    return -1;
  }
  lanescope::testing::read_anything(path);
  return 0;
}
