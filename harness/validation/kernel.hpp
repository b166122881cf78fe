// Kernel k-means: labels held against the implicit means of the labels before them. There are no centroids to look at.
//
// With phi(x).phi(y) = k(x, y), the squared distance of x to the mean of the images of a set C is
//     k(x, x) - 2 / |C| sum_{y in C} k(x, y) + 1 / |C|^2 sum_{y, z in C} k(y, z).
// In the first iteration the sets are the initial centroids, one each: phi(c_j) is the mean. Later they are the
// clusters of the labels before. A set without points has no mean, so it takes no points; such a cluster stays empty.
// Ties go to the lowest index. All in double; sums have a fixed order, so results have the same bits with any number of
// threads.
//
// Cost: rows x N + sum |C|^2 kernel values of D features each, rows x K and no second term in the first iteration.
// problem.metric must be euclidean (a kernel has a distance of its own): Error otherwise, as where there is no kernel.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "contract/problem.hpp"
#include "validation/rules.hpp"
#include "validation/validate.hpp"

namespace ladder {

/// k(x, y) of two rows of d doubles.
double kernel_value(const Kernel& kernel, const double* x, const double* y, int d);

/// Checks the labels (n) of `rows`, or of all rows where `rows` is empty, against the implicit means that they were
/// assigned to. `before` is what these follow from: the labels of the iteration before (n), or, in the first iteration,
/// the initial centroids (k x d, of the points' own type). Wrong are: a label that is not one of 0 .. k - 1; one of a
/// cluster that had no points before; one whose fp64 distance exceeds the minimum by more than the declared arithmetic
/// can make (kernel.cpp derives the bound); in the first iteration one whose centroid has an equal with a lower index.
/// distance_roundoff and input_roundoff are those of kernel values and of the three terms' sum, sum_roundoff that of
/// the sums over points; with Form::exact a label is wrong where the reference's own error does not explain it. Throws
/// Error for a label before that is not one of 0 .. k - 1, where no bound can be stated, or where distances exceed a
/// double.
template <class T, class Before>
LabelReport check_kernel_labels(const Problem<T>& problem, const Before* before, const int32_t* label,
                                const Rules& rules, std::span<const int32_t> rows = {});

/// The sum over all points of the squared distance to the implicit mean that their label names; `before` as above.
/// N x N kernel values.
template <class T, class Before>
double kernel_inertia(const Problem<T>& problem, const Before* before, const int32_t* label);

struct KernelResult {
  std::vector<int32_t> label;  ///< n
  int iterations = 0;
  std::vector<int64_t> reassigned;  ///< per iteration; n in the first
  std::vector<double> inertia;      ///< per iteration, of its labels and the means that they were assigned to
};
/// Kernel k-means from problem.centroids until stop.reached(). N x N kernel values per iteration: for small problems.
template <class T>
KernelResult kernel_lloyd_reference(const Problem<T>& problem, const Stop& stop);

}  // namespace ladder
