// The first centroid subtracted from the others, in copies for groups of banks: as v04n_short_loop has it.
#pragma once
#include "../lloyd/vector_load.cuh"
#include "exact_label.cuh"

namespace ladder {

constexpr int vectors = 4;      // of 16 bytes, at most: the distances that a thread keeps in registers
constexpr int bank_groups = 8;  // of 16 bytes

/// Roundings of a distance beside those of its products: c_j - c_0, and |c_j|^2 - |c_0|^2, which is summed in double.
template <class T>
__device__ int other_roundings(int d) {
  return sizeof(T) == 4 ? 9 : 17 + 2 * d / warp_lanes;
}

/// Column j: -2 times centroid j + 1 less the first. All columns, feature by feature, each vector `copies` times, the
/// last one, of `tail` values, in the same room; `norm`: |c_(j + 1)|^2 - |c_0|^2, infinite behind the last centroid.
/// largest: the bits of two floats, above all values of columns and above the sum of two |c|^2; these are 0 before. By
/// a block.
template <int threads, class T>
__device__ void copy_centroids(const T* c, Vec16<T>* table, T* norm, int* largest, int k, int d, int row, int tail,
                               int copies) {
  constexpr int size = Vec16<T>::size;
  const int lane = threadIdx.x % warp_lanes;
  float above = std::numeric_limits<float>::min();
  for (int e = threadIdx.x; e < d * row * size; e += threads) {
    const int j = e % (row * size), f = e / (row * size);
    const T coordinate = j + 1 < k ? T(-2) * (c[size_t(j + 1) * d + f] - c[f]) : T(0);
    above = max(above, float(fabs(coordinate)) * (1 + 0x1p-20f));
    const int width = j / size == row - 1 ? tail : size;
    if (e % size >= width) continue;
    T* const line = table[e / size * copies].feature;
    for (int copy = 0; copy < copies * size / width; ++copy) line[copy * width + e % size] = coordinate;
  }
  above = warp_max(above + std::numeric_limits<float>::min());  // more, too, than what a small double is as a float
  if (lane == 0) atomicMax(largest, __float_as_int(above));
  for (int j = threadIdx.x; j < row * size; j += threads)
    if (j + 1 >= k) norm[j] = std::numeric_limits<T>::infinity();
  for (int j = threadIdx.x / warp_lanes; j + 1 < k; j += threads / warp_lanes) {
    double difference = 0, both = 0;
    for (int f = lane; f < d; f += warp_lanes) {
      const double other = c[size_t(j + 1) * d + f], first = c[f];
      difference += other * other - first * first, both += other * other + first * first;
    }
    difference = warp_sum(difference), both = warp_sum(both);
    if (lane > 0) continue;
    norm[j] = T(difference);
    atomicMax(largest + 1, __float_as_int(float(both) * (1 + 0x1p-20f) + std::numeric_limits<float>::min()));
  }
}

}  // namespace ladder
