#include "reference/inputs.h"
#include "tests/support/plain_info.h"
#include "tests/support/recurrent_kernel.h"

namespace lanescope::testing {
namespace {

DumpSite site_of(SiteId id, Stage stage, Space space, ElementType type, Axes axes, int br, int bc,
                 int d) {
  const bool registers = space == Space::registers;
  const int cols = axes == Axes::query_key ? bc : axes == Axes::query ? 1 : d;
  DumpSite described{{id, stage, space, type, axes, space != Space::global, br, cols,
                      registers ? br * lanes_of_row / 32 : 0, registers ? 1 : 0},
                     {},
                     {}};
  for (int thread = 0; registers && thread < br * lanes_of_row; ++thread) {
    described.coordinates.push_back(static_cast<std::int16_t>(thread / lanes_of_row));
    described.coordinates.push_back(0);
  }
  if (space == Space::shared) described.owners.assign(static_cast<std::size_t>(br * cols), -1);
  return described;
}

}  // namespace

const std::vector<std::string>& recurrences() {
  static const std::vector<std::string> all = {"backwards",
                                               "last_tile_first",
                                               "odd_tiles_last",
                                               "lazy_8",
                                               "lazy_8_by_4_rows",
                                               "lazy_8_by_lane",
                                               "from_lowest",
                                               "from_lowest_of_f16",
                                               "sum_in_epilogue",
                                               "raw",
                                               "base_e",
                                               "base_e_of_m",
                                               "maximum_of_4_rows",
                                               "maximum_of_tile",
                                               "m_above_by_1",
                                               "m_below_by_8",
                                               "polynomial",
                                               "output_divided",
                                               "weights_divided",
                                               "lazy_8_backwards_sum_in_epilogue",
                                               "raw_from_lowest_sum_in_epilogue",
                                               "two_tiles_in_a_step",
                                               "two_chains",
                                               "sum_of_rounded",
                                               "first_alpha_1",
                                               "backwards_by_visit",
                                               "of_first_maximum"};
  return all;
}

const std::vector<std::string>& recurrence_bugs() {
  static const std::vector<std::string> all = {"m_from_zero",
                                               "m_from_minus_50",
                                               "lazy_20",
                                               "m_stays",
                                               "m_of_half",
                                               "m_without_last_key",
                                               "m_of_magnitudes",
                                               "m_of_row_xor_1",
                                               "m_above_by_30",
                                               "m_above_by_row",
                                               "m_of_tile_before",
                                               "m_of_tile_alone",
                                               "m_lost_in_odd_tiles",
                                               "m_falls",
                                               "m_prev_shown_late",
                                               "m_wrong_in_a_lane",
                                               "masked_in_p_alone",
                                               "p_times_1_01",
                                               "p_rough",
                                               "alpha_narrow",
                                               "alpha_shown_early",
                                               "p_shown_of_tile_before",

                                               "l_garbage_in_lanes",
                                               "l_shown_early",
                                               "o_of_last_row_shown_twice",
                                               "backwards_and_stored_wrong",
                                               "two_chains_unweighted"};
  return all;
}

Dump recurrent_dump(const Problem& problem, const std::string& style, const std::string& input,
                    int br, int bc, ElementType dtype) {
  Dump dump;
  const Inputs inputs = generate_inputs(problem, dtype, input, 0);
  DumpInfo& info = dump.info;
  info = plain_info("recurrent", problem, inputs, input, 0, br, bc);
  info.trace = "on";
  info.blocks = {0, info.block_count()};
  info.tiles = {0, info.kv_tiles()};
  dump.tensors = {{"q", inputs.q}, {"k", inputs.k}, {"v", inputs.v}};
  const int d = info.head_dim;
  const auto add = [&](SiteId id, Stage stage, Space space, ElementType type, Axes axes) {
    info.sites.push_back(site_of(id, stage, space, type, axes, br, bc, d));
    const Site& site = info.sites.back().site;
    std::vector<std::int64_t> dims = {info.block_count(), info.kv_tiles()};
    if (space == Space::registers) {
      dims.insert(dims.end(), {site.warps, 32, 1});
    } else {
      dims.insert(dims.end(), {br, site.cols});
    }
    if (space == Space::global) {
      dims = {problem.batch, problem.heads, problem.len_q};
      if (axes != Axes::query) dims.push_back(d);
    }
    Tensor tensor(type, dims);
    auto* bytes = tensor.bytes.data();
    for (std::size_t i = 0; i < tensor.bytes.size(); ++i) {
      bytes[i] = static_cast<std::byte>(poison32 >> i % 4 * 8);
    }
    dump.tensors.push_back({name_of(id), std::move(tensor)});
  };
  const ElementType f32 = ElementType::f32;
  if (style == "backwards_by_visit") {
    add(SiteId::k_smem, Stage::load, Space::shared, dtype, Axes::key_d);
  }
  add(SiteId::s, Stage::qk, Space::shared, f32, Axes::query_key);
  for (const SiteId id : {SiteId::m_prev, SiteId::m, SiteId::alpha}) {
    add(id, Stage::softmax, Space::registers, f32, Axes::query);
  }
  add(SiteId::p, Stage::softmax, Space::shared, dtype, Axes::query_key);
  add(SiteId::l, Stage::softmax, Space::registers, f32, Axes::query);
  add(SiteId::o, Stage::pv, Space::shared, f32, Axes::query_d);
  add(SiteId::o_final, Stage::epilogue, Space::global, dtype, Axes::query_d);
  add(SiteId::lse, Stage::epilogue, Space::global, f32, Axes::query);
  for (std::int64_t block = 0; block < info.block_count(); ++block) {
    run_recurrent_block(dump, inputs, block, style);
  }
  return dump;
}

}  // namespace lanescope::testing
