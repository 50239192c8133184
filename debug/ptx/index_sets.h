#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace lanescope::ptx {

/// Sets of small numbers, each kept once: equal sets have equal names. 0 is the empty one.
class IndexSets {
 public:
  using Id = std::uint32_t;
  /// From, to; the end is not in it.
  using Range = std::pair<std::uint32_t, std::uint32_t>;
  struct Union {
    Id set;
    bool overlaps;  ///< some are in both
  };

  IndexSets() { id_of({}); }
  Id single(std::uint32_t i) { return id_of({{i, i + 1}}); }
  Id id_of(std::vector<Range> ranges) {
    const auto [at, is_new] = ids_.try_emplace(ranges, static_cast<Id>(sets_.size()));
    if (is_new) sets_.push_back(std::move(ranges));
    return at->second;
  }
  Union unite(Id a, Id b) {
    if (a == 0 || b == 0) return {a | b, false};
    if (a > b) std::swap(a, b);
    const auto [at, is_new] = unions_.try_emplace(std::uint64_t{a} << 32 | b);
    if (is_new) {
      Union both = make_union(a, b);
      unions_[std::uint64_t{a} << 32 | b] = both;
      return both;
    }
    return at->second;
  }
  const std::vector<Range>& ranges(Id set) const { return sets_[set]; }
  std::uint32_t count(Id set) const {
    std::uint32_t count = 0;
    for (const auto& [from, to] : sets_[set]) count += to - from;
    return count;
  }
  /// "3-17,40-41", both ends included; "-" of the empty one.
  std::string text(Id set) const {
    std::string text;
    for (const auto& [from, to] : sets_[set]) {
      text += (text.empty() ? "" : ",") + std::to_string(from) + "-" + std::to_string(to - 1);
    }
    return text.empty() ? "-" : text;
  }

 private:
  Union make_union(Id a, Id b) {
    std::vector<Range> all = sets_[a], both;
    all.insert(all.end(), sets_[b].begin(), sets_[b].end());
    std::sort(all.begin(), all.end());
    bool overlaps = false;
    for (const Range& range : all) {
      if (both.empty() || range.first > both.back().second) {
        both.push_back(range);
        continue;
      }
      overlaps = overlaps || range.first < both.back().second;
      both.back().second = std::max(both.back().second, range.second);
    }
    return {id_of(std::move(both)), overlaps};
  }

  std::vector<std::vector<Range>> sets_;
  std::map<std::vector<Range>, Id> ids_;
  std::unordered_map<std::uint64_t, Union> unions_;  ///< by both sets
};

}  // namespace lanescope::ptx
