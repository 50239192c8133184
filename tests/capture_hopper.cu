// capture_hopper OUTPUT.safetensors [BLOCKS]: what the GPU at hand makes of products of warpgroups
// and of reductions of bulk copies, by the words behind their opcodes. Each GPU has its own file:
// tests/data/hopper_h200.safetensors is of an H200, and has 4 blocks of each product.
//
// Of a product NAME.ab are the bytes of A, 64 rows of 32 bytes, and B, 8 rows, without swizzle: 16
// bytes of eight rows, then the next 16. NAME.c and .d: 4 registers of 128 lanes, before and
// behind; with accumulators of 16 bits, two. Of a reduction NAME.old, .by and .new.

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace {

// Products.

struct Tile {
  std::uint32_t ab[576], c[128][4], d[128][4];
};

__device__ std::uint64_t descriptor_of(const void* shared) {
  return (static_cast<std::uint32_t>(__cvta_generic_to_shared(shared)) >> 4) | 0x1000080000ull;
}

#define PRODUCT(name, words, registers, tail)                                         \
  __global__ void name(Tile* all) {                                                   \
    __shared__ __align__(128) std::uint32_t ab[576];                                  \
    Tile& x = all[blockIdx.x];                                                        \
    std::uint32_t d[4];                                                               \
    for (int i = 0; i < 4; ++i) d[i] = x.c[threadIdx.x][i];                           \
    for (int i = threadIdx.x; i < 576; i += 128) ab[i] = x.ab[i];                     \
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");                      \
    __syncthreads();                                                                  \
    const std::uint64_t a = descriptor_of(ab), b = a + 128;                           \
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");                           \
    asm volatile(                                                                     \
        "{.reg .pred p; setp.ne.u32 p, 1, 0;\n"                                       \
        "wgmma.mma_async.sync.aligned." words " {" registers "}, %4, %5, p" tail ";}" \
        : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])                              \
        : "l"(a), "l"(b)                                                              \
        : "memory");                                                                  \
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");                    \
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");                    \
    for (int i = 0; i < 4; ++i) x.d[threadIdx.x][i] = d[i];                           \
  }
#define FOUR "%0, %1, %2, %3"
#define TWO "%0, %1"
PRODUCT(half_f16, "m64n8k16.f16.f16.f16", TWO, ", 1, 1, 0, 0")
PRODUCT(half_e4m3, "m64n8k32.f16.e4m3.e4m3", TWO, ", 1, 1")
PRODUCT(half_e5m2, "m64n8k32.f16.e5m2.e5m2", TWO, ", 1, 1")
PRODUCT(half_mixed, "m64n8k32.f16.e4m3.e5m2", TWO, ", 1, 1")
PRODUCT(f16, "m64n8k16.f32.f16.f16", FOUR, ", 1, 1, 0, 0")
PRODUCT(bf16, "m64n8k16.f32.bf16.bf16", FOUR, ", 1, 1, 0, 0")
PRODUCT(tf32, "m64n8k8.f32.tf32.tf32", FOUR, ", 1, 1")
PRODUCT(tf32_negated, "m64n8k8.f32.tf32.tf32", FOUR, ", -1, 1")
PRODUCT(e4m3, "m64n8k32.f32.e4m3.e4m3", FOUR, ", 1, 1")
PRODUCT(e5m2, "m64n8k32.f32.e5m2.e5m2", FOUR, ", 1, 1")
PRODUCT(e4m3_e5m2, "m64n8k32.f32.e4m3.e5m2", FOUR, ", 1, 1")
PRODUCT(e5m2_e4m3, "m64n8k32.f32.e5m2.e4m3", FOUR, ", 1, 1")
PRODUCT(s8, "m64n8k32.s32.s8.s8", FOUR, "")
PRODUCT(u8, "m64n8k32.s32.u8.u8", FOUR, "")
PRODUCT(s8_u8, "m64n8k32.s32.s8.u8", FOUR, "")
PRODUCT(u8_s8, "m64n8k32.s32.u8.s8", FOUR, "")
PRODUCT(s8_saturating, "m64n8k32.s32.s8.s8.satfinite", FOUR, "")
PRODUCT(u8_saturating, "m64n8k32.s32.u8.u8.satfinite", FOUR, "")

/// A format of floats; of integers there are no exponent bits.
struct Format {
  int bits, exponent, fraction;
};
constexpr Format f16_format{16, 5, 10}, bf16_format{16, 8, 7}, tf32_format{32, 8, 23},
    e4m3_format{8, 4, 3}, e5m2_format{8, 5, 2}, byte_format{8, 0, 0}, f32_format{32, 8, 23},
    s32_format{32, 0, 0};

/// Of a block: exponents within `spread` of 1, some of them subnormal; spread < 0: of any size;
/// `special`: some infinities and NaN.
struct Draw {
  std::mt19937 random{1};
  std::uint32_t number(const Format& f, int spread, bool special) {
    if (f.exponent == 0 && f.bits == 8) return random() & 0xff;
    if (f.exponent == 0) {
      // Of small size, and close to both ends.
      const std::int32_t small = static_cast<std::int32_t>(random() % 200001) - 100000;
      const auto bits = static_cast<std::uint32_t>(small);
      return spread == 1   ? bits
             : spread == 4 ? 0x7fffffffu - (bits & 0x3ffff)
             : spread == 9 ? 0x80000000u + (bits & 0x3ffff)
                           : static_cast<std::uint32_t>(random());
    }
    const int bias = (1 << (f.exponent - 1)) - 1, most = (1 << f.exponent) - 1;
    int exponent = spread < 0 ? static_cast<int>(random() % static_cast<unsigned>(most))
                              : bias - spread + static_cast<int>(random() % (2u * spread + 1));
    if (exponent < 0 || (spread >= 0 && random() % 16 == 0)) exponent = 0;
    if (exponent > most) exponent = most;
    std::uint32_t fraction = random() & ((1u << f.fraction) - 1);
    if (exponent == 0 && random() % 2 == 0) fraction = 0;
    const bool has_infinity = !(f.exponent == 4 && f.fraction == 3);
    if (!special && exponent == most && has_infinity) exponent = most - 1;
    if (!special && !has_infinity && exponent == most && fraction == 7) fraction = 6;
    if (special && random() % 48 == 0) {
      exponent = most;
      fraction = random() % 3 == 0 ? (1u << f.fraction) - 1 : has_infinity ? 0 : 6;
    }
    return (random() & 1) << (f.exponent + f.fraction) |
           static_cast<std::uint32_t>(exponent) << f.fraction | fraction;
  }
  std::uint32_t word(const Format& f, int spread, bool special) {
    std::uint32_t word = 0;
    for (int at = 0; at < 32; at += f.bits) word |= number(f, spread, special) << at;
    return word;
  }
};

struct ProductForm {
  const char* name;
  void (*kernel)(Tile*);
  Format a, b, c;
};
constexpr ProductForm forms[] = {
    {"half_f16", half_f16, f16_format, f16_format, f16_format},
    {"half_e4m3", half_e4m3, e4m3_format, e4m3_format, f16_format},
    {"half_e5m2", half_e5m2, e5m2_format, e5m2_format, f16_format},
    {"half_mixed", half_mixed, e4m3_format, e5m2_format, f16_format},
    {"f16", f16, f16_format, f16_format, f32_format},
    {"bf16", bf16, bf16_format, bf16_format, f32_format},
    {"tf32", tf32, tf32_format, tf32_format, f32_format},
    {"tf32_negated", tf32_negated, tf32_format, tf32_format, f32_format},
    {"e4m3", e4m3, e4m3_format, e4m3_format, f32_format},
    {"e5m2", e5m2, e5m2_format, e5m2_format, f32_format},
    {"e4m3_e5m2", e4m3_e5m2, e4m3_format, e5m2_format, f32_format},
    {"e5m2_e4m3", e5m2_e4m3, e5m2_format, e4m3_format, f32_format},
    {"s8", s8, byte_format, byte_format, s32_format},
    {"u8", u8, byte_format, byte_format, s32_format},
    {"s8_u8", s8_u8, byte_format, byte_format, s32_format},
    {"u8_s8", u8_s8, byte_format, byte_format, s32_format},
    {"s8_saturating", s8_saturating, byte_format, byte_format, s32_format},
    {"u8_saturating", u8_saturating, byte_format, byte_format, s32_format}};

std::vector<Tile> draw(const ProductForm& form, int blocks) {
  constexpr int spreads[] = {1, 4, 9, -1};
  Draw draw;
  std::vector<Tile> all(static_cast<std::size_t>(blocks));
  for (int i = 0; i < blocks; ++i) {
    Tile& tile = all[static_cast<std::size_t>(i)];
    const int spread = spreads[i % 4];
    const bool special = i % 4 == 2;
    for (int w = 0; w < 576; ++w) {
      tile.ab[w] = draw.word(w < 512 ? form.a : form.b, spread, special);
    }
    const bool zero = i % 12 == 5, narrow = form.c.bits == 16;
    const int around = narrow || form.c.exponent == 0 ? spread : spread < 0 ? 40 : 2 * spread;
    for (auto& lane : tile.c) {
      for (std::uint32_t& x : lane) x = zero ? 0 : draw.word(form.c, around, special);
    }
  }
  return all;
}

// Reductions.

constexpr int reduced_bytes = 2048;

#define REDUCTION(name, words)                                                            \
  __global__ void name(std::byte* to, const std::uint32_t* by) {                          \
    __shared__ __align__(128) std::uint32_t tile[reduced_bytes / 4];                      \
    for (int i = threadIdx.x; i < reduced_bytes / 4; i += 128) tile[i] = by[i];           \
    asm volatile("fence.proxy.async;" ::: "memory");                                      \
    __syncthreads();                                                                      \
    if (threadIdx.x != 0) return;                                                         \
    const auto at = static_cast<std::uint32_t>(__cvta_generic_to_shared(tile));           \
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group." words              \
                 " [%0], [%1], %2;" ::"l"(to),                                            \
                 "r"(at), "n"(reduced_bytes)                                              \
                 : "memory");                                                             \
    asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::: "memory"); \
  }
REDUCTION(add_f16, "add.noftz.f16")
REDUCTION(min_f16, "min.f16")
REDUCTION(max_f16, "max.f16")
REDUCTION(add_bf16, "add.noftz.bf16")
REDUCTION(min_bf16, "min.bf16")
REDUCTION(max_bf16, "max.bf16")
REDUCTION(add_f32, "add.f32")
REDUCTION(add_f64, "add.f64")
REDUCTION(inc_u32, "inc.u32")
REDUCTION(dec_u32, "dec.u32")
REDUCTION(min_s32, "min.s32")
REDUCTION(max_s64, "max.s64")
REDUCTION(add_u64, "add.u64")

#define TENSOR_REDUCTION(name, words)                                                     \
  __global__ void name(const __grid_constant__ CUtensorMap map, const std::uint32_t* by,  \
                       int boxes, int box) {                                              \
    __shared__ __align__(128) std::uint32_t tile[reduced_bytes / 4];                      \
    for (int i = threadIdx.x; i < reduced_bytes / 4; i += 128) tile[i] = by[i];           \
    asm volatile("fence.proxy.async;" ::: "memory");                                      \
    __syncthreads();                                                                      \
    if (threadIdx.x != 0) return;                                                         \
    for (int i = 0; i < boxes; ++i) {                                                     \
      const auto at = static_cast<std::uint32_t>(__cvta_generic_to_shared(                \
          reinterpret_cast<std::byte*>(tile) + i * (reduced_bytes / boxes)));             \
      asm volatile("cp.reduce.async.bulk.tensor.1d.global.shared::cta." words             \
                   ".tile.bulk_group [%0, {%1}], [%2];" ::"l"(&map),                      \
                   "r"(i * box), "r"(at)                                                  \
                   : "memory");                                                           \
    }                                                                                     \
    asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::: "memory"); \
  }
TENSOR_REDUCTION(tensor_add, "add")
TENSOR_REDUCTION(tensor_min, "min")
TENSOR_REDUCTION(tensor_max, "max")
TENSOR_REDUCTION(tensor_inc, "inc")
TENSOR_REDUCTION(tensor_dec, "dec")
TENSOR_REDUCTION(tensor_and, "and")

struct ReductionForm {
  const char* name;
  void (*kernel)(std::byte*, const std::uint32_t*);
  int bytes;  ///< of an element
  Format format;
};
constexpr Format f64_format{64, 11, 52}, s64_format{64, 0, 0};
constexpr ReductionForm reductions[] = {
    {"add.noftz.f16", add_f16, 2, f16_format}, {"min.f16", min_f16, 2, f16_format},
    {"max.f16", max_f16, 2, f16_format},       {"add.noftz.bf16", add_bf16, 2, bf16_format},
    {"min.bf16", min_bf16, 2, bf16_format},    {"max.bf16", max_bf16, 2, bf16_format},
    {"add.f32", add_f32, 4, f32_format},       {"add.f64", add_f64, 8, f64_format},
    {"inc.u32", inc_u32, 4, s32_format},       {"dec.u32", dec_u32, 4, s32_format},
    {"min.s32", min_s32, 4, s32_format},       {"max.s64", max_s64, 8, s64_format},
    {"add.u64", add_u64, 8, s64_format}};

struct TensorForm {
  const char* name;
  void (*kernel)(CUtensorMap, const std::uint32_t*, int, int);
  CUtensorMapDataType type;
  int bytes;
  Format format;
};
const TensorForm tensor_forms[] = {
    {"tensor.add.f16", tensor_add, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, f16_format},
    {"tensor.min.f16", tensor_min, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, f16_format},
    {"tensor.max.f16", tensor_max, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, f16_format},
    {"tensor.add.bf16", tensor_add, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, bf16_format},
    {"tensor.min.bf16", tensor_min, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, bf16_format},
    {"tensor.max.bf16", tensor_max, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, bf16_format},
    {"tensor.add.f32", tensor_add, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4, f32_format},
    {"tensor.add.f32_ftz", tensor_add, CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ, 4, f32_format},
    {"tensor.add.f64", tensor_add, CU_TENSOR_MAP_DATA_TYPE_FLOAT64, 8, f64_format},
    {"tensor.add.s32", tensor_add, CU_TENSOR_MAP_DATA_TYPE_INT32, 4, s32_format},
    {"tensor.add.u32", tensor_add, CU_TENSOR_MAP_DATA_TYPE_UINT32, 4, s32_format},
    {"tensor.min.s32", tensor_min, CU_TENSOR_MAP_DATA_TYPE_INT32, 4, s32_format},
    {"tensor.max.u32", tensor_max, CU_TENSOR_MAP_DATA_TYPE_UINT32, 4, s32_format},
    {"tensor.inc.u32", tensor_inc, CU_TENSOR_MAP_DATA_TYPE_UINT32, 4, s32_format},
    {"tensor.dec.u32", tensor_dec, CU_TENSOR_MAP_DATA_TYPE_UINT32, 4, s32_format},
    {"tensor.and.u32", tensor_and, CU_TENSOR_MAP_DATA_TYPE_UINT32, 4, s32_format},
    {"tensor.add.u64", tensor_add, CU_TENSOR_MAP_DATA_TYPE_UINT64, 8, s64_format},
    {"tensor.min.s64", tensor_min, CU_TENSOR_MAP_DATA_TYPE_INT64, 8, s64_format},
    {"tensor.max.u64", tensor_max, CU_TENSOR_MAP_DATA_TYPE_UINT64, 8, s64_format},
    {"tensor.and.u64", tensor_and, CU_TENSOR_MAP_DATA_TYPE_UINT64, 8, s64_format},
    {"tensor.and.s32", tensor_and, CU_TENSOR_MAP_DATA_TYPE_INT32, 4, s32_format},
    // What the texts do not name: last, as the GPU may fail.
    {"tensor.min.f32", tensor_min, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4, f32_format},
    {"tensor.add.s64", tensor_add, CU_TENSOR_MAP_DATA_TYPE_INT64, 8, s64_format},
    {"tensor.inc.s32", tensor_inc, CU_TENSOR_MAP_DATA_TYPE_INT32, 4, s32_format}};

/// Half of them close to each other, with every kind of number among them.
std::vector<std::uint32_t> draw_elements(const Format& format, int seed) {
  Draw draw;
  draw.random.seed(static_cast<unsigned>(seed));
  std::vector<std::uint32_t> words(reduced_bytes / 4);
  for (std::size_t i = 0; i < words.size(); ++i) {
    constexpr int spreads[] = {1, 4, 9, -1};
    const int spread = spreads[i / 32 % 4];
    if (format.bits < 64) {
      words[i] = draw.word(format, spread, true);
    } else if (i % 2 == 0) {
      words[i] = draw.random();
    } else if (format.exponent == 0) {
      words[i] = spread < 0 ? draw.random() : spread == 9 ? 0xffffffffu : 0;
    } else {
      const int exponent =
          spread < 0 ? static_cast<int>(draw.random() % 2048)
                     : 1023 - spread + static_cast<int>(draw.random() % (2u * spread + 1));
      words[i] = (draw.random() & 1) << 31 | static_cast<std::uint32_t>(exponent) << 20 |
                 (draw.random() & 0xfffff);
    }
  }
  return words;
}

// The file.

std::string header, body;
void add(const std::string& name, const void* words, std::size_t count) {
  const std::size_t begin = body.size();
  body.append(static_cast<const char*>(words), count * 4);
  header += (header.empty() ? "{\"" : ",\"") + name + "\":{\"dtype\":\"U32\",\"shape\":[" +
            std::to_string(count) + "],\"data_offsets\":[" + std::to_string(begin) + "," +
            std::to_string(body.size()) + "]}";
}

bool failed(const std::string& name) {
  cudaDeviceSynchronize();
  const cudaError_t error = cudaGetLastError();
  if (error == cudaSuccess) return false;
  std::fprintf(stderr, "capture_hopper: %s: %s\n", name.c_str(), cudaGetErrorString(error));
  return true;
}

bool capture_products(int blocks) {
  for (const ProductForm& form : forms) {
    std::vector<Tile> all = draw(form, blocks);
    Tile* device = nullptr;
    const std::size_t bytes = all.size() * sizeof(Tile);
    cudaMalloc(&device, bytes);
    cudaMemcpy(device, all.data(), bytes, cudaMemcpyHostToDevice);
    form.kernel<<<blocks, 128>>>(device);
    cudaMemcpy(all.data(), device, bytes, cudaMemcpyDeviceToHost);
    cudaFree(device);
    if (failed(form.name)) return false;
    std::vector<std::uint32_t> ab, c, d;
    const int registers = form.c.bits == 16 ? 2 : 4;
    for (const Tile& tile : all) {
      ab.insert(ab.end(), tile.ab, tile.ab + 576);
      for (int lane = 0; lane < 128; ++lane) {
        c.insert(c.end(), tile.c[lane], tile.c[lane] + registers);
        d.insert(d.end(), tile.d[lane], tile.d[lane] + registers);
      }
    }
    const std::string name = form.name;
    add(name + ".ab", ab.data(), ab.size());
    add(name + ".c", c.data(), c.size());
    add(name + ".d", d.data(), d.size());
  }
  return true;
}

template <class Launch>
bool capture_reduction(const std::string& name, const Format& format, const Launch& launch) {
  const std::vector<std::uint32_t> before = draw_elements(format, 1), by = draw_elements(format, 2);
  std::vector<std::uint32_t> behind(before.size());
  std::byte *to = nullptr, *from = nullptr;
  cudaMalloc(&to, reduced_bytes);
  cudaMalloc(&from, reduced_bytes);
  cudaMemcpy(to, before.data(), reduced_bytes, cudaMemcpyHostToDevice);
  cudaMemcpy(from, by.data(), reduced_bytes, cudaMemcpyHostToDevice);
  launch(to, reinterpret_cast<const std::uint32_t*>(from));
  cudaMemcpy(behind.data(), to, reduced_bytes, cudaMemcpyDeviceToHost);
  if (failed(name)) return false;
  cudaFree(to);
  cudaFree(from);
  add(name + ".old", before.data(), before.size());
  add(name + ".by", by.data(), by.size());
  add(name + ".new", behind.data(), behind.size());
  return true;
}

bool capture_reductions() {
  for (const ReductionForm& form : reductions) {
    const bool done = capture_reduction(
        form.name, form.format,
        [&](std::byte* to, const std::uint32_t* by) { form.kernel<<<1, 128>>>(to, by); });
    if (!done) return false;
  }
  void* encode = nullptr;
  cudaDriverEntryPointQueryResult found{};
  cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &encode, 12000, cudaEnableDefault,
                                   &found);
  for (const TensorForm& form : tensor_forms) {
    const int box = 256 / form.bytes > 64 ? 64 : 32, boxes = reduced_bytes / (box * form.bytes);
    const bool done =
        capture_reduction(form.name, form.format, [&](std::byte* to, const std::uint32_t* by) {
          CUtensorMap map;
          const cuuint64_t size = reduced_bytes / static_cast<unsigned>(form.bytes), stride = 0;
          const cuuint32_t side = static_cast<cuuint32_t>(box), step = 1;
          const CUresult result = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(encode)(
              &map, form.type, 1, to, &size, &stride, &side, &step, CU_TENSOR_MAP_INTERLEAVE_NONE,
              CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
              CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
          if (result != CUDA_SUCCESS) std::fprintf(stderr, "%s: no map: %d\n", form.name, result);
          form.kernel<<<1, 128>>>(map, by, boxes, box);
        });
    if (!done) return true;
  }
  return true;
}

}  // namespace

int main(int count, char** words) {
  if (count < 2 || count > 3) {
    std::fprintf(stderr, "usage: capture_hopper OUTPUT.safetensors [BLOCKS]\n");
    return 2;
  }
  const int blocks = count > 2 ? std::atoi(words[2]) : 4;
  if (!capture_products(blocks) || !capture_reductions()) return 1;
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  std::FILE* file = std::fopen(words[1], "wb");
  if (!file) return 1;
  const std::uint64_t length = header.size();
  std::fwrite(&length, 8, 1, file);
  std::fwrite(header.data(), 1, header.size(), file);
  std::fwrite(body.data(), 1, body.size(), file);
  return std::fclose(file) == 0 ? 0 : 1;
}
