#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "debug/ptx/syntax.h"
#include "debug/ptx/types.h"
#include "debug/simt/hopper.h"
#include "reference/site.h"

namespace lanescope::ptx {

class Warp;
struct Instruction;

/// Where a register lies in a warp's register file: the bytes of its 32 lanes, side by side
/// (2, 4 or 8 each); of a predicate a mask of 32 bits.
using Place = std::uint32_t;
inline constexpr Place no_place = ~0u;
/// Each begins a slot of its own: what is known of a register is kept by that.
inline constexpr Place slot_bytes = 64;
inline constexpr std::uint32_t slot_of(Place place) { return place / slot_bytes; }

/// Does one instruction on the lanes of `mask`, which is not 0: those whose results depend on
/// nothing but the lane's own registers.
using LaneOperation = void (*)(std::byte* registers, const Instruction& instruction,
                               std::uint32_t mask);

/// What a split of a warp does behind an instruction.
enum class Flow : std::uint8_t {
  next,     ///< goes on with the next instruction
  moved,    ///< its place was set
  gone,     ///< lanes of it have exited
  waits,    ///< waits at this instruction for other lanes
  arrived,  ///< waits for a barrier, which sends it behind this instruction
  polls,    ///< comes to this instruction again when it is woken
};
/// What an instruction does with the two halves of a register of 32 or 64 bits.
enum class Halves : std::uint8_t {
  mixed,   ///< whatever it likes
  each,    ///< each on its own: those of its result come of the same ones of its sources
  joined,  ///< s[0] and s[1] become them
  parted,  ///< they become d and d2
  low,     ///< the lower one becomes d
  high,    ///< the upper one becomes the lower one of d
};
/// Does one instruction of all other kinds on the lanes of `mask`, which may be 0. Throws Fault.
using WarpOperation = Flow (*)(Warp& warp, const Instruction& instruction, std::uint32_t mask);

/// An instruction, ready to run.
struct Instruction {
  LaneOperation lanes = nullptr;
  WarpOperation act = nullptr;  ///< where there are both, does `lanes` and more
  Place guard = no_place;
  bool guard_negated = false;
  std::uint8_t kind = 0;            ///< which one of its family
  std::uint8_t vector = 1;          ///< elements of a load or store
  std::uint8_t register_bytes = 0;  ///< of each of its registers: they may be wider than elements
  Space space = Space::generic;
  Type type = Type::b32;
  bool meets = false;  ///< lanes that have parted meet here
  Halves halves = Halves::mixed;
  bool selects = false;    ///< s[0] or s[1], by the predicate s[2]
  bool carries = false;    ///< follows itself what of its operands nobody wrote
  bool addresses = false;  ///< s[0] is an address
  bool branches = false;   ///< to `target`
  bool moves = false;      ///< copies a register
  bool negates_product = false, negates_addend = false;  ///< of a contracted sum
  bool packs = false;           ///< copies registers into parts of another, or parts of one
  bool issues_product = false;  ///< a wgmma.mma_async
  bool exchanges = false;       ///< lanes get numbers of others in their results
  bool multiplies = false;      ///< a product of matrices whose results are all .f32
  bool may_fail = false;        ///< of one that polls: it may end with nothing come
  bool wide_address = false;    ///< of 64 bits
  Type makes = Type::pred, takes = Type::pred;  ///< the numbers of its result and of its sources
  std::uint8_t number_count = 0;  ///< of sources in `s` that are such; 0: they are not followed
  std::uint8_t result_count = 0, source_count = 0;
  Place d = no_place, d2 = no_place, d3 = no_place, d4 = no_place;  ///< results
  Place s[4] = {};                                                  ///< sources
  std::int64_t immediate = 0;   ///< of the family: an offset, a selection
  std::int64_t immediate2 = 0;  ///< of a second address
  std::uint32_t target = 0;     ///< of a branch: an index into Program::code
  std::uint32_t operands = 0;   ///< in Program::operands: all its results, then all sources
};

/// Where an instruction comes from.
struct Origin {
  std::string opcode;       ///< with its modifiers
  std::uint8_t stages = 0;  ///< that it may run in (ptx/control_flow.h)
  std::uint32_t line = 0;   ///< of the PTX text
  int location = -1;        ///< index into Program::locations
};

/// Bytes that a call copies between the callers' and the function's own parameters, in the local
/// memory of each lane.
struct Passing {
  std::uint64_t from, to, bytes;
};
/// What a lane has of a function that may call itself: registers, and its parameters' local memory.
struct LaneFrame {
  struct Registers {
    Place first;
    std::uint32_t count;
    std::uint32_t bytes;  ///< of a lane; 0: predicates
  };
  std::vector<Registers> registers;
  std::uint64_t local = 0, local_bytes = 0;
  std::uint64_t bytes = 0;  ///< all of it
};
struct Call {
  std::vector<Passing> arguments, results;
  std::uint32_t entry = 0;
  int frame = -1;  ///< index into Program::frames where the function may call itself
};

/// A variable in a block's shared memory, from its begin on.
struct SharedRoom {
  std::uint64_t at, bytes;
};

/// A wgmma.mma_async: its operands are the accumulators, then A's registers where it has some.
struct ProductForm {
  simt::Product what{};                                      ///< but for what its registers hold
  Place a = no_place, b = no_place, accumulates = no_place;  ///< descriptors, scale-d
};

/// A kernel with all functions that it calls, decoded.
struct Program {
  std::string module_name;  ///< what errors call the PTX text
  std::string kernel_name;
  std::vector<Instruction> code;
  std::vector<Origin> origins;  ///< of each instruction
  std::vector<Place> operands;
  std::vector<Call> calls;
  std::vector<LaneFrame> frames;
  std::vector<std::vector<std::uint32_t>> branch_lists;
  std::vector<ProductForm> products;
  /// Of markers of tiles: where the tile's index, its address and its layout are
  /// (reference/tile_layout.h).
  std::vector<std::array<Place, 7>> tiles;
  std::vector<Location> locations;
  std::map<int, std::string> files;

  std::size_t register_bytes = 0;    ///< of a warp's register file
  std::vector<std::byte> constants;  ///< that lie in it, 32 lanes of each, from
  Place constants_at = 0;
  /// Of the constants those that are addresses in shared memory, as in a block of rank 0, and their
  /// bits.
  std::vector<std::pair<Place, int>> shared_addresses;
  std::size_t local_bytes = 0;           ///< of a lane
  std::size_t shared_bytes = 0;          ///< of a block's variables; what a launch adds lies behind
  std::vector<SharedRoom> shared_rooms;  ///< of those variables
  std::size_t parameter_bytes = 0;
  std::vector<Variable> parameters;  ///< of the kernel, in their order
  std::vector<std::size_t> parameter_offsets;
  std::array<std::uint32_t, 3> cluster = {0, 0, 0};  ///< blocks of one; 0: as the launch says
  int max_threads = 0;                               ///< of a block; 0: any
  int architecture = 0;                              ///< that the PTX is for: 90 of sm_90a
  /// Triton has made it, so that no barrier or fence of it is its author's.
  bool of_triton = false;
  bool draws = false;            ///< it takes integers from memory that other blocks update
  bool traces = false;           ///< there are markers that do
  bool names_row_tiles = false;  ///< there are markers that do
  bool injects = false;          ///< its markers may replace values
  bool names_accesses = false;   ///< origins have stages by their numbers

  /// "my.cu:17", the line that an instruction was compiled for: of functions inlined into each
  /// other, the innermost that is the kernel's own (debug/simt/source_lines.h). Without -lineinfo
  /// "x.ptx:123".
  std::string line_of(std::uint32_t instruction) const;
  /// ", called at my.cu:31" of an instruction of an inlined function: where that was called, and
  /// the function in which it was: the outer three, which are the kernel's own.
  std::string calls_of(std::uint32_t instruction) const;
  /// " in softmax", where its markers say so; " in qk or softmax" where both lead there.
  std::string stage_of(std::uint32_t instruction) const;
  /// The same where it is one alone.
  std::optional<Stage> one_stage_of(std::uint32_t instruction) const;
  /// "ld.global.u32 at my.cu:17, called at my.cu:31 in softmax".
  std::string describe(std::uint32_t instruction) const;
};

/// The line of a source that code was compiled for, as Program::line_of; `otherwise` where it is
/// not known. `location`: an index into `locations`, or −1.
std::string source_line(const std::map<int, std::string>& files,
                        const std::vector<Location>& locations, int location,
                        const std::string& otherwise);

/// Shared memory begins behind what the system keeps of each block's (CUDA C++ Programming Guide:
/// 1 KiB since sm_80), so that no variable has the address 0.
inline constexpr std::uint64_t shared_begin = 1024;
/// Of an address in shared memory, the rank of its block in the cluster stands above these bits, in
/// the block's own as well (measured on an H200; PTX ISA, mapa). So the start address in a matrix
/// descriptor has to be cut to its 18 bits.
inline constexpr int rank_shift = 24;
inline constexpr std::uint64_t shared_offset_bits = (std::uint64_t{1} << rank_shift) - 1;

/// Where the generic addresses of a window start; host addresses lie below all of them, and are
/// those of global memory.
inline constexpr std::uint64_t shared_window = std::uint64_t{1} << 60;
inline constexpr std::uint64_t local_window = std::uint64_t{2} << 60;
inline constexpr std::uint64_t param_window = std::uint64_t{3} << 60;
inline constexpr std::uint64_t window_mask = std::uint64_t{15} << 60;

/// Decodes the kernel `name`. `addresses`: where the module's .global and .const variables lie, as
/// Module::variables has them. `injects`: markers replace values (MarkerRun), which a sum that is
/// contracted with the product would pass by. `names_accesses`: without markers, the stage of
/// accesses is said (ptx/number_stages.h). Throws UsageError for what the machine does
/// not execute, with the opcode and its line, before anything runs.
Program decode(const Module& module, const std::string& name,
               const std::vector<std::uint64_t>& addresses, bool injects = false,
               bool names_accesses = false);

}  // namespace lanescope::ptx
