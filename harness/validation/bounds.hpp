// How far a distance may be off that was computed with a declared arithmetic. Validation guesses no tolerance:
// each follows from here. Source: Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., chapter 3.
#pragma once
#include <cstdint>
#include <limits>
#include <string>

#include "contract/problem.hpp"

namespace ladder {

/// Unit roundoff of the reference, which counts in double.
constexpr double reference_roundoff = 0x1p-53;

template <class T>
constexpr double roundoff = double(std::numeric_limits<T>::epsilon()) / 2;

/// What m roundings in a row can add up to, relative: m u / (1 - m u), Higham's lemma 3.1. Throws Error where m u is
/// 1/2 or more.
double gamma(int64_t m, double u);

/// Nine significant digits, for a sentence.
std::string number(double value);

/// "difference form", "expanded form", "the exact minimum".
const char* name_of(Arithmetic::Form form);

/// What the distances of a variant and of the reference can be off by; bounds.cpp derives it.
///
/// Distances here are squared distances between rows as the metric sees them (reference.hpp): |x - c|^2, or for cosine
/// |x/|x| - c/|c||^2, which is 2 (1 - cos). Norms are those of x and c themselves; only Euclidean bounds that
/// needs_norms() look at them; of arithmetic that is centred, each with that of the points' mean added.
class DistanceBound {
 public:
  /// `element_roundoff` and `smallest` (the smallest normal number) are those of the element type. Throws Error where
  /// the declared arithmetic has no useful bound over d features.
  DistanceBound(const Arithmetic& arithmetic, Metric metric, int d, double element_roundoff, double smallest);
  template <class T>
  static DistanceBound of(const Arithmetic& arithmetic, Metric metric, int d) {
    return DistanceBound(arithmetic, metric, d, roundoff<T>, double(std::numeric_limits<T>::min()));
  }

  /// The largest reference distance that the label's centroid may have, where the least is `best`.
  double limit(double best, double x_norm, double best_norm, double label_norm) const;
  /// How far the variant's own distance may lie from the reference's `distance`.
  double error(double distance, double x_norm, double c_norm) const;
  bool needs_norms() const;
  bool exact() const { return form_ == Arithmetic::Form::exact; }
  /// How far the variant's direction x / |x| may lie from the true one: of each component relative to it, and so of the
  /// unit vector. Cosine only.
  double direction_error() const { return s_; }
  /// gamma(d + 2, the variant's roundoff); 0 for the exact form.
  double accumulation_error() const { return g_; }

 private:
  double euclidean_limit(double best, double x_norm, double best_norm, double label_norm) const;
  double cosine_limit(double best) const;

  Arithmetic::Form form_;
  Metric metric_;
  double v_;                            ///< unit roundoff of the inputs
  double p_;                            ///< of a product of two such inputs
  double g_, r_;                        ///< of a sum over the features: the variant's, the reference's
  double s_;                            ///< of a direction: the variant's
  double flushed_, reference_flushed_;  ///< what underflow can take from a distance
};

}  // namespace ladder
