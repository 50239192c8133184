// capture_mma OUTPUT.safetensors: the registers of shapes of mma.sync that
// numerics_h200.safetensors does not have, before and behind, as the GPU at hand computes them:
// NAME.a, .b, .c, .d of [warp] [lane][register]. Each GPU has its own file:
// tests/data/mma_h200.safetensors is of an H200.

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

namespace {

struct Registers {
  std::uint32_t a[4], b[2], c[4], d[4];
};

#define LANE Registers& x = all[blockIdx.x * 32 + threadIdx.x]
#define D4 "=r"(x.d[0]), "=r"(x.d[1]), "=r"(x.d[2]), "=r"(x.d[3])
#define C4 "r"(x.c[0]), "r"(x.c[1]), "r"(x.c[2]), "r"(x.c[3])
#define A4 "r"(x.a[0]), "r"(x.a[1]), "r"(x.a[2]), "r"(x.a[3])
#define A2 "r"(x.a[0]), "r"(x.a[1])
#define B2 "r"(x.b[0]), "r"(x.b[1])
#define SHORT(shape, types)                                  \
  LANE;                                                      \
  asm volatile("mma.sync.aligned." shape ".row.col." types   \
               " {%0,%1,%2,%3},{%4,%5},{%6},{%7,%8,%9,%10};" \
               : D4                                          \
               : A2, "r"(x.b[0]), C4)

__global__ void f16_k8(Registers* all) { SHORT("m16n8k8", "f32.f16.f16.f32"); }
__global__ void bf16_k8(Registers* all) { SHORT("m16n8k8", "f32.bf16.bf16.f32"); }
__global__ void tf32_k4(Registers* all) { SHORT("m16n8k4", "f32.tf32.tf32.f32"); }
__global__ void tf32_k8(Registers* all) {
  LANE;
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
      "{%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%10,%11,%12,%13};"
      : D4
      : A4, B2, C4);
}
__global__ void half_k16(Registers* all) {
  LANE;
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0,%1},{%2,%3,%4,%5},{%6,%7},{%8,%9};"
      : "=r"(x.d[0]), "=r"(x.d[1])
      : A4, B2, "r"(x.c[0]), "r"(x.c[1]));
}
__global__ void half_k8(Registers* all) {
  LANE;
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%0,%1},{%2,%3},{%4},{%5,%6};"
               : "=r"(x.d[0]), "=r"(x.d[1])
               : A2, "r"(x.b[0]), "r"(x.c[0]), "r"(x.c[1]));
}

/// Finite bits of a format: exponents within `spread` of 1, some subnormal; spread < 0: of any
/// size.
struct Draw {
  std::mt19937 random{1};
  std::uint32_t number(int exponent_bits, int fraction_bits, int spread) {
    const int bias = (1 << (exponent_bits - 1)) - 1;
    int exponent = spread < 0 ? static_cast<int>(random() % ((1u << exponent_bits) - 1))
                              : bias - spread + static_cast<int>(random() % (2u * spread + 1));
    if (exponent < 0 || (spread >= 0 && random() % 16 == 0)) exponent = 0;
    std::uint32_t fraction = random() & ((1u << fraction_bits) - 1);
    if (exponent == 0 && random() % 2 == 0) fraction = 0;
    return (random() & 1) << (exponent_bits + fraction_bits) |
           static_cast<std::uint32_t>(exponent) << fraction_bits | fraction;
  }
  std::uint32_t pair(int exponent_bits, int fraction_bits, int spread) {
    const std::uint32_t low = number(exponent_bits, fraction_bits, spread);
    return low | number(exponent_bits, fraction_bits, spread) << 16;
  }
};

enum class Elements { f16, bf16, tf32, half };
struct Shape {
  const char* name;
  void (*kernel)(Registers*);
  Elements elements;
};
constexpr Shape shapes[] = {
    {"f16_k8", f16_k8, Elements::f16},      {"bf16_k8", bf16_k8, Elements::bf16},
    {"tf32_k4", tf32_k4, Elements::tf32},   {"tf32_k8", tf32_k8, Elements::tf32},
    {"half_k16", half_k16, Elements::half}, {"half_k8", half_k8, Elements::half}};
constexpr int warps = 12;

std::vector<Registers> draw(Draw& draw, Elements elements) {
  constexpr int spreads[] = {1, 4, 9, -1};
  std::vector<Registers> all(warps * 32);
  for (int i = 0; i < warps * 32; ++i) {
    const int spread = spreads[i / 32 % 4];
    const auto element = [&] {
      if (elements == Elements::bf16) return draw.pair(8, 7, spread);
      if (elements == Elements::tf32) {
        // Half of them with bits that tf32 lacks.
        const std::uint32_t bits = draw.number(8, 23, spread < 0 ? 30 : spread);
        return draw.random() % 2 == 0 ? bits : bits & ~0x1fffu;
      }
      return draw.pair(5, 10, spread);
    };
    for (std::uint32_t& x : all[i].a) x = element();
    for (std::uint32_t& x : all[i].b) x = element();
    for (std::uint32_t& x : all[i].c) {
      const bool zero = i / 128 % 3 == 0;
      x = elements == Elements::half ? draw.pair(5, 10, spread)
          : zero                     ? 0
                                     : draw.number(8, 23, spread < 0 ? 40 : 2 * spread);
    }
  }
  return all;
}

}  // namespace

int main(int count, char** words) {
  if (count != 2) {
    std::fprintf(stderr, "usage: capture_mma OUTPUT.safetensors\n");
    return 2;
  }
  std::string header, body;
  Draw random;
  for (const Shape& shape : shapes) {
    std::vector<Registers> all = draw(random, shape.elements);
    Registers* device = nullptr;
    const std::size_t bytes = all.size() * sizeof(Registers);
    cudaMalloc(&device, bytes);
    cudaMemcpy(device, all.data(), bytes, cudaMemcpyHostToDevice);
    shape.kernel<<<warps, 32>>>(device);
    cudaMemcpy(all.data(), device, bytes, cudaMemcpyDeviceToHost);
    cudaFree(device);
    if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) {
      std::fprintf(stderr, "capture_mma: %s: %s\n", shape.name, cudaGetErrorString(error));
      return 1;
    }
    const auto add = [&](const char* part, std::size_t offset, int registers) {
      const std::size_t begin = body.size();
      for (const Registers& lane : all) {
        body.append(reinterpret_cast<const char*>(&lane) + offset, registers * 4);
      }
      header += std::string(header.empty() ? "{" : ",") + "\"" + shape.name + "." + part +
                "\":{\"dtype\":\"U32\",\"shape\":[" + std::to_string(warps) + ",32," +
                std::to_string(registers) + "],\"data_offsets\":[" + std::to_string(begin) + "," +
                std::to_string(body.size()) + "]}";
    };
    add("a", offsetof(Registers, a), 4);
    add("b", offsetof(Registers, b), 2);
    add("c", offsetof(Registers, c), 4);
    add("d", offsetof(Registers, d), 4);
  }
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  std::FILE* file = std::fopen(words[1], "wb");
  const std::uint64_t size = header.size();
  const bool written = file && std::fwrite(&size, 8, 1, file) == 1 &&
                       std::fwrite(header.data(), 1, header.size(), file) == header.size() &&
                       std::fwrite(body.data(), 1, body.size(), file) == body.size();
  if (!written || std::fclose(file) != 0) {
    std::perror("capture_mma");
    return 1;
  }
  return 0;
}
