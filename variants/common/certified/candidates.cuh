// Rows with a short list of centroids that may be nearest, and the kernel that compares these in double and
// double-double and whole numbers. v30_packed_argmax introduces it.
#pragma once
#include "../device/exact_order.cuh"
#include "../gemm/fp16_rows.cuh"

namespace ladder {

constexpr int most_candidates = 15;  // besides the row's guess; a warp compares guess and candidates, a lane each

struct Candidates {
  int* guess = nullptr;  // n: the candidate with the largest bound
  int* list = nullptr;   // n x most_candidates: the others, unordered
  int* found = nullptr;  // n: their number; above most_candidates the list is incomplete
};

inline Candidates allocate_candidates(Resources& s, int n) {
  return {s.device<int>(n), s.device<int>(size_t(n) * most_candidates), s.device<int>(n)};
}

/// Squared distances of a row to `count` centroids in double, by a warp, in every lane: the relative error is below
/// (d + 8) 2^-53.
template <int count, class T>
__device__ void warp_distances(const T* x, const T* const (&c)[count], int d, double (&distance)[count]) {
  for (double& sum : distance) sum = 0;
  for (int f = threadIdx.x % 32; f < d; f += 32) {
    const double value = double(x[f]);
    for (int e = 0; e < count; ++e) {
      const double diff = value - double(c[e][f]);
      distance[e] += diff * diff;
    }
  }
  for (double& sum : distance) sum = warp_sum(sum);
}

/// Stores the label of a compared row.
struct StoreLabel {
  int32_t* label;
  __device__ void operator()(int64_t row, int nearest, double) const { label[row] = nearest; }
};

/// The nearest centroids of rows[0 .. *count), a warp per row: lane 0 holds the guess, the next lanes the candidates.
/// One thread calls keep(row, nearest, least): least is the smallest of the candidates' squared distances in double,
/// which that of the nearest exceeds by less than (d + 8) 2^-51 of itself.
template <class T, class Keep>
__global__ void __launch_bounds__(256)
    compare_kernel(const T* __restrict__ x, const T* __restrict__ c, Candidates candidates,
                   const int* __restrict__ rows, const int* count, Keep keep, int d) {
  constexpr unsigned all = 0xffffffffu;
  const int lane = threadIdx.x % 32, warps = blockDim.x / 32;
  for (int index = blockIdx.x * warps + threadIdx.x / 32; index < *count; index += gridDim.x * warps) {
    const int64_t row = rows[index];
    const T* const point = x + row * d;
    const int number = candidates.found[row] + 1;
    int candidate = candidates.guess[row];
    if (lane > 0 && lane < number) candidate = candidates.list[row * most_candidates + lane - 1];
    double distance = std::numeric_limits<double>::infinity();
    int done = 0;
    const auto compare = [&]<int count>() {  // `count` candidates together; lanes beyond the last hold the guess again
      const T* centroid[count];
      double squared[count];
      for (int e = 0; e < count; ++e) centroid[e] = c + int64_t(__shfl_sync(all, candidate, done + e)) * d;
      warp_distances(point, centroid, d, squared);
      for (int e = 0; e < count; ++e) {
        if (lane == done + e) distance = squared[e];
      }
      done += count;
    };
    while (done < number) number - done > 2 ? compare.template operator()<4>() : compare.template operator()<2>();
    const double lowest = warp_min(distance);
    // A difference above the rounding errors is a proof; the others are compared exactly.
    unsigned open = __ballot_sync(all, lane < number && distance * (1 - (d + 8) * 0x1p-51) <= lowest);
    int nearest = __shfl_sync(all, candidate, __ffs(open) - 1);
    while ((open &= open - 1) != 0) {
      const int j = __shfl_sync(all, candidate, __ffs(open) - 1);
      if (nearer<32>(j, nearest, point, c, d)) nearest = j;
    }
    if (lane == 0) keep(row, nearest, lowest);
  }
}

}  // namespace ladder
