#pragma once

// The device vocabulary: all that a kernel may use besides plain C++. The same calls are CUDA
// intrinsics and PTX under nvcc, and the SIMT machine of debug/simt elsewhere.
//
//   who am I       thread() lane() warp() block() block_count()
//   together       block_sync() warp_sync() shfl() shfl_xor() shfl_up() shfl_down() ballot()
//   async copies   copy_async_16() commit_copies() wait_copies<N>()
//   matrices       ldmatrix_x4() ldmatrix_x4_trans() mma_m16n8k16<T>()
//   wmma           load_matrix_sync() mma_sync() store_matrix_sync()
//   shared by all  atomic_add() store_relaxed() next_ticket()
//   numbers        widen() narrow<T>() pack<T>() pack_e4m3() e4m3x2_to_f16x2() fma() max() ex2()
//                  lg2()
//   bits           permute_bytes()
//
// A call that needs other lanes takes its place in the source as a last argument, which the SIMT
// machine names when the lanes do not meet.
#include "kernels/device/fragments.h"
#include "kernels/device/numbers.h"
#include "kernels/device/portable.h"

#if defined(__CUDACC__)
#include "kernels/device/cuda.h"
#include "kernels/device/cuda_wmma.h"
#else
#include "kernels/device/sim.h"
#include "kernels/device/sim_wmma.h"
#endif
