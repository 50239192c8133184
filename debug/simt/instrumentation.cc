// What -fsanitize=thread makes the compiler call at every memory access, implemented for the memory
// checker of the SIMT machine in place of libtsan (the names are those of compiler-rt's
// tsan_interface.h and tsan_interface_atomic.h; g++ and clang++ share them), and what
// -fsanitize=alignment does (ubsan_handlers.h). The program exports these functions to the modules.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "debug/simt/block.h"
#include "debug/simt/block_checker.h"

namespace {

using lanescope::simt::BlockChecker;
using lanescope::simt::BlockRunner;
constexpr auto reads = BlockChecker::Access::read;
constexpr auto writes = BlockChecker::Access::write;

/// The way of nearly all accesses: no checker, or the lane's own stack.
inline void check(BlockChecker::Access access, const void* address, std::size_t bytes,
                  std::size_t alignment, const void* pc) {
  BlockRunner* runner = BlockRunner::current();
  if (!runner) return;
  const auto frame = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  const auto end = reinterpret_cast<std::uintptr_t>(runner->stack_end());
  BlockChecker* checker = runner->checker();
  if (reinterpret_cast<std::uintptr_t>(address) - frame < end - frame) {
    if (!runner->has_async() || !checker) return;
    return runner->async().access_own_stack(runner->thread_index(), address, bytes,
                                            access == writes, pc);
  }
  if (!checker) return;
  if (!checker->access(access, address, bytes, alignment, pc, runner->thread_index())) {
    runner->fail_without_unwinding("an access outside of every buffer ended the block");
  }
  // The machine's own instructions for so many bytes crash there.
  if (alignment == 16 && reinterpret_cast<std::uintptr_t>(address) % alignment != 0) {
    runner->fail_without_unwinding("a misaligned access of 16 bytes ended the block");
  }
}

/// Does `operation` on *address as one atomic access of the calling lane.
template <class T, class Operation>
auto atomically(BlockChecker::Access access, const volatile T* address, const void* pc,
                Operation operation) {
  T* plain = const_cast<T*>(address);
  BlockRunner* runner = BlockRunner::current();
  BlockChecker* checker = runner ? runner->checker() : nullptr;
  if (checker) checker->acquire(plain, runner->thread_index());
  check(access, plain, sizeof(T), sizeof(T), pc);
  if (checker) checker->release(plain, runner->thread_index());
  return operation(plain);
}

}  // namespace

// The compiler chooses these names, and some of the macros below paste types and operators.
// NOLINTBEGIN(bugprone-reserved-identifier,bugprone-macro-parentheses)
#define LANESCOPE_PC __builtin_return_address(0)

extern "C" {

/// As compiler-rt and libubsan have it: of a pointer, what it is used for.
struct TypeMismatch {
  const char* file;
  std::uint32_t line, column;
  const void* type;
  unsigned char log_alignment;
  unsigned char use;  ///< 0: a load, 1: a store
};
void __ubsan_handle_type_mismatch_v1(const TypeMismatch* what, void* p) {
  BlockRunner* runner = BlockRunner::current();
  BlockChecker* checker = runner ? runner->checker() : nullptr;
  if (!checker || what->use > 1) return;
  checker->note_misaligned(what->use == 1 ? writes : reads, p, LANESCOPE_PC,
                           runner->thread_index());
}

/// Of an array and the index that goes beyond it.
struct OfType {
  std::uint16_t kind, info;  ///< of integers: 2 log2(bits), + 1 if signed
  char name[1];              ///< as long as it is: "'float [8]'"
};
struct BeyondArray {
  const char* file;
  std::uint32_t line, column;
  const OfType *array, *index;
};
void __ubsan_handle_out_of_bounds(const BeyondArray* what, std::uintptr_t index) {
  BlockRunner* runner = BlockRunner::current();
  BlockChecker* checker = runner ? runner->checker() : nullptr;
  if (!checker) return;
  const int unused = 64 - (1 << (what->index->info >> 1));
  const auto value = static_cast<std::int64_t>(index << unused) >> unused;
  const char* const length = std::strchr(what->array->name, '[');
  checker->note_beyond_array(value, length ? std::atoll(length + 1) : 0, LANESCOPE_PC,
                             runner->thread_index());
}

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}

void __tsan_read_range(void* p, unsigned long n) { check(reads, p, n, 1, LANESCOPE_PC); }
void __tsan_write_range(void* p, unsigned long n) { check(writes, p, n, 1, LANESCOPE_PC); }
void __tsan_vptr_update(void** p, void*) { check(writes, p, 8, 8, LANESCOPE_PC); }
void __tsan_vptr_read(void** p) { check(reads, p, 8, 8, LANESCOPE_PC); }

// libc's functions: clang++ calls these by the second name, modules are linked with --wrap.
void* __wrap_memcpy(void* to, const void* from, std::size_t n) {
  check(reads, from, n, 1, LANESCOPE_PC);
  check(writes, to, n, 1, LANESCOPE_PC);
  return std::memcpy(to, from, n);
}
void* __wrap_memmove(void* to, const void* from, std::size_t n) {
  check(reads, from, n, 1, LANESCOPE_PC);
  check(writes, to, n, 1, LANESCOPE_PC);
  return std::memmove(to, from, n);
}
void* __wrap_memset(void* to, int value, std::size_t n) {
  check(writes, to, n, 1, LANESCOPE_PC);
  return std::memset(to, value, n);
}

void* __tsan_memcpy(void*, const void*, std::size_t) __attribute__((alias("__wrap_memcpy")));
void* __tsan_memmove(void*, const void*, std::size_t) __attribute__((alias("__wrap_memmove")));
void* __tsan_memset(void*, int, std::size_t) __attribute__((alias("__wrap_memset")));

#define LANESCOPE_ACCESSES(bytes)                                                              \
  void __tsan_read##bytes(void* p) { check(reads, p, bytes, bytes, LANESCOPE_PC); }            \
  void __tsan_write##bytes(void* p) { check(writes, p, bytes, bytes, LANESCOPE_PC); }          \
  void __tsan_unaligned_read##bytes(void* p) { check(reads, p, bytes, 1, LANESCOPE_PC); }      \
  void __tsan_unaligned_write##bytes(void* p) { check(writes, p, bytes, 1, LANESCOPE_PC); }    \
  void __tsan_volatile_read##bytes(void* p) { check(reads, p, bytes, bytes, LANESCOPE_PC); }   \
  void __tsan_volatile_write##bytes(void* p) { check(writes, p, bytes, bytes, LANESCOPE_PC); } \
  void __tsan_read_write##bytes(void* p) { check(writes, p, bytes, bytes, LANESCOPE_PC); }     \
  void __tsan_unaligned_read_write##bytes(void* p) { check(writes, p, bytes, 1, LANESCOPE_PC); }
LANESCOPE_ACCESSES(1)
LANESCOPE_ACCESSES(2)
LANESCOPE_ACCESSES(4)
LANESCOPE_ACCESSES(8)
LANESCOPE_ACCESSES(16)
#undef LANESCOPE_ACCESSES

// Every order is taken for sequentially consistent.
#define LANESCOPE_FETCH(bits, T, name, builtin)                                           \
  T __tsan_atomic##bits##_##name(volatile T* p, T x, int) {                               \
    return atomically(writes, p, LANESCOPE_PC, [&](T* at) { return builtin(at, x, 5); }); \
  }
#define LANESCOPE_ATOMICS(bits, T)                                                               \
  T __tsan_atomic##bits##_load(const volatile T* p, int) {                                       \
    return atomically(reads, p, LANESCOPE_PC, [](T* at) { return __atomic_load_n(at, 5); });     \
  }                                                                                              \
  void __tsan_atomic##bits##_store(volatile T* p, T x, int) {                                    \
    atomically(writes, p, LANESCOPE_PC, [&](T* at) { __atomic_store_n(at, x, 5); });             \
  }                                                                                              \
  int __tsan_atomic##bits##_compare_exchange_strong(volatile T* p, T* expected, T x, int, int) { \
    return atomically(writes, p, LANESCOPE_PC, [&](T* at) {                                      \
      return __atomic_compare_exchange_n(at, expected, x, false, 5, 5);                          \
    });                                                                                          \
  }                                                                                              \
  int __tsan_atomic##bits##_compare_exchange_weak(volatile T* p, T* expected, T x, int, int) {   \
    return atomically(writes, p, LANESCOPE_PC, [&](T* at) {                                      \
      return __atomic_compare_exchange_n(at, expected, x, false, 5, 5);                          \
    });                                                                                          \
  }                                                                                              \
  T __tsan_atomic##bits##_compare_exchange_val(volatile T* p, T expected, T x, int, int) {       \
    return atomically(writes, p, LANESCOPE_PC, [&](T* at) {                                      \
      __atomic_compare_exchange_n(at, &expected, x, false, 5, 5);                                \
      return expected;                                                                           \
    });                                                                                          \
  }                                                                                              \
  LANESCOPE_FETCH(bits, T, exchange, __atomic_exchange_n)                                        \
  LANESCOPE_FETCH(bits, T, fetch_add, __atomic_fetch_add)                                        \
  LANESCOPE_FETCH(bits, T, fetch_sub, __atomic_fetch_sub)                                        \
  LANESCOPE_FETCH(bits, T, fetch_and, __atomic_fetch_and)                                        \
  LANESCOPE_FETCH(bits, T, fetch_or, __atomic_fetch_or)                                          \
  LANESCOPE_FETCH(bits, T, fetch_xor, __atomic_fetch_xor)                                        \
  LANESCOPE_FETCH(bits, T, fetch_nand, __atomic_fetch_nand)
LANESCOPE_ATOMICS(8, std::uint8_t)
LANESCOPE_ATOMICS(16, std::uint16_t)
LANESCOPE_ATOMICS(32, std::uint32_t)
LANESCOPE_ATOMICS(64, std::uint64_t)
#undef LANESCOPE_ATOMICS
#undef LANESCOPE_FETCH
#undef LANESCOPE_PC

void __tsan_atomic_thread_fence(int) { __atomic_thread_fence(5); }
void __tsan_atomic_signal_fence(int) { __atomic_signal_fence(5); }
}
// NOLINTEND(bugprone-reserved-identifier,bugprone-macro-parentheses)
