// A warp's buffer in shared memory, filled by one bulk copy (cp.async.bulk, compute capability 9.0): one instruction of
// one lane in place of one of all lanes for each row, and the data go past the registers and the L1 cache in whole
// lines. The CPU device copies by cp.async. v25c_bulk_rows introduces it. TmaPipeline is the ring between warps; here
// the warp that reads the buffer fills it again, so that no second barrier is needed. Source: PTX ISA, sections
// "mbarrier" and "cp.async.bulk".
#pragma once
#include "../../../harness/contract/launch.cuh"
#ifdef __CUDACC__
#include <cuda/ptx>
#else
#include <cuda_pipeline.h>
#endif

namespace ladder {

class BulkBuffer {
 public:
  /// First, by all lanes of the warp; `barrier` is the warp's own, in shared memory.
  __device__ explicit BulkBuffer(uint64_t* barrier) : barrier_(barrier) {
#ifdef __CUDACC__
    if (threadIdx.x % 32 == 0) {
      cuda::ptx::mbarrier_init(barrier_, 1);
      cuda::ptx::fence_mbarrier_init(cuda::ptx::sem_release, cuda::ptx::scope_cluster);
    }
#endif
    __syncwarp();
  }
  /// By all lanes, when they have read what the buffer held: starts the copy of `bytes`, a multiple of 16, from global
  /// memory to `to`. Both addresses are multiples of 16.
  __device__ void start(void* to, const void* from, int bytes) {
    __syncwarp();
#ifdef __CUDACC__
    if (threadIdx.x % 32 > 0) return;
    using namespace cuda::ptx;
    mbarrier_arrive_expect_tx(sem_release, scope_cta, space_shared, barrier_, uint32_t(bytes));
    cp_async_bulk(space_cluster, space_global, to, from, uint32_t(bytes), barrier_);
#else
    for (int at = threadIdx.x % 32 * 16; at < bytes; at += 32 * 16)
      __pipeline_memcpy_async(static_cast<char*>(to) + at, static_cast<const char*>(from) + at, 16);
    __pipeline_commit();
#endif
  }
  /// By all lanes: waits for the copy that was started last.
  __device__ void wait() {
#ifdef __CUDACC__
    while (!cuda::ptx::mbarrier_try_wait_parity(barrier_, round_)) {
    }
    round_ ^= 1;
#else
    __pipeline_wait_prior(0);
    __syncwarp();
#endif
  }

 private:
  uint64_t* const barrier_;
  [[maybe_unused]] uint32_t round_ = 0;  // parity of the copies before
};

/// The reason why this device cannot run such a kernel; empty where it can.
inline std::string refuse_bulk_copies(const Device& device) {
  if (device.kind != DeviceKind::cuda || device.compute_capability == 90) return "";
  return "its bulk copies need a GPU of compute capability 9.0, this one has " +
         std::to_string(device.compute_capability / 10) + "." + std::to_string(device.compute_capability % 10);
}

}  // namespace ladder
