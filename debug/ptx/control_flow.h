#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "debug/ptx/syntax.h"

namespace lanescope::ptx {

/// "ld" of ld.global.u32.
std::string_view base_of(const Statement& statement);

/// Adds the registers that an operand names as it is, or as the elements of a vector.
void add_registers(const Operand& operand, std::vector<int>& registers);

/// The statements that may run right behind each statement of a function. The number of its
/// statements stands for its end.
std::vector<std::vector<std::uint32_t>> followers_of(const Function& function);

/// Whether a statement with this base may run after statement `from`.
bool leads_to(const Function& function, std::size_t from, std::string_view base);

/// In which stages each statement of a function may run, as its markers say it: a bit for each
/// Stage, `before_stages` where a way leads there that no marker lies on. Empty where there is no
/// such marker.
std::vector<std::uint8_t> stages_of(const Function& function);
inline constexpr std::uint8_t before_stages = 1 << 7;

/// A statement that assigns to a register.
struct Definition {
  std::uint32_t statement;
  int reg;
};
/// What may have computed the value that `reg` holds before `statement`: the statements that assign
/// to it, seen through copies, conversions and injections, in the order of the text.
std::vector<Definition> definitions_of(const Function& function, std::uint32_t statement, int reg);

/// Of each statement whether it copies registers, or parts of them, that may be accumulators of a
/// wgmma.mma_async in flight: those, and copies of copies. All false without such a product.
std::vector<bool> copies_of_accumulators(const Function& function);

/// Throws UsageError where a marker names an accumulator of a wgmma.mma_async that no
/// wgmma.wait_group has waited for: its value is not there yet.
void demand_no_products_in_flight(const Module& module, const Function& function);

/// Whether nothing comes of a register: no branch, guard, store or the like depends on it, nor on
/// what is copied, chosen or compared with it.
bool is_unused(const Function& function, int reg);

}  // namespace lanescope::ptx
