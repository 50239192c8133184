#include "gates/run/far_head.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string_view>

#include "debug/causes/diagnose.h"
#include "debug/dump/site_slots.h"
#include "debug/ptx/recognise.h"
#include "gates/process/isolated_run.h"
#include "gates/process/shared_file.h"
#include "gates/run/dump_of_run.h"
#include "gates/run/far_buffers.h"
#include "gates/run/launch.h"
#include "gates/run/launched_grids.h"
#include "gates/run/seen_numbers.h"
#include "gates/run/slot_layout.h"
#include "reference/error.h"

namespace lanescope {
namespace {

/// So many parts of `size` elements that those before the last pass 2^32: then an index of 32 bits
/// is too narrow with a sign and without.
std::int64_t beyond(std::int64_t size) { return (std::int64_t{1} << 32) / size + 2; }

/// Heads that any grid has places for: CUDA's have no more than 65535 along y. Whoever takes some
/// at a time takes a power of two.
constexpr std::int64_t heads_of_any_grid = 255 << 8;

/// Batches that the heads are shared among, where a stride from one to the next would else be too
/// large for the kernel's arguments.
constexpr std::int64_t batches_of_heads = 8;

/// `one` is a tile of queries and one of keys of one head. Of a plain kernel, heads are as many as
/// any grid takes, and long; in so many batches.
Problem far_problem(const Problem& one, const Module& module, FarSide side, std::int64_t batches) {
  const std::int64_t width = module.head_dim;
  Problem far = one;
  far.batch = batches;
  if (side == FarSide::queries) {
    far.len_q = beyond(one.len_q * width) * one.len_q;
  } else if (*module.source_hash != 0) {
    far.heads = beyond(std::min(one.len_q, one.len_kv) * width);
    if (side == FarSide::heads) far.heads_kv = far.heads;
  } else {
    far.heads = heads_of_any_grid / batches;
    if (side == FarSide::keys) far.heads_kv = far.heads;
    if (side == FarSide::query_heads) {
      far.len_q = beyond(heads_of_any_grid * one.len_q * width) * one.len_q;
    }
  }
  return far;
}

/// The same of three heads, whose last blocks those of the far one lie like.
Problem few_heads(const Problem& one, const Module& module, FarSide side, std::int64_t batches) {
  Problem few = far_problem(one, module, side, batches);
  few.heads = 3;
  few.heads_kv = side == FarSide::keys ? few.heads : one.heads_kv;
  return few;
}

/// The problem of the rows as the only ones. `square`: as many queries as keys.
RunOptions near_problem(RunOptions options, const Module& module, FarSide side, bool square) {
  // Some take multiples of a number alone.
  constexpr std::int64_t multiple = 128;
  const std::int64_t least = beyond(heads_of_any_grid * module.head_dim);
  const std::int64_t keys = side == FarSide::keys ? (least + multiple - 1) / multiple * multiple
                                                  : std::max(module.bc, 16);
  options.shape = "b=1,h=1,s=" + std::to_string(square ? keys : module.br) +
                  ",skv=" + std::to_string(keys) + ",d=" + std::to_string(module.head_dim);
  options.preset.clear();
  if (module.combines) options.splits = 1;
  return options;
}

/// Elements from `first` on.
void compare(const Tensor& got, const Tensor& want, std::int64_t first, SiteId site,
             FarHead& head) {
  for (std::int64_t i = first; i < want.size(); ++i) {
    ++head.compared;
    if (got.bits(i) == want.bits(i)) continue;
    ++head.differing;
    head.unwritten += is_unwritten(got, i);
    if (head.first) continue;
    head.first = site;
    head.got = got.at(i);
    head.want = want.at(i);
  }
}

/// How many blocks a kernel in PTX has that takes items by turns.
enum class Turns : std::uint8_t {
  as_launched,
  item_per_block  ///< as many as there are items
};

/// The last block of `problem` alone, whose last rows are those of `alone`, which `run` made; of a
/// kernel in PTX as many of each launch as in `ends_of`, and the lines that come to those rows.
std::optional<FarHead> run_last_block(const PreparedRun& run, const Dump& alone,
                                      const Problem& problem, const ptx::LaunchedGrids* ends_of,
                                      Turns turns, ptx::RowLines* lines = nullptr) {
  const Module& module = *run.module;
  const Problem& one = run.request.problem;
  FarHead head;
  head.problem = problem;
  head.block = items_of(problem, module) - 1;
  ModuleRun far = run_of_last_block(module, problem, run.request);
  try {
    const FarBuffers buffers(module, head.problem, far.all);
    buffers.give_to(far);
    const std::int64_t q_bytes = one.queries() * module.head_dim * size_of(module.dtype);
    const std::int64_t k_bytes = one.keys() * module.head_dim * size_of(module.dtype);
    copy_rows(*alone.find("q"), module.head_dim, buffers.last(0, q_bytes));
    copy_rows(*alone.find("k"), module.head_dim, buffers.last(1, k_bytes));
    copy_rows(*alone.find("v"), module.head_dim, buffers.last(2, k_bytes));
    const auto poison = [](std::byte* from, std::int64_t bytes) {
      auto* words = reinterpret_cast<std::uint32_t*>(from);
      std::fill(words, words + bytes / 4, poison32);
    };
    poison(buffers.last(3, q_bytes), q_bytes);
    poison(buffers.last(4, one.queries() * 4), one.queries() * 4);
    buffers.poison_partials(head.block);
    // A block of a few rows is soon done, where it does not go through all items. The last blocks
    // of a pass over all keys have those of all heads.
    constexpr double seconds = 4;
    IsolatedRun isolated{far, buffers.memory(), std::min(run.request.timeout_seconds, seconds)};
    isolated.seconds_in_all = 2 * seconds;
    isolated.ends_of = ends_of;
    if (turns == Turns::item_per_block) isolated.items = far.blocks;
    const SharedFile seen("lookout");
    const auto last = [&](std::size_t buffer, std::int64_t bytes) {
      const auto all = static_cast<std::size_t>(bytes);
      return ptx::KnownRows{buffers.last(buffer, bytes), all, all};
    };
    ptx::Lookout lookout;
    lookout.rows = {last(0, q_bytes), last(1, k_bytes), last(2, k_bytes), last(3, q_bytes)};
    lookout.log_sums = last(4, one.queries() * 4);
    lookout.file = seen.number();
    if (lines) isolated.lookout = &lookout;
    const RunEnd end = run_isolated(module, isolated);
    if (lines) *lines = read_seen_numbers(seen.path()).row_lines;
    if (end.too_slow) return std::nullopt;
    // What does not know that it should run one block runs them all.
    head.too_long = end.stop.kind == Stop::Kind::hang && *module.source_hash == 0;
    if (head.too_long) return head;
    // Its grid has no places for so many heads or rows.
    if (cause_of_end(end.stop.kind, end.message) == Cause::launch_refused) return std::nullopt;
    if (end.status == ModuleStatus::kernel_fault) head.fault = end.message;
    if (end.status != ModuleStatus::ok && head.fault.empty()) return std::nullopt;
    head.partials = buffers.partials(head.block);
    const Tensor &o = *alone.find("o_final"), *lse = alone.find("lse");
    // The rows of the block that ran.
    const std::int64_t row = (one.len_q - 1) / module.br * module.br;
    const Tensor stored = take_rows(o.type, o.dims, module.head_dim, buffers.last(3, q_bytes));
    compare(stored, o, row * one.d, SiteId::o_final, head);
    for (std::int64_t i = row * one.d; i < stored.size(); ++i) {
      head.weighs_values = head.weighs_values || (!is_unwritten(stored, i) && stored.at(i) != 0);
    }
    head.weighs_values = head.weighs_values && head.fault.empty();
    if (lse) {
      const std::int64_t differing = head.differing;
      compare(take_lse(module, lse->type, lse->dims, buffers.last(4, one.queries() * 4)), *lse, row,
              SiteId::lse, head);
      head.sums_hold = head.fault.empty() && head.differing == differing;
    }
  } catch (const EnvironmentError&) {
    return std::nullopt;  // no such memory
  }
  return head;
}

/// Lines that come to rows near, and not far: where both runs end.
ptx::RowLines lost_lines(const ptx::RowLines& near, const ptx::RowLines& far) {
  ptx::RowLines lost;
  for (std::size_t i = 0; i < lost.size(); ++i) {
    std::ranges::copy_if(near[i], std::back_inserter(lost[i]), [&](const std::string& line) {
      return std::ranges::find(far[i], line) == far[i].end();
    });
  }
  return lost;
}

/// run_far_head, with blocks that have so many turns.
std::optional<FarHead> run_far_by(Turns turns, const RunOptions& options, FarSide side) {
  RunOptions near = options;
  near.splits.reset();
  near.where.clear();
  near.preset.clear();
  near.shape = "b=1,h=1,s=16,d=64";
  const PreparedRun first = prepare(near);
  const Module& module = *first.module;
  const bool is_plain = *module.source_hash == 0;
  if (std::string_view(module.backend) != "sim" || module.dtype == ElementType::e4m3 ||
      (side == FarSide::keys && !is_plain)) {
    return std::nullopt;
  }
  // Some kernels take as many keys as queries alone, or have their mask built in.
  std::optional<PreparedRun> run;
  Dump alone;
  for (const bool causal : {false, true}) {
    for (const bool square : {false, true}) {
      if (run || (square && side != FarSide::keys)) continue;
      near = near_problem(near, module, side, square);
      near.causal = causal;
      try {
        run = prepare(near);
        alone = launch(*run->module, run->module_name, run->request);
      } catch (const UsageError&) {
        run.reset();
      }
    }
  }
  if (!run || !alone.info.incomplete.empty()) return std::nullopt;
  const Problem& one = run->request.problem;
  ptx::LaunchedGrids launched;
  std::vector<std::uint32_t> partials;
  if (is_plain) {  // whether each grid's last blocks have the last rows
    const auto grids_of = [&](const Problem& problem) {
      const bool by_items = turns == Turns::item_per_block;
      return launched_grids(*run, problem, by_items ? items_of(problem, module) : 0);
    };
    const std::optional<ptx::LaunchedGrids> grids = grids_of(one);
    if (!grids) return std::nullopt;
    launched = *grids;
    const Problem far = far_problem(one, module, side, 1);
    const std::optional<ptx::LaunchedGrids> of_far = grids_of(far);
    if (of_far && takes_turns(*of_far, items_of(far, module))) {
      FarHead none;
      none.problem = far;
      none.too_long = true;
      return none;
    }
    const Problem few = few_heads(one, module, side, 1);
    const auto run_few = [&] { return run_last_block(*run, alone, few, &launched, turns); };
    std::optional<FarHead> last = run_few();
    if (last && last->too_long) return last;
    if (last && !last->right()) {  // rows of a head may go to blocks in another order
      const std::optional<ptx::LaunchedGrids> of_few = grids_of(few);
      if (of_few && of_far && take_whole_sides(*of_few, *of_far, launched)) last = run_few();
    }
    if (!last || !last->right()) return std::nullopt;
  } else {  // whether the last block has the last rows
    Problem few = one;
    few.heads = few.heads_kv = 3;
    const std::optional<FarHead> last = run_last_block(*run, alone, few, nullptr, turns);
    if (!last || !last->right()) return std::nullopt;
    partials = last->partials;
  }
  const auto run_far = [&](std::int64_t batches) {
    const Problem problem = far_problem(one, module, side, batches);
    const ptx::LaunchedGrids* ends = is_plain ? &launched : nullptr;
    std::optional<FarHead> head = run_last_block(*run, alone, problem, ends, turns);
    if (head) head->partials_hold = !partials.empty() && head->partials == partials;
    return head;
  };
  const auto run_in = [&](std::int64_t batches) -> std::optional<FarHead> {
    const std::optional<FarHead> last =
        run_last_block(*run, alone, few_heads(one, module, side, batches), &launched, turns);
    return last && last->right() ? run_far(batches) : std::nullopt;
  };
  std::optional<FarHead> far = run_far(1);
  if (!is_plain) return far;
  if (!far) far = run_in(batches_of_heads);
  if (!far || far->right() || far->too_long) return far;
  // Numbers of heads that are multiplied by each other, as in which keys a head shares, pass 2^31
  // with so many of both: that is no index.
  if (side == FarSide::keys && far->problem.batch == 1) {
    if (const auto of_two = run_in(2); of_two && of_two->right()) return of_two;
  }
  if (!far->fault.empty()) return far;
  // To look out for lines that come to rows takes many times as long.
  ptx::RowLines near_lines, far_lines;
  const Problem few = few_heads(one, module, side, far->problem.batch);
  run_last_block(*run, alone, few, &launched, turns, &near_lines);
  run_last_block(*run, alone, far->problem, &launched, turns, &far_lines);
  far->lost = lost_lines(near_lines, far_lines);
  return far;
}

}  // namespace

std::optional<FarHead> run_far_head(const RunOptions& options, FarSide side) {
  std::optional<FarHead> far = run_far_by(Turns::as_launched, options, side);
  if (far && far->too_long) far = run_far_by(Turns::item_per_block, options, side);
  return far;
}

}  // namespace lanescope
