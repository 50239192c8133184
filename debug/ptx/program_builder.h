#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "debug/ptx/decoder.h"

namespace lanescope::ptx {

/// The next multiple of `align` from `at` on.
inline std::uint64_t align_up(std::uint64_t at, std::uint64_t align) {
  return (at + align - 1) / align * align;
}

/// Makes a Program of a kernel and the functions that it calls.
class ProgramBuilder {
 public:
  ProgramBuilder(const Module& module, const std::vector<std::uint64_t>& addresses, bool injects,
                 bool names_accesses);
  Program build(const std::string& name);

  const Module& module() const { return module_; }
  Program& program() { return program_; }
  Place place_of(const Function& function, int reg) const;
  Place constant(std::uint64_t value, int bits);
  /// The same of an address in a space.
  Place address(Space space, std::uint64_t value, int bits);
  /// A place that instructions may write and nobody reads.
  Place unread() const { return 0; }
  /// The instruction that a statement of the function becomes.
  std::uint32_t index_of(const Function& function, std::uint64_t statement) const;
  /// Where a variable lies in its space; nullopt where there is no such.
  std::optional<std::pair<Space, std::uint64_t>> locate(const Function& function,
                                                        const Operand& operand) const;
  /// Where the k-th parameter, or result, of a function lies in a lane's local memory.
  std::uint64_t local_offset(const Function& function, int variable) const;
  /// Index into Program::frames of a function that may call itself; else −1.
  int frame_of(const Function& function) const { return frames_.at(&function).saved; }
  /// The statement that alone may assign to a register, as its first operand; nullptr where there
  /// is none, or several, or it assigns to others too.
  const Statement* only_assignment(const Function& function, int reg);

 private:
  /// By register; nullptr where several may.
  using Assignments = std::unordered_map<int, const Statement*>;
  struct Frame {
    std::uint32_t first = 0;               ///< instruction
    std::vector<Place> families;           ///< of registers: where the first lies
    std::vector<std::uint64_t> variables;  ///< where each lies in its space
    std::vector<const Function*> calls;    ///< the functions that it names
    int saved = -1;                        ///< index into Program::frames
    std::optional<Assignments> assignments;
  };

  void gather(const Function& function, std::vector<std::string>& path);
  bool calls_itself(const Function& function) const;
  void note_frame(const Function& function, std::uint64_t local);
  void gather_shared(const std::string& name);
  void lay_out(const Function& function);
  std::uint64_t add_shared(const Variable& variable);
  void decode_function(const Function& function);
  [[noreturn]] void fail(const Function& function, std::uint32_t line, const std::string& what);

  const Module& module_;
  const std::vector<std::uint64_t>& addresses_;
  const bool injects_, names_accesses_;
  Program program_;
  std::uint64_t dynamic_align_ = 1;         ///< of what the launch adds
  std::vector<const Function*> functions_;  ///< the kernel first
  std::map<const Function*, Frame> frames_;
  std::map<std::string, std::uint64_t, std::less<>> shared_;  ///< of the module's variables
  Place add_constant(std::uint64_t value, int width, std::size_t lanes);

  std::map<std::pair<int, std::uint64_t>, Place> constants_;
  std::map<std::pair<int, std::uint64_t>, Place> shared_addresses_;
};

}  // namespace lanescope::ptx
