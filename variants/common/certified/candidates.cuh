// The few centroids that may be the nearest of a row, and which of them is. v29_rank_selection introduces it.
#pragma once
#include "../device/double_double.cuh"
#include "../gemm/fp16_rows.cuh"

namespace ladder {

constexpr int most_candidates = 15;  // beside the row's guess: one lane of a warp for each. Rows with more are not kept

struct Candidates {
  int* guess = nullptr;  // n: a centroid that is near
  int* list = nullptr;   // n x most_candidates: others that may be as near, in no order
  int* found = nullptr;  // n: how many; more than most_candidates: not all are in the list
};

inline Candidates allocate_candidates(Resources& s, int n) {
  return {s.device<int>(n), s.device<int>(size_t(n) * most_candidates), s.device<int>(n)};
}

/// A warp's squared distances of a row to `count` centroids, in double: off by less than (d + 8) 2^-53 of them. In
/// every lane.
template <int count, class T>
__device__ void warp_distances(const T* x, const T* const (&c)[count], int d, double (&distance)[count]) {
  for (double& sum : distance) sum = 0;
  for (int f = threadIdx.x % 32; f < d; f += 32) {
    const double own = double(x[f]);
    for (int e = 0; e < count; ++e) {
      const double diff = own - double(c[e][f]);
      distance[e] += diff * diff;
    }
  }
  for (double& sum : distance) sum = warp_sum(sum);
}

/// Of a list that grows: the places of those lanes of a warp that have something for it.
__device__ inline int warp_compact(int* count, bool mine) {
  const unsigned lanes = __ballot_sync(0xffffffffu, mine);
  const int lane = threadIdx.x % 32;
  int begin = 0;
  if (lane == 0 && lanes != 0) begin = atomicAdd(count, __popc(lanes));
  return __shfl_sync(0xffffffffu, begin, 0) + __popc(lanes & ((1u << lane) - 1));
}

/// Keeps of a row that was compared its label.
struct StoreLabel {
  int32_t* label;
  __device__ void operator()(int64_t row, int nearest, double) const { label[row] = nearest; }
};

/// The nearest centroids of rows[0 .. *count), a warp for each: lane 0 has the guess, the next ones the other
/// candidates. Each is shown to keep(row, nearest, its squared distance) by one thread.
template <class T, class Keep>
__global__ void __launch_bounds__(256)
    compare_kernel(const T* __restrict__ x, const T* __restrict__ c, Candidates candidates,
                   const int* __restrict__ rows, const int* count, Keep keep, int d) {
  constexpr unsigned all = 0xffffffffu;
  const int lane = threadIdx.x % 32, warps = blockDim.x / 32;
  for (int at = blockIdx.x * warps + threadIdx.x / 32; at < *count; at += gridDim.x * warps) {
    const int64_t row = rows[at];
    const T* const point = x + row * d;
    const int number = candidates.found[row] + 1;
    int own = candidates.guess[row];
    if (lane > 0 && lane < number) own = candidates.list[row * most_candidates + lane - 1];
    double distance = std::numeric_limits<double>::infinity();
    int seen = 0;
    const auto look = [&]<int count>() {  // at so many together; beyond the last one lanes have the guess again
      const T* centroid[count];
      double here[count];
      for (int e = 0; e < count; ++e) centroid[e] = c + int64_t(__shfl_sync(all, own, seen + e)) * d;
      warp_distances(point, centroid, d, here);
      for (int e = 0; e < count; ++e) {
        if (lane == seen + e) distance = here[e];
      }
      seen += count;
    };
    while (seen < number) number - seen > 2 ? look.template operator()<4>() : look.template operator()<2>();
    double least = distance;
    for (int half = 16; half > 0; half /= 2) least = min(least, __shfl_xor_sync(all, least, half));
    // What is farther by more than the sums' roundings is farther; of the others 100 bits are looked at.
    unsigned open = __ballot_sync(all, lane < number && distance * (1 - (d + 8) * 0x1p-51) <= least);
    int nearest = __shfl_sync(all, own, __ffs(open) - 1);
    if (__popc(open) > 1) {
      Exact best;
      for (; open != 0; open &= open - 1) {
        const int j = __shfl_sync(all, own, __ffs(open) - 1);
        const Exact here{exact_warp_sum(exact_distance(point, c + int64_t(j) * d, d, lane, 32)), j};
        if (nearer(here, best)) best = here;
      }
      nearest = best.centroid;
    }
    if (lane == 0) keep(row, nearest, least);
  }
}

}  // namespace ladder
