// k-means in double precision on the host: what every variant is held against. Written to be right first; it uses all
// cores, and its results have the same bits with any number of threads.
//
// Distances are sums of (x_f - c_f)^2 over f = 0, 1, ..., d - 1, in this order, in double. Ties go to the lowest index.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "contract/problem.hpp"

namespace ladder {

/// Centroids as doubles, in panels of `width` side by side, so that one vector instruction serves several of them.
class CentroidPanels {
 public:
  static constexpr int width = 8;
  /// centroids: k x d, row-major.
  template <class C>
  CentroidPanels(const C* centroids, int k, int d);

  /// A candidate: its index and its squared distance.
  struct Nearest {
    int32_t label;
    double distance;
  };
  /// The nearest centroid of each of `count` points (count x d, row-major, doubles).
  void nearest(const double* points, int count, Nearest* out) const;
  /// The squared distances of `count` points to the `width` centroids of one panel: count x width. Those of a last
  /// panel that are beyond k - 1 are infinite.
  void distances(const double* points, int count, int panel, double* out) const;
  int panels() const { return panels_; }

 private:
  int k_, d_, panels_;
  std::vector<double> values_;  ///< panels x d x width
};

/// Squared distance between a point and a centroid, the terms taken in the order of the features.
template <class T, class C>
double squared_distance(const T* point, const C* centroid, int d) {
  double sum = 0;
  for (int f = 0; f < d; ++f) {
    const double difference = double(point[f]) - double(centroid[f]);
    sum += difference * difference;
  }
  return sum;
}

/// label[i] = the nearest centroid of point i. points n x d, centroids k x d, label n.
template <class T, class C>
void assign_reference(const T* points, int n, int d, const C* centroids, int k, int32_t* label);

/// Rows of points by their cluster: cluster j has rows[begin[j]] .. rows[begin[j + 1] - 1], in ascending order.
struct Members {
  std::vector<int32_t> rows;  ///< n
  std::vector<int> begin;     ///< k + 1
};
/// Throws Error for a label that is not one of 0 .. k - 1.
Members members(const int32_t* label, int n, int k);

/// The sums over a cluster's points that a mean and its error bound need, each k x d.
struct Sums {
  std::vector<double> value, magnitude;  ///< of x and of |x|
};
template <class T>
Sums sums_of(const T* points, int d, const Members& clusters, bool with_magnitude);

/// centroids (k x d) become the means of their points; one without points stays.
template <class T>
void update_reference(const T* points, int n, int d, const int32_t* label, int k, double* centroids);

/// The sum of the squared distances of all points to the centroids of their labels.
template <class T, class C>
double inertia(const T* points, int n, int d, const C* centroids, const int32_t* label);

struct LloydResult {
  std::vector<int32_t> label;     ///< n; they belong to the centroids before the last update
  std::vector<double> centroids;  ///< k x d, after the last update
  int iterations = 0;
  std::vector<int64_t> reassigned;  ///< per iteration; n in the first
  std::vector<double> inertia;      ///< per iteration, of its labels and the centroids that they belong to
};
/// Lloyd's algorithm from problem.centroids until stop.reached(). Points must be dense.
template <class T>
LloydResult lloyd_reference(const Problem<T>& problem, const Stop& stop);

}  // namespace ladder
