// One unit for the halves of all rows: bound_columns.cuh and filter/short_rows.cuh put terms of their bounds into
// columns of the rows, which needs a common unit. In it no point is longer than 4096, apart from outlier rows: a few
// rows that are much longer than the others. They would make the unit so coarse that the bounds of all other rows are
// wide. No bound is computed for them; in each assignment they are compared with all centroids exactly.
// v31_bound_columns introduces it.
#pragma once
#include <cuda_fp16.h>

#include <bit>
#include <cstdint>

#include "../lloyd/frame.cuh"
#include "error_bound.cuh"

namespace ladder {

constexpr int longest = 12;                   // the exponent of the largest length of a point
constexpr double far_length = 4 * 0x1p12;     // centroids from this length on get no coordinates
constexpr double far_score = -3.75 * 0x1p24;  // theirs is below -4 * 2^24

/// The exponent of the unit of a row of d features, beside that of the frame: coordinates below 1 make lengths below
/// sqrt(d).
__host__ __device__ inline int short_exponent(int d) {
  const int bits = std::bit_width(unsigned(d) - 1);
  return longest - (bits + 1) / 2;  // 4^((bits + 1) / 2) >= d
}

/// Whether a point is an outlier row, by its squared length in the common unit, known to a relative 2^-39. All other
/// points are no longer than 4096.
__host__ __device__ inline bool is_outlier(double square) { return !(square <= 0x1p24 * (1 - 0x1p-38)); }

/// What the nominal sizes of all factors may hide of a product of two rows of `width` halves and no more than 128, of a
/// point with its threshold and a centroid, and more than the roundings of the threshold (docs/certificate.md, Lemma 7,
/// "The constant").
__host__ __device__ inline double threshold_constant(int width) { return 1.02 * 0x1p11 * accumulation(width) + 0x1p-9; }
/// By how much the threshold of a score exceeds minus that score.
__host__ __device__ inline double threshold_excess(double score, int width) {
  return 2 * accumulation(width) * fabs(score) + threshold_constant(width);
}

/// The smallest half that is not below `value`.
__host__ __device__ inline __half half_up(double value) {
  const __half near = __double2half(value);
  const int next = value < 0 ? -1 : 1;  // of the bits: a sign, and behind it a size
  return double(__half2float(near)) < value ? __ushort_as_half((unsigned short)(__half_as_ushort(near) + next)) : near;
}

// ---- the scale of the frame, from a quantile of rows

/// How many of n rows the scale may leave out: none of few rows. One costs about as much as a hundred others.
__host__ __device__ inline int most_outliers(int n) { return n < 64 ? 0 : 1 + n / 4096; }
/// A row is left out if its largest coordinate has an exponent this much above that of all rows but most_outliers().
/// Rows that are longer by less cost the bounds hardly anything.
constexpr int spare_exponents = 3;

/// The exponents of rows' largest coordinates are counted from lowest_exponent on. A row that equals the centre has the
/// lowest.
constexpr int lowest_exponent = -1100, exponent_count = 2144;

/// Calls visit(exponent) with the exponent of each row's largest coordinate, relative to the centre: one thread of the
/// `lanes` (a power of two) that share the row.
template <int lanes, class T, class Visit>
__device__ void visit_exponents(const T* rows, const Frame<T>& frame, int64_t n, int d, const Visit& visit) {
  const int64_t groups = int64_t(gridDim.x) * blockDim.x / lanes;
  const int64_t group = (blockIdx.x * int64_t(blockDim.x) + threadIdx.x) / lanes;
  const int lane = threadIdx.x % lanes;
  for (int64_t begin = 0; begin < n; begin += groups) {  // whole warps stay together
    const int64_t row = begin + group;
    double largest = 0;
#pragma unroll 4
    for (int f = lane; row < n && f < d; f += lanes)
      largest = max(largest, fabs(double(rows[row * d + f]) - double(frame.centre[f])));
    for (int step = lanes / 2; step > 0; step /= 2) largest = max(largest, __shfl_xor_sync(all_lanes, largest, step));
    if (lane != 0 || row >= n) continue;
    visit(largest > 0 ? min(max(ilogb(largest), lowest_exponent), lowest_exponent + exponent_count - 1)
                      : lowest_exponent);
  }
}

/// Adds rows to frame.exponent_counts: to entry e those whose exponent is lowest_exponent + e.
template <int lanes, class T>
__global__ void count_exponents_kernel(const T* rows, Frame<T> frame, int64_t n, int d) {
  __shared__ int block_counts[exponent_count];
  for (int e = threadIdx.x; e < exponent_count; e += blockDim.x) block_counts[e] = 0;
  __syncthreads();
  visit_exponents<lanes>(rows, frame, n, d,
                         [&](int exponent) { atomicAdd(&block_counts[exponent - lowest_exponent], 1); });
  __syncthreads();
  for (int e = threadIdx.x; e < exponent_count; e += blockDim.x) {
    if (block_counts[e] > 0) atomicAdd(&frame.exponent_counts[e], block_counts[e]);
  }
}

/// One warp: the exponent that the scale of n rows is for. At most most_outliers(n) rows lie above it.
[[maybe_unused]] static __global__ void choose_exponent_kernel(const int* counts, int* chosen, int n) {
  int above = 0, largest = -1;  // rows above what has been looked at; the largest exponent of a row
  for (int first = exponent_count - warp_lanes; first >= 0; first -= warp_lanes) {
    const int count = counts[first + threadIdx.x], all = warp_sum(count);
    const int warp_largest = warp_max(count > 0 ? first + int(threadIdx.x) : -1);
    largest = max(largest, warp_largest);
    if (above + all <= most_outliers(n) && first > 0) {
      above += all;
      continue;
    }
    if (threadIdx.x != 0) return;
    int e = first + warp_lanes - 1;
    while (e > 0 && above + counts[e] <= most_outliers(n)) above += counts[e--];
    *chosen = lowest_exponent + min(largest, e + spare_exponents);
    return;
  }
}
static_assert(exponent_count % warp_lanes == 0);

/// Adds the number of rows that the frame's scale leaves out to *beyond.
template <int lanes, class T>
__global__ void count_beyond_kernel(const T* rows, Frame<T> frame, int* beyond, int64_t n, int d) {
  const int scale = *frame.max_exponent;
  visit_exponents<lanes>(rows, frame, n, d, [&](int exponent) {
    if (exponent > scale) atomicAdd(beyond, 1);
  });
}

/// Calls body.template operator()<lanes>(blocks) for n rows of d features.
template <class F>
void for_row_lanes(const Resources& s, int n, int d, const F& body) {
  const int wanted = d <= 4 ? 4 : d <= 16 ? 16 : 32;
  dispatch<4, 16, 32>(wanted, [&]<int lanes>() {
    body.template operator()<lanes>(
        int(std::min<int64_t>(blocks(int64_t(n) * lanes, 256), 8 * s.device_info.multiprocessors)));
  });
}

/// Memory for Frame::exponent_counts.
inline int* allocate_exponent_counts(Resources& s) { return s.device<int>(exponent_count); }
template <class T>
void clear_exponent_counts(Resources& s, const Frame<T>& frame) {
  check(cudaMemsetAsync(frame.exponent_counts, 0, exponent_count * sizeof(int), s.stream),
        "clearing the counts of exponents");
}

/// Adds n points, row-major on the device, to the counts. Requires the frame's centre.
template <class T>
void count_exponents(Resources& s, const T* rows, const Frame<T>& frame, int n, int d) {
  for_row_lanes(s, n, d, [&]<int lanes>(int blocks) {
    launch(count_exponents_kernel<lanes, T>, blocks, 256, 0, s.stream, rows, frame, n, d);
  });
}

/// The scale, from the counts of n points: it brings all coordinates below 1, apart from those of at most
/// most_outliers(n) rows.
template <class T>
void choose_exponent(Resources& s, const Frame<T>& frame, int n) {
  launch(choose_exponent_kernel, 1, warp_lanes, 0, s.stream, frame.exponent_counts, frame.max_exponent, n);
}

/// Computes centre and scale of n points, row-major on the device.
template <class T>
void fit_common_frame(Resources& s, const T* rows, const Frame<T>& frame, int n, int d) {
  fit_centre(s, rows, frame, n, d);
  clear_exponent_counts(s, frame);
  count_exponents(s, rows, frame, n, d);
  choose_exponent(s, frame, n);
}

/// Adds the number of these n rows that the frame's scale leaves out to *beyond.
template <class T>
void count_beyond(Resources& s, const T* rows, const Frame<T>& frame, int* beyond, int n, int d) {
  for_row_lanes(s, n, d, [&]<int lanes>(int blocks) {
    launch(count_beyond_kernel<lanes, T>, blocks, 256, 0, s.stream, rows, frame, beyond, n, d);
  });
}

}  // namespace ladder
