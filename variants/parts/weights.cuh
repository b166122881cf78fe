// Distances to a drawn row, and draws with a chance in proportion to a weight. i2_kmeanspp introduces them.
#pragma once
#include "draw.cuh"

namespace ladder {

constexpr int piece = 1024;          // points whose weights are summed by one block
constexpr int weight_threads = 128;  // of it

template <class T>
struct Weights {
  T* distance = nullptr;   // n: squared, to the nearest row drawn so far
  double* part = nullptr;  // one per piece: the sum of its weights
  int parts = 0;
};

template <class T, class Own>
void prepare_weights(Run<T, Own>& s) {
  prepare_draw(s);
  const int parts = blocks(s.n, piece);
  s.own.weights = {s.template device<T>(s.n), s.template device<double>(parts), parts};
}

/// The squared distance of every point to centroid t, where that is less than those before, and the sums of a piece, in
/// fixed order: the same in every run.
template <class T>
__global__ void distance_kernel(const T* x, const T* c, T* distance, double* part, int t, int n, int d) {
  __shared__ double share[weight_threads];
  double sum = 0;
  for (int p = threadIdx.x; p < piece; p += weight_threads) {
    const int64_t i = blockIdx.x * int64_t(piece) + p;
    if (i >= n) break;
    T here = 0;
    for (int f = 0; f < d; ++f) {
      const T diff = x[size_t(f) * n + i] - c[size_t(t) * d + f];
      here += diff * diff;
    }
    if (t > 0) here = min(here, distance[i]);
    distance[i] = here;
    sum += double(here);
  }
  share[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x > 0) return;
  for (int e = 1; e < weight_threads; ++e) sum += share[e];
  part[blockIdx.x] = sum;
}

template <class T, class Own>
void distances_to(Run<T, Own>& s, int t) {
  const auto& own = s.own.weights;
  launch(distance_kernel<T>, own.parts, weight_threads, 0, s.stream, s.x, s.c, own.distance, own.part, t, s.n, s.d);
}

/// The lowest index of [begin, end) whose weight, added to those before it and to `before`, exceeds `target`; where
/// rounding leaves none, the last that has a weight. `before` becomes the sum up to it.
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

/// Row 0: each point has the same chance.
template <class T>
void draw_first(State<T>& s, Stream stream) {
  const double u = drawn_pair(s.problem.seed, stream, 0, 0).u;
  const int32_t row = std::min(int32_t(u * double(s.n)), s.n - 1);
  to_device(s, s.chosen, &row, 1, "uploading the first row");
  check(cudaStreamSynchronize(s.stream), "uploading the first row");  // it goes with this function
  gather(s, 0, 1);
}

/// The lowest row that is none of the first t chosen.
__device__ inline int32_t lowest_not_chosen(const int32_t* chosen, int t) {
  for (int32_t row = 0;; ++row) {
    int j = 0;
    while (j < t && chosen[j] != row) ++j;
    if (j == t) return row;
  }
}

}  // namespace ladder
