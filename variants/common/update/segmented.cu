// Kernels of segmented.cuh.
#include "segmented.cuh"

namespace ladder {
namespace {

constexpr int run_points = 256;  // points of a block, and threads
template <class T>
constexpr int run_blocks_per_sm = sizeof(T) == 4 ? 5 : 4;  // blocks of a multiprocessor
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 750
constexpr int most_run_blocks = 4;  // of the 1024 threads that a multiprocessor of Turing holds
#else
constexpr int most_run_blocks = 5;
#endif

/// Where most points moved: sums all of them in sorted order. A block has run_points points and run_features features;
/// a thread sums one feature over a run of `lanes` points.
template <class T, int summands>
__global__ void __launch_bounds__(run_points, std::min(run_blocks_per_sm<T>, most_run_blocks))
    segmented_sum_kernel(const T* __restrict__ rows, const int* __restrict__ order, const int32_t* __restrict__ label,
                         const MoveCounters* moves, int share, unsigned long long* sum, FixedPoint format, int n, int k,
                         int d) {
  constexpr int loads = 8;  // of a thread in flight
  __shared__ int64_t row[run_points];
  __shared__ int cluster[run_points];
  __shared__ unsigned ends[run_points / 32];  // a bit per point: the next one has another cluster, or another thread
  if (!moves_are_many(moves->points, n, share)) return;
  const int thread = threadIdx.x;
  int lanes = run_features;  // threads with a feature each; the block's other threads have further points
  while (lanes > 16 && lanes / 2 >= d) lanes /= 2;
  const int f = blockIdx.y * run_features + thread % lanes, begin = thread / lanes * lanes;
  const T* const column = rows + f;
  for (int64_t first = int64_t(blockIdx.x) * run_points; first < n; first += int64_t(gridDim.x) * run_points) {
    const int points = int(min(int64_t(run_points), n - first));
    __syncthreads();  // the points of the iteration before are no longer read
    // Threads behind the last point load one of no cluster: the loop below needs no check.
    const int point = order[thread < points ? first + thread : 0];
    row[thread] = int64_t(point) * d;
    cluster[thread] = thread < points ? label[point] : -1;
    __syncthreads();
    const bool run_ends = thread % lanes == lanes - 1 || cluster[thread] != cluster[thread + 1];
    const unsigned warp_ends = __ballot_sync(0xffffffffu, run_ends);
    if (thread % 32 == 0) ends[thread / 32] = warp_ends;
    __syncthreads();
    RunSum<T, summands> run_sum(format);
    const int end = f < d ? min(begin + lanes, points) : 0;
    for (int from = begin; from < end; from += loads) {
      T value[loads];
#pragma unroll
      for (int e = 0; e < loads; ++e) value[e] = column[row[from + e]];
      // Run by run: the code that ends a run is there once, not once for each value.
      unsigned remaining = ends[from / 32] >> from % 32 & ((1u << loads) - 1);
      for (int done = 0, to; done < loads; done = to) {
        to = remaining ? __ffs(int(remaining)) : loads;
        const unsigned run = (1u << to) - (1u << done);
#pragma unroll
        for (int e = 0; e < loads; ++e)
          if (run & 1u << e) run_sum.add(value[e]);
        if (!remaining) break;
        remaining &= remaining - 1;
        const int j = cluster[from + to - 1];
        run_sum.flush([&](int w, unsigned long long word) {
          if (j >= 0) atomicAdd(sum + (int64_t(w) * k + j) * d + f, word);
        });
      }
    }
  }
}

}  // namespace

template <class T>
void segmented_sums(cudaStream_t stream, const T* rows, const int* order, const int32_t* label,
                    const IncrementalSums& m, const MoveCounters* moves, int n, int k, int d, int multiprocessors) {
  // One wave of blocks, and none more: it would begin when the others end.
  const int parts = blocks(d, run_features);
  const int wave = std::max(1, run_blocks_per_sm<T> * multiprocessors / parts);
  const int grid = std::min(blocks(n, run_points), wave);
  dispatch_summands<T>(m.format, [&]<int summands>() {
    launch(segmented_sum_kernel<T, summands>, dim3(grid, parts), run_points, 0, stream, rows, order, label, moves,
           m.full_update_share, m.sum, m.format, n, k, d);
  });
}

template void segmented_sums<float>(cudaStream_t, const float*, const int*, const int32_t*, const IncrementalSums&,
                                    const MoveCounters*, int, int, int, int);
template void segmented_sums<double>(cudaStream_t, const double*, const int*, const int32_t*, const IncrementalSums&,
                                     const MoveCounters*, int, int, int, int);

}  // namespace ladder
