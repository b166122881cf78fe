// Between two fused passes: means, their halves and zeros for the next sums in one launch. v25g_one_finish introduces
// it.
#pragma once
#include "bulk_rows.cuh"

namespace ladder {

/// A warp per centroid: the mean of its points, as halves, too; the sums are zeros afterwards. A centroid without
/// points stays.
template <class T>
__global__ void finish_kernel(double* sum, int* count, T* c, Frame<T> frame, certified::CentroidRows target, int k,
                              int d) {
  const int j = blockIdx.x, lane = threadIdx.x, points = count[j];
  if (points == 0) return;
  for (int f = lane; f < d; f += 32) {
    const int e = j * d + f;
    c[e] = T(sum[e] / points), sum[e] = 0;
  }
  __syncwarp();  // the features are there, and the count is read
  if (lane == 0) count[j] = 0;
  target(
      j, k, [&](int f) { return frame(c, j, f, d); }, d);
}

// ---- host side. W: a BulkRows, or derived from it

template <class T, class W>
void finish_pass(Run<T, W>& s) {
  const auto& certified = s.ws.certified;
  launch(finish_kernel<T>, s.k, 32, 0, s.stream, s.ws.sums.sum, s.ws.sums.count, s.c, certified.frame,
         certified::CentroidRows{certified.c, certified.centroid}, s.k, s.d);
}

/// The same for the first centroids.
template <class T, class W>
void restart_passes(Run<T, W>& s) {
  restart_rows(s);
  reset_undecided(s);
  quantize_centroids(s);
  clear_sums(s);
}

}  // namespace ladder
