#include "gates/module/launch_description.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <utility>

#include "debug/text/json.h"
#include "debug/text/text.h"
#include "gates/module/products_of_type.h"
#include "reference/error.h"

namespace lanescope {
namespace {

namespace fs = std::filesystem;

/// A member of a description, with its place for errors.
class Member {
 public:
  Member(const fs::path& path, std::string name, const Json& value)
      : where_(path.string() + ": " + std::move(name)), value_(value) {}

  [[noreturn]] void fail(const std::string& what) const { throw UsageError(where_ + " " + what); }
  const std::string& text() const {
    if (!value_.is_string()) fail("is no text");
    return value_.text();
  }
  bool boolean() const {
    if (!value_.is_boolean()) fail("is neither true nor false");
    return value_.boolean();
  }
  /// A number, or what stands for one.
  std::string word(const Json& value) const {
    if (value.is_string()) return value.text();
    if (value.is_number_unsigned()) return std::to_string(value.integer());
    if (value.is_boolean()) return value.boolean() ? "1" : "0";
    if (!value.is_array() && !value.is_object() && !value.is_null()) return value.dump();
    fail("is neither a number nor a text");
  }
  std::string word() const { return word(value_); }
  int whole(std::int64_t most) const {
    if (!value_.is_number_unsigned() || value_.integer() < 1 || value_.integer() > most) {
      fail("is no number from 1 to " + std::to_string(most));
    }
    return static_cast<int>(value_.integer());
  }
  std::vector<std::string> words(std::size_t most) const {
    if (!value_.is_array()) return {word()};
    if (value_.size() == 0 || value_.size() > most) {
      fail("has " + std::to_string(value_.size()) + " elements, not 1 to " + std::to_string(most));
    }
    std::vector<std::string> all;
    for (const Json& one : value_) all.push_back(word(one));
    return all;
  }

 private:
  std::string where_;
  const Json& value_;
};

Json read_object(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file) throw UsageError("cannot read " + path.string());
  std::string twin;
  const std::optional<Json> json = Json::parse(text, &twin);
  if (!twin.empty()) throw UsageError(path.string() + ": " + printable(twin) + " is there twice");
  if (!json || !json->is_object()) throw UsageError(path.string() + " is no JSON object");
  return *json;
}

/// False where it is no member of a launch.
bool take(LaunchDescription::Launch& launch, const std::string& name, const Member& member) {
  constexpr std::size_t most_arguments = 1024;
  if (name == "kernel") {
    launch.kernel = member.text();
  } else if (name == "grid") {
    launch.grid = member.words(3);
  } else if (name == "block") {
    launch.block = member.words(3);
  } else if (name == "shared") {
    launch.shared = member.word();
  } else if (name == "arguments") {
    launch.arguments = member.words(most_arguments);
  } else if (name == "fmad") {
    launch.fmad = member.boolean();
  } else {
    return false;
  }
  return true;
}

void take(LaunchDescription& d, const std::string& name, const Member& member) {
  constexpr std::size_t most_conditions = 1024;
  constexpr int most_side = 1 << 14;
  if (name == "conditions") {
    d.conditions = member.words(most_conditions);
  } else if (name == "causal") {
    d.causal = member.boolean();
  } else if (name == "head_dim") {
    d.head_dim = member.whole(most_side);
  } else if (name == "br") {
    d.br = member.whole(most_side);
  } else if (name == "bc") {
    d.bc = member.whole(most_side);
  } else if (name == "dtype") {
    const auto* at = std::find_if(std::begin(all_element_types), std::end(all_element_types),
                                  [&](ElementType t) { return member.text() == name_of(t); });
    if (at == std::end(all_element_types)) member.fail("is none of f16, bf16, e4m3 and f32");
    d.dtype = *at;
  } else if (name == "products") {
    constexpr Products all[] = {Products::tensor_core, Products::fp32_fma,
                                Products::tensor_core_tf32};
    const auto* at = std::find_if(std::begin(all), std::end(all),
                                  [&](Products p) { return member.text() == name_of(p); });
    if (at == std::end(all)) {
      member.fail("is none of tensor_core, fp32_fma and tensor_core_tf32");
    }
    d.products = *at;
  } else {
    member.fail(
        "is not known; there is: kernel, grid, block, shared, arguments, fmad, launches, "
        "conditions, causal, dtype, head_dim, br, bc, products");
  }
}

/// What Triton's compiler says of a kernel: CompiledKernel.metadata.
void take_triton(LaunchDescription::Launch& d, const fs::path& path, const Json& json) {
  const auto number = [&](const char* name) -> std::int64_t {
    const Json* value = json.find(name);
    if (!value || value->is_null()) return 0;
    if (!value->is_number_unsigned()) Member(path, name, *value).fail("is no number");
    return value->integer();
  };
  if (const Json* name = json.find("name")) d.kernel = Member(path, "name", *name).text();
  if (number("num_ctas") > 1) throw UsageError(path.string() + ": clusters are not executed yet");
  d.block = {std::to_string(32 * number("num_warps"))};
  d.shared = std::to_string(number("shared"));
  const Json* fusion = json.find("enable_fp_fusion");
  if (fusion && !fusion->is_null()) d.fmad = Member(path, "enable_fp_fusion", *fusion).boolean();
  for (const char* scratch : {"global_scratch_size", "profile_scratch_size"}) {
    if (json.contains(scratch)) d.hidden.push_back(number(scratch));
  }
}

/// What Triton left beside the PTX of a launch, which its description may say otherwise.
LaunchDescription::Launch launch_of(const fs::path& ptx) {
  LaunchDescription::Launch launch;
  launch.ptx = ptx;
  const fs::path triton = fs::path(ptx).replace_extension(".json");
  if (!fs::exists(triton)) return launch;
  const Json json = read_object(triton);
  if (json.contains("num_warps")) take_triton(launch, triton, json);
  return launch;
}

void demand_whole(const LaunchDescription::Launch& launch, const std::string& where) {
  for (const auto& [name, words] :
       {std::pair("grid", &launch.grid), std::pair("arguments", &launch.arguments)}) {
    if (words->empty()) throw UsageError(where + ": " + name + " is missing");
  }
}

/// "launches": of each what the members of the only one say else, and where its PTX is, if that is
/// not beside the description by its name.
void take_launches(LaunchDescription& d, const fs::path& path, const fs::path& ptx,
                   const Json& value) {
  constexpr std::size_t most_launches = 64;
  const std::string where = path.string() + ": launches";
  if (!value.is_array() || value.size() == 0 || value.size() > most_launches) {
    throw UsageError(where + " is no list of 1 to " + std::to_string(most_launches));
  }
  for (const Json& one : value) {
    const std::string own = where + "[" + std::to_string(d.launches.size()) + "]";
    if (!one.is_object()) throw UsageError(own + " is no object");
    const Json* const file = one.find("ptx");
    LaunchDescription::Launch launch =
        launch_of(file ? path.parent_path() / Member(own, "ptx", *file).text() : ptx);
    for (const auto& [name, member] : one.members()) {
      const Member given(own, name, member);
      if (name != "ptx" && !take(launch, name, given)) {
        given.fail("is not known; there is: ptx, kernel, grid, block, shared, arguments, fmad");
      }
    }
    demand_whole(launch, own);
    d.launches.push_back(std::move(launch));
  }
}

}  // namespace

bool LaunchDescription::has_argument(const char* word) const {
  return std::ranges::any_of(launches, [&](const Launch& launch) {
    return std::ranges::find(launch.arguments, word) != launch.arguments.end();
  });
}

bool LaunchDescription::writes_lse() const { return has_argument("lse") || lse_base_2(); }

bool LaunchDescription::lse_base_2() const { return has_argument("lse_base_2"); }

LaunchDescription read_launch_description(const fs::path& ptx) {
  LaunchDescription d;
  const fs::path path = launch_description_path(ptx);
  const Json json = read_object(path);
  LaunchDescription::Launch only = launch_of(ptx);
  bool describes = false;
  for (const auto& [name, value] : json.members()) {
    const Member member(path, name, value);
    if (name == "launches") {
      take_launches(d, path, ptx, value);
    } else if (take(only, name, member)) {
      describes = true;
    } else {
      take(d, name, member);
    }
  }
  if (describes && !d.launches.empty()) {
    throw UsageError(path.string() + ": what launches say stands in each of them alone");
  }
  if (d.launches.empty()) {
    demand_whole(only, path.string());
    d.launches.push_back(std::move(only));
  }
  const std::string no_products =
      d.products ? why_no_products(*d.products, d.dtype) : std::string();
  if (!no_products.empty()) throw UsageError(path.string() + ": " + no_products);
  return d;
}

}  // namespace lanescope
