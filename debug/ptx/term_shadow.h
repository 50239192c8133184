#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>
#include <utility>

#include "debug/ptx/roads.h"
#include "debug/ptx/terms.h"

namespace lanescope::ptx {

/// What a byte holds, and how that came there.
struct Held {
  TermId term = no_term;
  RoadId road = 0;
};

/// Which terms lie in memory, byte by byte; what nobody stored is what `origin` says of it.
class TermShadow {
 public:
  explicit TermShadow(std::function<TermId(const std::byte*)> origin)
      : origin_(std::move(origin)) {}

  Held load(const std::byte* at) {
    Held& held = of(at);
    if (held.term == unread) held.term = origin_(at);
    return held;
  }
  void store(const std::byte* at, Held held) { of(at) = held; }
  void clear(const std::byte* begin, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; ++i) store(begin + i, {});
  }

 private:
  static constexpr std::size_t page_bytes = 4096;
  static constexpr TermId unread = ~0u;
  using Page = std::array<Held, page_bytes>;

  Held& of(const std::byte* at) {
    const auto address = reinterpret_cast<std::uintptr_t>(at);
    const std::uintptr_t number = address / page_bytes;
    if (!last_ || number != last_number_) {
      std::unique_ptr<Page>& page = pages_[number];
      if (!page) {
        page = std::make_unique<Page>();
        page->fill({unread, 0});
      }
      last_ = page.get();
      last_number_ = number;
    }
    return (*last_)[address % page_bytes];
  }

  std::function<TermId(const std::byte*)> origin_;
  std::unordered_map<std::uintptr_t, std::unique_ptr<Page>> pages_;
  Page* last_ = nullptr;
  std::uintptr_t last_number_ = 0;
};

}  // namespace lanescope::ptx
