// capture_numerics OUTPUT.safetensors: what the GPU at hand makes of chosen inputs, instruction by
// instruction. tests/numerics_test.cc holds the SIMT machine to it.
//
//   ex2.x ex2.y, lg2.x lg2.y       F32 [n]
//   max.a max.b max.y              F32 [n]
//   cvt.x, cvt.f16, cvt.bf16       F32, I16 [n]
//   mma.TYPE.a b c d               I16 [n,16,16] [n,16,8], F32 [n,16,8]

#include <cuda_runtime.h>

#include <bit>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "kernels/device/device.h"
#include "reference/splitmix64.h"

namespace device = lanescope::device;

namespace {

__global__ void functions(int n, const float* x, const float* y, float* ex2, float* lg2, float* max,
                          std::uint16_t* f16, std::uint16_t* bf16) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= n) return;
  ex2[i] = device::ex2(x[i]);
  lg2[i] = device::lg2(x[i]);
  max[i] = device::max(x[i], y[i]);
  f16[i] = device::narrow<device::f16>(x[i]).bits;
  bf16[i] = device::narrow<device::bf16>(x[i]).bits;
}

template <class T>
__global__ void products(const std::uint16_t* a, const std::uint16_t* b, const float* c, float* d) {
  const int lane = device::lane();
  a += blockIdx.x * 256;
  b += blockIdx.x * 128;
  c += blockIdx.x * 128;
  d += blockIdx.x * 128;
  std::uint32_t a_rmem[4] = {}, b_rmem[2] = {};
  float c_rmem[4];
  for (int i = 0; i < 8; ++i) {
    const device::Coordinate at = device::a_m16k16(lane, i);
    a_rmem[i / 2] |= static_cast<std::uint32_t>(a[at.row * 16 + at.col]) << (16 * (i % 2));
  }
  for (int i = 0; i < 4; ++i) {
    const device::Coordinate at = device::b_k16n8(lane, i);
    b_rmem[i / 2] |= static_cast<std::uint32_t>(b[at.row * 8 + at.col]) << (16 * (i % 2));
  }
  for (int i = 0; i < 4; ++i) {
    const device::Coordinate at = device::c_m16n8(lane, i);
    c_rmem[i] = c[at.row * 8 + at.col];
  }
  device::mma_m16n8k16<T>(c_rmem, a_rmem, b_rmem[0], b_rmem[1]);
  for (int i = 0; i < 4; ++i) {
    const device::Coordinate at = device::c_m16n8(lane, i);
    d[at.row * 8 + at.col] = c_rmem[i];
  }
}

void check(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "capture_numerics: %s\n", cudaGetErrorString(error));
  std::exit(3);
}

template <class E>
struct Array {
  std::vector<E> host;
  E* data = nullptr;
  explicit Array(std::size_t n) : host(n) {}
  E* upload() {
    check(cudaMalloc(&data, host.size() * sizeof(E)));
    check(cudaMemcpy(data, host.data(), host.size() * sizeof(E), cudaMemcpyHostToDevice));
    return data;
  }
  void download() {
    check(cudaMemcpy(host.data(), data, host.size() * sizeof(E), cudaMemcpyDeviceToHost));
  }
};

/// Collects tensors and writes them as safetensors.
class File {
 public:
  template <class E>
  void add(const std::string& name, const std::string& shape, const Array<E>& array) {
    const auto begin = data_.size();
    const auto* bytes = reinterpret_cast<const char*>(array.host.data());
    data_.append(bytes, array.host.size() * sizeof(E));
    header_ += std::string(header_.empty() ? "" : ",") + "\"" + name + "\":{\"dtype\":\"" +
               (sizeof(E) == 4 ? "F32" : "I16") + "\",\"shape\":" + shape + ",\"data_offsets\":[" +
               std::to_string(begin) + "," + std::to_string(data_.size()) + "]}";
  }
  void write(const char* path) {
    cudaDeviceProp properties;
    check(cudaGetDeviceProperties(&properties, 0));
    std::string header =
        std::string("{\"__metadata__\":{\"device\":\"") + properties.name + "\"}," + header_ + "}";
    header.resize((header.size() + 7) / 8 * 8, ' ');
    const std::uint64_t length = header.size();
    std::ofstream out(path, std::ios::binary);
    out.write(reinterpret_cast<const char*>(&length), 8);
    out << header << data_;
    if (!out) {
      std::fprintf(stderr, "capture_numerics: cannot write %s\n", path);
      std::exit(3);
    }
  }

 private:
  std::string header_, data_;
};

constexpr float inf = std::numeric_limits<float>::infinity();

void capture_functions(File& file) {
  constexpr int n = 6144;
  lanescope::Random32 random{1};
  Array<float> x(n), y(n), ex2(n), lg2(n), max(n);
  Array<std::uint16_t> f16(n), bf16(n);
  const float special[] = {
      0.0f,       -0.0f,     inf,      -inf,     std::bit_cast<float>(0x7fc00000u),
      1.0f,       -1.0f,     0.5f,     2.0f,     65504.0f,
      65519.996f, 65520.0f,  0x1p-24f, 0x1p-25f, 0x1.8p-25f,
      0x1p-126f,  0x1p-149f, -126.0f,  -126.5f,  -127.0f,
      -150.0f,    127.5f,    128.0f,   0x1p-14f, 3.3895314e38f,
      3.4e38f};
  constexpr int specials = sizeof(special) / sizeof(special[0]);
  for (int i = 0; i < n; ++i) {
    // A third are fractions of one octave, a third moderate, a third any bits at all.
    const std::uint32_t bits = random.next();
    const float unit = static_cast<float>(bits >> 8) * 0x1p-24f;
    x.host[i] = i < specials * specials ? special[i % specials]
                : i % 3 == 0            ? -unit
                : i % 3 == 1            ? (unit - 0.5f) * 300.0f
                                        : std::bit_cast<float>(bits);
    y.host[i] =
        i < specials * specials ? special[i / specials] : std::bit_cast<float>(random.next());
  }
  functions<<<(n + 255) / 256, 256>>>(n, x.upload(), y.upload(), ex2.upload(), lg2.upload(),
                                      max.upload(), f16.upload(), bf16.upload());
  check(cudaDeviceSynchronize());
  for (Array<float>* a : {&ex2, &lg2, &max}) a->download();
  f16.download();
  bf16.download();
  const std::string shape = "[" + std::to_string(n) + "]";
  file.add("x", shape, x);
  file.add("y", shape, y);
  file.add("ex2", shape, ex2);
  file.add("lg2", shape, lg2);
  file.add("max", shape, max);
  file.add("f16", shape, f16);
  file.add("bf16", shape, bf16);
}

template <class T>
void capture_products(File& file, const std::string& name) {
  constexpr int n = 48;
  lanescope::Random32 random{2};
  Array<std::uint16_t> a(n * 256), b(n * 128);
  Array<float> c(n * 128), d(n * 128);
  const bool half = T::type == lanescope::ElementType::f16;
  // Every sixth case: near one, wide exponents, any finite bits, subnormals and zeros, cancelling,
  // infinities and NaNs.
  const auto element = [&](int kind) -> std::uint16_t {
    const std::uint32_t bits = random.next();
    const int fraction = half ? 10 : 7, bias = half ? 15 : 127;
    const int spread = kind == 0 ? 2 : kind == 1 ? (half ? 14 : 40) : 1;
    auto value = static_cast<std::uint16_t>(bits & 0x7fff);
    const auto top = static_cast<std::uint16_t>((half ? 31 : 255) << fraction);
    if (kind == 2)
      return static_cast<std::uint16_t>(value >= top ? value & ~top : value) |
             (bits >> 16 & 0x8000);
    if (kind == 3)
      value = bits >> 20 & 3 ? value & ((1 << fraction) - 1)
                             : (bits >> 24 & 1 ? 0 : static_cast<std::uint16_t>(bias << fraction));
    if (kind == 5 && (bits >> 16) % 40 == 0)
      return static_cast<std::uint16_t>(top | (bits & 1)) | (bits >> 16 & 0x8000);
    if (kind != 3)
      value = static_cast<std::uint16_t>(
          (bias + static_cast<int>(bits >> 20) % (2 * spread + 1) - spread) << fraction |
          (value & ((1 << fraction) - 1)));
    return static_cast<std::uint16_t>(value | (bits >> 16 & 0x8000));
  };
  for (int i = 0; i < n; ++i) {
    const int kind = i % 6;
    for (int j = 0; j < 256; ++j) a.host[i * 256 + j] = element(kind);
    for (int j = 0; j < 128; ++j) b.host[i * 128 + j] = element(kind);
    for (int j = 0; j < 128; ++j) {
      const std::uint32_t bits = random.next();
      const float unit = static_cast<float>(static_cast<std::int32_t>(bits)) * 0x1p-31f;
      c.host[i * 128 + j] = kind == 3    ? (bits & 1 ? -0.0f : unit * 0x1p-126f)
                            : kind == 2  ? std::bit_cast<float>((bits & 0x8fffffffu) | 0x30000000u)
                            : i % 12 < 6 ? 0.0f
                                         : unit * 8.0f;
    }
    if (kind == 4) {  // the second half of k repeats the first with the other sign, but for one bit
      for (int row = 0; row < 16; ++row) {
        for (int k = 8; k < 16; ++k)
          a.host[i * 256 + row * 16 + k] = a.host[i * 256 + row * 16 + k - 8] ^ 0x8000;
      }
      for (int k = 8; k < 16; ++k) {
        for (int col = 0; col < 8; ++col) {
          b.host[i * 128 + k * 8 + col] = b.host[i * 128 + (k - 8) * 8 + col] ^ (k == 15);
        }
      }
    }
  }
  products<T><<<n, 32>>>(a.upload(), b.upload(), c.upload(), d.upload());
  check(cudaDeviceSynchronize());
  d.download();
  const std::string count = std::to_string(n);
  file.add("mma." + name + ".a", "[" + count + ",16,16]", a);
  file.add("mma." + name + ".b", "[" + count + ",16,8]", b);
  file.add("mma." + name + ".c", "[" + count + ",16,8]", c);
  file.add("mma." + name + ".d", "[" + count + ",16,8]", d);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: capture_numerics OUTPUT.safetensors\n");
    return 2;
  }
  File file;
  capture_functions(file);
  capture_products<device::f16>(file, "f16");
  capture_products<device::bf16>(file, "bf16");
  file.write(argv[1]);
  return 0;
}
