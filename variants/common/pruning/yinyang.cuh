// State of Yinyang between iterations, and the kernels around its distances: groups of centroids, their drifts, and the
// bounds of each point. v14d_yinyang.cu describes the algorithm.
#pragma once
#include <bit>

#include "../lloyd/assign_naive.cuh"
#include "../update/choose_update.cuh"
#include "yinyang_margin.hpp"

namespace ladder {

/// Of one iteration.
struct Counts {
  unsigned long long computed;  ///< distances; one that is computed twice counts twice
  unsigned long long pairs;     ///< of a point and a centroid whose distance was computed
};
constexpr int counted = 1024;  ///< iterations of a solve whose counts are kept

template <class T>
struct Yinyang {
  int groups = 0;             // one for every ten centroids
  T* centre = nullptr;        // groups x d: what the groups were clustered around
  int32_t* group = nullptr;   // k: the group of each centroid
  int* begin = nullptr;       // groups + 1: where a group's centroids begin in `member`
  int32_t* member = nullptr;  // k: centroids, group by group
  T* before = nullptr;        // k x d: the centroids before the last update
  T* drift = nullptr;         // k: not less than how far each moved
  T* group_drift = nullptr;   // groups: the largest of each
  T* upper = nullptr;         // n: upper bound of the distance to the point's centroid
  T* square = nullptr;        // n: that distance squared, as computed
  T* threshold = nullptr;     // n: groups with a larger bound are skipped
  T* lower = nullptr;  // groups x n: lower bound of the distance to the group's centroids, without the point's own
  Counts* counts = nullptr;       // counted: those of iteration i since the restart are at i
  Counts* counts_host = nullptr;  // page-locked
  int done = 0;                   // iterations since the restart
};

inline std::string refuse_yinyang(const Shape& p, const Device& device, const Axes&) {
  const double bounds = (yinyang_groups(p.k) + 3.0) * p.n * double(p.element_bytes);  // bytes, beyond what Lloyd needs
  const double all = bounds + double(p.n + 2.0 * p.k) * p.d * double(p.element_bytes) + 8.0 * p.k * p.d;
  const auto text = [](double bytes) { return std::to_string(int64_t(bytes)); };
  if (all <= double(device.memory_bytes)) return "";
  return "bounds of " + std::to_string(yinyang_groups(p.k)) + " groups need " + text(bounds) +
         " bytes, all arrays together " + text(all) + ", the device has " + std::to_string(device.memory_bytes);
}

template <class T, class W>
void prepare_yinyang(Run<T, W>& s) {
  prepare_sums(s);
  auto& y = s.ws.yinyang;
  const size_t groups = y.groups = yinyang_groups(s.k), n = s.n, k = s.k, d = s.d;
  y.centre = s.template device<T>(groups * d);
  y.group = s.template device<int32_t>(k);
  y.begin = s.template device<int>(groups + 1);
  y.member = s.template device<int32_t>(k);
  y.before = s.template device<T>(k * d);
  y.drift = s.template device<T>(k);
  y.group_drift = s.template device<T>(groups);
  y.upper = s.template device<T>(n);
  y.square = s.template device<T>(n);
  y.threshold = s.template device<T>(n);
  y.lower = s.template device<T>(groups * n);
  y.counts = s.template device<Counts>(counted);
  y.counts_host = s.template pinned<Counts>(counted);
}

template <class T, class W>
void restart_yinyang(Run<T, W>& s) {
  restart_rows(s);
  auto& y = s.ws.yinyang;
  y.done = 0;  // bounds belong to other centroids
  check(cudaMemsetAsync(y.counts, 0, counted * sizeof(Counts), s.stream), "clearing the counts");
}

/// The counters of the iterations since the last download travel with the result: no iteration waits for them.
template <class T, class W>
void download_yinyang(Run<T, W>& s) {
  auto& y = s.ws.yinyang;
  check(cudaMemcpyAsync(y.counts_host, y.counts, counted * sizeof(Counts), cudaMemcpyDeviceToHost, s.stream),
        "downloading the counts");
  download_rows(s);
  for (int reported = int(s.counters["distances"].size()); reported < std::min(y.done, counted); ++reported) {
    const Counts& counts = y.counts_host[reported];
    s.counters["distances"].push_back(int64_t(counts.computed));
    s.counters["distances skipped"].push_back(int64_t(s.n) * s.k - int64_t(counts.pairs));
  }
}

// ---- groups: a few iterations of k-means over the centroids, once per solve

/// One thread: where each group begins, by its count, which becomes the place of its next member.
__global__ void begin_kernel(int* count, int* begin, int groups) {
  begin[0] = 0;
  for (int g = 0; g < groups; ++g) begin[g + 1] = begin[g] + count[g], count[g] = begin[g];
}

__global__ void member_kernel(const int32_t* group, int* next, int32_t* member, int k) {
  const int j = blockIdx.x * blockDim.x + threadIdx.x;
  if (j < k) member[atomicAdd(&next[group[j]], 1)] = j;
}

template <class T, class W>
void group_centroids(Run<T, W>& s) {
  const auto& y = s.ws.yinyang;
  const auto& [sum, count] = s.ws.sums;  // k of them, of which the groups need a tenth
  const size_t row = size_t(s.d) * sizeof(T);
  // Every tenth centroid is the first centre of a group.
  check(
      cudaMemcpy2DAsync(y.centre, row, s.c, row * (s.k / y.groups), row, y.groups, cudaMemcpyDeviceToDevice, s.stream),
      "choosing the groups' first centres");
  constexpr int iterations = 5;  // the paper's; any grouping gives the same labels
  for (int done = 0; done < iterations; ++done) {
    // Centroids are few points: small blocks, so that every multiprocessor gets one.
    launch(assign_points_kernel<T>, blocks(s.k, 32), 32, 0, s.stream, s.c, y.centre, y.group, s.k, y.groups, s.d);
    clear_sums(s);
    launch(sum_global_kernel<T, Layout::rows>, blocks(int64_t(s.k) * s.d, 256), 256, 0, s.stream, s.c, y.group, sum,
           count, s.k, s.d);
    launch(divide_kernel<T>, blocks(int64_t(y.groups) * s.d, 256), 256, 0, s.stream, sum, count, y.centre, y.groups,
           s.d);
  }
  launch(begin_kernel, 1, 1, 0, s.stream, count, y.begin, y.groups);
  launch(member_kernel, blocks(s.k, 256), 256, 0, s.stream, y.group, count, y.member, s.k);
}

// ---- drifts

/// One thread per centroid: how far it moved. group_drift becomes the largest drift of each group; it was 0.
template <class T>
__global__ void drift_kernel(const T* c, const T* before, const int32_t* group, T* drift, T* group_drift, int k,
                             int d) {
  const int j = blockIdx.x * blockDim.x + threadIdx.x;
  if (j >= k) return;
  T moved = 0;
  for (int f = 0; f < d; ++f) {
    const T diff = c[size_t(j) * d + f] - before[size_t(j) * d + f];
    moved += diff * diff;
  }
  drift[j] = Margin<T>(d).above(moved);
  using Bits = std::conditional_t<sizeof(T) == 4, unsigned, unsigned long long>;  // in the order of their numbers
  atomicMax(reinterpret_cast<Bits*>(&group_drift[group[j]]), std::bit_cast<Bits>(drift[j]));
}

template <class T, class W>
void update_yinyang(Run<T, W>& s) {
  const auto& y = s.ws.yinyang;
  check(cudaMemcpyAsync(y.before, s.c, size_t(s.k) * s.d * sizeof(T), cudaMemcpyDeviceToDevice, s.stream),
        "saving the centroids");
  update_any<T, Layout::rows>(s);
  // Few threads: small blocks, so that every multiprocessor gets one.
  check(cudaMemsetAsync(y.group_drift, 0, y.groups * sizeof(T), s.stream), "clearing the groups' drifts");
  launch(drift_kernel<T>, blocks(s.k, 32), 32, 0, s.stream, s.c, y.before, y.group, y.drift, y.group_drift, s.k, s.d);
}

}  // namespace ladder
