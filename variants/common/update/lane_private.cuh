// Update with sums per lane (privatisation): each lane of a warp has sums of its own in shared memory, so that no point
// costs an atomic. First used by v06_lane_sums.
#pragma once
#include "block_private.cuh"

namespace ladder {

/// A warp adds up `width` features of the points [blockIdx.x * points, ... + points). The warps of a block and the
/// blocks along y split the features 0 .. d, where feature d of every point is 1: its sums are the counts.
template <class T, Layout layout, int width>
__global__ void sum_lanes_kernel(const T* __restrict__ x, const int32_t* __restrict__ label, double* sum, int* count,
                                 int n, int k, int d, int points) {
  constexpr int lanes = 32;
  const int lane = threadIdx.x % lanes, warp = threadIdx.x / lanes;
  double* warp_sums = dynamic_shared<double>() + size_t(warp) * width * k * lanes;  // width x k x lanes
  const int first = (blockIdx.y * (blockDim.x / lanes) + warp) * width;
  for (int e = lane; e < width * k * lanes; e += lanes) warp_sums[e] = 0;
  const int64_t end = min(int64_t(n), (int64_t(blockIdx.x) + 1) * points);
#pragma unroll 4
  for (int64_t i = int64_t(blockIdx.x) * points + lane; i < end; i += lanes) {
    const int j = label[i];
    T value[width];
    for (int w = 0; w < width; ++w) value[w] = first + w < d ? x[element<layout>(i, first + w, n, d)] : T(1);
    // No atomic: this column belongs to this lane alone. No bank conflict: the columns lie side by side.
    for (int w = 0; w < width; ++w) warp_sums[(w * k + j) * lanes + lane] += value[w];
  }
  __syncwarp();  // from here on lanes read each other's columns
  for (int e = lane; e < width * k; e += lanes) {
    double total = 0;
    for (int l = 0; l < lanes; ++l) total += warp_sums[e * lanes + (l + lane) % lanes];  // 32 lanes, 32 different banks
    const int f = first + e / k, j = e % k;
    if (f < d && total != 0) atomicAdd(&sum[size_t(j) * d + f], total);
    if (f == d && total != 0) atomicAdd(&count[j], int(total));
  }
}

constexpr int lane_sums_clusters = 64;  // 64 x 32 doubles are 16 KB a warp: more clusters leave too few warps

template <class T, Layout layout, class W>
void update_lanes(Run<T, W>& s) {
  const Sums& sums = s.ws.sums;
  clear_sums(s);
  constexpr int warps = 4;
  const int points = std::clamp(s.n / (2 * s.device_info.multiprocessors), 1024, 8192);
  const int features_per_warp = s.k > 32 ? 1 : s.k > 16 ? 2 : 4;
  dispatch<1, 2, 4>(features_per_warp, [&]<int width>() {
    launch(sum_lanes_kernel<T, layout, width>, dim3(blocks(s.n, points), blocks(s.d + 1, warps * width)), warps * 32,
           size_t(warps) * width * s.k * 32 * sizeof(double), s.stream, s.x, s.label, sums.sum, sums.count, s.n, s.k,
           s.d, points);
  });
  divide(s);
}

}  // namespace ladder
