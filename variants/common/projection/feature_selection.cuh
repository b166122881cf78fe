// The features that tell points apart best: those with the largest variance. v37_feature_filter introduces it.
#pragma once
#include "feature_rows.cuh"

namespace ladder {

/// Launcher (feature_selection.cu): the `width - bound_columns` features of n points (row-major, on the device) with
/// the largest sample variance. `variances`: d.
template <class T>
void select_features(cudaStream_t stream, const T* x, const Frame<T>& frame, float* variances, int* features, int width,
                     int n, int d);

template <class T, class W>
void select_features(Run<T, W>& s) {
  select_features(s.stream, s.ws.rows.points, frame_of(s), s.ws.variances, s.ws.features, s.ws.filter.width, s.n, s.d);
}

}  // namespace ladder
