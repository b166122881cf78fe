// Comparisons without rounding, in whole numbers (Boost.Multiprecision): what validation asks where doubles cannot
// tell. It shares no code with the variants, which have arithmetic of their own for this.
#pragma once
#include <string>

#include "contract/problem.hpp"

namespace ladder {

/// -1, 0 or 1: whether the point x is nearer to a, as near to both, or nearer to b; rows of d finite values. Cosine:
/// none of them is zero.
template <class T>
int compare_exactly(const T* x, const T* a, const T* b, int d, Metric metric);

/// Exact labels of doubles need squares of differences that a double holds: all values of points and initial centroids
/// are 0 or have a magnitude from 2^-400 to 2^500. The reason why the problem is not so, with row, column and value;
/// empty where it is, as for floats.
template <class T>
std::string beyond_exact_labels(const Problem<T>& problem);

/// Likewise the reason why validation has no squared distances of these points: doubles so large that they overflow.
template <class T>
std::string beyond_validation(const Problem<T>& problem);

}  // namespace ladder
