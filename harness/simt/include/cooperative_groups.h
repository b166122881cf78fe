// Cooperative groups: the block, tiles of it, the grid, and a cluster of blocks.
#pragma once
#include <cuda_runtime.h>

namespace cooperative_groups {

class grid_group {
 public:
  static void sync(simt::Where where = simt::Where::current()) { simt_grid_barrier(where); }
  static bool is_valid() { return true; }
  static unsigned long long size() { return num_blocks() * num_threads_of_block(); }
  static unsigned long long num_threads() { return size(); }
  static unsigned long long num_blocks() { return 1ull * gridDim.x * gridDim.y * gridDim.z; }
  static unsigned long long block_rank() {
    return (1ull * blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  }
  static unsigned long long thread_rank() {
    return block_rank() * num_threads_of_block() +
           ((threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x);
  }
  static dim3 group_dim() { return gridDim; }

 private:
  static unsigned long long num_threads_of_block() { return 1ull * blockDim.x * blockDim.y * blockDim.z; }
};
inline grid_group this_grid() { return {}; }

/// A grid that was launched as one cluster; else the block alone.
class cluster_group {
 public:
  static void sync(simt::Where where = simt::Where::current()) { simt_cluster_barrier(where); }
  static unsigned num_blocks() { return simt_cluster_blocks(); }
  static unsigned block_rank() { return num_blocks() == 1 ? 0 : unsigned(grid_group::block_rank()); }
  static unsigned num_threads() { return num_blocks() * blockDim.x * blockDim.y * blockDim.z; }
  static unsigned size() { return num_threads(); }
  static unsigned thread_rank() {
    return block_rank() * (blockDim.x * blockDim.y * blockDim.z) +
           ((threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x);
  }
  /// Where block `rank` has what this one has at `address`, in its shared memory.
  template <class T>
  static T* map_shared_rank(T* address, int rank, simt::Where where = simt::Where::current()) {
    return static_cast<T*>(simt_map_shared(address, unsigned(rank), where));
  }
};
inline cluster_group this_cluster() { return {}; }

class thread_block {
 public:
  static void sync(simt::Where where = simt::Where::current()) { __syncthreads(where); }
  static unsigned thread_rank() { return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x; }
  static unsigned size() { return blockDim.x * blockDim.y * blockDim.z; }
  static unsigned num_threads() { return size(); }
  static dim3 group_index() { return blockIdx; }
  static dim3 thread_index() { return threadIdx; }
  static dim3 group_dim() { return blockDim; }
  static dim3 dim_threads() { return blockDim; }
};
inline thread_block this_thread_block() { return {}; }

/// N neighbouring lanes of a warp; N is a power of two up to 32.
template <unsigned N, class Parent = void>
class thread_block_tile {
  static_assert(N >= 1 && N <= 32 && (N & (N - 1)) == 0, "a tile has 1, 2, 4, 8, 16 or 32 threads");

 public:
  static unsigned thread_rank() { return thread_block::thread_rank() % N; }
  static unsigned meta_group_rank() { return thread_block::thread_rank() / N; }
  static unsigned meta_group_size() { return (thread_block::size() + N - 1) / N; }
  static constexpr unsigned size() { return N; }
  static constexpr unsigned num_threads() { return N; }
  static void sync(simt::Where where = simt::Where::current()) { __syncwarp(mask(), where); }
  template <class T>
  T shfl(T value, int rank, simt::Where where = simt::Where::current()) const {
    return __shfl_sync(mask(), value, rank, int(N), where);
  }
  template <class T>
  T shfl_up(T value, unsigned delta, simt::Where where = simt::Where::current()) const {
    return __shfl_up_sync(mask(), value, delta, int(N), where);
  }
  template <class T>
  T shfl_down(T value, unsigned delta, simt::Where where = simt::Where::current()) const {
    return __shfl_down_sync(mask(), value, delta, int(N), where);
  }
  template <class T>
  T shfl_xor(T value, unsigned lane_mask, simt::Where where = simt::Where::current()) const {
    return __shfl_xor_sync(mask(), value, int(lane_mask), int(N), where);
  }
  int any(int predicate, simt::Where where = simt::Where::current()) const {
    return __any_sync(mask(), predicate, where);
  }
  int all(int predicate, simt::Where where = simt::Where::current()) const {
    return __all_sync(mask(), predicate, where);
  }
  unsigned ballot(int predicate, simt::Where where = simt::Where::current()) const {
    return __ballot_sync(mask(), predicate, where) >> first_lane();
  }
  template <class T>
  unsigned match_any(T value, simt::Where where = simt::Where::current()) const {
    return __match_any_sync(mask(), value, where) >> first_lane();
  }

 private:
  static unsigned first_lane() { return thread_block::thread_rank() % 32 / N * N; }
  static unsigned mask() { return (0xffffffffu >> (32 - N)) << first_lane(); }
};
template <unsigned N, class Parent>
thread_block_tile<N, Parent> tiled_partition(const Parent&) {
  return {};
}

template <class Group>
void sync(const Group& group, simt::Where where = simt::Where::current()) {
  group.sync(where);
}

}  // namespace cooperative_groups
