#pragma once

#include <map>
#include <string>

namespace lanescope {

/// The bytes of the sections of an ELF file of 64 bits, which `elf` holds, by their names (System V
/// ABI, "Sections"): a cubin's, or those of a library with device code. What lies outside the file
/// is left out; nothing where it is no such file.
std::map<std::string, std::string> elf_sections(const std::string& elf);

}  // namespace lanescope
