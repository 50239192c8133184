#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reference/splitmix64.h"

namespace lanescope::ptx_conformance {

/// An instruction that depends on its operands alone: "add.rn.ftz.f32" with the types of its result
/// and operands; an operand that begins with a digit is that number.
struct Spelling {
  std::string opcode;
  std::string result;
  std::vector<std::string> operands;

  std::string name() const;  ///< "shf.l.wrap.b32 b32 = b32 b32 u32"
};

/// All that are tried, in a fixed order.
std::vector<Spelling> spellings();

/// Tries of each spelling: a kernel of so many threads.
inline constexpr int tries = 160;

/// Of what it leaves: 1 where that is a predicate, else 2, 4 or 8.
int result_bytes(const Spelling& spelling);

/// The operands of every try, [operand][try]: special values of its type, and random bits.
std::vector<std::vector<std::uint64_t>> inputs_of(const Spelling& spelling);

/// Whether PTX says what a try gives: of fns it does not where the place to begin at is none.
bool is_defined(const Spelling& spelling, const std::vector<std::vector<std::uint64_t>>& inputs,
                std::size_t index);

/// The kernel `name` that does it with operands at p0 [operand][try] and leaves the result, as 64
/// bits, at p1 [try].
std::string kernel_of(const Spelling& spelling, const std::string& name);
inline const std::string module_head = ".version 8.6\n.target sm_90\n.address_size 64\n";

/// "a{b,c}d" stands for "abd" and "acd".
std::vector<std::string> expand(const std::string& text);
std::vector<std::string> split(const std::string& text, char at);
/// Of a name: the same wherever it stands.
std::uint64_t seed_of(const std::string& name);
/// The bits of a number of a type: a special value, or random.
std::uint64_t draw(const std::string& type, Random32& random, int index);

}  // namespace lanescope::ptx_conformance
