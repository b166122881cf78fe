// Is what a variant left behind right? Labels are held against the fp64 minimum of the distances to the variant's own
// centroids, centroids against the fp64 means of the variant's own labels, each within the error that the variant's
// declared arithmetic can make: no tolerance is guessed. bounds.cpp derives the bounds of distances, validate.cpp those
// of means. The metric is the problem's. Problems with a kernel have no centroids: kernel.hpp validates their labels.
#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "contract/problem.hpp"
#include "validation/rules.hpp"

namespace ladder {

struct LabelReport {
  int64_t rows_checked = 0;
  int64_t labels_wrong = 0;
  int64_t ties = 0;           ///< labels that are not the fp64 minimum's, but within the bound of it
  int64_t labels_differ = 0;  ///< labels that are not the fp64 minimum's: the wrong ones and the ties
  double worst_regret =
      0;              ///< (distance^2 to the label's centroid - the least) / the least; not divided where that is 0
  std::string first;  ///< the first wrong label in a sentence, empty where there is none
  /// Of the labels that should have been in the place of wrong ones, the lowest and the highest.
  int32_t lowest_missed = std::numeric_limits<int32_t>::max(), highest_missed = -1;
  bool ok() const { return labels_wrong == 0; }
};

/// Checks the labels (n) of `rows`, or of all rows where `rows` is empty, against `centroids` (k x d) that they were
/// assigned to. Wrong are: a label that is not one of 0 .. k - 1; one whose fp64 distance exceeds the minimum by more
/// than the bound; one whose centroid has an equal with a lower index; all, where a centroid is not finite or, with
/// metric cosine, zero. Throws Error where no bound can be stated, the points' distances exceed a double, or, with
/// metric cosine, a row is zero.
template <class T>
LabelReport check_labels(const Problem<T>& problem, const T* centroids, const int32_t* label, const Rules& rules,
                         std::span<const int32_t> rows = {});

/// `count` different rows of 0 .. n - 1 in ascending order, all where count >= n. The same for the same seed,
/// everywhere.
std::vector<int32_t> sample_rows(int n, int count, uint64_t seed);

struct CentroidReport {
  int64_t values_checked = 0;
  int64_t values_wrong = 0;
  int empty_clusters = 0;
  int undirected_clusters = 0;  ///< cosine: those whose points' directions cancel, so that any unit vector is right
  double worst_error = 0;       ///< the largest |error| / bound; right is at most 1
  std::string first;            ///< the first wrong value in a sentence, empty where there is none
  bool ok() const { return values_wrong == 0; }
};

/// Checks the centroids `after` an update (k x d) against the means of the points with their labels; a cluster without
/// points must keep its `before` bit by bit, unless rules.moves_empty. A label out of range makes all values wrong.
///
/// With metric cosine: against the means of the points' directions, made unit length. A cluster without points keeps
/// its `before`, bit by bit or as its direction; so does one whose mean is the zero vector, and where the declared
/// arithmetic cannot tell the mean from zero, any unit vector is right too.
///
/// `reach` (k x d, or empty) is allowed on top, of clusters without points, too: see NearestMeans and kept_reach.
template <class T>
CentroidReport check_centroids(const Problem<T>& problem, const T* before, const T* after, const int32_t* label,
                               const Rules& rules, std::span<const double> reach = {});

/// How far centroids without points may lie apart in two runs that added sums in another order each (k x d; 0 for the
/// others): each is the mean of points that it had in an earlier iteration, here of no more than the largest cluster
/// has, and its error in either run within the bound of such a mean. Labels must exist.
template <class T>
std::vector<double> kept_reach(const Problem<T>& problem, const int32_t* label, const Rules& rules);

/// The means after an unobserved assignment to given centroids: the labels of the fp64 minimum (n), and how far a mean
/// may lie from that of these labels (k x d), because points with two nearest centroids within rounding may have either
/// label (infinite if all points of a cluster may have another label).
struct NearestMeans {
  std::vector<int32_t> label;
  std::vector<double> reach;
};
/// Euclidean alone; with metric cosine, `reach` is empty.
template <class T>
NearestMeans nearest_means(const Problem<T>& problem, const T* centroids, const Rules& rules);

}  // namespace ladder
