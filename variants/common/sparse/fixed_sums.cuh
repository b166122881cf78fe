// Sums of sparse rows per cluster, by native 32-bit atomics in shared memory. A value is split into two whole numbers
// of units and a rest, x = high unit[0] + mid unit[1] + rest: each step is exact. A block adds up `high` and `mid` in
// 32 bits; the rest, which few values have, goes to global memory in double. v04e_fused_sums introduces it.
//
// No overflow. A row has one entry in a column, so a block adds at most C values to a sum, C being the most entries
// that a block has in a column. With C <= 2^c and |x| < 2^m, unit[0] = 2^(c + m - 30): the sum of `high` is at most C
// (|x| / unit[0] + 1/2) <= 2^30 + C/2. The remainder is at most unit[0] / 2, so unit[1] = unit[0] 2^(c - 31) bounds the
// sum of `mid` alike. c is at most 29, and for floats at least 8, so that each number is at most 2^22. unit[2] =
// unit[1] 2^-32: |low| <= 2^31, and 2^31 rows at most add up to 2^62.
#pragma once
#include <bit>
#include <cmath>

#include "../device/double_double.cuh"
#include "sliced_rows.cuh"

namespace ladder {

/// Powers of two. `scale` is 1 / unit; where that would be no normal number the units are larger than they need be.
template <class T>
struct Units {
  T scale[3], unit[3];
};

/// Sums in global memory, k x d each.
struct FixedSums {
  unsigned long long *high, *mid, *low;  ///< in units, modulo 2^64
  double* rest;
  unsigned long long* count;  ///< k
};

/// What the data set needs: the most entries that a block has in a column, the exponent above all values.
struct Limits {
  int entries = 0, exponent = -2048;
};

/// The slices of this block, the same in all kernels.
struct SliceRange {
  int first, last;
  __device__ explicit SliceRange(int slices)
      : first(int(int64_t(blockIdx.x) * slices / gridDim.x)), last(int(int64_t(blockIdx.x + 1) * slices / gridDim.x)) {}
};

/// The grid is that of the kernel that sums. d ints of shared memory.
template <class T, class Column, int group>
__global__ void limits_kernel(Slices<T, Column, group> rows, Limits* limits, int slices, int d) {
  int* const entries = dynamic_shared<int>();  // d
  for (int f = threadIdx.x; f < d; f += blockDim.x) entries[f] = 0;
  __syncthreads();
  Limits found;
  const SliceRange range(slices);
  for (int64_t slot = range.first * int64_t(warp_lanes) + threadIdx.x; slot < range.last * int64_t(warp_lanes);
       slot += blockDim.x)
    rows.entries(slot, [&](int column, T x) {
      if (x == 0) return;
      atomicAdd(&entries[column], 1);
      found.exponent = max(found.exponent, ilogb(double(x)) + 1);
    });
  __syncthreads();
  for (int f = threadIdx.x; f < d; f += blockDim.x) found.entries = max(found.entries, entries[f]);
  if (found.entries > 0) atomicMax(&limits->entries, found.entries);
  atomicMax(&limits->exponent, warp_max(found.exponent));
}

template <class T>
Units<T> units_for(const Limits& limits) {
  const int least = sizeof(T) == 4 ? -100 : -900;
  const int c = std::max(int(std::bit_width(unsigned(limits.entries))), sizeof(T) == 4 ? 8 : 0);
  const int high = std::max(least, c + limits.exponent - 30), mid = std::max(least, high + c - 31);
  const int low = std::max(least, mid - 32);
  const auto power = [](int exponent) { return T(std::ldexp(1.0, exponent)); };
  return {{power(-high), power(-mid), power(-low)}, {power(high), power(mid), power(low)}};
}

/// Adds x to sum number e; `high` and `mid` are the block's own.
template <class T>
__device__ void add_fixed(int* high, int* mid, const FixedSums& sums, const Units<T>& units, int e, T x) {
  const T q = rint(x * units.scale[0]), remainder = x - q * units.unit[0];
  const T p = rint(remainder * units.scale[1]), lost = remainder - p * units.unit[1];
  if (q != 0) atomicAdd(&high[e], int(q));
  if (p != 0) atomicAdd(&mid[e], int(p));
  if (lost == 0) return;
  const T l = rint(lost * units.scale[2]), rest = lost - l * units.unit[2];
  atomicAdd(&sums.low[e], static_cast<unsigned long long>(static_cast<long long>(l)));
  if (rest != 0) atomicAdd(&sums.rest[e], double(rest));
}

/// Adds the block's sums to those in global memory. One word per lane and cluster counts the rows: k x 32.
inline __device__ void flush_fixed(const FixedSums& sums, const int* high, const int* mid, const int* count, int k,
                                   int d) {
  const auto add = [](unsigned long long* to, int value) {
    if (value != 0) atomicAdd(to, static_cast<unsigned long long>(static_cast<long long>(value)));
  };
  for (int e = threadIdx.x; e < k * d; e += blockDim.x) add(&sums.high[e], high[e]), add(&sums.mid[e], mid[e]);
  for (int e = threadIdx.x; e < k * warp_lanes; e += blockDim.x) add(&sums.count[e / warp_lanes], count[e]);
}

/// Writes the mean number e. The products of `high` and `mid` are exact, and so is two_sum: only the small parts and
/// the quotient are rounded.
template <class T>
__device__ void store_mean(const FixedSums& sums, const Units<T>& units, T* c, int e, int d) {
  if (sums.count[e / d] == 0) return;  // a centroid without points stays
  const auto part = [&](const unsigned long long* word, int q) {
    return double(static_cast<long long>(word[e])) * double(units.unit[q]);
  };
  const DoubleDouble large = two_sum(part(sums.high, 0), part(sums.mid, 1));
  c[e] = T((large.high + (large.low + (part(sums.low, 2) + sums.rest[e]))) / double(sums.count[e / d]));
}

template <class T>
__global__ void means_kernel(FixedSums sums, Units<T> units, T* c, int k, int d) {
  const int e = blockIdx.x * blockDim.x + threadIdx.x;
  if (e < k * d) store_mean(sums, units, c, e, d);
}

// ---- host side

inline FixedSums allocate_fixed_sums(Resources& s, int k, int d) {
  const size_t values = size_t(k) * d;
  auto* words = s.device<unsigned long long>(4 * values + k);
  return {words, words + values, words + 2 * values, reinterpret_cast<double*>(words + 3 * values), words + 4 * values};
}

inline void clear_fixed_sums(Resources& s, const FixedSums& sums, int k, int d) {
  check(cudaMemsetAsync(sums.high, 0, (4 * size_t(k) * d + k) * sizeof *sums.high, s.stream), "clearing the sums");
}

}  // namespace ladder
