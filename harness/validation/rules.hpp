// What validation knows beside the problem: the variant's declared arithmetic, and the rules that its card relaxes.
#pragma once
#include "contract/problem.hpp"

namespace ladder {

/// The metric and the kernel are the problem's own (Shape): one place says them.
struct Rules {
  Arithmetic arithmetic = {};
  bool moves_empty = false;  ///< centroids of clusters without points are not looked at (Card::moves_empty)

  /// Unit roundoff of points and centroids that are kept rounded (2^-11: as halves), so that the sums are of rounded
  /// points, in the element type, and means are rounded once more; 0: they are kept as they are. A card declares it by
  /// a sum_roundoff that is no smaller than its input_roundoff: m points' sum in such an arithmetic would be worth
  /// nothing from a thousand points on.
  double kept_roundoff() const {
    const bool kept = arithmetic.input_roundoff > 0 && arithmetic.sum_roundoff >= arithmetic.input_roundoff;
    return kept && arithmetic.form != Arithmetic::Form::exact ? arithmetic.input_roundoff : 0;
  }
};

}  // namespace ladder
