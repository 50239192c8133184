#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "debug/ptx/syntax.h"

namespace lanescope::ptx {

bool is_one_of(std::string_view base, std::initializer_list<std::string_view> names);
/// It makes the exponent of a float of an integer, as expf does with a part of its argument.
bool makes_exponent(const Statement& statement);
/// Of an opcode: it computes with floats.
bool is_real(std::string_view opcode);
bool multiplies_matrices(const Statement& statement);
/// It computes a number, or a matrix of them, from others.
bool computes(const Statement& statement);
/// It is an instruction that takes operands, and no marker.
bool takes_operands(const Statement& statement);
bool reads_memory(const Statement& statement);
bool stores_to_shared(const Statement& statement);
/// To another block of the cluster, as it completes on an mbarrier there.
bool sends_to_block(const Statement& statement);
/// A store to global memory.
bool stores_result(const Statement& statement);

/// Of the numbers in a function's registers: where they come from and what becomes of them, as far
/// as registers show it; what goes through shared memory begins anew.
class NumberRoles {
 public:
  enum Origin : std::uint8_t {
    memory = 1,     ///< read from it
    narrow = 2,     ///< of 16 bits or fewer there
    power = 4,      ///< a power of two: 2^x
    top = 8,        ///< a maximum takes part
    quotient = 16,  ///< so does a reciprocal, a quotient or a logarithm of such numbers
  };
  enum Goal : std::uint16_t {
    exponential = 1,             ///< goes into 2^x
    exponential_of_product = 2,  ///< after a product with another number from memory
    result = 4,                  ///< goes into global memory
    result_of_product = 8,
    divisor = 16,       ///< divides, or its logarithm is taken
    kept = 32,          ///< goes into shared memory
    kept_weighed = 64,  ///< there or into local memory, after a product with a power of two
    address = 128,      ///< an integer: says where global memory is read, or copied from
    kept_of_product =
        256,  ///< goes into shared memory after a product with another number from memory
    kept_locally = 512,  ///< goes into local memory
  };

  explicit NumberRoles(const Function& function);

  std::uint8_t origins_of(const std::vector<int>& registers) const;
  std::uint16_t goals_of(const std::vector<int>& registers) const;
  /// The origins of what a register holds as a statement reads it, where what was assigned to it
  /// last is known: a register may have other numbers elsewhere.
  std::uint8_t origins_at(std::size_t statement, int reg) const;
  /// Numbers from memory are multiplied by powers of two.
  bool weighs() const { return weighs_; }
  /// There are products of two numbers from memory that are no weights; of two that memory has in
  /// 16 bits or fewer, or of matrices.
  bool multiplies() const { return multiplies_; }
  bool multiplies_narrow() const { return multiplies_narrow_; }
  /// One of 16 bits or fewer is multiplied by a wider one from memory.
  bool multiplies_wide() const { return multiplies_wide_; }
  bool has_powers() const { return has_powers_; }

 private:
  struct Step {
    const Statement* statement;
    std::vector<int> to = {}, from = {};
    std::vector<std::size_t> operand = {};  ///< of each in `from`, its number
    std::vector<int> from_address = {};     ///< registers that say where global memory is read
  };
  std::uint8_t origin(int reg) const { return origins_[static_cast<std::size_t>(reg)]; }
  static bool is_factor(const Step& step, std::size_t i);
  std::uint8_t made_by(const Step& step) const;
  void note_products(const Step& step);
  bool spread_forwards();
  bool spread_backwards();

  const Function& function_;
  std::vector<Step> steps_;
  std::unordered_map<const Statement*, std::size_t> step_of_;
  std::vector<bool> is_target_;        ///< by statement: branches lead to it
  std::vector<std::uint8_t> origins_;  ///< by register
  std::vector<std::uint16_t> goals_;   ///< likewise
  bool weighs_ = false, has_powers_ = false;
  bool multiplies_ = false, multiplies_narrow_ = false, multiplies_wide_ = false;
};

}  // namespace lanescope::ptx
