// What two consumer warpgroups of a block need to take turns on the tensor cores: an ordered barrier, and registers
// that move from the producer to them. v28_ping_pong introduces it.
#pragma once
#include "wgmma_sm90.cuh"

namespace ladder {

#ifdef __CUDACC__
/// Ping-pong: two warpgroups take turns on the tensor cores, so that one multiplies during the other's epilogue. Both
/// take the same number of turns. Named barriers 1 and 2: a group waits at its barrier until the other arrives there.
/// library: cutlass::OrderedSequenceBarrier; own because CUTLASS is no dependency.
struct OrderedBarrier {
  int group;  ///< 0 or 1: 0 goes first
  __device__ explicit OrderedBarrier(int index) : group(index) {
    if (group == 1) pass();
  }
  /// Waits for this group's turn.
  __device__ void take() const {
    asm volatile("bar.sync %0, %1;" ::"r"(1 + group), "n"(2 * warpgroup_threads) : "memory");
  }
  /// Ends it: the other group's turn.
  __device__ void pass() const {
    asm volatile("bar.arrive %0, %1;" ::"r"(2 - group), "n"(2 * warpgroup_threads) : "memory");
  }
  /// After the last turn: group 1 has passed once more than group 0 has taken.
  __device__ void finish() const {
    if (group == 0) take();
  }
};

/// Registers per thread of this warpgroup from here on: alloc waits until dealloc of another warpgroup has freed
/// enough. The kernel's launch bounds must name its block size. library: cuda::ptx::setmaxnreg of newer CCCL; own
/// because the toolkit's CCCL does not have it.
template <int count>
__device__ void warpgroup_reg_alloc() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(count));
}
template <int count>
__device__ void warpgroup_reg_dealloc() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(count));
}
#endif

}  // namespace ladder
