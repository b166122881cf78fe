// Stock phases: upload, restart, download and the host's update, which most rungs keep as they are. Points and
// centroids are row-major here (N x D, K x D).
#pragma once
#include <cstring>

#include "../../../harness/contract/contract.hpp"
#include "../../../harness/contract/launch.cuh"

namespace ladder {

/// Sentinel iteration count while the loop runs on the device: per-iteration counters then go to their last slot, which
/// the loop has cleared (overlap/graph_loop.cuh).
constexpr int loop_on_device = 1 << 30;

template <class T, class E>
void to_device(State<T>& s, E* to, const E* from, size_t count, const char* what) {
  check(cudaMemcpyAsync(to, from, count * sizeof(E), cudaMemcpyHostToDevice, s.stream), what);
}

/// Sets which percentage of a multiprocessor's on-chip memory is shared memory for this kernel; the rest is L1. -1: the
/// driver chooses.
template <class Kernel>
void set_carveout(Kernel kernel, int percent) {
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, percent),
        "splitting L1 and shared memory");
}

/// Consecutive rows first .. first + count - 1 of the points: a chunk of an upload, or all. `first` is a multiple of
/// `alignment`, so that a warpgroup's rows begin there.
struct RowRange {
  static constexpr int alignment = 64;
  int first = 0, count = 0;
  /// The rows of a kernel that fills whole tiles, `padded_rows` of them for all n points: the last range includes those
  /// behind the last point.
  int64_t padded(int64_t padded_rows, int n) const { return first + count == n ? padded_rows - first : count; }
};

template <class T>
RowRange all_rows(const State<T>& s) {
  return {0, s.n};
}

// ---- prepare

/// Device memory for points, centroids and labels. Host buffers stay pageable, as the harness made them.
template <class T>
void prepare_device(State<T>& s) {
  s.x = s.template device<T>(size_t(s.n) * s.d);
  s.c = s.template device<T>(size_t(s.k) * s.d);
  s.label = s.template device<int32_t>(s.n);
}

/// prepare_device, and the host's points, labels and centroids live in page-locked memory from the start.
template <class T>
void prepare_pinned(State<T>& s) {
  prepare_device(s);
  T* points = s.template pinned<T>(size_t(s.n) * s.d);
  std::memcpy(points, s.problem.points, size_t(s.n) * s.d * sizeof(T));
  s.points = points;
  s.result = {s.template pinned<int32_t>(s.n), s.template pinned<T>(size_t(s.k) * s.d)};
}

/// Sums and counts of an update on the device. Always double: a float sum of a million points loses digits.
struct Sums {
  double* sum = nullptr;  ///< k x d
  int* count = nullptr;   ///< k
};

/// prepare_pinned, and device memory for the sums.
template <class T, class W>
void prepare_sums(Run<T, W>& s) {
  prepare_pinned(s);
  s.ws.sums = {s.template device<double>(size_t(s.k) * s.d), s.template device<int>(s.k)};
}

// ---- upload, restart, download

template <class T>
void upload_rows(State<T>& s) {
  to_device(s, s.x, s.points, size_t(s.n) * s.d, "uploading the points");
}

template <class T>
void restart_rows(State<T>& s) {
  to_device(s, s.c, s.problem.centroids, size_t(s.k) * s.d, "uploading the initial centroids");
}

template <class T>
void download_labels(State<T>& s) {
  check(cudaMemcpyAsync(s.result.label, s.label, s.n * sizeof(int32_t), cudaMemcpyDeviceToHost, s.stream),
        "downloading the labels");
}

template <class T>
void download_rows(State<T>& s) {
  download_labels(s);
  check(cudaMemcpyAsync(s.result.centroids, s.c, size_t(s.k) * s.d * sizeof(T), cudaMemcpyDeviceToHost, s.stream),
        "downloading the centroids");
  check(cudaStreamSynchronize(s.stream), "downloading labels and centroids");
}

// ---- update

/// The host computes the new centroids: labels and old centroids come down, new centroids go up, in every iteration.
template <class T>
void update_on_host(State<T>& s) {
  download_rows(s);
  std::vector<double> sum(size_t(s.k) * s.d, 0);
  std::vector<int> count(s.k, 0);
  for (int i = 0; i < s.n; ++i) {
    const int j = s.result.label[i];
    ++count[j];
    for (int f = 0; f < s.d; ++f) sum[size_t(j) * s.d + f] += s.points[size_t(i) * s.d + f];
  }
  for (int j = 0; j < s.k; ++j) {
    if (count[j] == 0) continue;  // a centroid without points stays
    for (int f = 0; f < s.d; ++f) s.result.centroids[size_t(j) * s.d + f] = T(sum[size_t(j) * s.d + f] / count[j]);
  }
  to_device(s, s.c, s.result.centroids, size_t(s.k) * s.d, "uploading the new centroids");
}

template <class T>
__global__ void divide_kernel(const double* sum, const int* count, T* c, int k, int d) {
  const int e = blockIdx.x * blockDim.x + threadIdx.x;
  if (e < k * d && count[e / d] > 0) c[e] = T(sum[e] / count[e / d]);  // a centroid without points stays
}

/// Sums become means: the last step of every update on the device.
template <class T, class W>
void divide(Run<T, W>& s) {
  const Sums& sums = s.ws.sums;
  launch(divide_kernel<T>, blocks(int64_t(s.k) * s.d, 256), 256, 0, s.stream, sums.sum, sums.count, s.c, s.k, s.d);
}

/// The first step of every update on the device.
template <class T, class W>
void clear_sums(Run<T, W>& s) {
  const Sums& sums = s.ws.sums;
  check(cudaMemsetAsync(sums.sum, 0, size_t(s.k) * s.d * sizeof(double), s.stream), "clearing the sums");
  check(cudaMemsetAsync(sums.count, 0, s.k * sizeof(int), s.stream), "clearing the counts");
}

}  // namespace ladder
