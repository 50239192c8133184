#include "gates/measure/marked_code.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <sstream>

#include "debug/dump/elf_sections.h"
#include "debug/text/json.h"
#include "debug/text/text.h"
#include "gates/process/program.h"
#include "reference/error.h"

namespace lanescope {
namespace {

namespace fs = std::filesystem;

/// A folder that goes with its object.
struct ScratchFolder {
  fs::path path;
  ScratchFolder() {
    std::string name = (fs::temp_directory_path() / "lanescope.XXXXXX").string();
    if (!mkdtemp(name.data())) throw EnvironmentError("cannot make a folder for machine code");
    path = name;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
};

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw UsageError("cannot read " + path.string());
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A program of the CUDA Toolkit: of PATH, or where the toolkit is installed.
std::string toolkit_program(const std::string& name) {
  const fs::path usual = fs::path("/usr/local/cuda/bin") / name;
  const char* path = std::getenv("PATH");
  std::istringstream folders(path ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (fs::exists(fs::path(folder) / name)) return (fs::path(folder) / name).string();
  }
  return fs::exists(usual) ? usual.string() : "";
}

/// "sm_90" of the directive .target.
std::string target_in(const fs::path& ptx) {
  const std::string text = read_file(ptx);
  const std::size_t at = text.find(".target ");
  if (at == text.npos) throw UsageError(ptx.string() + " has no .target: is this PTX at all?");
  const std::size_t begin = at + std::strlen(".target ");
  return text.substr(begin, text.find_first_of(", \t\r\n", begin) - begin);
}

/// "MOV" of "        /*0010*/              @P0 MOV R1, R2 ;"; empty where there is none.
std::string opcode_in(const std::string& line) {
  const std::size_t mark = line.find("*/");
  if (line.find("/*") == line.npos || mark == line.npos) return {};
  std::istringstream words(line.substr(mark + 2));
  std::string word;
  words >> word;
  if (word.starts_with('@')) words >> word;
  if (word.empty() || std::isupper(static_cast<unsigned char>(word[0])) == 0) return {};
  return word.substr(0, word.find(';'));
}

/// The opcodes of each kernel, where nvdisasm is at hand.
std::map<std::string, std::vector<std::string>> opcodes_of(const fs::path& cubin) {
  std::map<std::string, std::vector<std::string>> opcodes;
  const std::string program = toolkit_program("nvdisasm");
  if (program.empty()) return opcodes;
  std::istringstream lines(run_program({program, "-c", cubin.string()}, -1).out);
  std::string kernel;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t section = line.find(".text.");
    if (section != line.npos && line.starts_with("\t.section")) {
      const std::size_t begin = section + std::strlen(".text.");
      kernel = line.substr(begin, line.find_first_of(" ,\t\"", begin) - begin);
    } else if (const std::string opcode = opcode_in(line); !opcode.empty()) {
      opcodes[kernel].push_back(opcode);
    }
  }
  return opcodes;
}

std::string readable(const std::string& mangled) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status), std::free);
  const std::string whole = text ? text.get() : mangled;
  return whole.substr(0, whole.find('('));
}

/// "(C7514) Potential Performance Loss: wgmma.mma_async instructions are serialized due to ..." of
/// what ptxas says of a kernel.
std::vector<std::string> serialised_products(const std::string& said, const std::string& kernel) {
  std::vector<std::string> found;
  std::istringstream lines(said);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t code = line.find("(C75");
    if (code == line.npos || line.find("wgmma") == line.npos) continue;
    if (line.find("'" + kernel + "'") != line.npos) found.push_back(line.substr(code));
  }
  return found;
}

std::vector<MachineCode> compile(const fs::path& ptx) {
  const std::string ptxas = toolkit_program("ptxas");
  if (ptxas.empty()) {
    throw EnvironmentError(
        "ptxas is neither in PATH nor in /usr/local/cuda/bin: the CUDA Toolkit "
        "has it");
  }
  const ScratchFolder scratch;
  const fs::path cubin = scratch.path / "kernel.cubin";
  const ProgramOutcome done =
      run_program({ptxas, "-v", "-arch=" + target_in(ptx), ptx.string(), "-o", cubin.string()}, -1);
  if (done.code != 0) throw UsageError("ptxas refuses " + ptx.string() + ":\n" + done.err);
  const auto sections = elf_sections(read_file(cubin));
  if (sections.empty()) throw EnvironmentError("what ptxas has written is no ELF file");
  const auto opcodes = opcodes_of(cubin);
  std::vector<MachineCode> codes;
  for (const CompiledFunction& function : parse_ptxas(done.out + done.err)) {
    MachineCode code{readable(function.name),
                     function,
                     {},
                     {},
                     serialised_products(done.out + done.err, function.name)};
    const auto text = sections.find(".text." + function.name);
    if (text == sections.end()) continue;
    constexpr std::size_t bytes = 16;  // of an instruction, since sm_70
    for (std::size_t at = 0; at + bytes <= text->second.size(); at += bytes) {
      code.instructions.push_back(text->second.substr(at, bytes));
    }
    const auto names = opcodes.find(function.name);
    if (names != opcodes.end() && names->second.size() == code.instructions.size()) {
      code.opcodes = names->second;
    }
    codes.push_back(std::move(code));
  }
  return codes;
}

/// The opcode of instruction i; without nvdisasm its number, the lowest 12 bits.
std::string opcode_of(const MachineCode& code, std::size_t i) {
  if (!code.opcodes.empty()) return code.opcodes[i];
  std::uint16_t low = 0;
  std::memcpy(&low, code.instructions[i].data(), sizeof low);
  char text[8];
  std::snprintf(text, sizeof text, "0x%03x", static_cast<unsigned>(low & 0xfff));
  return text;
}

MarkedCode compare(MachineCode with, MachineCode without) {
  MarkedCode result;
  if (with.opcodes.empty()) without.opcodes.clear();
  if (without.opcodes.empty()) with.opcodes.clear();
  std::map<std::string, OpcodeCount> counts;
  for (std::size_t i = 0; i < with.instructions.size(); ++i) ++counts[opcode_of(with, i)].with;
  for (std::size_t i = 0; i < without.instructions.size(); ++i) {
    ++counts[opcode_of(without, i)].without;
  }
  for (auto& [opcode, count] : counts) {
    count.opcode = opcode;
    if (count.with != count.without) result.counts.push_back(count);
  }
  result.same = with.instructions == without.instructions;
  if (without.serialised.empty()) result.serialised = with.serialised;
  result.with = std::move(with);
  result.without = std::move(without);
  return result;
}

Json code_json(const MachineCode& code) {
  const Figures& f = code.function.figures;
  return {{"instructions", code.instructions.size()},
          {"registers", f.registers},
          {"stack", f.stack},
          {"spill_stores", f.spill_stores},
          {"spill_loads", f.spill_loads}};
}

}  // namespace

std::vector<MarkedCode> compare_marked_code(const fs::path& with, const fs::path& without) {
  std::vector<MachineCode> others = compile(without);
  std::vector<MarkedCode> compared;
  for (MachineCode& code : compile(with)) {
    const auto other = std::find_if(others.begin(), others.end(), [&](const MachineCode& one) {
      return one.function.name == code.function.name;
    });
    if (other != others.end()) compared.push_back(compare(std::move(code), std::move(*other)));
  }
  if (compared.empty()) {
    throw UsageError(with.string() + " and " + without.string() + " have no kernel in common");
  }
  return compared;
}

std::string marked_code_text(const std::vector<MarkedCode>& kernels) {
  std::vector<std::vector<std::string>> rows = {
      {"kernel", "arch", "markers", "instructions", "registers", "stack", "spills"}};
  std::string text;
  const auto add = [&](const MachineCode& code, const char* markers) {
    const Figures& f = code.function.figures;
    rows.push_back({code.name, code.function.arch, markers,
                    std::to_string(code.instructions.size()), std::to_string(f.registers),
                    std::to_string(f.stack),
                    std::to_string(f.spill_stores) + "/" + std::to_string(f.spill_loads)});
  };
  for (const MarkedCode& kernel : kernels) {
    add(kernel.with, "with");
    add(kernel.without, "without");
  }
  for (const std::string& line : table_lines(rows, 3)) text += line + "\n";
  for (const MarkedCode& kernel : kernels) {
    for (const std::string& line : kernel.serialised) text += "\nwith the markers: " + line;
    if (!kernel.serialised.empty()) {
      text +=
          "\n  without them it does not: a marker that binds an accumulator belongs behind the "
          "wgmma.wait_group that waits for its product\n";
    }
    text += "\n" + kernel.with.name;
    if (kernel.same) {
      text += ": untouched: the machine code is the same\n";
      continue;
    }
    if (kernel.counts.empty()) {
      text += ": moved: the same instructions in another order or other registers\n";
      continue;
    }
    text += ": moved: these opcodes are there more or less often";
    text +=
        kernel.with.opcodes.empty() ? " (nvdisasm, of the CUDA Toolkit, has their names)\n" : "\n";
    std::vector<std::vector<std::string>> counts = {{"opcode", "with", "without"}};
    for (const OpcodeCount& count : kernel.counts) {
      counts.push_back({count.opcode, std::to_string(count.with), std::to_string(count.without)});
    }
    for (const std::string& line : table_lines(counts, 1)) text += "  " + line + "\n";
  }
  return text;
}

std::string marked_code_json(const std::vector<MarkedCode>& kernels) {
  Json json = {{"kernels", Json::array()}};
  for (const MarkedCode& kernel : kernels) {
    Json one = {{"kernel", kernel.with.name},
                {"arch", kernel.with.function.arch},
                {"same", kernel.same},
                {"with", code_json(kernel.with)},
                {"without", code_json(kernel.without)},
                {"moved", Json::array()},
                {"serialised", kernel.serialised}};
    for (const OpcodeCount& count : kernel.counts) {
      one["moved"].push_back(
          {{"opcode", count.opcode}, {"with", count.with}, {"without", count.without}});
    }
    json["kernels"].push_back(one);
  }
  return document_text(json);
}

}  // namespace lanescope
