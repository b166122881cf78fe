// Some of the points that lie side by side: a piece of an upload, or all. v34_overlapped_upload introduces it; what
// earlier revisions do with all points at once can be done with a piece of them.
#pragma once
#include "phases.cuh"

namespace ladder {

/// Rows first .. first + count - 1 of the points; `first` is a multiple of `alignment`, so that a warpgroup's rows
/// begin there.
struct RowRange {
  static constexpr int alignment = 64;
  int first = 0, count = 0;
  /// Rows for a kernel that fills whole tiles, `padded_rows` of them for all n points: the last range has those behind
  /// the last point, too.
  int64_t padded(int64_t padded_rows, int n) const { return first + count == n ? padded_rows - first : count; }
};

template <class T>
RowRange all_rows(const State<T>& s) {
  return {0, s.n};
}

}  // namespace ladder
