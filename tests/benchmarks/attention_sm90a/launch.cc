// Loads cubins of attention.cu and launches them.
#include <cuda.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>
struct Problem {
  CUtensorMap q, k, v, o;
  float* lse;
  void* out;
  unsigned* counter;
  int heads_all, group, len_q, len_kv;
  float scale_log2;
  int units, items, section;
  long long* clocks;
  int pair_heads;
};
struct Loaded {
  CUmodule module;
  CUfunction f;
  int c[12];
};
static std::vector<Loaded> all;
#define OK(x)                             \
  do {                                    \
    CUresult r_ = (x);                    \
    if (r_ != CUDA_SUCCESS) {             \
      const char* s;                      \
      cuGetErrorString(r_, &s);           \
      fprintf(stderr, "%s: %s\n", #x, s); \
      return -1;                          \
    }                                     \
  } while (0)
extern "C" int load(const char* path, int* config) {
  Loaded l;
  OK(cuModuleLoad(&l.module, path));
  OK(cuModuleGetFunction(&l.f, l.module, "attention"));
  CUdeviceptr p;
  size_t n;
  OK(cuModuleGetGlobal(&p, &n, l.module, "config"));
  OK(cuMemcpyDtoH(l.c, p, sizeof l.c));
  if (l.c[7] != (int)sizeof(Problem)) {
    fprintf(stderr, "Problem is %d there, %zu here\n", l.c[7], sizeof(Problem));
    return -1;
  }
  OK(cuFuncSetAttribute(l.f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, l.c[4]));
  memcpy(config, l.c, sizeof l.c);
  all.push_back(l);
  return (int)all.size() - 1;
}
static int map3(CUtensorMap* m, int bf16, const void* p, int d, int len, int heads, int rows) {
  cuuint64_t dims[3] = {(cuuint64_t)d, (cuuint64_t)len, (cuuint64_t)heads},
             strides[2] = {(cuuint64_t)d * 2, (cuuint64_t)d * 2 * len};
  cuuint32_t box[3] = {64, (cuuint32_t)rows, 1}, step[3] = {1, 1, 1};
  OK(cuTensorMapEncodeTiled(
      m, bf16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 3,
      const_cast<void*>(p), dims, strides, box, step, CU_TENSOR_MAP_INTERLEAVE_NONE,
      CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
  return 0;
}
extern "C" int launch(int handle, void* q, void* k, void* v, void* o, float* lse, unsigned* counter,
                      int b, int h, int hk, int sq, int sk, float scale, int bf16, int section,
                      int pair_heads, int num_sm, void* stream, long long* clocks) {
  const Loaded& l = all[handle];
  const int D = l.c[0], M = l.c[1], N = l.c[2], cl = l.c[5];
  Problem p;
  memset(&p, 0, sizeof p);
  if (map3(&p.q, bf16, q, D, sq, b * h, M) || map3(&p.k, bf16, k, D, sk, b * hk, N / cl) ||
      map3(&p.v, bf16, v, D, sk, b * hk, N / cl) || map3(&p.o, bf16, o, D, sq, b * h, 64))
    return -1;
  p.clocks = clocks;
  p.lse = lse;
  p.out = o;
  p.counter = counter;
  p.heads_all = b * h;
  p.group = h / hk;
  p.len_q = sq;
  p.len_kv = sk;
  p.scale_log2 = (float)(scale * 1.4426950408889634);
  p.pair_heads = cl == 2 && pair_heads && p.group % 2 == 0;
  const int rows = p.pair_heads || cl == 1 ? M : M * cl, heads = p.pair_heads ? b * h / 2 : b * h;
  p.units = (sq + rows - 1) / rows;
  p.items = p.units * heads;
  if (section <= 0) {  // as many heads (pairs) as have their K and V in 32 MiB
    const double bytes = 4.0 * sk * D / p.group * (p.pair_heads ? 2 : 1);
    for (section = 2; section * 2 * bytes <= 32e6; section *= 2) {
    }
  }
  p.section = std::min(section, heads);
  const int grid = std::min(p.items, num_sm / cl) * cl;
  CUlaunchConfig c;
  memset(&c, 0, sizeof c);
  CUlaunchAttribute a[1];
  c.gridDimX = grid;
  c.gridDimY = c.gridDimZ = 1;
  c.blockDimX = l.c[3];
  c.blockDimY = c.blockDimZ = 1;
  c.sharedMemBytes = l.c[4];
  c.hStream = (CUstream)stream;
  if (cl > 1) {
    a[0].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    a[0].value.clusterDim.x = cl;
    a[0].value.clusterDim.y = a[0].value.clusterDim.z = 1;
    c.attrs = a;
    c.numAttrs = 1;
  }
  void* args[] = {&p};
  OK(cuLaunchKernelEx(&c, l.f, args, nullptr));
  return 0;
}
