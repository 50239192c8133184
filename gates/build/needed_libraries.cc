#include "gates/build/needed_libraries.h"

#include <elf.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>

#include "debug/ptx/runtime_entry.h"

namespace lanescope {
namespace {

constexpr std::size_t most_entries = 1 << 12;  // of a table; a file may say what it will
constexpr std::size_t most_name = 1 << 12;

/// `count` structs that lie at `offset`; fewer where the file ends before.
template <class T>
std::vector<T> read_table(std::ifstream& file, std::uint64_t offset, std::uint64_t count) {
  std::vector<T> table(std::min<std::uint64_t>(count, most_entries));
  file.clear();
  file.seekg(static_cast<std::streamoff>(offset & INT64_MAX));
  file.read(reinterpret_cast<char*>(table.data()),
            static_cast<std::streamsize>(table.size() * sizeof(T)));
  table.resize(static_cast<std::size_t>(std::max<std::streamsize>(file.gcount(), 0)) / sizeof(T));
  return table;
}

/// Where the byte at an address lies in the file.
std::uint64_t offset_of(const std::vector<Elf64_Phdr>& segments, std::uint64_t address) {
  for (const Elf64_Phdr& segment : segments) {
    const std::uint64_t into = address - segment.p_vaddr;
    if (segment.p_type == PT_LOAD && into < segment.p_filesz) return segment.p_offset + into;
  }
  return UINT64_MAX;
}

}  // namespace

std::vector<std::string> needed_libraries(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<Elf64_Ehdr> head = read_table<Elf64_Ehdr>(file, 0, 1);
  if (head.empty() || std::memcmp(head[0].e_ident, ELFMAG, SELFMAG) != 0 ||
      head[0].e_ident[EI_CLASS] != ELFCLASS64 || head[0].e_phentsize != sizeof(Elf64_Phdr)) {
    return {};
  }
  const auto segments = read_table<Elf64_Phdr>(file, head[0].e_phoff, head[0].e_phnum);
  std::vector<std::string> names;
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type != PT_DYNAMIC) continue;
    const auto entries =
        read_table<Elf64_Dyn>(file, segment.p_offset, segment.p_filesz / sizeof(Elf64_Dyn));
    const auto strings = std::find_if(entries.begin(), entries.end(),
                                      [](const Elf64_Dyn& d) { return d.d_tag == DT_STRTAB; });
    if (strings == entries.end()) return {};
    const std::uint64_t table = offset_of(segments, strings->d_un.d_ptr);
    for (const Elf64_Dyn& entry : entries) {
      if (entry.d_tag == DT_NULL) break;
      if (entry.d_tag != DT_NEEDED || table == UINT64_MAX) continue;
      const auto name = read_table<char>(file, table + entry.d_un.d_val, most_name);
      names.emplace_back(name.begin(), std::find(name.begin(), name.end(), '\0'));
    }
  }
  return names;
}

bool needs_cuda_runtime(const std::filesystem::path& path) {
  const std::vector<std::string> names = needed_libraries(path);
  return std::find(names.begin(), names.end(), ptx::runtime_library) != names.end();
}

}  // namespace lanescope
