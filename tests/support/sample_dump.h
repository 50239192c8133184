#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "debug/dump/dump.h"

namespace lanescope::testing {

/// `dims` filled with small numbers, no two neighbours the same.
inline Tensor sample_tensor(ElementType type, std::vector<std::int64_t> dims, int seed) {
  Tensor tensor(type, std::move(dims));
  for (std::int64_t i = 0; i < tensor.size(); ++i) {
    tensor.set(i, static_cast<double>((i * 37 + seed * 11) % 251 - 125) / 16);
  }
  return tensor;
}

/// A site in registers of one warp in the layout of a tensor core's accumulator (PTX ISA, mma
/// .m16n8): the lanes of four hold a row, two neighbouring columns each.
inline DumpSite accumulator_site(SiteId id, Stage stage, Axes axes, int cols) {
  const int regs = axes == Axes::query ? 2 : cols / 2;
  DumpSite entry{
      {id, stage, Space::registers, ElementType::f32, axes, true, 16, cols, 1, regs}, {}, {}};
  for (int lane = 0; lane < 32; ++lane) {
    for (int reg = 0; reg < regs; ++reg) {
      const int row = lane / 4 + 8 * (axes == Axes::query ? reg : reg % 4 / 2);
      const int col = axes == Axes::query ? 0 : reg / 4 * 8 + lane % 4 * 2 + reg % 2;
      const bool speaks = axes != Axes::query || lane % 4 == 0;
      entry.coordinates.push_back(static_cast<std::int16_t>(speaks ? row : -1));
      entry.coordinates.push_back(static_cast<std::int16_t>(speaks ? col : -1));
    }
  }
  return entry;
}

/// A small dump with everything that one can hold: blocks 1 and 2 of 8, tiles 1 and 2 of 3, ragged
/// lengths, grouped heads, a d below the module's, sites in registers, shared and global memory.
inline Dump sample_dump() {
  Dump dump;
  DumpInfo& info = dump.info;
  info.lanescope_version = "0.1.0";
  info.kernel = "mma";
  info.gate = "fused";
  info.backend = "sim";
  info.device = "sim (Hopper rules)";
  info.arch = "sm_90";
  info.module = "mma.fused.f16.d8.16x16.sim";
  info.trace = "on";
  info.dtype = ElementType::f16;
  info.products = Products::tensor_core;
  info.scores = ScoreUnit::raw;
  info.problem = {
      .batch = 1, .heads = 4, .heads_kv = 2, .len_q = 24, .len_kv = 40, .d = 6, .causal = true};
  info.head_dim = 8;
  info.br = 16;
  info.bc = 16;
  info.input = "random";
  info.seed = 18446744073709551615u;
  info.input_hash = "0123456789abcdef";
  info.source_hash = "fedcba9876543210";
  info.compile_flags = "-O2 -DX=\"a b\"";
  info.blocks = {1, 3};
  info.tiles = {1, 3};

  const auto shared = [](SiteId id, Axes axes, bool per_tile) {
    return DumpSite{
        {id, Stage::load, Space::shared, ElementType::f16, axes, per_tile, 16, 8, 0, 0}, {}, {}};
  };
  const auto global = [](SiteId id, Axes axes, int cols) {
    return DumpSite{
        {id, Stage::epilogue, Space::global, ElementType::f32, axes, false, 16, cols, 0, 0},
        {},
        {}};
  };
  info.sites = {shared(SiteId::q_smem, Axes::query_d, false),
                shared(SiteId::k_smem, Axes::key_d, true),
                accumulator_site(SiteId::s, Stage::qk, Axes::query_key, 16),
                accumulator_site(SiteId::m, Stage::softmax, Axes::query, 1),
                global(SiteId::o_final, Axes::query_d, 8),
                global(SiteId::lse, Axes::query, 1)};
  for (int i = 0; i < 16 * 8; ++i) {
    info.sites[1].owners.push_back(static_cast<std::int16_t>(i % 33 - 1));
  }

  dump.tensors = {{"q", sample_tensor(ElementType::f16, {1, 4, 24, 6}, 1)},
                  {"k", sample_tensor(ElementType::f16, {1, 2, 40, 6}, 2)},
                  {"v", sample_tensor(ElementType::f16, {1, 2, 40, 6}, 3)},
                  {"o_final", sample_tensor(ElementType::f32, {1, 4, 24, 6}, 4)},
                  {"lse", sample_tensor(ElementType::f32, {1, 4, 24}, 5)},
                  {"q_smem", sample_tensor(ElementType::f16, {2, 1, 16, 8}, 6)},
                  {"k_smem", sample_tensor(ElementType::f16, {2, 2, 16, 8}, 7)},
                  {"s", sample_tensor(ElementType::f32, {2, 2, 1, 32, 8}, 8)},
                  {"m", sample_tensor(ElementType::f32, {2, 2, 1, 32, 2}, 9)}};
  return dump;
}

/// The tensor of `dump` under `name`, to change it; there must be one.
inline Tensor& tensor_of(Dump& dump, std::string_view name) {
  return const_cast<Tensor&>(*dump.find(name));
}

/// Puts raw bits into an element: NaNs with a payload, the poison pattern.
inline void set_bits(Tensor& tensor, std::int64_t index, std::uint32_t bits) {
  for (int i = 0; i < size_of(tensor.type); ++i) {
    tensor.bytes.data()[index * size_of(tensor.type) + i] = static_cast<std::byte>(bits >> (8 * i));
  }
}

}  // namespace lanescope::testing
