#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>
#include <utility>

#include "debug/ptx/terms.h"

namespace lanescope::ptx {

/// Which terms lie in memory, byte by byte; what nobody stored is what `origin` says of it.
class TermShadow {
 public:
  explicit TermShadow(std::function<TermId(const std::byte*)> origin)
      : origin_(std::move(origin)) {}

  TermId load(const std::byte* at) {
    TermId& term = of(at);
    if (term == unread) term = origin_(at);
    return term;
  }
  void store(const std::byte* at, TermId term) { of(at) = term; }
  void clear(const std::byte* begin, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; ++i) store(begin + i, no_term);
  }

 private:
  static constexpr std::size_t page_bytes = 4096;
  static constexpr TermId unread = ~0u;
  using Page = std::array<TermId, page_bytes>;

  TermId& of(const std::byte* at) {
    const auto address = reinterpret_cast<std::uintptr_t>(at);
    const std::uintptr_t number = address / page_bytes;
    if (!last_ || number != last_number_) {
      std::unique_ptr<Page>& page = pages_[number];
      if (!page) {
        page = std::make_unique<Page>();
        page->fill(unread);
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
