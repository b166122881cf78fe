// Bounds of scores in the registers that hold the products: no score goes to shared memory. v25d_fragment_bounds
// introduces it.
#pragma once
#include "bulk_rows.cuh"

namespace ladder {

/// Sizes in shared memory. Rows of centroids are padded so that four rows of halves lie 16 bytes apart. Stored: the
/// type of a point's coordinate there.
template <class T, class Stored = T>
struct Sizes {
  int quads, width, pitch, steps, half_pitch, columns;
  __host__ __device__ Sizes(int d, int columns)
      : quads((d + 3) / 4),
        width(4 * quads),
        pitch(bulk_pitch<Stored>(d)),
        steps((d + mma_depth - 1) / mma_depth),
        half_pitch(4 * (steps | 1)),
        columns(columns) {}
  size_t warp_bytes() const { return sizeof(Stored) * tile_rows * pitch + sizeof(uint64_t); }
  /// `halves`: those of the centroids are in shared memory, too.
  size_t block_bytes(bool halves) const {
    return columns * (sizeof(CentroidBound) + halves * half_pitch * sizeof(uint2)) + sizeof(T) * steps * mma_depth;
  }
};

/// Products of the tile's 32 points and all centroids: product[m][b] is the fragment of the rows 16 m + fragment_row(g)
/// and + 8. A step's 16 features are taken in another order than their own, the same for both operands: those of a lane
/// are neighbours.
template <class T, int columns, class Stored>
__device__ void multiply(const Stored* tile, const T* centre, const uint2* halves, int half_pitch,
                         float (&product)[2][columns / mma_columns][4], const Sizes<T, Stored>& size,
                         const PointUnit<T>& unit) {
  const int g = threadIdx.x % 32 / 4, q = threadIdx.x % 4;
  const Stored* const row = tile + fragment_row<Stored>(g) * size.pitch + 4 * q;
  const uint2* const column = halves + g * half_pitch + q;
  const auto take = [&](int step, bool inside) {
    const auto m4 = *reinterpret_cast<const Quad<T>*>(centre + step * mma_depth + 4 * q);
    FragmentA a[2] = {};
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      if (!inside) continue;  // zeros behind the last feature
      const auto x4 = *reinterpret_cast<const Quad<Stored>*>(row + r * 8 * size.pitch + step * mma_depth);
#pragma unroll
      for (int p = 0; p < 2; ++p) {
        const __half2 pair = __floats2half2_rn(unit(widen(x4.feature[2 * p]), m4.feature[2 * p]),
                                               unit(widen(x4.feature[2 * p + 1]), m4.feature[2 * p + 1]));
        a[r / 2].r[2 * p + r % 2] =
            uint32_t(__half_as_ushort(__low2half(pair))) | uint32_t(__half_as_ushort(__high2half(pair))) << 16;
      }
    }
#pragma unroll
    for (int b = 0; b < columns / mma_columns; ++b) {
      const uint2 pair = column[b * mma_columns * half_pitch + 4 * step];
      for (int m = 0; m < 2; ++m) mma(product[m][b], a[m], FragmentB{{pair.x, pair.y}});
    }
  };
  const int whole = size.width / mma_depth;
  for (int step = 0; step < whole; ++step) take(step, true);
  if (whole < size.steps) take(whole, whole * mma_depth + 4 * q < size.width);
}

/// A bit for each centroid.
template <int columns>
using Mask = std::conditional_t<(columns > 32), unsigned long long, unsigned>;
__device__ inline int lowest(unsigned mask) { return __ffs(int(mask)) - 1; }
__device__ inline int lowest(unsigned long long mask) { return __ffsll(static_cast<long long>(mask)) - 1; }

/// The centroids that may be nearest to point `lane` of the tile. Replaces the products by upper bounds.
template <int columns, class Stored = float>
__device__ Mask<columns> candidates(float (&product)[2][columns / mma_columns][4], const CentroidBound* bound,
                                    PointBound y, int k) {
  const int lane = threadIdx.x % 32, q = lane % 4;
  float lower[4];  // of the rows 8 r + fragment_row<Stored>(g)
  Mask<columns> open[4] = {};
#pragma unroll
  for (float& value : lower) value = -std::numeric_limits<float>::infinity();
#pragma unroll
  for (int e = 0; e < columns / 4; ++e) {
    const CentroidBound z = bound[e / 2 * mma_columns + 2 * q + e % 2];
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      float& upper = product[r / 2][e / 2][r % 2 * 2 + e % 2];
      upper = upper_bound(upper, y, z);
      lower[r] = fmaxf(lower[r], lower_bound(upper, y, z));
    }
  }
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    lower[r] = warp_max<4>(lower[r]);
#pragma unroll
    for (int e = 0; e < columns / 4; ++e)
      open[r] |= Mask<columns>(product[r / 2][e / 2][r % 2 * 2 + e % 2] >= lower[r]) << (e / 2 * mma_columns + e % 2);
    open[r] = warp_reduce<4>(open[r] << 2 * q, [](auto a, auto b) { return a | b; });
  }
  // All four lanes of a g have the masks of its four rows: lane q gives that of row 8 q + fragment_row<Stored>(g).
  const Mask<columns> given = q == 0 ? open[0] : q == 1 ? open[1] : q == 2 ? open[2] : open[3];
  const int g = fragment_of_row<Stored>(lane % 8);
  const Mask<columns> all = ~Mask<columns>(0) >> (8 * sizeof(Mask<columns>) - k);
  const Mask<columns> mask = __shfl_sync(all_lanes, given, 4 * g + lane / 8) & all;
  return mask != 0 ? mask : all;  // none: the bounds are no numbers
}

}  // namespace ladder
