// The leading principal directions (PCA) of the points, by subspace iteration on the covariance of a sample: a block of
// vectors is multiplied by the covariance and made orthonormal again (Cholesky), a few times over. The bounds need no
// exact principal directions; by how much the result fails to be orthonormal is measured. No atomics: the same
// directions in every run. v39_pca_projection introduces it.
// library: cuBLAS and cuSOLVER do these steps; own because the CPU device runs them.
// Source: H. Rutishauser, "Simultaneous iteration method for symmetric matrices", 1970; N. Halko, P. G. Martinsson and
// J. A. Tropp, "Finding structure with randomness", 2011.
#pragma once
#include "projection.cuh"

namespace ladder {

constexpr int sample_rows = 4096;  // points whose covariance it is

/// Working memory of the iteration.
struct Subspace {
  float *sample = nullptr, *covariance = nullptr;  // count x d, d x d
  double *vectors = nullptr, *products = nullptr;  // d x max_directions, max_directions x max_directions
  int count = 0;                                   // sampled rows
};

// ---- launchers (pca.cu)

/// Finds the directions of n points, row-major on the device, in the coordinates of `frame`.
template <class T>
void find_directions(cudaStream_t stream, const T* rows, const Frame<T>& frame, const Subspace& subspace,
                     const Directions& found, int n, int d);
/// The defect |P P^T - I|, from the products of the directions with each other.
void measure_defect(cudaStream_t stream, const double* products, double* defect);

// ---- phases

inline Subspace allocate_subspace(Resources& s, int n, int d) {
  const int count = std::min(n, sample_rows);
  return {s.device<float>(size_t(count) * d), s.device<float>(size_t(d) * d),
          s.device<double>(size_t(d) * max_directions), s.device<double>(max_directions * max_directions), count};
}

template <class T>
struct PcaState : ProjectionState<T> {
  Subspace subspace;
};

/// Memory for short rows of up to `width` halves along principal directions.
template <class T, class W>
void prepare_pca(Run<T, W>& s, int width) {
  prepare_filter(s, width);
  s.ws.directions = allocate_directions(s, s.d);
  s.ws.subspace = allocate_subspace(s, s.n, s.d);
}

/// The directions of `count` rows on the device.
template <class T, class W>
void find_directions(Run<T, W>& s, const T* rows, int count) {
  find_directions(s.stream, rows, frame_of(s), s.ws.subspace, s.ws.directions, count, s.d);
}

}  // namespace ladder
