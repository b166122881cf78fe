// Scores of 32 points in shared memory, and a point's candidates by a loop over them. v25b_register_sums introduces it;
// v25a_fused_certified has a form of its own.
#pragma once
#include "point_tile.cuh"

namespace ladder {

/// Products of the tile's 32 points and all centroids to scores, 32 x (columns + 1). A step's 16 features are taken in
/// another order than their own, the same for both operands: those of a lane are neighbours.
template <class T, int columns, class Sizes>
__device__ void multiply(const T* tile, const T* centre, const uint2* halves, int half_pitch, float* scores,
                         const Sizes& size, const PointUnit<T>& unit) {
  const int lane = threadIdx.x % 32, g = lane / 4, q = lane % 4;
  for (int m = 0; m < tile_rows; m += mma_rows) {
    const T* const row = tile + (m + fragment_row(g)) * size.pitch;
    float product[columns / mma_columns][4] = {};
    for (int step = 0; step < size.steps; ++step) {
      const int f = step * mma_depth + 4 * q;
      FragmentA a{};
      if (f < size.width) {
        const auto& m4 = *reinterpret_cast<const Quad<T>*>(centre + f);
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const auto x4 = *reinterpret_cast<const Quad<T>*>(row + e * 8 * size.pitch + f);
#pragma unroll
          for (int p = 0; p < 2; ++p) {
            const __half2 pair = __floats2half2_rn(unit(x4.feature[2 * p], m4.feature[2 * p]),
                                                   unit(x4.feature[2 * p + 1], m4.feature[2 * p + 1]));
            a.r[2 * p + e] =
                uint32_t(__half_as_ushort(__low2half(pair))) | uint32_t(__half_as_ushort(__high2half(pair))) << 16;
          }
        }
      }
#pragma unroll
      for (int b = 0; b < columns / mma_columns; ++b) {
        const uint2 pair = halves[(b * mma_columns + g) * half_pitch + 4 * step + q];
        mma(product[b], a, FragmentB{{pair.x, pair.y}});
      }
    }
#pragma unroll
    for (int b = 0; b < columns / mma_columns; ++b) {
#pragma unroll
      for (int e = 0; e < 4; ++e)
        scores[(m + fragment_row(g) + e / 2 * 8) * (columns + 1) + b * mma_columns + 2 * q + e % 2] = product[b][e];
    }
  }
}

/// The centroids of this lane's point that may be nearest, a bit each. `score`: products, replaced by upper bounds.
__device__ inline unsigned long long candidates(float* score, const CentroidBound* bound, PointBound y, int k) {
  float lower = -std::numeric_limits<float>::infinity();
  for (int j = 0; j < k; ++j) {
    score[j] = upper_bound(score[j], y, bound[j]);
    lower = fmaxf(lower, lower_bound(score[j], y, bound[j]));
  }
  unsigned long long open = 0;
  for (int j = 0; j < k; ++j) open |= static_cast<unsigned long long>(score[j] >= lower) << j;
  return open != 0 ? open : ~0ull >> (64 - k);  // none: the bounds are no numbers
}

}  // namespace ladder
