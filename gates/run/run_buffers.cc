#include "gates/run/run_buffers.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "gates/process/isolated_run.h"
#include "gates/run/injection.h"
#include "gates/run/marked_sites.h"

namespace lanescope {
namespace {

std::int64_t bytes_of(const Tensor& tensor) {
  return static_cast<std::int64_t>(tensor.bytes.size());
}

/// The bytes of a guard that do not hold the poison that it was filled with.
std::vector<std::int64_t> changed_bytes(const std::byte* guard) {
  std::vector<std::int64_t> changed;
  constexpr auto period = static_cast<std::int64_t>(sizeof poison32);
  for (std::int64_t i = 0; i < guard_bytes; ++i) {
    const bool begins_right = i == period && changed.empty();
    if (begins_right && std::memcmp(guard, guard + period, guard_bytes - period) == 0) return {};
    const std::size_t phase =
        (reinterpret_cast<std::uintptr_t>(guard) + static_cast<std::size_t>(i)) % 4;
    if (guard[i] != static_cast<std::byte>(poison32 >> 8 * phase)) changed.push_back(i);
  }
  return changed;
}

constexpr std::size_t piece_bytes = 256;

/// A hash of each piece_bytes of `bytes`, which any change of one of them changes.
std::vector<std::uint64_t> hashes_of(const std::byte* bytes, std::int64_t count) {
  std::vector<std::uint64_t> hashes;
  const auto size = static_cast<std::size_t>(count);
  for (std::size_t at = 0; at < size; at += piece_bytes) {
    std::uint64_t hash = 0;
    const std::size_t end = std::min(at + piece_bytes, size);
    for (std::size_t i = at; i < end; i += sizeof hash) {
      std::uint64_t word = 0;
      std::memcpy(&word, bytes + i, std::min(sizeof word, end - i));
      hash = std::rotl((hash ^ word) * 0x9e3779b97f4a7c15ull, 29);  // one to one in each word
    }
    hashes.push_back(hash);
  }
  return hashes;
}

}  // namespace

std::vector<RunBuffers::Buffer> RunBuffers::list(const Module& module, const RunPlan& plan,
                                                 const Inputs& inputs) {
  using enum simt::Region::Use;
  const Problem& p = plan.info.problem;
  const int element = size_of(module.dtype), o_element = size_of(operand_type(module.dtype));
  const std::int64_t row = std::int64_t{module.head_dim} * element;
  const std::int64_t o_row = std::int64_t{module.head_dim} * o_element;
  // How often a plain kernel, which has no hash, writes its outputs is its own matter.
  const bool once = stores_outputs(module.gate) && *module.source_hash != 0;
  const auto written = once ? output_once : output;
  const auto has_lse = [](const Site& site) { return site.id == SiteId::lse; };
  const auto lse_use =
      std::any_of(module.sites, module.sites + module.site_count, has_lse) ? written : output;
  const auto shared = takes(module.gate, SiteId::o_partial) ? input : output;
  return {{&ModuleRun::q, "q", p.queries() * row, input, element},
          {&ModuleRun::k, "k", p.keys() * row, input, element},
          {&ModuleRun::v, "v", p.keys() * row, input, element},
          {&ModuleRun::q_scale, "q_scale", bytes_of(inputs.q_scale), input},
          {&ModuleRun::k_scale, "k_scale", bytes_of(inputs.k_scale), input},
          {&ModuleRun::v_scale, "v_scale", bytes_of(inputs.v_scale), input},
          {&ModuleRun::o, "o", p.queries() * o_row, written, o_element},
          {&ModuleRun::lse, "lse", p.queries() * 4, lse_use},
          {&ModuleRun::injected, "injected slots", plan.taken.bytes(), input},
          {&ModuleRun::left, "left slots", plan.left.bytes(), output},
          {&ModuleRun::traced, "trace slots", plan.traced.bytes(), output},
          {&ModuleRun::holders, "holders", holder_bytes(module), output, 2},
          {&ModuleRun::partials, "partials", plan.partials.bytes(), shared}};
}

std::vector<std::int64_t> RunBuffers::sizes(const std::vector<Buffer>& buffers) {
  std::vector<std::int64_t> bytes;
  for (const Buffer& buffer : buffers) bytes.push_back(buffer.bytes);
  return bytes;
}

RunBuffers::RunBuffers(const Module& module, const RunPlan& plan, const Inputs& inputs, int threads)
    : buffers_(list(module, plan, inputs)), memory_(run_record_bytes(), sizes(buffers_)) {
  copy_rows(inputs.q, module.head_dim, data(&ModuleRun::q));
  copy_rows(inputs.k, module.head_dim, data(&ModuleRun::k));
  copy_rows(inputs.v, module.head_dim, data(&ModuleRun::v));
  const auto copy = [&](const Tensor& scales, Member member) {
    std::copy(scales.bytes.begin(), scales.bytes.end(), data(member));
  };
  copy(inputs.q_scale, &ModuleRun::q_scale);
  copy(inputs.k_scale, &ModuleRun::k_scale);
  copy(inputs.v_scale, &ModuleRun::v_scale);
  inject(module, plan.taken, inputs, plan.info, threads, data(&ModuleRun::injected));
  if (takes(module.gate, SiteId::o_partial)) {
    inject(module, plan.partials, inputs, plan.info, threads, data(&ModuleRun::partials));
  }
  for (Buffer& buffer : buffers_) {
    if (buffer.use != simt::Region::Use::input) continue;
    buffer.before = hashes_of(data(buffer.member), buffer.bytes);
  }
}

std::byte* RunBuffers::data(Member member) const {
  const auto found = std::find_if(buffers_.begin(), buffers_.end(),
                                  [&](const Buffer& buffer) { return buffer.member == member; });
  return memory_.buffer(static_cast<std::size_t>(found - buffers_.begin()));
}

void RunBuffers::give_to(ModuleRun& run) const {
  for (const Buffer& buffer : buffers_) run.*buffer.member = {data(buffer.member), buffer.bytes};
}

std::string RunBuffers::strays() const {
  std::string text;
  for (const Buffer& buffer : buffers_) {
    const std::byte* begin = data(buffer.member);
    const auto look_at = [&](const std::byte* guard, const char* side, auto distance) {
      const std::vector<std::int64_t> changed = changed_bytes(guard);
      if (changed.empty()) return;
      text += (text.empty() ? "" : "\n") + std::string("the kernel wrote ") + side + " buffer " +
              buffer.name + " (" + std::to_string(buffer.bytes) +
              " bytes): " + std::to_string(changed.size()) + " bytes changed, the first " +
              distance(changed.front()) + ", the last " + distance(changed.back());
    };
    look_at(begin - guard_bytes, "before", [](std::int64_t at) {
      return std::to_string(guard_bytes - at) + " before its beginning";
    });
    look_at(begin + buffer.bytes, "behind",
            [](std::int64_t at) { return std::to_string(at) + " behind its end"; });
  }
  return text;
}

std::string RunBuffers::changed_inputs() const {
  std::string text;
  for (const Buffer& buffer : buffers_) {
    if (buffer.before.empty()) continue;
    const std::vector<std::uint64_t> after = hashes_of(data(buffer.member), buffer.bytes);
    std::vector<std::size_t> changed;
    for (std::size_t i = 0; i < after.size(); ++i) {
      if (after[i] != buffer.before[i]) changed.push_back(i * piece_bytes);
    }
    if (changed.empty()) continue;
    text += (text.empty() ? "" : "\n") + std::string("the kernel wrote into its input ") +
            buffer.name + " (" + std::to_string(buffer.bytes) +
            " bytes): " + std::to_string(changed.size()) +
            (changed.size() == 1 ? " piece of " : " pieces of ") + std::to_string(piece_bytes) +
            " bytes changed, the first from byte " + std::to_string(changed.front()) +
            " on, the last from byte " + std::to_string(changed.back()) + " on";
  }
  return text;
}

std::vector<simt::Region> RunBuffers::regions(const RunPlan& plan) const {
  std::vector<simt::Region> regions;
  const auto add = [&](const char* name, const std::byte* begin, std::int64_t bytes,
                       const Buffer& buffer) {
    regions.push_back({name, begin, static_cast<std::size_t>(bytes), buffer.use,
                       static_cast<std::size_t>(buffer.element)});
  };
  for (const Buffer& buffer : buffers_) {
    const std::byte* begin = data(buffer.member);
    if (buffer.member != &ModuleRun::partials) {
      add(buffer.name, begin, buffer.bytes, buffer);
      continue;
    }
    for (std::size_t i = 0; i < plan.partials.sites().size(); ++i) {
      const Site& site = plan.partials.sites()[i];
      add(name_of(site.id), begin + plan.partials.shared_offset(i, 0, 0, 0, 0),
          plan.info.block_count() * site.bytes(), buffer);
    }
  }
  return regions;
}

}  // namespace lanescope
