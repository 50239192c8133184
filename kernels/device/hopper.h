#pragma once

// What sm_90a adds to the device vocabulary (kernels/device/device.h), for kernels that ask for it:
// 'gpu_arch': 'sm_90a' in their entry of kernels/meson.build.
//
//   mbarriers       mbarrier_init() fence_mbarrier_init() mbarrier_arrive() mbarrier_expect_tx()
//                   mbarrier_arrive_expect_tx() mbarrier_wait()
//   named barriers  barrier_sync() barrier_arrive()
//   proxies         fence_proxy_async()
//   copies          make_tensor_map() prefetch() tensor_load() tensor_store() commit_stores()
//                   wait_stores<N>() wait_stores_read<N>()
//   products        matrix_descriptor() wgmma() wgmma_fence() wgmma_commit() wgmma_wait<N>()
//   registers       decrease_registers<N>() increase_registers<N>()
//   others          warpgroup() held() elect_one() stmatrix_x4() stmatrix_x4_trans()
#include "kernels/device/device.h"
#include "kernels/device/matrix_descriptor.h"
#include "kernels/device/tensor_tile.h"

#if defined(__CUDACC__)
#include "kernels/device/cuda_hopper.h"
#else
#include "kernels/device/sim_hopper.h"
#endif
