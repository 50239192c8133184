#include "gates/build/needed_libraries.h"

#include <elf.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <map>
#include <string_view>

#include "debug/ptx/runtime_entry.h"
#include "reference/error.h"

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

/// What an ELF file tells the loader, and where the strings of that lie in it.
struct Dynamic {
  std::vector<Elf64_Dyn> entries;
  std::uint64_t at = 0;  ///< where they lie
  std::uint64_t strings = UINT64_MAX, bytes = 0;
};

Dynamic dynamic_of(std::ifstream& file) {
  Dynamic dynamic;
  const std::vector<Elf64_Ehdr> head = read_table<Elf64_Ehdr>(file, 0, 1);
  if (head.empty() || std::memcmp(head[0].e_ident, ELFMAG, SELFMAG) != 0 ||
      head[0].e_ident[EI_CLASS] != ELFCLASS64 || head[0].e_phentsize != sizeof(Elf64_Phdr)) {
    return dynamic;
  }
  const auto segments = read_table<Elf64_Phdr>(file, head[0].e_phoff, head[0].e_phnum);
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type != PT_DYNAMIC) continue;
    dynamic.at = segment.p_offset;
    dynamic.entries =
        read_table<Elf64_Dyn>(file, segment.p_offset, segment.p_filesz / sizeof(Elf64_Dyn));
  }
  const auto end = std::find_if(dynamic.entries.begin(), dynamic.entries.end(),
                                [](const Elf64_Dyn& entry) { return entry.d_tag == DT_NULL; });
  dynamic.entries.erase(end, dynamic.entries.end());
  for (const Elf64_Dyn& entry : dynamic.entries) {
    if (entry.d_tag == DT_STRTAB) dynamic.strings = offset_of(segments, entry.d_un.d_ptr);
    if (entry.d_tag == DT_STRSZ) dynamic.bytes = entry.d_un.d_val;
  }
  return dynamic;
}

/// Has the symbols that are one in a process (STB_GNU_UNIQUE: variables of inline functions) be the
/// library's own, as many as its sections tell of.
void own_unique_symbols(std::ifstream& file, std::string& bytes) {
  const std::vector<Elf64_Ehdr> head = read_table<Elf64_Ehdr>(file, 0, 1);
  if (head.empty() || head[0].e_shentsize != sizeof(Elf64_Shdr)) return;
  for (const Elf64_Shdr& section : read_table<Elf64_Shdr>(file, head[0].e_shoff, head[0].e_shnum)) {
    if (section.sh_type != SHT_DYNSYM || section.sh_offset > bytes.size()) continue;
    const std::uint64_t end =
        section.sh_offset + std::min(section.sh_size, bytes.size() - section.sh_offset);
    for (std::uint64_t at = section.sh_offset; at + sizeof(Elf64_Sym) <= end;
         at += sizeof(Elf64_Sym)) {
      char& info = bytes[at + offsetof(Elf64_Sym, st_info)];
      const auto type = static_cast<unsigned char>(info);
      if (ELF64_ST_BIND(type) == STB_GNU_UNIQUE) {
        info = static_cast<char>(ELF64_ST_INFO(STB_GLOBAL, ELF64_ST_TYPE(type)));
      }
    }
  }
}

/// Has the library ask for CUDA's runtime where it asks for CUDA's driver: the machine has both in
/// one.
void take_driver_of_runtime(const Dynamic& dynamic, std::string_view strings, std::string& bytes) {
  const auto names = [&](const Elf64_Dyn& entry, std::string_view name) {
    const std::size_t at = std::min<std::size_t>(entry.d_un.d_val, strings.size());
    return entry.d_tag == DT_NEEDED && strings.substr(at).starts_with(std::string(name) + '\0');
  };
  const auto& all = dynamic.entries;
  const auto runtime = std::find_if(all.begin(), all.end(), [&](const Elf64_Dyn& entry) {
    return names(entry, ptx::runtime_library);
  });
  for (std::size_t i = 0; runtime != all.end() && i < all.size(); ++i) {
    const std::uint64_t at = dynamic.at + i * sizeof(Elf64_Dyn);
    const bool is_there = at < bytes.size() && bytes.size() - at >= sizeof(Elf64_Dyn);
    if (!is_there || !names(all[i], ptx::driver_library)) continue;
    std::memcpy(&bytes[at], &*runtime, sizeof(Elf64_Dyn));
  }
}

/// A file in memory that holds `bytes`: its path, as long as this process lives.
std::string file_of(const std::string& bytes) {
  const int file = memfd_create("module", MFD_CLOEXEC);
  for (std::size_t at = 0; file >= 0 && at < bytes.size();) {
    const ssize_t written = write(file, bytes.data() + at, bytes.size() - at);
    if (written <= 0) throw EnvironmentError("no memory for a copy of a module");
    at += static_cast<std::size_t>(written);
  }
  if (file < 0) throw EnvironmentError(std::string("no file in memory: ") + std::strerror(errno));
  return "/proc/self/fd/" + std::to_string(file);
}

}  // namespace

std::vector<std::string> needed_libraries(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const Dynamic dynamic = dynamic_of(file);
  std::vector<std::string> names;
  for (const Elf64_Dyn& entry : dynamic.entries) {
    if (entry.d_tag != DT_NEEDED || dynamic.strings == UINT64_MAX) continue;
    const auto name = read_table<char>(file, dynamic.strings + entry.d_un.d_val, most_name);
    names.emplace_back(name.begin(), std::find(name.begin(), name.end(), '\0'));
  }
  return names;
}

bool needs_cuda_runtime(const std::filesystem::path& path) {
  const std::vector<std::string> names = needed_libraries(path);
  return std::find(names.begin(), names.end(), ptx::runtime_library) != names.end();
}

std::string on_machine_runtime(const std::filesystem::path& path) {
  constexpr std::string_view name = ptx::runtime_library, other = "libmachine.so.1";
  static_assert(name.size() == other.size());
  struct stat is {};
  if (stat(path.c_str(), &is) != 0) return path;
  static std::map<std::array<std::int64_t, 5>, std::string> copies;
  std::string& copy =
      copies[{static_cast<std::int64_t>(is.st_dev), static_cast<std::int64_t>(is.st_ino),
              is.st_size, is.st_mtim.tv_sec, is.st_mtim.tv_nsec}];
  if (!copy.empty()) return copy;
  std::ifstream file(path, std::ios::binary);
  const Dynamic dynamic = dynamic_of(file);
  std::string bytes(static_cast<std::size_t>(is.st_size), '\0');
  file.clear();
  file.seekg(0);
  file.read(bytes.data(), is.st_size);
  const std::string_view all = bytes;
  const std::uint64_t first = std::min<std::uint64_t>(dynamic.strings, bytes.size());
  const std::string_view strings = all.substr(first, dynamic.bytes);
  take_driver_of_runtime(dynamic, strings, bytes);
  const std::string whole = '\0' + std::string(name) + '\0';
  for (std::size_t at = strings.find(whole); at != strings.npos; at = strings.find(whole, at + 1)) {
    bytes.replace(first + at + 1, name.size(), other);
  }
  own_unique_symbols(file, bytes);
  copy = file_of(bytes);
  return copy;
}

}  // namespace lanescope
