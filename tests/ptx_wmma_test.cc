// wmma of every shape and type that a GPU of sm_90 has, on numbers whose products are exact, and
// what is not one of them.

#include <bit>
#include <cstring>
#include <string>
#include <vector>

#include "debug/simt/numerics.h"
#include "reference/error.h"
#include "tests/support/catch.h"
#include "tests/support/ptx_kernel.h"

using namespace lanescope;
using Catch::Matchers::ContainsSubstring;

namespace {

struct Form {
  int m, n, k;
  std::string elements, sums;  ///< types
  int a, b, d;                 ///< registers
  int bits;
  std::string name() const {
    return "m" + std::to_string(m) + "n" + std::to_string(n) + "k" + std::to_string(k);
  }
  bool is_double() const { return sums == "f64"; }
};
const Form forms[] = {
    {16, 16, 16, "f16", "f32", 8, 8, 8, 16},  {32, 8, 16, "f16", "f32", 8, 8, 8, 16},
    {8, 32, 16, "f16", "f32", 8, 8, 8, 16},   {16, 16, 16, "f16", "f16", 8, 8, 4, 16},
    {32, 8, 16, "f16", "f16", 8, 8, 4, 16},   {8, 32, 16, "f16", "f16", 8, 8, 4, 16},
    {16, 16, 16, "bf16", "f32", 4, 4, 8, 16}, {32, 8, 16, "bf16", "f32", 8, 2, 8, 16},
    {8, 32, 16, "bf16", "f32", 2, 8, 8, 16},  {16, 16, 8, "tf32", "f32", 4, 4, 8, 32},
    {16, 16, 16, "s8", "s32", 2, 2, 8, 8},    {32, 8, 16, "s8", "s32", 4, 1, 8, 8},
    {8, 32, 16, "s8", "s32", 1, 4, 8, 8},     {16, 16, 16, "u8", "s32", 2, 2, 8, 8},
    {32, 8, 16, "u8", "s32", 4, 1, 8, 8},     {8, 32, 16, "u8", "s32", 1, 4, 8, 8},
    {8, 8, 32, "s4", "s32", 1, 1, 2, 4},      {8, 8, 32, "u4", "s32", 1, 1, 2, 4},
    {8, 8, 128, "b1", "s32", 1, 1, 2, 1},     {8, 8, 4, "f64", "f64", 1, 1, 2, 64}};

std::string registers(char name, int count) {
  std::string list;
  for (int i = 0; i < count; ++i) list += (i > 0 ? ", %" : "{%") + (name + std::to_string(i));
  return list + "}";
}

/// A whole number as an element, of which only the type's bits are taken.
std::uint64_t bits_of(const std::string& type, int x) {
  const auto value = static_cast<float>(x);
  if (type == "f16") return simt::f32_to_f16(value);
  if (type == "bf16") return std::bit_cast<std::uint32_t>(value) >> 16;
  if (type == "tf32" || type == "f32") return std::bit_cast<std::uint32_t>(value);
  if (type == "f64") return std::bit_cast<std::uint64_t>(static_cast<double>(x));
  return static_cast<std::uint64_t>(static_cast<std::int64_t>(x));
}
int width_of(const std::string& type) {
  return type == "f64" ? 64 : type == "f16" || type == "bf16" ? 16 : 32;
}

/// Matrices in memory: elements of `bits` bits, lines of which begin `stride` elements apart.
struct Matrix {
  std::byte* at;
  int bits, stride;
  bool columns;
  std::size_t index(int row, int col) const {
    return static_cast<std::size_t>(columns ? col * stride + row : row * stride + col);
  }
  void put(int row, int col, std::uint64_t value) const {
    const std::size_t first = index(row, col) * static_cast<std::size_t>(bits);
    for (int i = 0; i < bits; ++i) {
      const std::size_t bit = first + static_cast<std::size_t>(i);
      const auto mask = static_cast<std::byte>(1u << bit % 8);
      at[bit / 8] = (value >> i & 1) != 0 ? at[bit / 8] | mask : at[bit / 8] & ~mask;
    }
  }
  std::uint64_t get(int row, int col) const {
    std::uint64_t value = 0;
    std::memcpy(&value, at + index(row, col) * static_cast<std::size_t>(bits) / 8,
                static_cast<std::size_t>(bits) / 8);
    return value;
  }
};

std::string kernel_of(const Form& form, const Matrix (&at)[4], const std::string& operation,
                      const std::string& suffix) {
  const auto order = [](const Matrix& matrix) {
    return std::string(matrix.columns ? ".col." : ".row.");
  };
  const auto address = [&](int i) { return "[%rd0+" + std::to_string(at[i].at - at[0].at) + "]"; };
  const std::string word = form.is_double() ? " .b64 " : " .b32 ", name = form.name(),
                    factors = registers('a', form.a) + ", " + registers('b', form.b);
  const auto load = [&](const char* part, int i, int count, const std::string& type) {
    return "wmma.load." + std::string(part) + ".sync.aligned" + order(at[i]) + name + ".global." +
           type + " " + registers(part[0], count) + ", " + address(i) + ", " +
           std::to_string(at[i].stride) + ";\n";
  };
  const std::string types = form.elements == "f16" ? form.sums + "." + form.sums
                                                   : form.sums + "." + form.elements + "." +
                                                         form.elements + "." + form.sums;
  return ".reg" + word + "%a<8>, %b<8>, %c<8>, %d<8>; .reg .b64 %rd0; ld.param.u64 %rd0, [p0];\n" +
         load("a", 0, form.a, form.elements) + load("b", 1, form.b, form.elements) +
         load("c", 2, form.d, form.sums) + "wmma." + operation + ".sync.aligned" + order(at[0]) +
         order(at[1]).substr(1) + name + "." + types + suffix + " " + registers('d', form.d) +
         ", " + factors + ", " + registers('c', form.d) + ";\nwmma.store.d.sync.aligned" +
         order(at[3]) + name + ".global." + form.sums + " " + address(3) + ", " +
         registers('d', form.d) + ", " + std::to_string(at[3].stride) + ";\nret;";
}

/// `orders`: which matrices lie by columns, bit by bit: a, b, c and d.
void check_product(const Form& form, unsigned orders, const std::string& operation) {
  std::vector<std::byte> memory(32768 + 32);
  std::byte* const first =
      memory.data() + (32 - reinterpret_cast<std::uintptr_t>(memory.data()) % 32) % 32;
  const int sum_bits = width_of(form.sums);
  const auto matrix = [&](int i, int bits, int rows, int cols) {
    const bool columns = (orders >> i & 1) != 0;
    const int line = columns ? rows : cols, pad = bits < 8 ? line : 32;
    return Matrix{first + 8192 * i, bits, line + pad, columns};
  };
  const Matrix at[4] = {matrix(0, form.bits, form.m, form.k), matrix(1, form.bits, form.k, form.n),
                        matrix(2, sum_bits, form.m, form.n), matrix(3, sum_bits, form.m, form.n)};
  std::uint32_t seed = 5;
  const bool no_sign = form.elements[0] == 'u' || form.elements == "b1";
  const auto next = [&](bool sum) {
    seed = seed * 1664525u + 1013904223u;
    const int x = static_cast<int>(seed >> 28);  // 0 to 15
    return form.elements == "b1" && !sum ? x & 1 : no_sign && !sum ? x : x - 8;
  };
  std::vector<int> a, b, c;
  for (int i = 0; i < form.m * form.k; ++i) {
    a.push_back(next(false));
    at[0].put(i / form.k, i % form.k, bits_of(form.elements, a.back()));
  }
  for (int i = 0; i < form.k * form.n; ++i) {
    b.push_back(next(false));
    at[1].put(i / form.n, i % form.n, bits_of(form.elements, b.back()));
  }
  for (int i = 0; i < form.m * form.n; ++i) {
    c.push_back(next(true));
    at[2].put(i / form.n, i % form.n, bits_of(form.sums, c.back()));
  }
  PtxKernel kernel(ptx_module(kernel_of(form, at, operation, ""), 1));
  kernel.use(memory);
  kernel.run({address(first)});
  int wrong = 0;
  for (int i = 0; i < form.m; ++i) {
    for (int j = 0; j < form.n; ++j) {
      int sum = c[static_cast<std::size_t>(i * form.n + j)];
      for (int k = 0; k < form.k; ++k) {
        const int x = a[static_cast<std::size_t>(i * form.k + k)],
                  y = b[static_cast<std::size_t>(k * form.n + j)];
        sum += operation == "mma.xor.popc" ? x ^ y : x * y;
      }
      const std::uint64_t mask = sum_bits == 64 ? ~std::uint64_t{0} : (1ull << sum_bits) - 1;
      wrong += at[3].get(i, j) != (bits_of(form.sums, sum) & mask) ? 1 : 0;
    }
  }
  INFO(form.name() << " of " << form.elements << ", " << form.sums << ", orders " << orders);
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("ptx: wmma of every shape multiplies what lies in memory", "[ptx]") {
  for (const Form& form : forms) {
    for (unsigned orders = 0; orders < 16; ++orders) {
      const bool is_fixed = form.bits < 8;  // a by rows, b by columns
      if (is_fixed && (orders & 3) != 2) continue;
      check_product(form, orders, form.bits == 1 ? "mma.xor.popc" : "mma");
      if (form.bits == 1) check_product(form, orders, "mma.and.popc");
    }
  }
}

TEST_CASE("ptx: products that PTX has not got are refused before anything runs", "[ptx]") {
  const auto refused = [](const std::string& instruction, const std::string& words) {
    INFO(instruction);
    CHECK_THROWS_WITH(
        PtxKernel(ptx_module(".reg .b32 %r<32>; .reg .b64 %rd<16>;\n" + instruction + ";\nret;")),
        ContainsSubstring("test.ptx:6: ") && ContainsSubstring(words));
  };
  const std::string two = " {%r0, %r1}, {%r2}, {%r3}, {%r4, %r5}",
                    four = " {%r0, %r1, %r2, %r3}, {%r4, %r5}, {%r6}, {%r8, %r9, %r10, %r11}";
  refused("mma.sync.aligned.m8n8k16.row.row.s32.s8.s8.s32" + two, "b by columns");
  refused("mma.sync.aligned.m8n8k16.row.col.s32.s8.s4.s32" + two, "numbers of as many bits");
  refused("mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32" + two, ".and.popc or .xor.popc");
  refused("mma.sync.aligned.m8n8k128.row.col.satfinite.s32.b1.b1.s32.and.popc" + two,
          ".satfinite is not for .b1");
  refused("mma.sync.aligned.m16n8k16.row.col.s32.s4.s4.s32" + four, "no such shape");
  refused("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.f32" + four, "sums of whole numbers");
  refused("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32" + four, "takes 4");
  refused(
      "mma.sync.aligned.m8n8k8.row.col.f64.f64.f64.f64 {%rd0, %rd1}, {%rd2}, {%rd3}, {%rd4, "
      "%rd5}",
      "no such shape of .f64");
  refused(
      "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f32 {%rd0, %rd1}, {%rd2}, {%rd3}, {%rd4, "
      "%rd5}",
      "all of its matrices");
  refused("wmma.load.a.sync.aligned.col.m8n8k32.global.s4 {%r0}, [%rd0], 32", "a lies by rows");
  refused("wmma.load.a.sync.aligned.row.m16n16k16.global.tf32 {%r0}, [%rd0], 32", "m16n16k8");
  refused("wmma.load.c.sync.aligned.row.m16n16k8.global.s32 {%r0}, [%rd0], 32", "no sums");
  refused("wmma.mma.sync.aligned.row.col.m8n8k32.s32.s4.u4.s32" + two, "of one type");
  // What only GPUs behind Hopper have, or what is not known bit for bit.
  refused("mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32" + two, "not executed");
}
