// Phases and sums that the rungs for the CPU share. They read the points where the harness put them, and keep labels
// and centroids in host memory.
#pragma once
#include <cstring>

#include "../../../harness/contract/contract.hpp"

namespace ladder::host {

template <class T>
void prepare(State<T>& s) {
  s.c = s.template host<T>(size_t(s.k) * s.d);
  s.label = s.template host<int32_t>(s.n);
}

template <class T>
void restart(State<T>& s) {
  std::memcpy(s.c, s.problem.centroids, size_t(s.k) * s.d * sizeof(T));
}

template <class T>
void download(State<T>& s) {
  std::memcpy(s.result.label, s.label, s.n * sizeof(int32_t));
  std::memcpy(s.result.centroids, s.c, size_t(s.k) * s.d * sizeof(T));
}

/// The index of the centroid nearest to the point x; on a tie the lowest.
template <class T>
int nearest_centroid(const T* x, const T* c, int k, int d) {
  T nearest = std::numeric_limits<T>::infinity();
  int best = 0;
  for (int j = 0; j < k; ++j) {
    T distance = 0;
    for (int f = 0; f < d; ++f) {
      const T diff = x[f] - c[size_t(j) * d + f];
      distance += diff * diff;
    }
    if (distance < nearest) nearest = distance, best = j;
  }
  return best;
}

/// Sums and counts of the clusters during an iteration. Always double: a float sum of a million points loses digits.
struct Sums {
  std::vector<double> sum;  ///< k x d
  std::vector<int> count;   ///< k
  void clear(int k, int d) {
    sum.assign(size_t(k) * d, 0);
    count.assign(k, 0);
  }
  template <class T>
  void add(const T* x, int j, int d) {
    ++count[j];
    for (int f = 0; f < d; ++f) sum[size_t(j) * d + f] += x[f];
  }
  /// Means become centroids; a centroid without points stays.
  template <class T>
  void divide(T* c, int d) const {
    for (size_t j = 0; j < count.size(); ++j) {
      if (count[j] == 0) continue;
      for (int f = 0; f < d; ++f) c[j * d + f] = T(sum[j * d + f] / count[j]);
    }
  }
};

/// Adds all threads' sums to the first and returns it.
inline const Sums& total(std::vector<Sums>& thread) {
  Sums& all = thread[0];
  for (size_t t = 1; t < thread.size(); ++t) {
    for (size_t e = 0; e < all.sum.size(); ++e) all.sum[e] += thread[t].sum[e];
    for (size_t j = 0; j < all.count.size(); ++j) all.count[j] += thread[t].count[j];
  }
  return all;
}

}  // namespace ladder::host
