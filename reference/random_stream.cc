#include "reference/random_stream.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "reference/parallel.h"

namespace lanescope {
namespace {

/// Numbers [first, last) of a stream, times `deviation`, as bits of `type`.
void write_normal(ElementType type, const Stream& stream, double deviation, std::int64_t first,
                  std::int64_t last, std::byte* to) {
  constexpr std::int64_t chunk = 1 << 16;
  const auto width = static_cast<std::size_t>(size_of(type));
  reference::parallel_for((last - first + chunk - 1) / chunk, 0, [&](std::int64_t part) {
    const std::int64_t begin = first + part * chunk;
    std::byte* at = to + part * chunk * size_of(type);
    for (std::int64_t i = begin; i < std::min(last, begin + chunk); ++i, at += width) {
      const std::uint32_t bits =
          round_to(type, deviation * stream.normal(static_cast<std::uint64_t>(i)));
      std::memcpy(at, &bits, width);
    }
  });
}

}  // namespace

void fill_normal(Tensor& tensor, const Stream& stream, double deviation) {
  // What the streams begin with.
  constexpr std::int64_t most_kept = 1 << 20;
  constexpr std::size_t most_streams = 16;
  static std::mutex lock;
  using Key = std::tuple<ElementType, std::uint64_t, bool, double>;
  static std::map<Key, std::vector<std::byte>> kept;

  const std::int64_t width = size_of(tensor.type), size = tensor.size();
  const std::int64_t begun = std::min(size, most_kept);
  std::byte* const to = tensor.bytes.data();
  {
    const std::lock_guard<std::mutex> guard(lock);
    const Key key{tensor.type, stream.key, stream.fine, deviation};
    if (kept.size() == most_streams && !kept.contains(key)) kept.clear();
    std::vector<std::byte>& start = kept[key];
    if (const std::int64_t known = std::ssize(start) / width; known < begun) {
      start.resize(static_cast<std::size_t>(begun * width));
      write_normal(tensor.type, stream, deviation, known, begun, start.data() + known * width);
    }
    std::memcpy(to, start.data(), static_cast<std::size_t>(begun * width));
  }
  write_normal(tensor.type, stream, deviation, begun, size, to + begun * width);
}

}  // namespace lanescope
