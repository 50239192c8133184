#include "tests/support/read_anything.h"

#include <string>

#include "debug/dump/dump.h"
#include "debug/dump/input_file.h"
#include "debug/judge/diff.h"
#include "debug/report/report.h"
#include "debug/show/show.h"
#include "reference/error.h"

namespace lanescope::testing {
namespace {

/// What a judgement takes grows with this; kernels are not judged on such problems here.
constexpr std::int64_t most_products = std::int64_t{1} << 20;

template <class Action>
void attempt(const Action& action) {
  try {
    action();
  } catch (const Error&) {
  }
}

void look_at(const Dump& dump) {
  for (const Dump::Entry& entry : dump.tensors) {
    for (const std::int64_t at : {0, 1}) {
      ShowOptions options{.site = entry.name, .block = at, .tile = at};
      attempt([&] { show_text(dump, options, {}); });
      attempt([&] { show_json(dump, options); });
      options.lane = 3;
      attempt([&] { show_text(dump, options, {}); });
    }
  }
  attempt([&] { bits_text(dump, dump, diff_dumps(dump, dump), {}); });
  const DumpInfo& info = dump.info;
  const std::int64_t tile_products = std::int64_t{info.br} * info.bc * info.head_dim;
  if (tile_products * info.kv_tiles() * info.block_count() > most_products) return;
  attempt([&] {
    const DiffReport report = diff_against_reference(dump, 1);
    diff_text(dump, report, {}, "x.safetensors");
    diff_json(info, report);
  });
}

}  // namespace

void read_anything(const std::filesystem::path& path) {
  attempt([&] { look_at(read_dump(path)); });
  for (const Layout layout : {Layout::bhsd, Layout::bshd}) {
    attempt([&] { read_input_file(path, layout, std::nullopt, false); });
    attempt([&] { read_input_file(path, layout, ElementType::bf16, true); });
  }
}

}  // namespace lanescope::testing
