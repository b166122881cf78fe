// The first assignment under the upload where the filter is off: each chunk is assigned in all features. The filter's
// form is in overlap/eager_assign.cuh. v48_all_features_ahead introduces it.
#pragma once
#include "../overlap/eager_assign.cuh"

namespace ladder {

template <class T, class W>
void prepare_arrival(Run<T, W>& s) {
  prepare_overlapped(s);
  if (!wants_filter(s)) prepare_eager(s);
}

/// Labels of these rows for the centroids s.c, with or without the filter. Their operands are ready.
template <class T, class W>
void assign_ahead(Run<T, W>& s, const RowRange& range) {
  if (s.ws.filter.width > 0) return assign_eager(s, range);
  assign_chunk(
      s, range, [&](Run<T, W>& chunk) { slice_full_dimension(s, range, chunk); },
      [](Run<T, W>& chunk) { assign_full_dimension(chunk); });
}

}  // namespace ladder
