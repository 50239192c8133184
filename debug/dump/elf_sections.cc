#include "debug/dump/elf_sections.h"

#include <elf.h>

#include <cstdint>
#include <cstring>
#include <optional>

namespace lanescope {
namespace {

/// What lies at byte `at`.
template <class T>
std::optional<T> part_at(const std::string& bytes, std::uint64_t at) {
  T part;
  if (at > bytes.size() || bytes.size() - at < sizeof part) return std::nullopt;
  std::memcpy(&part, bytes.data() + at, sizeof part);
  return part;
}

}  // namespace

std::map<std::string, std::string> elf_sections(const std::string& elf) {
  std::map<std::string, std::string> sections;
  const auto head = part_at<Elf64_Ehdr>(elf, 0);
  if (!head || !elf.starts_with(ELFMAG)) return sections;
  const auto header = [&](std::uint64_t i) {
    return part_at<Elf64_Shdr>(elf, head->e_shoff + i * sizeof(Elf64_Shdr));
  };
  const auto names = header(head->e_shstrndx);
  for (std::uint64_t i = 0; names && i < head->e_shnum; ++i) {
    const auto section = header(i);
    if (!section) break;
    const std::uint64_t name = names->sh_offset + section->sh_name;
    const std::uint64_t at = section->sh_offset, size = section->sh_size;
    if (name >= elf.size() || at > elf.size() || size > elf.size() - at) continue;
    sections[elf.c_str() + name] = elf.substr(at, size);
  }
  return sections;
}

}  // namespace lanescope
