// The directions of the cheapest projection: the features with the largest variance. Short rows are then a gather of
// coordinates, without any product. v27_feature_filter introduces it.
#pragma once
#include "../filter/filter.cuh"

namespace ladder {

/// State of a rung whose short rows are features.
template <class T>
struct FeatureState : FilterState<T> {
  int* features = nullptr;     // widest: the features with the largest variance, in this order
  float* variances = nullptr;  // d
  double* defect = nullptr;    // 1: 0, as these directions are orthonormal
};

// ---- launchers (feature_selection.cu)

/// The `width - bound_columns` features of n points (row-major, on the device) with the largest sample variance.
template <class T>
void select_features(cudaStream_t stream, const T* x, float* variances, int* features, int width, int n, int d);
/// Short rows of points, and of centroids (where `centroids`): a warp gathers the features of a row. `rows` has
/// `padded` rows, `square` n squared lengths; *defect is 0.
template <class T>
void gather_features(int width, bool centroids, cudaStream_t stream, const T* x, const Frame<T>& frame,
                     const int* features, uint4* rows, double* square, const double* defect, int n, int64_t padded,
                     int d);

// ---- phases

template <class T, class W>
void prepare_features_filter(Run<T, W>& s, int width) {
  prepare_filter(s, width);
  s.ws.filter.width = width;
  s.ws.features = s.template device<int>(widest);
  s.ws.variances = s.template device<float>(s.d);
  s.ws.defect = s.template device<double>(1);
  check(cudaMemsetAsync(s.ws.defect, 0, sizeof(double), s.stream), "clearing the defect");
}

/// Short rows of the points, which are on the device.
template <class T, class W>
void shorten_points(Run<T, W>& s) {
  const auto& f = s.ws.filter;
  select_features(s.stream, s.ws.rows.points, s.ws.variances, s.ws.features, f.width, s.n, s.d);
  gather_features(f.width, false, s.stream, s.ws.rows.points, frame_of(s), s.ws.features, f.x, f.square, s.ws.defect,
                  s.n, padded_filter_rows(s.n), s.d);
}

template <class T, class W>
void shorten_centroids(Run<T, W>& s) {
  const auto& f = s.ws.filter;
  gather_features(f.width, true, s.stream, s.c, frame_of(s), s.ws.features, f.c, f.centroid_square, s.ws.defect, s.k,
                  padded_short_rows(s.k), s.d);
}

}  // namespace ladder
