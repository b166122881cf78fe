// The update that suits the problem, which later rungs keep: sums per lane where K is small, sums per block where these
// fit and the points fill the device, else atomics in global memory. First used by v07_choose_update.
#pragma once
#include "lane_private.cuh"

namespace ladder {

/// One thread and one atomic per point and feature, as in v03.
template <class T, Layout layout>
__global__ void sum_global_kernel(const T* x, const int32_t* label, double* sum, int* count, int n, int d) {
  const int64_t e = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (e >= int64_t(n) * d) return;
  const int i = int(layout == Layout::rows ? e / d : e % n), f = int(layout == Layout::rows ? e % d : e / n);
  atomicAdd(&sum[size_t(label[i]) * d + f], double(x[e]));
  if (f == 0) atomicAdd(&count[label[i]], 1);
}

template <class T, Layout layout, class W>
void update_global(Run<T, W>& s) {
  const Sums& sums = s.ws.sums;
  clear_sums(s);
  launch(sum_global_kernel<T, layout>, blocks(int64_t(s.n) * s.d, 256), 256, 0, s.stream, s.x, s.label, sums.sum,
         sums.count, s.n, s.d);
  divide(s);
}

template <class T, Layout layout, class W>
void update_any(Run<T, W>& s) {
  if (s.k <= lane_sums_clusters) return update_lanes<T, layout>(s);
  const int width = features_per_block(s.k, s.d, s.device_info);
  const int64_t parts = width > 0 ? blocks(s.n, points_per_block(s.k)) * int64_t(blocks(s.d, width)) : 0;
  if (parts >= s.device_info.multiprocessors) return update_shared<T, layout>(s);
  update_global<T, layout>(s);
}

}  // namespace ladder
