// What validation knows beside the problem: the variant's declared arithmetic, and the rules that its card relaxes.
#pragma once
#include "contract/problem.hpp"

namespace ladder {

/// The metric and the kernel are the problem's own (Shape): one place says them.
struct Rules {
  Arithmetic arithmetic = {};
  bool moves_empty = false;  ///< centroids of clusters without points are not looked at (Card::moves_empty)
};

}  // namespace ladder
