// Rows read 16 bytes at a time: the most that one load brings. v15_yinyang reads scattered rows so.
#pragma once
#include "phases.cuh"

namespace ladder {

/// Neighbouring features of a row.
template <class T>
struct alignas(16) Piece {
  static constexpr int size = 16 / sizeof(T);
  T feature[size];
};

/// Features [f, f + size) of row `i` of rows of d features; 0 beyond the last. One load where all rows begin at a
/// multiple of 16 bytes, as the first of an array does.
template <class T>
__device__ Piece<T> load_piece(const T* rows, int i, int f, int d) {
  const T* from = rows + size_t(i) * d + f;
  Piece<T> piece{};
  if (d % Piece<T>::size == 0) {
    if (f < d) piece = *reinterpret_cast<const Piece<T>*>(from);
  } else {
    for (int v = 0; v < Piece<T>::size; ++v) {
      if (f + v < d) piece.feature[v] = from[v];
    }
  }
  return piece;
}

/// Adds the squares of the differences of two pieces to `sum`, in the order of the features.
template <class T>
__device__ void add_squares(T& sum, const Piece<T>& a, const Piece<T>& b) {
  for (int v = 0; v < Piece<T>::size; ++v) {
    const T diff = a.feature[v] - b.feature[v];
    sum += diff * diff;
  }
}

}  // namespace ladder
