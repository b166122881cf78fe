// Kernels of distance_bounds.cuh.
//
// for cuda: 90a
#include "../device/warp_compact.cuh"
#include "distance_bounds.cuh"

namespace ladder {
namespace {

/// The threshold of a row at most `distance` away from its guess; and the row's place in `order`. `square`: its squared
/// length, `exponent`: of the unit of short rows.
__device__ inline void set_threshold(int i, int guess, double distance, double square, int exponent,
                                     uint32_t* thresholds, const RowOrder& order, int width) {
  const double scaled = distance * power_of_two(exponent);
  thresholds[i] = threshold(square, scaled * scaled, width);
  scatter(order, i, guess);
}

/// Thresholds of rows whose bounds are tight; the others are listed. `slack`: how much the upper bound may exceed the
/// lower one, relative. A row whose cluster is clean keeps its threshold.
template <int width, ShortRowLayout layout, class T>
__global__ void __launch_bounds__(256, 4)  // with fewer registers a row's loads would be serialised
    threshold_by_bounds_kernel(const uint4* __restrict__ x, const uint4* __restrict__ c, Frame<T> frame,
                               const int* guess, const double* square, const double* centroid_square,
                               uint32_t* thresholds, RowOrder order, DistanceBounds bounds, double slack, int* list,
                               FilterCounters* counters, DirtyClusters dirty, int n, int d) {
  const int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  const int guessed = i < n ? guess[i] : 0;
  const bool active = i < n && dirty[guessed];
  if (!__any_sync(0xffffffffu, active)) return;
  const int64_t row = active ? i : 0;
  const int centroid = active ? guessed : 0;
  const double point_square = square[row], travelled = bounds.travelled[centroid];
  const DistanceBound cached = bounds.cached[row];
  const Interval squares = distance_interval<width>(
      x + row * (width / 8), point_square, [&](int e) { return c[short_row_chunk<width, layout>(centroid, e)]; },
      centroid_square[centroid]);
  const int exponent = frame.exponent() + short_exponent(d);
  const double unit = power_of_two(-exponent);
  double low = sqrt(squares.low) * unit, high = distance_above(squares.high) * unit;
  if (cached.centroid == centroid) {
    const double since = __dsub_ru(travelled, cached.travelled);
    low = max(low, cached.distance - since), high = min(high, __dadd_ru(cached.distance, since));
  }
  const bool enough = high <= (1 + slack) * low;
  const int place = warp_compact(&counters->exact_distances, active && !enough);
  if (!active) return;
  if (enough)
    set_threshold(int(i), centroid, high, point_square, exponent, thresholds, order, width);
  else
    list[place] = int(i);
}

/// Thresholds of the listed rows from their exact distances, a warp for each.
template <class T>
__global__ void __launch_bounds__(256)
    threshold_by_distances_kernel(const T* __restrict__ x, const T* __restrict__ c, Frame<T> frame, const int* guess,
                                  const double* square, uint32_t* thresholds, RowOrder order, DistanceBounds bounds,
                                  const int* list, const FilterCounters* counters, int width, int d) {
  const int warps = gridDim.x * blockDim.x / 32, exponent = frame.exponent() + short_exponent(d);
  for (int e = (blockIdx.x * blockDim.x + threadIdx.x) / 32; e < counters->exact_distances; e += warps) {
    const int i = list[e], centroid = guess[i];
    double squared[1];
    warp_distances(x + int64_t(i) * d, {c + int64_t(centroid) * d}, d, squared);
    if (threadIdx.x % 32 != 0) continue;
    const double distance = distance_above(squared[0]);
    bounds.cached[i] = {distance, bounds.travelled[centroid], centroid};
    set_threshold(i, centroid, distance, square[i], exponent, thresholds, order, width);
  }
}

constexpr int step_block = 128;

/// Means as in divide_exact(), a block for each centroid, which also adds the length of the centroid's step to its
/// path.
template <class T, int words_of_sum>
__global__ void __launch_bounds__(step_block)
    step_means_kernel(const unsigned long long* sum, const int* count, T* c, double* travelled, DirtyClusters dirty,
                      FixedPoint format, int k, int d) {
  constexpr int at_once = 4;  // features of a thread with loads in flight
  __shared__ double warp_total[step_block / 32];
  const int64_t j = blockIdx.x;
  const int points = count[j];
  const double path = travelled[j];           // loaded early: needed at the end
  if (!dirty[int(j)] || points == 0) return;  // a centroid without points stays
  format.words = words_of_sum;                // a constant
  double squared = 0;
  for (int from = threadIdx.x; from < d; from += at_once * step_block) {
    SumWords words[at_once];
    T before[at_once];
#pragma unroll
    for (int e = 0; e < at_once; ++e) {
      const int64_t index = j * d + from + e * step_block;
      if (from + e * step_block < d) words[e] = SumWords(sum + index, size_t(k) * d, format), before[e] = c[index];
    }
#pragma unroll
    for (int e = 0; e < at_once; ++e) {
      if (from + e * step_block >= d) break;
      const T mean = mean_of<T>(words[e], points, format);
      const double step = double(mean) - double(before[e]);
      squared += step * step;
      c[j * d + from + e * step_block] = mean;
    }
  }
  squared = warp_sum(squared);
  if (threadIdx.x % 32 == 0) warp_total[threadIdx.x / 32] = squared;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int w = 1; w < step_block / 32; ++w) squared += warp_total[w];
  travelled[j] = __dadd_ru(path, distance_above(squared));
}

}  // namespace

template <class T>
void set_bounded_thresholds(ShortRowLayout layout, cudaStream_t stream, const T* x, const T* c, const Frame<T>& frame,
                            const ProjectionFilter& f, const int* guess, const RowOrder& order,
                            const DistanceBounds& bounds, double slack, int* list, FilterCounters* counters,
                            const DirtyClusters& dirty, int multiprocessors, int n, int d) {
  dispatch_width(f.width, [&]<int width>() {
    const auto by_bounds = [&]<ShortRowLayout layout>() {
      launch(threshold_by_bounds_kernel<width, layout, T>, blocks(n, 256), 256, 0, stream, f.x, f.c, frame, guess,
             f.square, f.centroid_square, f.threshold, order, bounds, slack, list, counters, dirty, n, d);
    };
    dispatch_layout(layout, by_bounds);
  });
  launch(threshold_by_distances_kernel<T>, std::min(blocks(n, 8), 8 * multiprocessors), 256, 0, stream, x, c, frame,
         guess, f.square, f.threshold, order, bounds, list, counters, f.width, d);
}

template <class T>
void step_to_means(cudaStream_t stream, const IncrementalSums& m, T* c, double* travelled, int k, int d) {
  dispatch<1, 2, 3>(m.format.words, [&]<int words>() {
    launch(step_means_kernel<T, words>, k, step_block, 0, stream, m.sum, m.count, c, travelled, m.dirty, m.format, k,
           d);
  });
}

template void set_bounded_thresholds<float>(ShortRowLayout, cudaStream_t, const float*, const float*,
                                            const Frame<float>&, const ProjectionFilter&, const int*, const RowOrder&,
                                            const DistanceBounds&, double, int*, FilterCounters*, const DirtyClusters&,
                                            int, int, int);
template void step_to_means<float>(cudaStream_t, const IncrementalSums&, float*, double*, int, int);
template void set_bounded_thresholds<double>(ShortRowLayout, cudaStream_t, const double*, const double*,
                                             const Frame<double>&, const ProjectionFilter&, const int*, const RowOrder&,
                                             const DistanceBounds&, double, int*, FilterCounters*, const DirtyClusters&,
                                             int, int, int);
template void step_to_means<double>(cudaStream_t, const IncrementalSums&, double*, double*, int, int);

}  // namespace ladder
