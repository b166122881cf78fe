// Rows read 16 bytes at a time, the widest load of a thread. v04a_csr and v14d_yinyang read scattered rows so.
#pragma once
#include "phases.cuh"

namespace ladder {

/// Neighbouring features of a row.
template <class T>
struct alignas(16) Vec16 {
  static constexpr int size = 16 / sizeof(T);
  T feature[size];
};

/// Loads the features from `from` on, where the row of d features has `remaining` of them, at least one; 0 beyond the
/// last. One load where all rows begin at a multiple of 16 bytes, as the first of an array does.
template <class T>
__device__ Vec16<T> load_vec16(const T* from, int remaining, int d) {
  if (d % Vec16<T>::size == 0) return *reinterpret_cast<const Vec16<T>*>(from);
  Vec16<T> vector{};
  for (int v = 0; v < Vec16<T>::size; ++v) {
    if (v < remaining) vector.feature[v] = from[v];
  }
  return vector;
}

/// Adds the squares of the differences of two vectors to `sum`, in the order of the features.
template <class T>
__device__ void add_squares(T& sum, const Vec16<T>& a, const Vec16<T>& b) {
  for (int v = 0; v < Vec16<T>::size; ++v) {
    const T diff = a.feature[v] - b.feature[v];
    sum += diff * diff;
  }
}

}  // namespace ladder
