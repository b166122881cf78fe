// The one text of three variants that `ladder compare` is tried on: points feature by feature, one thread a point. The
// first `again` centroids are looked at twice, and nothing comes of it: a centroid seen again is no nearer (<). How
// many there are is known when the kernel runs, not when it is compiled: all three run the same instructions, more
// often.
#pragma once
#include "../../variants/parts/update_shared.cuh"

namespace ladder {

template <class T>
struct Arrived {
  Sums sums;
  T* points = nullptr;  // n x d, as they came
};

template <class T>
void prepare_soa(Run<T, Arrived<T>>& s) {
  prepare_sums(s);
  s.own.points = s.template device<T>(size_t(s.n) * s.d);
}

template <class T>
__global__ void turn_kernel(const T* rows, T* features, int n, int d) {
  const int64_t e = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (e < int64_t(n) * d) features[e] = rows[e % n * d + e / n];
}

template <class T>
void upload_soa(Run<T, Arrived<T>>& s) {
  T* rows = s.own.points;
  to_device(s, rows, s.points, size_t(s.n) * s.d, "uploading the points");
  launch(turn_kernel<T>, blocks(int64_t(s.n) * s.d, 256), 256, 0, s.stream, rows, s.x, s.n, s.d);
}

template <class T>
__global__ void assign_soa_kernel(const T* x, const T* c, int32_t* label, int n, int k, int d, int again) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  T nearest = std::numeric_limits<T>::infinity();
  int best = 0;
  for (int turn = -again; turn < k; ++turn) {
    const int j = turn < 0 ? turn + again : turn;
    T distance = 0;
    for (int f = 0; f < d; ++f) {
      const T diff = x[size_t(f) * n + i] - c[size_t(j) * d + f];
      distance += diff * diff;
    }
    if (distance < nearest) nearest = distance, best = j;
  }
  label[i] = best;
}

/// `percent` of the centroids, rounded to the nearest whole number, are looked at twice.
template <class T, int percent>
void assign_soa(State<T>& s) {
  launch(assign_soa_kernel<T>, blocks(s.n, 256), 256, 0, s.stream, s.x, s.c, s.label, s.n, s.k, s.d,
         (s.k * percent + 50) / 100);
}

template <class T, int percent>
constexpr Phases<T, Arrived<T>> soa_phases{.prepare = prepare_soa<T>,
                               .upload = upload_soa<T>,
                               .restart = restart_rows<T>,
                               .assign = assign_soa<T, percent>,
                               .update = update_shared<T, Layout::features>,
                               .download = download_rows<T>};

}  // namespace ladder
