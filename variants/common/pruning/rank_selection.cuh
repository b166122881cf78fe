// How many directions pay: tried on some points before the first iteration. Some of the points stand for points, others
// for centroids; for each number of directions, the candidates that their bounds leave are counted, and the cheapest
// number is taken, or none. Centroids begin as points and end as means. By how much a mean's rest is shorter than a
// point's is guessed: n / k points have rests that cancel but for the root of their number. That is too good for what
// is left out of the directions in which clusters differ, so both are tried, points and such means. A
// wrong choice costs time, never a label. v29_rank_selection introduces it.
#pragma once
#include "../certified/candidates.cuh"
#include "projection_bound.cuh"

namespace ladder {

constexpr int width_count = 5, narrowest = 32, widest = 128;
/// Of short rows: 32, 48, 64, 96, 128.
__host__ __device__ constexpr int short_width(int w) { return w < 3 ? narrowest + 16 * w : 32 * w; }

constexpr int pilot_points = 256, pilot_centroids = 4096;
constexpr int pilot_block = 128;
constexpr int pilot_ages = 2;                           // of centroids: points, and means
constexpr double age_share[pilot_ages] = {0.25, 0.75};  // of the iterations

/// Of the pilot's points, for one width and age.
struct PilotCounts {
  int candidates;  ///< of the points that have few enough, beside the nearest
  int left;        ///< points that have too many
};

struct Pilot {
  float *point = nullptr, *centroid = nullptr;  // coordinates: widest x pilot_points, widest x pilot_centroids
  float *point_square = nullptr, *centroid_square = nullptr;
  PilotCounts *counts = nullptr, *counts_host = nullptr;  // pilot_ages x width_count
};

inline Pilot allocate_pilot(Resources& s) {
  return {s.device<float>(size_t(widest) * pilot_points),
          s.device<float>(size_t(widest) * pilot_centroids),
          s.device<float>(pilot_points),
          s.device<float>(pilot_centroids),
          s.device<PilotCounts>(pilot_ages * width_count),
          s.pinned<PilotCounts>(pilot_ages * width_count)};
}

/// Keeps coordinates as floats, direction by direction, and squared lengths.
struct StoreFloats {
  float *coordinates, *square;
  int count;
  __device__ void operator()(int64_t i, const double* found, double length) const {
    if (i >= count) return;
    for (int k = threadIdx.x % 32; k < widest; k += 32) coordinates[int64_t(k) * count + i] = float(found[k]);
    if (threadIdx.x % 32 == 0) square[i] = float(length);
  }
};

/// One block per point and age. A squared distance is taken to be that of the coordinates and of both rests, as if
/// these were at right angles; its bound, that of the coordinates and of the rests' difference. `shrunk`: the rests of
/// means, beside those of points.
__global__ void pilot_kernel(Pilot pilot, RowSubset points, RowSubset centroids, float shrunk, int k,
                             PilotCounts* counts) {
  __shared__ float own[widest];
  __shared__ float least[width_count][pilot_block];
  __shared__ int found[width_count];
  const int i = blockIdx.x;
  const float shrink = blockIdx.y == 0 ? 1 : shrunk;
  counts += blockIdx.y * width_count;
  own[threadIdx.x] = pilot.point[int64_t(threadIdx.x) * points.count + i];
  static_assert(pilot_block == widest);
  if (threadIdx.x < width_count) found[threadIdx.x] = 0;
  __syncthreads();
  // Shows each centroid to look(w, projected distance, |rest|^2 of the point, and of the centroid).
  const auto go_through = [&](const auto& look) {
    for (int j = threadIdx.x; j < centroids.count; j += pilot_block) {
      if (centroids(j) == points(i)) continue;
      float distance = 0, point_rest = pilot.point_square[i], centroid_rest = pilot.centroid_square[j];
      for (int w = 0, direction = 0; w < width_count; ++w) {
        for (; direction < short_width(w) - bound_columns; ++direction) {
          const float there = pilot.centroid[int64_t(direction) * centroids.count + j], diff = own[direction] - there;
          distance += diff * diff;
          point_rest -= own[direction] * own[direction], centroid_rest -= there * there;
        }
        look(w, distance, fmaxf(point_rest, 0), fmaxf(centroid_rest, 0) * shrink * shrink);
      }
    }
  };
  for (int w = 0; w < width_count; ++w) least[w][threadIdx.x] = std::numeric_limits<float>::max();
  go_through([&](int w, float distance, float, float rest) {
    least[w][threadIdx.x] = fminf(least[w][threadIdx.x], distance + rest);
  });
  for (int half = pilot_block / 2; half > 0; half /= 2) {
    __syncthreads();
    if (int(threadIdx.x) < half) {
      for (int w = 0; w < width_count; ++w)
        least[w][threadIdx.x] = fminf(least[w][threadIdx.x], least[w][threadIdx.x + half]);
    }
  }
  __syncthreads();
  int candidates[width_count] = {};
  go_through([&](int w, float distance, float point_rest, float rest) {
    candidates[w] += distance + rest - 2 * sqrtf(point_rest * rest) <= least[w][0];
  });
  for (int w = 0; w < width_count; ++w) atomicAdd(&found[w], candidates[w]);
  __syncthreads();
  if (threadIdx.x >= width_count) return;
  // Beside the nearest; those that stand for centroids stand for k of them.
  const int64_t others = max(int64_t(found[threadIdx.x]) - 1, int64_t(0)) * k / centroids.count;
  if (others > most_candidates)
    atomicAdd(&counts[threadIdx.x].left, 1);
  else
    atomicAdd(&counts[threadIdx.x].candidates, int(others));
}

// ---- the cost of a row, in products of one column of halves with one centroid

/// What is done with a product costs as much as so many columns.
constexpr double beside_columns = 24;
/// One feature of an exact distance, from memory: on an H200 300000 exact distances of 408 features take 0.14 ms, and
/// 300000 x 5000 products of 48 columns 0.3 ms.
constexpr double exact_columns = 270;

inline double full_cost(int k, int d) { return k * (blocks(d, mma_depth) * mma_depth + beside_columns); }
inline double short_cost(int k, int d, int width, double candidates, double left) {
  return k * (width + beside_columns) + exact_columns * d * (1 + candidates) + left * full_cost(k, d);
}

/// Whether any number of directions could pay.
inline bool worth_a_pilot(int k, int d) {
  return d <= most_projected && short_cost(k, d, narrowest, 0, 0) < full_cost(k, d);
}

/// The width of short rows that is cheapest, from `sample` of the n points; 0: none is. Waits for the device.
template <class T>
int choose_width(Resources& s, const T* rows, const Frame<T>& view, const Directions& directions, const Pilot& pilot,
                 int sample, int n, int k, int d) {
  const RowSubset points{.apart = std::max(1, sample / pilot_points), .count = std::min(sample, pilot_points)};
  const int standing = std::min({sample, k, pilot_centroids});
  const RowSubset centroids{.first = sample / standing / 2, .apart = sample / standing, .count = standing};
  project<widest>(s.stream, rows, view, directions, points, points.count, d,
                  StoreFloats{pilot.point, pilot.point_square, points.count});
  project<widest>(s.stream, rows, view, directions, centroids, centroids.count, d,
                  StoreFloats{pilot.centroid, pilot.centroid_square, centroids.count});
  constexpr size_t bytes = pilot_ages * width_count * sizeof *pilot.counts;
  check(cudaMemsetAsync(pilot.counts, 0, bytes, s.stream), "clearing the pilot's counts");
  launch(pilot_kernel, dim3(points.count, pilot_ages), pilot_block, 0, s.stream, pilot, points, centroids,
         float(std::sqrt(std::min(1.0, double(k) / n))), k, pilot.counts);
  check(cudaMemcpyAsync(pilot.counts_host, pilot.counts, bytes, cudaMemcpyDeviceToHost, s.stream),
        "downloading the pilot's counts");
  check(cudaStreamSynchronize(s.stream), "trying numbers of directions");
  int cheapest = 0;
  double least = full_cost(k, d);
  for (int w = 0; w < width_count; ++w) {
    double cost = 0;
    for (int age = 0; age < pilot_ages; ++age) {
      const PilotCounts& counts = pilot.counts_host[age * width_count + w];
      const double cost_then = short_cost(k, d, short_width(w), double(counts.candidates) / points.count,
                                          double(counts.left) / points.count);
      cost += age_share[age] * cost_then;
    }
    if (cost < least) least = cost, cheapest = short_width(w);
  }
  return cheapest;
}

}  // namespace ladder
