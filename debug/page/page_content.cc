#include "debug/page/page_content.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <tuple>

#include "debug/dump/dump_check.h"
#include "debug/dump/site_slots.h"
#include "debug/judge/compare.h"
#include "debug/judge/judge.h"
#include "debug/judge/tile_view.h"
#include "reference/error.h"
#include "reference/parallel.h"

namespace lanescope {
namespace {

using reference::Bounded;

/// Multiply-adds of the reference that are done at once, about half a second of one core.
constexpr double judged_work = 0.7e8;
/// Bytes of the tiles kept; a page holds them in base 64, a third more.
constexpr std::int64_t kept_bytes = 3'400'000;

Range chosen(const std::optional<Range>& choice, const Range& there, const char* what) {
  if (!choice) return there;
  if (choice->begin >= there.begin && choice->end <= there.end) return *choice;
  throw UsageError(std::string("--") + what + ": the dump holds " +
                   (there.count() > 0 ? std::string(what) + " " + range_text(there)
                                      : std::string("no ") + what));
}

/// `count` of `range`, its ends among them, evenly spread.
std::vector<std::int64_t> spread(const Range& range, std::int64_t count) {
  std::vector<std::int64_t> blocks;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t steps = std::max<std::int64_t>(count - 1, 1);
    blocks.push_back(range.begin + i * (range.count() - 1) / steps);
  }
  return blocks;
}

bool has_outputs(const Dump& dump) { return dump.find("o_final") || dump.find("lse"); }

/// Those whose blocks are chosen; else as many, evenly spread, as a page can afford.
std::vector<std::int64_t> row_tiles_to_judge(const Dump& dump, const PageChoice& choice) {
  const DumpInfo& info = dump.info;
  const auto row_tiles = [&](const Range& blocks) {
    return Range{blocks.begin / info.splits, (blocks.end - 1) / info.splits + 1};
  };
  const Range all = has_outputs(dump) ? Range{0, info.block_count()} : info.blocks;
  if (choice.blocks) {
    const Range chosen_tiles = row_tiles(chosen(choice.blocks, all, "block"));
    return spread(chosen_tiles, chosen_tiles.count());
  }
  const double tiles = double(info.kv_tiles()) * info.splits;
  const double work = tiles * info.br * info.bc * info.head_dim;
  const auto affordable = static_cast<std::int64_t>(std::max(judged_work / work, 1.0));
  if (affordable >= row_tiles(all).count()) return spread(row_tiles(all), row_tiles(all).count());
  const Range traced = row_tiles(info.sites.empty() ? all : info.blocks);
  return spread(traced, std::min(affordable, traced.count()));
}

/// The blocks of `row_tiles` of which the dump holds something.
std::vector<std::int64_t> blocks_of_row_tiles(const Dump& dump,
                                              const std::vector<std::int64_t>& row_tiles) {
  std::vector<std::int64_t> blocks;
  for (const std::int64_t row_tile : row_tiles) {
    for (std::int64_t split = 0; split < dump.info.splits; ++split) {
      const std::int64_t block = row_tile * dump.info.splits + split;
      const bool outputs = split == 0 && has_outputs(dump);
      if (outputs || dump.info.blocks.contains(block)) blocks.push_back(block);
    }
  }
  return blocks;
}

/// Calls visit(slot, comparison, want, bound) for each slot that is judged against `want`.
template <class Visit>
void for_each_judged(const PageSlots& slots, const Bounded& want, const Visit& visit) {
  for (std::int64_t slot = 0; slot < slots.count(); ++slot) {
    const std::int64_t row = slots.row(slot), col = slots.col(slot);
    if (row < 0 || row >= want.value.rows() || col >= want.value.cols()) continue;
    const std::int64_t index = slots.index(slot);
    Comparison outcome =
        compare(slots.tensor().at(index), want.value(row, col), want.error(row, col));
    if (is_unwritten(slots.tensor(), index)) {
      outcome = {0, std::numeric_limits<double>::infinity(), false};
    }
    visit(slot, outcome, want.value(row, col), want.error(row, col));
  }
}

/// Error over bound in a float that is above 1 exactly where the value is wrong.
float ratio_of(const Comparison& outcome) {
  const auto ratio = static_cast<float>(outcome.over_bound);
  if (outcome.holds) return std::min(ratio, 1.0f);
  return ratio > 1 ? ratio : std::nextafter(1.0f, 2.0f);  // of a NaN, too
}

PageVerdict verdict_of(const PageSlots& slots, const Bounded& want) {
  const auto count = static_cast<std::size_t>(slots.count());
  PageVerdict verdict{std::vector<float>(count), std::vector<float>(count, -1.0f),
                      std::vector<std::uint8_t>((count + 7) / 8)};
  const auto keep = [&](std::int64_t slot, const Comparison& outcome, double want, double bound) {
    const auto i = static_cast<std::size_t>(slot);
    const double got = slots.tensor().at(slots.index(slot));
    const bool same = outcome.error == 0;  // the difference of infinities would be a NaN
    verdict.error[i] = static_cast<float>(!outcome.holds ? want : same ? 0 : got - want);
    verdict.bound[i] = static_cast<float>(bound);
    if (!outcome.holds) verdict.wrong[i / 8] |= static_cast<std::uint8_t>(1 << i % 8);
  };
  for_each_judged(slots, want, keep);
  return verdict;
}

/// What a page may keep of a dump, and about how many bytes it takes.
struct Kept {
  SiteId site;
  bool per_tile;
  std::int64_t bytes;
};

std::vector<Kept> sites_of(const Dump& dump) {
  const DumpInfo& info = dump.info;
  std::vector<Kept> sites;
  const auto add = [&](SiteId id, bool per_tile, std::int64_t slots, ElementType type, bool exact) {
    const int judged = exact ? 4 : 16;  // error and bound, locally and of the chain
    sites.push_back({id, per_tile, slots * (size_of(type) + judged)});
  };
  for (const auto& [site, coordinates, owners] : info.sites) {
    if (is_output(site.id)) continue;
    add(site.id, site.per_tile, site.bytes() / size_of(site.type), site.type,
        site.stage == Stage::load);
  }
  for (const SiteId id : {SiteId::o_final, SiteId::lse}) {
    const Tensor* tensor = dump.find(name_of(id));
    const std::int64_t cols = id == SiteId::lse ? 1 : info.problem.d;
    if (tensor) add(id, false, info.br * cols, tensor->type, false);
  }
  return sites;
}

using BlockTile = std::pair<std::int64_t, std::int64_t>;

/// The (block, tile) pairs to keep: first those where a lane broke the run off, where a site first
/// diverged or is worst.
std::set<BlockTile> tiles_to_keep(const std::vector<Kept>& sites, const PageContent& content) {
  std::int64_t per_block = 0, per_tile = 0;
  for (const Kept& site : sites) (site.per_tile ? per_tile : per_block) += site.bytes;
  std::set<BlockTile> kept;
  std::set<std::int64_t> blocks;
  std::int64_t left = kept_bytes;
  const auto keep = [&](std::int64_t block, std::int64_t tile) {
    const std::int64_t bytes = per_tile + (blocks.contains(block) ? 0 : per_block);
    if (kept.contains({block, tile}) || (bytes > left && !kept.empty())) return;
    left -= bytes;
    kept.insert({block, tile});
    blocks.insert(block);
  };
  const Range& tiles = content.tiles;
  const auto keep_around = [&](const std::optional<Divergence>& at) {
    if (at) keep(at->block, std::clamp(at->tile, tiles.begin, tiles.end - 1));
  };
  for (const LastSite& last : content.report.last_sites) {
    const bool judged =
        std::binary_search(content.blocks.begin(), content.blocks.end(), last.block);
    if (judged && last.lane >= 0)
      keep(last.block, std::clamp(last.tile, tiles.begin, tiles.end - 1));
  }
  keep_around(content.report.first);
  for (const SiteReport& site : content.report.sites) keep_around(site.first);
  for (const SiteReport& site : content.report.sites) keep_around(site.worst);
  for (const std::int64_t block : content.blocks) {
    for (std::int64_t tile = tiles.begin; tile < tiles.end && left >= per_tile; ++tile) {
      keep(block, tile);
    }
  }
  return kept;
}

/// The largest errors over bounds of the judged blocks, as they are judged.
class WorstTiles {
 public:
  WorstTiles(const Dump& dump, PageContent& content) : dump_(dump), content_(content) {
    const auto count = static_cast<std::int64_t>(content.blocks.size());
    for (int i = 0; i < site_id_count; ++i) {
      const auto id = static_cast<SiteId>(i);
      const std::size_t size = static_cast<std::size_t>(count * tiles(id));
      for (const Judgement judgement : {Judgement::local, Judgement::chain}) {
        content.worst[{id, judgement}].assign(size, std::numeric_limits<float>::quiet_NaN());
      }
    }
  }

  void operator()(SiteId id, std::int64_t block, std::int64_t tile, Judgement judgement,
                  const Bounded& want) const {
    const auto found = std::lower_bound(content_.blocks.begin(), content_.blocks.end(), block);
    const auto index = static_cast<std::size_t>(found - content_.blocks.begin());
    const std::int64_t count = tiles(id), own = count == 1 ? 0 : tile - dump_.info.tiles.begin;
    float worst = std::numeric_limits<float>::quiet_NaN();
    bool nan_wanted = false;
    for_each_judged(PageSlots(dump_, id, block, tile), want,
                    [&](std::int64_t, const Comparison& outcome, double wanted, double) {
                      worst = std::fmax(worst, ratio_of(outcome));
                      nan_wanted |= std::isnan(wanted);
                    });
    if (nan_wanted && worst <= 1) worst = PageContent::nan_is_right;
    content_.worst.at({id, judgement})[index * std::size_t(count) + std::size_t(own)] = worst;
  }

 private:
  std::int64_t tiles(SiteId id) const {
    const DumpSite* entry = dump_.find_site(name_of(id));
    return entry && entry->site.per_tile ? dump_.info.tiles.count() : 1;
  }

  const Dump& dump_;
  PageContent& content_;
};

/// Judges the kept tiles again, with everything about each of their slots.
void judge_kept(const Dump& dump, int threads, PageContent& content) {
  std::map<std::tuple<std::int64_t, SiteId, std::int64_t>, PageTile*> find;
  std::vector<std::int64_t> row_tiles;
  for (PageTile& kept : content.kept) {
    find[{kept.block, kept.site, kept.tile}] = &kept;
    const std::int64_t row_tile = kept.block / dump.info.splits;
    if (row_tiles.empty() || row_tiles.back() != row_tile) row_tiles.push_back(row_tile);
  }
  diff_row_tiles(dump, row_tiles, threads,
                 [&](SiteId site, std::int64_t block, std::int64_t tile, Judgement judgement,
                     const Bounded& want) {
                   const auto found = find.find({block, site, std::max<std::int64_t>(tile, 0)});
                   if (found == find.end()) return;
                   const PageSlots slots(dump, site, block, tile);
                   found->second->verdicts[static_cast<std::size_t>(judgement)] =
                       verdict_of(slots, want);
                 });
}

}  // namespace

PageSlots::PageSlots(const Dump& dump, SiteId site, std::int64_t block, std::int64_t tile) {
  const DumpSite* entry = dump.find_site(name_of(site));
  if (entry && entry->site.space == Space::registers) registers_ = entry;
  if (entry && !is_output(site)) {
    const SiteSlots slots(dump, *entry);
    tensor_ = &slots.tensor();
    first_ = slots.first(block, tile);
    count_ = slots.count();
    cols_ = entry->site.cols;
  } else {
    const TileView view = tile_view(dump, name_of(site), block, 0);
    tensor_ = view.tensor;
    first_ = view.first;
    count_ = view.rows * view.cols;
    cols_ = view.cols;
  }
}

std::int64_t PageSlots::row(std::int64_t slot) const {
  return registers_ ? registers_->coordinates[static_cast<std::size_t>(2 * slot)] : slot / cols_;
}

std::int64_t PageSlots::col(std::int64_t slot) const {
  return registers_ ? registers_->coordinates[static_cast<std::size_t>(2 * slot + 1)]
                    : slot % cols_;
}

PageContent page_content(const Dump& dump, const PageChoice& choice, int threads) {
  check_dump(dump);
  PageContent content;
  const std::vector<std::int64_t> row_tiles = row_tiles_to_judge(dump, choice);
  content.blocks = blocks_of_row_tiles(dump, row_tiles);
  content.tiles = chosen(choice.tiles, dump.info.tiles, "tile");
  if (content.tiles.count() == 0) content.tiles = {0, 1};  // only what a block has once
  content.report = diff_row_tiles(dump, row_tiles, threads, WorstTiles(dump, content));
  add_remarks(dump, content.report);

  const std::vector<Kept> sites = sites_of(dump);
  for (const auto& [block, tile] : tiles_to_keep(sites, content)) {
    const bool first_of_block = content.kept.empty() || content.kept.back().block != block;
    for (const Kept& site : sites) {
      // The outputs are those of the row tile, judged with the first of its blocks.
      const bool there =
          is_output(site.site) ? block % dump.info.splits == 0 : dump.info.blocks.contains(block);
      if (!there) continue;
      if (site.per_tile) {
        content.kept.push_back({site.site, block, tile, {}});
      } else if (first_of_block) {
        content.kept.push_back({site.site, block, 0, {}});
      }
    }
  }
  judge_kept(dump, threads, content);
  return content;
}

}  // namespace lanescope
