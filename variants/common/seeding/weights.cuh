// Distances to a drawn row, and draws with a probability proportional to a weight. First used by i2_kmeanspp.
#pragma once
#include "draw.cuh"

namespace ladder {

constexpr int weight_chunk = 1024;   // points whose weights one block adds up
constexpr int weight_threads = 128;  // of such a block

template <class T>
struct Weights {
  T* distance = nullptr;        // n: squared, to the nearest row drawn so far
  double* chunk_sum = nullptr;  // chunks: the sum of the weights of each chunk
  int chunks = 0;
};

template <class T, class W>
void prepare_weights(Run<T, W>& s) {
  prepare_draw(s);
  const int chunks = blocks(s.n, weight_chunk);
  s.ws.weights = {s.template device<T>(s.n), s.template device<double>(chunks), chunks};
}

/// Lowers the distance of every point to its squared distance to centroid t, and adds up each chunk in a fixed order:
/// the same sums in every run.
template <class T>
__global__ void distance_kernel(const T* x, const T* c, T* distance, double* chunk_sum, int t, int n, int d) {
  __shared__ double share[weight_threads];
  double sum = 0;
  for (int p = threadIdx.x; p < weight_chunk; p += weight_threads) {
    const int64_t i = blockIdx.x * int64_t(weight_chunk) + p;
    if (i >= n) break;
    T squared = 0;
    for (int f = 0; f < d; ++f) {
      const T diff = x[size_t(f) * n + i] - c[size_t(t) * d + f];
      squared += diff * diff;
    }
    if (t > 0) squared = min(squared, distance[i]);
    distance[i] = squared;
    sum += double(squared);
  }
  share[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x > 0) return;
  for (int e = 1; e < weight_threads; ++e) sum += share[e];
  chunk_sum[blockIdx.x] = sum;
}

template <class T, class W>
void distances_to(Run<T, W>& s, int t) {
  const auto& weights = s.ws.weights;
  launch(distance_kernel<T>, weights.chunks, weight_threads, 0, s.stream, s.x, s.c, weights.distance, weights.chunk_sum,
         t, s.n, s.d);
}

/// The lowest index of [begin, end) at which `before` plus the inclusive prefix sum of weights exceeds `target`; if
/// rounding leaves none, the last index with a weight. `before` becomes the sum below that index.
template <class W>
__device__ int64_t walk(const W* weight, int64_t begin, int64_t end, double target, double& before) {
  int64_t last = begin;
  double sum = before;
  for (int64_t i = begin; i < end && sum <= target; ++i) {
    if (!(weight[i] > 0)) continue;
    last = i, before = sum;
    sum += double(weight[i]);
  }
  return last;
}

/// Draws row 0 uniformly.
template <class T>
void draw_first(State<T>& s, Stream stream) {
  const double u = drawn_pair(s.problem.seed, stream, 0, 0).u;
  const int32_t row = std::min(int32_t(u * double(s.n)), s.n - 1);
  to_device(s, s.chosen, &row, 1, "uploading the first row");
  check(cudaStreamSynchronize(s.stream), "uploading the first row");  // `row` ends with this function
  gather(s, 0, 1);
}

/// The lowest row that is not among the first t chosen.
__device__ inline int32_t lowest_not_chosen(const int32_t* chosen, int t) {
  for (int32_t row = 0;; ++row) {
    int j = 0;
    while (j < t && chosen[j] != row) ++j;
    if (j == t) return row;
  }
}

}  // namespace ladder
