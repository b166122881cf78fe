// Metric cosine (spherical k-means) on the host: the same Lloyd over directions, with points and centroids scaled to
// unit length. First used by c0_serial. With the Euclidean metric nothing here costs anything.
#pragma once
#include <cmath>

#include "lloyd.hpp"

namespace ladder::host {

/// Writes the direction of x (d) to `out`; false if x is 0. The length is a double, so that the direction is rounded
/// once.
template <class E, class T>
bool direction(const E* x, int d, T* out) {
  double square = 0;
  for (int f = 0; f < d; ++f) square += double(x[f]) * double(x[f]);
  if (square == 0) return false;
  for (int f = 0; f < d; ++f) out[f] = T(double(x[f]) / std::sqrt(square));
  return true;
}

/// prepare, and memory for the points' directions.
template <class T>
void prepare_directions(State<T>& s) {
  prepare(s);
  if (s.problem.metric == Metric::cosine) s.points = s.x = s.template host<T>(size_t(s.n) * s.d);
}

template <class T>
void upload_directions(State<T>& s) {
  if (s.problem.metric != Metric::cosine) return;
  for (int i = 0; i < s.n; ++i) direction(s.problem.points + size_t(i) * s.d, s.d, s.x + size_t(i) * s.d);
}

template <class T>
struct Directions {
  std::vector<T> c;  // k x d
};

/// The centroids (k x d) that points are compared with: the centroids themselves, or their directions. The squared
/// distance of two directions is 2 (1 - cos), so both metrics have the same argmin.
template <class T, class W>
const T* compared_centroids(Run<T, W>& s) {
  if (s.problem.metric != Metric::cosine) return s.c;
  auto& directions = s.ws.directions.c;
  directions.assign(s.c, s.c + size_t(s.k) * s.d);
  for (int j = 0; j < s.k; ++j) direction(s.c + size_t(j) * s.d, s.d, directions.data() + size_t(j) * s.d);
  return directions.data();
}

/// Sums become centroids: means, or directions. A centroid without points stays, and so does one whose points'
/// directions cancel.
template <class T>
void divide(State<T>& s, const Sums& sums) {
  if (s.problem.metric != Metric::cosine) return sums.divide(s.c, s.d);
  for (int j = 0; j < s.k; ++j) direction(sums.sum.data() + size_t(j) * s.d, s.d, s.c + size_t(j) * s.d);
}

}  // namespace ladder::host
