// The cheapest directions of short rows: single features. Short rows are then a gather of coordinates, without any
// product, and the directions are orthonormal. v35_short_rows introduces it.
#pragma once
#include "../filter/filter.cuh"

namespace ladder {

/// State of a rung whose short rows are features.
template <class T>
struct FeatureState : FilterState<T> {
  int* features = nullptr;   // widest: the features of a short row
  double* defect = nullptr;  // 1: 0, as these directions are orthonormal
};

/// A warp per row: its squared length, and the features as coordinates.
template <class T, class Write>
__global__ void gather_kernel(const T* x, Frame<T> frame, const int* features, Write write) {
  const int64_t i = (blockIdx.x * int64_t(blockDim.x) + threadIdx.x) / 32;
  if (i >= write.padded) return;                // a whole warp at a time
  const int d = i < write.count ? write.d : 0;  // padding has no features
  const double unit = scalbn(1.0, frame.exponent() + short_exponent(write.d));
  const auto value = [&](int f) { return (double(x[i * d + f]) - double(frame.centre[f])) * unit; };
  double square = 0;
  for (int f = threadIdx.x % 32; f < d; f += 32) square += value(f) * value(f);
  write(
      i, [&](int k) { return k < d ? value(features[k]) : 0.0; }, warp_sum(square));
}

// ---- phases

template <class T, class W>
void prepare_features_filter(Run<T, W>& s, int width) {
  prepare_filter(s, width);
  s.ws.filter.width = width;
  s.ws.features = s.template device<int>(widest);
  s.ws.defect = s.template device<double>(1);
  check(cudaMemsetAsync(s.ws.defect, 0, sizeof(double), s.stream), "clearing the defect");
}

template <class T, class W, class Write>
void gather_features(Run<T, W>& s, const T* x, const Write& write) {
  launch(gather_kernel<T, Write>, blocks(write.padded * 32, 256), 256, 0, s.stream, x, frame_of(s), s.ws.features,
         write);
}
/// Short rows of the points, which are on the device.
template <class T, class W>
void shorten_points(Run<T, W>& s) {
  const auto& f = s.ws.filter;
  dispatch_width(f.width, [&]<int width>() {
    gather_features(s, s.ws.rows.points,
                    WritePoints<width>{f.x, f.square, s.ws.defect, s.n, padded_short_rows(s.n), s.d});
  });
}
template <class T, class W>
void shorten_centroids(Run<T, W>& s) {
  const auto& f = s.ws.filter;
  dispatch_width(f.width, [&]<int width>() {
    gather_features(s, s.c, WriteCentroids<width, RowMajor<width>>{f.c, s.ws.defect, s.k, padded_short_rows(s.k), s.d});
  });
}

}  // namespace ladder
