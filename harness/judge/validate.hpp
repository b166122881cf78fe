// Is what a variant left behind right? Labels are held against the fp64 minimum of the distances to the variant's own
// centroids, centroids against the fp64 means of the variant's own labels, each within the error that the variant's
// declared arithmetic can make: no tolerance is guessed. validate.cpp derives the bounds.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "contract/problem.hpp"

namespace ladder {

struct LabelReport {
  int64_t rows_checked = 0;
  int64_t labels_wrong = 0;
  int64_t ties = 0;  ///< labels that are not the fp64 minimum's, but within the bound of it
  double worst_regret =
      0;              ///< (distance^2 to the label's centroid - the least) / the least; not divided where that is 0
  std::string first;  ///< the first wrong label in a sentence, empty where there is none
  bool ok() const { return labels_wrong == 0; }
};

/// Checks the labels (n) of `rows`, or of all rows where `rows` is empty, against centroids (k x d). Wrong are: a label
/// that is not one of 0 .. k - 1; one whose fp64 distance exceeds the minimum by more than the bound; one whose
/// centroid has an equal with a lower index; all, where a centroid is not finite. Throws Error where no bound can be
/// stated or the points' distances exceed a double.
template <class T>
LabelReport check_labels(const T* points, int n, int d, const T* centroids, int k, const int32_t* label,
                         const Arithmetic& arithmetic, std::span<const int32_t> rows = {});

/// `count` different rows of 0 .. n - 1 in ascending order, all where count >= n. The same for the same seed,
/// everywhere.
std::vector<int32_t> sample_rows(int n, int count, uint64_t seed);

struct CentroidReport {
  int64_t values_checked = 0;
  int64_t values_wrong = 0;
  int empty_clusters = 0;
  double worst_error = 0;  ///< the largest |error| / bound; right is at most 1
  std::string first;       ///< the first wrong value in a sentence, empty where there is none
  bool ok() const { return values_wrong == 0; }
};

/// Checks the centroids `after` an update (k x d) against the means of the points with their labels; a cluster without
/// points must keep its `before` bit by bit. A label out of range makes all values wrong.
template <class T>
CentroidReport check_centroids(const T* points, int n, int d, const T* before, const T* after, int k,
                               const int32_t* label, const Arithmetic& arithmetic);

}  // namespace ladder
