#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "debug/ptx/lanes.h"
#include "debug/ptx/program.h"
#include "debug/ptx/syntax.h"

namespace lanescope::ptx {

/// Runs `f` with a value of the C++ type whose bits and sign are those of an integer type.
template <class F>
bool with_integer(Type type, F&& f) {
  const bool has_sign = is_signed(type);
  switch (bits_of(type)) {
    case 16:
      has_sign ? f(std::int16_t{}) : f(std::uint16_t{});
      return true;
    case 32:
      has_sign ? f(std::int32_t{}) : f(std::uint32_t{});
      return true;
    case 64:
      has_sign ? f(std::int64_t{}) : f(std::uint64_t{});
      return true;
    default:
      return false;
  }
}

/// The words of an opcode behind its first: each is taken once, and none may be left.
class Modifiers {
 public:
  explicit Modifiers(std::string_view opcode);
  std::string_view base() const { return base_; }
  bool take(std::string_view word);
  /// Takes those that say nothing to this machine.
  void ignore(std::initializer_list<std::string_view> words);
  /// The first of `words` that is there, taken; else `otherwise`.
  int choose(std::initializer_list<std::string_view> words, int otherwise);
  std::optional<Type> take_type();  ///< the first that is left
  std::optional<Type> peek_type() const;
  const std::vector<std::string_view>& left() const { return words_; }

 private:
  std::string_view base_;
  std::vector<std::string_view> words_;
};

class ProgramBuilder;

/// One statement on its way to an instruction: what a family's decoding function works on.
class Decoder {
 public:
  Decoder(ProgramBuilder& program, const Function& function, const Statement& statement);

  Modifiers modifiers;
  Instruction in;

  std::size_t operand_count() const { return statement_.operands.size(); }
  /// An error where there are not so many.
  const Operand& operand(std::size_t i) const;
  const Function& function() const { return function_; }
  const Statement& statement() const { return statement_; }
  ProgramBuilder& program() { return program_; }

  /// The bits of an operand that is a number, or a register that nothing but one mov of a number
  /// assigns to.
  std::optional<std::uint64_t> number_in(const Operand& operand) const;

  /// An error unless there are so many operands.
  void demand_operands(std::size_t least, std::size_t most);
  void demand_operands(std::size_t count) { demand_operands(count, count); }
  Type demand_type();
  /// The register that operand i writes; `_` is a place that nobody reads.
  Place result(std::size_t i, Type type) { return result_of(operand(i), bits_of(type)); }
  Place result_of(const Operand& operand, int bits);
  /// The register that operand i is, or a constant of its value.
  Place source(std::size_t i, Type type) { return source_of(operand(i), type); }
  Place source_of(const Operand& operand, Type type);
  /// A constant, the same in all lanes. `bits`: 1, 16, 32 or 64.
  Place constant(std::uint64_t value, int bits);
  /// The width of a register's lanes: 1, 16, 32 or 64 bits.
  int width_of(const Operand& operand) const;
  /// The elements of a vector operand; of another, itself alone.
  std::vector<Operand> elements(const Operand& operand) const;
  /// [base + offset]: the base goes to `in.s[0]`, the rest to `in.immediate`.
  void address(const Operand& operand);
  /// Where a variable lies in its space, and which that is; an error where there is none.
  std::pair<Space, std::uint64_t> locate(const Operand& operand);
  bool is_number(const Operand& operand) const {
    return operand.kind == Operand::Kind::integer || operand.kind == Operand::Kind::real32 ||
           operand.kind == Operand::Kind::real64;
  }
  std::uint64_t integer(std::size_t i, const char* what);

  /// d, a, b, ...: all operands of one type but, where Types are given, those.
  template <class Op, class D, class... S>
  void set_lanes(Type result_type, std::initializer_list<Type> source_types) {
    demand_operands(1 + source_types.size());
    in.d = result(0, result_type);
    std::size_t i = 0;
    for (const Type type : source_types) {
      in.s[i] = source(i + 1, type);
      ++i;
    }
    in.lanes = lane_operation<Op, D, S...>();
  }

  /// The same for an integer type: each operand has it.
  template <class Op, std::size_t sources>
  void set_integer_lanes(Type type) {
    const bool known = with_integer(type, [&](auto x) {
      using T = decltype(x);
      if constexpr (sources == 1) set_lanes<Op, T, T>(type, {type});
      if constexpr (sources == 2) set_lanes<Op, T, T, T>(type, {type, type});
      if constexpr (sources == 3) set_lanes<Op, T, T, T, T>(type, {type, type, type});
    });
    if (!known || is_float(type)) fail("there is no such instruction of this type");
  }

  /// Ends with UsageError, with the opcode, its line and what stands there.
  [[noreturn]] void fail(const std::string& what) const;
  /// The same where the machine does not execute such an instruction.
  [[noreturn]] void refuse(const std::string& why) const;

  /// What the instruction writes and reads, in the order of its operands.
  std::vector<Place> results, sources;

 private:
  ProgramBuilder& program_;
  const Function& function_;
  const Statement& statement_;
};

/// Decodes the instructions of a family. False where the opcode is not of it.
bool decode_integer(Decoder& decoder);
bool decode_integer_product(Decoder& decoder);
bool decode_bits(Decoder& decoder);
bool decode_fields(Decoder& decoder);
bool decode_masks(Decoder& decoder);
bool decode_video(Decoder& decoder);
bool decode_approximate(Decoder& decoder);
bool decode_float(Decoder& decoder);
bool decode_double(Decoder& decoder);
bool decode_half(Decoder& decoder);
bool decode_compare(Decoder& decoder);
bool decode_select(Decoder& decoder);
bool decode_convert(Decoder& decoder);
bool decode_move(Decoder& decoder);
/// The registers that it copies may be a product's that is in flight (ptx/control_flow.h).
void follow_sums(Decoder& decoder);
/// mov of a special register.
void decode_special(Decoder& decoder, std::string_view name, Type type);
bool decode_memory(Decoder& decoder);
void decode_copy_async(Decoder& decoder);
/// How the memory system is to keep what is read or written: it says nothing about values. Blocks
/// run on one machine, so an access of any scope is seen by all.
void ignore_hints(Decoder& decoder);
bool decode_atomic(Decoder& decoder);
/// st.async and red.async.
void decode_store_async(Decoder& decoder);
bool decode_control(Decoder& decoder);
bool decode_barrier(Decoder& decoder);
bool decode_warp(Decoder& decoder);
bool decode_vote_of_warp(Decoder& decoder, std::string_view base);  ///< what that leaves
bool decode_matrix(Decoder& decoder);
bool decode_mbarriers(Decoder& decoder);
bool decode_bulk_copy(Decoder& decoder);
bool decode_tensor_map(Decoder& decoder);
/// The address that an operand beside the first is: its register goes to `place`, its offset to
/// `offset`.
void take_address(Decoder& decoder, const Operand& operand, Space space, Place& place,
                  std::int64_t& offset, bool& wide);
bool decode_warpgroup(Decoder& decoder);
bool decode_marker(Decoder& decoder);
bool decode_not_executed(Decoder& decoder);  ///< fails where PTX has such an instruction

/// Of what has no effect on the machine.
inline Flow do_nothing(Warp&, const Instruction&, std::uint32_t) { return Flow::next; }

}  // namespace lanescope::ptx
