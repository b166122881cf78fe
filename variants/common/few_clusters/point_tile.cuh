// Points of few clusters as halves that are never in memory: a warp reads 32 points and rounds their coordinates to
// halves on the way into the product. The upload measures how far each point's halves are off. v25a_fused_certified
// introduces it.
#pragma once
#include "../certified/assign_sm80.cuh"

namespace ladder {

constexpr int most_clusters = 64;
constexpr int tile_rows = 32;
constexpr int half_exponent = 14;  // coordinates below 1 in the frame make halves below 2^14

/// The unit of the points' halves: value = coordinate x 2^exponent - centre x 2^exponent, rounded to a half. The same
/// operations at upload, where the error is measured, and in the product.
template <class T>
struct PointUnit {
  int frame;     // the exponent of the frame's scale
  int exponent;  // of the halves beside the frame
  T scale;
  __device__ explicit PointUnit(const Frame<T>& f) : frame(f.exponent()) {
    const int most = sizeof(T) == 4 ? 100 : 900;  // the scale of smaller points would overflow: they keep fewer bits
    exponent = half_exponent + min(frame, most) - frame;
    scale = T(scalbn(1.0, frame + exponent));
  }
  /// `centre` is multiplied by the scale already.
  __device__ float operator()(T x, T centre) const {
    if constexpr (sizeof(T) == 4)
      return __fmaf_rn(x, scale, -centre);
    else
      return float(__fma_rn(x, scale, -centre));
  }
};

/// A warp per point: the largest weight of each tile.
template <class T>
__global__ void weight_kernel(const T* x, Frame<T> frame, float* weight, int n, int d) {
  const int64_t row = (blockIdx.x * int64_t(blockDim.x) + threadIdx.x) / 32;
  if (row >= n) return;  // a whole warp at a time
  const PointUnit<T> unit(frame);
  QuantizationError error{unit.exponent, 0, 0, 0};
  for (int f = threadIdx.x % 32; f < d; f += 32) {
    const double value = scalbn(frame(x, row, f, d), unit.exponent);
    const double half = double(__half2float(__float2half_rn(unit(x[row * d + f], frame.centre[f] * unit.scale))));
    error.whole += value * value, error.kept += half * half, error.lost += (value - half) * (value - half);
  }
  error.whole = warp_sum(error.whole), error.kept = warp_sum(error.kept), error.lost = warp_sum(error.lost);
  // Weights are positive: their bits are in the order of their values.
  if (threadIdx.x % 32 == 0)
    atomicMax(reinterpret_cast<int*>(weight + row / tile_rows), __float_as_int(point_bound(error, d).weight));
}

__device__ inline float widen(__half value) { return __half2float(value); }
__device__ inline float widen(float value) { return value; }
__device__ inline double widen(double value) { return value; }

template <class T>
struct alignas(sizeof(T) == 2 ? 8 : 16) Quad {
  T feature[4];
};

/// Row g of a fragment is row fragment_row(g) of its 16: the lanes that read 128 bytes at once then reach all banks.
/// These are eight lanes, with the rows of two neighbouring g; of halves sixteen, with those of four.
template <class Stored = float>
__device__ int fragment_row(int g) {
  return sizeof(Stored) == 2 ? g % 4 * 2 + g / 4 : g % 2 * 4 + g / 2;
}
/// Its inverse.
template <class Stored = float>
__device__ int fragment_of_row(int row) {
  return sizeof(Stored) == 2 ? row % 2 * 4 + row / 2 : row % 4 * 2 + row / 4;
}

}  // namespace ladder
