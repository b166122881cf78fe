// Rows in a frame: a centre is subtracted, and a power of two scales. The nearest centroid does not change; around the
// mean of the points coordinates are smallest, and so is the error of rounding them to halves. v23_half_product
// introduces it.
#pragma once
#include "../device/warp.cuh"
#include "phases.cuh"

namespace ladder {

/// Centre and power-of-two scale of a coordinate frame in which all points have coordinates below 1, or all but a few
/// (certified/common_unit.cuh).
template <class T>
struct Frame {
  T* centre = nullptr;             // d
  int* max_exponent = nullptr;     // the exponent of the largest of these coordinates, relative to the centre
  int* exponent_counts = nullptr;  // where few rows may be left out: what they are found by

  /// The exponent of the scale. Points that all equal the centre have an exponent far below -1000.
  __device__ int exponent() const { return -1 - max(*max_exponent, -1000); }
  /// A coordinate in the frame.
  __device__ double operator()(const T* rows, int64_t row, int f, int d) const {
    return (double(rows[row * d + f]) - double(centre[f])) * scalbn(1.0, exponent());
  }
};

constexpr int frame_points = 1024;  // points from which the centre is found: any centre is right

/// One thread per feature: the mean of points that are `apart` rows apart, in a way that few points that lie far from
/// all others hardly change. The points make eight groups; of the groups' means the four in the middle count.
template <class T>
__global__ void centre_kernel(const T* rows, T* centre, int count, int apart, int d) {
  constexpr int groups = 8;
  const int f = blockIdx.x * blockDim.x + threadIdx.x;
  if (f >= d) return;
  const auto value = [&](int i) { return double(rows[int64_t(i) * apart * d + f]); };
  double sum[groups] = {};
  if (count < groups) {
    for (int i = 0; i < count; ++i) sum[0] += value(i);
    centre[f] = T(sum[0] / count);
    return;
  }
  const int each = count / groups;
  for (int i = 0; i < each; ++i) {
#pragma unroll  // loads in flight
    for (int g = 0; g < groups; ++g) sum[g] += value(i * groups + g);
  }
#pragma unroll  // a dynamically indexed array would go to local memory
  for (int pass = 0; pass < groups; ++pass) {
#pragma unroll
    for (int g = pass % 2; g + 1 < groups; g += 2) {
      const double low = min(sum[g], sum[g + 1]), high = max(sum[g], sum[g + 1]);
      sum[g] = low, sum[g + 1] = high;
    }
  }
  centre[f] = T((sum[2] + sum[3] + sum[4] + sum[5]) / (4.0 * each));
}

template <class T>
__global__ void max_exponent_kernel(const T* rows, Frame<T> frame, int64_t count, int d) {
  double largest = 0;
  const int64_t threads = int64_t(gridDim.x) * blockDim.x, begin = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  const int step = int(threads % d);
  int f = int(begin % d);  // the feature of element e, without a division in the loop
#pragma unroll 4
  for (int64_t e = begin; e < count; e += threads) {
    largest = max(largest, fabs(double(rows[e]) - double(frame.centre[f])));
    f += step;
    if (f >= d) f -= d;
  }
  largest = warp_max(largest);
  if (threadIdx.x % 32 == 0 && largest > 0) atomicMax(frame.max_exponent, ilogb(largest));
}

inline void clear_max_exponent(Resources& s, int* max_exponent) {
  check(cudaMemsetAsync(max_exponent, 0x80, sizeof *max_exponent, s.stream), "clearing the exponent");  // far below all
}

/// Raises the frame's exponent to that of these n points.
template <class T>
void update_max_exponent(Resources& s, const T* rows, const Frame<T>& frame, int n, int d) {
  const int64_t values = int64_t(n) * d;
  launch(max_exponent_kernel<T>, int(std::min<int64_t>(blocks(values, 256), 8 * s.device_info.multiprocessors)), 256, 0,
         s.stream, rows, frame, values, d);
}

/// Computes the centre of n points, row-major on the device.
template <class T>
void fit_centre(Resources& s, const T* rows, const Frame<T>& frame, int n, int d) {
  const int count = std::min(n, frame_points);
  launch(centre_kernel<T>, blocks(d, 64), 64, 0, s.stream, rows, frame.centre, count, n / count, d);
}
/// Computes centre and scale of n points, row-major on the device.
template <class T>
void fit_frame(Resources& s, const T* rows, const Frame<T>& frame, int n, int d) {
  fit_centre(s, rows, frame, n, d);
  clear_max_exponent(s, frame.max_exponent);
  update_max_exponent(s, rows, frame, n, d);
}

/// One warp per row, of `padded` rows. Calls target(row, value, d) with the row's coordinates value(f) in the frame;
/// rows from `count` on, which pad the last tile, are zeros. Nothing where the list of rows that needs them is empty:
/// *length is 0.
template <class T, class Target>
__global__ void quantize_kernel(const T* rows, Frame<T> frame, Target target, const int* length, int count,
                                int64_t padded, int d) {
  const int64_t row = (blockIdx.x * int64_t(blockDim.x) + threadIdx.x) / 32;
  if (row >= padded || (length && *length == 0)) return;  // a whole warp at a time
  target(
      row, count, [&](int f) { return row < count ? frame(rows, row, f, d) : 0.0; }, d);
}

/// A launch of quantize_kernel. `length`: as above; null: always.
template <class T, class Target>
void quantize(const T* rows, const Frame<T>& frame, const Target& target, const int* length, int count, int64_t padded,
              int d, cudaStream_t stream) {
  launch(quantize_kernel<T, Target>, blocks(padded * 32, 256), 256, 0, stream, rows, frame, target, length, count,
         padded, d);
}

}  // namespace ladder
