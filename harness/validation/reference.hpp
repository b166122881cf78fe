// k-means in double precision on the host: what every variant is held against. Written to be right first; it uses all
// cores, and its results have the same bits with any number of threads.
//
// Distances are sums of (x_f - c_f)^2 over f = 0, 1, ..., d - 1, in this order, in double. Ties go to the lowest index.
//
// Metric cosine is the same on directions: with unit vectors |x/|x| - c/|c||^2 = 2 (1 - cos), small distances included,
// where 1 - x.c itself would cancel. So all distances here are squared distances between rows *as the metric sees
// them*: as they are, or made unit length. Throughout, points are n x d and centroids k x d, row-major.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "contract/problem.hpp"

namespace ladder {

/// A row (d) as the metric sees it, in doubles: copied, or divided by its length, which neither over- nor underflows. A
/// zero row, which has no direction, stays zero, and false is returned.
template <class T>
bool as_seen(const T* row, int d, Metric metric, double* out);

/// Throws refuse_zero_row where the metric is cosine and there is one.
template <class T>
void refuse_zero_rows(const Problem<T>& problem);

/// Centroids as doubles, as the metric sees them, in panels of `width` side by side, so that one vector instruction
/// serves several of them.
class CentroidPanels {
 public:
  static constexpr int width = 8;
  template <class C>
  CentroidPanels(const C* centroids, int k, int d, Metric metric = Metric::euclidean);

  /// A candidate: its index and its squared distance, and the least squared distance of any other.
  struct Nearest {
    int32_t label;
    double distance, second;
  };
  /// The nearest centroid of each of `count` points (count x d, doubles, as the metric sees them).
  void nearest(const double* points, int count, Nearest* out) const;
  /// The squared distances of `count` points to the `width` centroids of one panel: count x width. Those of a last
  /// panel that are beyond k - 1 are infinite.
  void distances(const double* points, int count, int panel, double* out) const;
  /// The scalar products, likewise; those beyond k - 1 are not numbers.
  void products(const double* points, int count, int panel, double* out) const;
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

/// label[i] = the nearest centroid of point i.
template <class T, class C>
void assign_reference(const T* points, int n, int d, const C* centroids, int k, int32_t* label,
                      Metric metric = Metric::euclidean);

/// For each centroid the lowest index of one with equal coordinates (0.0 equals -0.0).
template <class T>
std::vector<int32_t> lowest_equals(const T* centroids, int k, int d);

/// Rows of points by their cluster: cluster j has rows[begin[j]] .. rows[begin[j + 1] - 1], in ascending order.
struct Members {
  std::vector<int32_t> rows;   ///< n
  std::vector<int32_t> begin;  ///< k + 1
  int count(int cluster) const { return begin[cluster + 1] - begin[cluster]; }
};
/// Throws Error for the first label that is not one of 0 .. k - 1.
Members members(const int32_t* label, int n, int k);

/// The sums over a cluster's points, as the metric sees them, that a mean and its error bound need; each k x d.
struct ClusterSums {
  std::vector<double> value, magnitude;  ///< of x and of |x|
};
template <class T>
ClusterSums cluster_sums(const T* points, int d, const Members& clusters, Metric metric = Metric::euclidean);

/// centroids (k x d) become the means of their points; one without points stays. With metric cosine they become the
/// means of their points' directions, made unit length; one whose mean is the zero vector stays too.
template <class T>
void update_reference(const T* points, int n, int d, const int32_t* label, int k, double* centroids,
                      Metric metric = Metric::euclidean);

/// The sum over all points of the squared distance to the centroid of their label; with metric cosine, of 1 - cos. The
/// order of its additions is fixed, but not the one that distances have.
template <class T, class C>
double inertia(const T* points, int n, int d, const C* centroids, int k, const int32_t* label,
               Metric metric = Metric::euclidean);

struct LloydResult {
  std::vector<int32_t> label;     ///< n; they belong to the centroids before the last update
  std::vector<double> centroids;  ///< k x d, after the last update
  int iterations = 0;
  std::vector<int64_t> reassigned;  ///< per iteration; n in the first
  std::vector<double> inertia;      ///< per iteration, of its labels and the centroids that they belong to
};
/// Lloyd's algorithm with problem.metric from problem.centroids until stop.reached(). Points must be dense. Throws
/// Error for a zero row where the metric is cosine.
template <class T>
LloydResult lloyd_reference(const Problem<T>& problem, const Stop& stop);

}  // namespace ladder
