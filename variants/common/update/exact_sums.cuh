// Exact sums of the points of each cluster, and the means that they give: integer words that atomics add to in any
// order (reproducible_sum.cuh). The range of the points, found once on the device, chooses the words' format.
// v32_reproducible_sums introduces it.
#pragma once
#include "../lloyd/phases.cuh"
#include "reproducible_sum.cuh"

namespace ladder {

struct ExactSums {
  Extremes* extremes = nullptr;       // 1: the range of the points
  FixedPoint format;                  // chosen at upload
  unsigned long long* sum = nullptr;  // words x k x d
  int* count = nullptr;               // k: points of each cluster
};

// ---- launchers (exact_sums.cu)

/// Widens `range` by the values x[begin .. end). `multiprocessors` bounds the grid.
template <class T>
void find_range(cudaStream_t stream, const T* x, int64_t begin, int64_t end, Extremes* range, int multiprocessors);
/// Adds n points (n x d) to the sums of their clusters.
template <class T>
void add_exact(cudaStream_t stream, const T* x, const int32_t* label, const ExactSums& sums, int n, int k, int d);
/// c = sum / count; a centroid without points stays.
template <class T>
void divide_exact(cudaStream_t stream, const ExactSums& sums, T* c, int k, int d);

// ---- phases; W::sums is an ExactSums, or derived from it

/// `behind`: words of the caller's own behind those of the sums.
template <class T, class W>
void prepare_exact_sums(Run<T, W>& s, size_t behind = 0) {
  ExactSums& m = s.ws.sums;
  m.extremes = s.template device<Extremes>(1);
  m.sum = s.template device<unsigned long long>(size_t(FixedPoint::most_words) * s.k * s.d + behind);
  m.count = s.template device<int>(s.k);
}

/// The device memory that prepare_exact_sums takes.
inline size_t exact_sums_bytes(const Shape& p) {
  const size_t values = size_t(p.k) * p.d;
  return sizeof(Extremes) + FixedPoint::most_words * values * sizeof(unsigned long long) + p.k * sizeof(int);
}

template <class T, class W>
void clear_range(Run<T, W>& s) {
  const Extremes none;
  to_device(s, s.ws.sums.extremes, &none, 1, "clearing the range of the points");
}

/// Widens the range by some of the points, `rows` (n x d) on the device.
template <class T, class W>
void widen_range(Run<T, W>& s, const T* rows, const RowRange& range) {
  const int64_t begin = int64_t(range.first) * s.d, count = int64_t(range.count) * s.d;
  find_range(s.stream, rows, begin, begin + count, s.ws.sums.extremes, s.device_info.multiprocessors);
}

template <class T, class W>
void fetch_range(Run<T, W>& s, Extremes* to) {
  check(cudaMemcpyAsync(to, s.ws.sums.extremes, sizeof *to, cudaMemcpyDeviceToHost, s.stream),
        "downloading the range of the points");
}

/// Chooses the format of the sums from this range. Throws Refusal where the points have none.
template <class T, class W>
void choose_format(Run<T, W>& s, const Extremes& range) {
  s.ws.sums.format = fixed_point(range, s.points, s.n, s.d);
}
/// The same from all points, `rows` (n x d) on the device. Waits for the device.
template <class T, class W>
void choose_format(Run<T, W>& s, const T* rows) {
  Extremes range;
  clear_range(s);
  widen_range(s, rows, all_rows(s));
  fetch_range(s, &range);
  check(cudaStreamSynchronize(s.stream), "finding the range of the points");
  choose_format(s, range);
}

template <class T, class W>
void clear_exact_sums(Run<T, W>& s, const ExactSums& m) {
  const size_t words = size_t(m.format.words) * s.k * s.d;
  check(cudaMemsetAsync(m.sum, 0, words * sizeof *m.sum, s.stream), "clearing the sums");
  check(cudaMemsetAsync(m.count, 0, s.k * sizeof *m.count, s.stream), "clearing the counts");
}
template <class T, class W>
void clear_exact_sums(Run<T, W>& s) {
  clear_exact_sums(s, s.ws.sums);
}

/// Centroids from the sums.
template <class T, class W>
void divide_exact(Run<T, W>& s) {
  divide_exact<T>(s.stream, s.ws.sums, s.c, s.k, s.d);
}

}  // namespace ladder
