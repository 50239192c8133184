#include "attention.cuh"
#ifndef TYPE
#define TYPE __half
#endif
using C = sm90a::Config<TYPE, HEAD_DIM, TILE_N, WARPGROUPS, STAGES, CAUSAL, CLUSTER, ORDER, DYNAMIC,
                        LAZY, POLY, DEGREE, EPI, HALVES>;
extern "C" __global__ void __launch_bounds__(C::threads, 1)
    attention(const __grid_constant__ sm90a::Problem p) {
  extern __shared__ unsigned char raw[];
  sm90a::Kernel<C>::run(p, raw);
}
extern "C" __device__ const int config[12] = {
    C::D,         C::M,       C::N,      C::threads,
    C::smem,      C::Cluster, C::Causal, sizeof(sm90a::Problem),
    sizeof(TYPE), C::Dynamic, 0,         0};
extern "C" __device__ const int* config_pointer = config;
