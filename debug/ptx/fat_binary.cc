#include "debug/ptx/fat_binary.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include "debug/dump/elf_sections.h"
#include "reference/error.h"

namespace lanescope::ptx {
namespace {

// The container is not documented; these are what nvcc 12 and 13 write.
constexpr std::uint32_t wrapper_magic = 0x466243b1;
constexpr std::uint32_t container_magic = 0xba55ed50;
constexpr std::uint32_t elf_magic = 0x464c457f;
constexpr std::uint16_t kind_ptx = 1;
constexpr std::uint64_t flag_lz4 = 0x2000;
constexpr std::uint64_t flag_zstd = 0x8000;
constexpr std::uint32_t newest_architecture = 90;
constexpr std::uint64_t most_ptx = std::uint64_t{1} << 30;

struct Wrapper {
  std::uint32_t magic, version;
  const std::byte* container;
};
struct Container {
  std::uint32_t magic;
  std::uint16_t version, header_bytes;
  std::uint64_t bytes;  ///< behind the header
};
struct Entry {
  std::uint16_t kind, version;
  std::uint32_t header_bytes;
  std::uint64_t bytes;  ///< behind the header, padded
  std::uint32_t compressed_bytes, unknown;
  std::uint16_t minor, major;
  std::uint32_t architecture, name_offset, name_bytes;
  std::uint64_t flags, zero, text_bytes;
};
static_assert(sizeof(Entry) == 64);

[[noreturn]] void refuse(const std::string& what) {
  throw UsageError("the module's fat binary " + what +
                   ": compile it with nvcc -gencode arch=compute_90,code=compute_90 -no-compress");
}

/// LZ4's block format.
std::string expand_lz4(const std::byte* from, std::size_t bytes, std::size_t text_bytes) {
  std::string text;
  text.reserve(text_bytes);
  std::size_t at = 0;
  const auto next = [&]() -> std::size_t {
    if (at >= bytes) refuse("is cut off");
    return static_cast<std::size_t>(from[at++]);
  };
  const auto length = [&](std::size_t nibble) {
    std::size_t sum = nibble;
    for (std::size_t more = 255; nibble == 15 && more == 255; sum += more) more = next();
    return sum;
  };
  while (at < bytes) {
    const std::size_t token = next();
    const std::size_t literals = length(token >> 4);
    if (literals > bytes - at || text.size() + literals > text_bytes) refuse("is cut off");
    text.append(reinterpret_cast<const char*>(from + at), literals);
    at += literals;
    if (at >= bytes) break;
    const std::size_t low = next(), distance = low | next() << 8;
    const std::size_t count = length(token & 15) + 4;
    if (distance == 0 || distance > text.size() || text.size() + count > text_bytes) {
      refuse("is damaged");
    }
    for (std::size_t i = 0; i < count; ++i) text += text[text.size() - distance];
  }
  return text;
}

/// By the system's libzstd, which this program does without otherwise.
std::string expand_zstd(const std::byte* from, std::size_t bytes, std::size_t text_bytes) {
  void* library = dlopen("libzstd.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    throw EnvironmentError(
        "the module's PTX is compressed, and libzstd.so.1 is missing: compile it with nvcc "
        "-no-compress, or install libzstd1");
  }
  using Expand = std::size_t (*)(void*, std::size_t, const void*, std::size_t);
  const auto expand = reinterpret_cast<Expand>(dlsym(library, "ZSTD_decompress"));
  std::string text(text_bytes, '\0');
  const std::size_t got = expand ? expand(text.data(), text.size(), from, bytes) : 0;
  dlclose(library);
  if (got != text_bytes) refuse("is damaged");
  return text;
}

std::string text_of(const Entry& entry, const std::byte* data) {
  const std::size_t bytes = entry.compressed_bytes;
  if (entry.text_bytes > most_ptx || bytes > entry.bytes) refuse("is damaged");
  std::string text;
  if (entry.flags & flag_zstd) {
    text = expand_zstd(data, bytes, entry.text_bytes);
  } else if (entry.flags & flag_lz4) {
    text = expand_lz4(data, bytes, entry.text_bytes);
  } else {
    text.assign(reinterpret_cast<const char*>(data), entry.bytes);
  }
  return text.substr(0, text.find('\0'));
}

/// The bytes from an address to the end of what was loaded of a program or library; SIZE_MAX for
/// one that lies in neither.
std::size_t loaded_bytes(const std::byte* from) {
  struct Search {
    std::uint64_t from;
    std::size_t bytes = SIZE_MAX;
  } search{std::bit_cast<std::uint64_t>(from)};
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* data) {
        auto& sought = *static_cast<Search*>(data);
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const auto& segment = info->dlpi_phdr[i];
          const std::uint64_t offset = sought.from - info->dlpi_addr - segment.p_vaddr;
          if (segment.p_type == PT_LOAD && offset < segment.p_memsz) {
            sought.bytes = segment.p_memsz - offset;
          }
        }
        return 0;
      },
      &search);
  return search.bytes;
}

/// Whether PTX is for an architecture's own instructions as well ("sm_90a"; PTX ISA, ".target").
bool is_specific(const std::string& ptx) {
  constexpr std::string_view directive = ".target";
  const std::size_t at = ptx.find(directive);
  const std::string_view line = at == ptx.npos
                                    ? std::string_view()
                                    : std::string_view(ptx).substr(at, ptx.find('\n', at) - at);
  return line.find("sm_90a") != line.npos;
}

/// The newest PTX of the container at `at`, which is then behind it, and of that for sm_90a before
/// that for sm_90, as the driver takes it: nvcc -arch=sm_90a leaves both. Nothing where it holds
/// none.
std::optional<std::string> take_container(const std::byte*& at) {
  Container container;
  std::memcpy(&container, at, sizeof container);
  std::optional<std::string> best;
  std::uint32_t best_architecture = 0;
  const std::size_t most = loaded_bytes(at);
  if (container.header_bytes < sizeof container || container.header_bytes > most ||
      container.bytes > most - container.header_bytes) {
    refuse("is damaged");
  }
  const std::byte* end = at + container.header_bytes + container.bytes;
  for (at += container.header_bytes; at < end;) {
    Entry entry;
    const auto left = static_cast<std::size_t>(end - at);
    if (left < sizeof entry) refuse("is damaged");
    std::memcpy(&entry, at, sizeof entry);
    if (entry.header_bytes < sizeof entry || entry.header_bytes > left ||
        entry.bytes > left - entry.header_bytes) {
      refuse("is damaged");
    }
    const bool fits = entry.kind == kind_ptx && entry.architecture <= newest_architecture;
    if (fits && (!best || entry.architecture >= best_architecture)) {
      std::string text = text_of(entry, at + entry.header_bytes);
      if (!best || entry.architecture > best_architecture || is_specific(text)) {
        best = std::move(text);
        best_architecture = entry.architecture;
      }
    }
    at += entry.header_bytes + entry.bytes;
  }
  at = end;
  return best;
}

bool is_container(const std::byte* at) {
  std::uint32_t magic = 0;
  std::memcpy(&magic, at, sizeof magic);
  return magic == container_magic;
}

/// A library may hold an empty container before the full one.
std::string ptx_of_containers(const std::byte* at) {
  while (is_container(at)) {
    if (auto text = take_container(at)) return *std::move(text);
  }
  refuse("holds no PTX for sm_90 or older");
}

}  // namespace

std::string ptx_of_fat_binary(const void* wrapper) {
  Wrapper head;
  std::memcpy(&head, wrapper, sizeof head);
  if (head.magic != wrapper_magic) refuse("is of no kind that is known");
  return ptx_of_containers(head.container);
}

std::string ptx_of_image(const void* image) {
  std::uint32_t magic = 0;
  std::memcpy(&magic, image, std::min(sizeof magic, std::strlen(static_cast<const char*>(image))));
  if (magic == wrapper_magic) return ptx_of_fat_binary(image);
  if (magic == container_magic) return ptx_of_containers(static_cast<const std::byte*>(image));
  if (magic == elf_magic) {
    throw UsageError(
        "the module is machine code (a cubin), and the SIMT machine runs PTX: give it what nvcc "
        "-ptx, NVRTC's nvrtcGetPTX (with --gpu-architecture=compute_90) or Triton's "
        "kernel.asm[\"ptx\"] leaves");
  }
  return static_cast<const char*>(image);
}

std::vector<std::string> ptx_of_library(const std::string& path) {
  std::vector<std::string> texts;
  std::ifstream file(path, std::ios::binary);
  std::string section = elf_sections({std::istreambuf_iterator<char>(file), {}})[".nv_fatbin"];
  const std::size_t bytes = section.size();
  section.resize(bytes + sizeof(Entry));  // what is read of the last one's header
  const auto* data = reinterpret_cast<const std::byte*>(section.data());
  for (std::size_t at = 0; at < bytes;) {
    const std::byte* begin = data + at;
    if (!is_container(begin)) {
      at += 8;  // they are aligned
      continue;
    }
    Container container;
    std::memcpy(&container, begin, sizeof container);
    if (container.bytes > bytes - at) refuse("is cut off");
    const std::byte* end = begin;
    if (auto text = take_container(end)) texts.push_back(*std::move(text));
    at = static_cast<std::size_t>(end - data);
  }
  return texts;
}

}  // namespace lanescope::ptx
