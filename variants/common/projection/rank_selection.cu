// Kernels of rank_selection.cuh.
//
// for cuda: 90a
#include "project_few.cuh"
#include "rank_selection.cuh"

namespace ladder {
namespace {

/// Stores coordinates as floats, direction by direction, and squared lengths.
struct StoreFloats {
  float *coordinates, *square;
  int count;
  __device__ void operator()(int64_t i, const Coordinates& coordinate, double length) const {
    if (i >= count) return;
    for (int k = threadIdx.x % 32; k < max_directions; k += 32)
      coordinates[int64_t(k) * count + i] = float(coordinate(k));
    if (threadIdx.x % 32 == 0) square[i] = float(length);
  }
};

constexpr int pilot_block = 128;
constexpr double age_share[pilot_ages] = {0.25, 0.75};  // of the iterations

/// One block per point and age. A squared distance is estimated from the coordinates and both rests, as if these were
/// orthogonal; its bound, from the coordinates, the difference of the rests, and what the threshold has to spare for
/// the sums of the tensor core. Outlier rows have no part in this. `shrunk`: the length of a mean's rest, relative to a
/// point's.
__global__ void pilot_kernel(Pilot pilot, RowSubset points, RowSubset centroids, float shrunk, int k,
                             PilotCounts* counts) {
  __shared__ float point[widest];
  __shared__ float nearest[width_count][pilot_block];
  __shared__ int found[width_count];
  const int i = blockIdx.x;
  const float square = pilot.point_square[i];
  if (is_outlier(square)) return;  // the whole block
  const float shrink = blockIdx.y == 0 ? 1 : shrunk;
  counts += blockIdx.y * width_count;
  point[threadIdx.x] = pilot.point[int64_t(threadIdx.x) * points.count + i];
  static_assert(pilot_block == widest);
  if (threadIdx.x < width_count) found[threadIdx.x] = 0;
  __syncthreads();
  // Calls visit(w, projected distance, |rest|^2 of the point, |rest|^2 of the centroid) for each centroid and width.
  const auto for_centroids = [&](const auto& visit) {
    for (int j = threadIdx.x; j < centroids.count; j += pilot_block) {
      if (centroids(j) == points(i)) continue;
      float distance = 0, point_rest = square, centroid_rest = pilot.centroid_square[j];
      for (int w = 0, direction = 0; w < width_count; ++w) {
        for (; direction < short_width(w) - bound_columns; ++direction) {
          const float coordinate = pilot.centroid[int64_t(direction) * centroids.count + j],
                      diff = point[direction] - coordinate;
          distance += diff * diff;
          point_rest -= point[direction] * point[direction], centroid_rest -= coordinate * coordinate;
        }
        visit(w, distance, fmaxf(point_rest, 0), fmaxf(centroid_rest, 0) * shrink * shrink);
      }
    }
  };
  for (int w = 0; w < width_count; ++w) nearest[w][threadIdx.x] = std::numeric_limits<float>::max();
  for_centroids([&](int w, float distance, float, float rest) {
    nearest[w][threadIdx.x] = fminf(nearest[w][threadIdx.x], distance + rest);
  });
  for (int half = pilot_block / 2; half > 0; half /= 2) {
    __syncthreads();
    if (int(threadIdx.x) < half) {
      for (int w = 0; w < width_count; ++w)
        nearest[w][threadIdx.x] = fminf(nearest[w][threadIdx.x], nearest[w][threadIdx.x + half]);
    }
  }
  __syncthreads();
  int candidates[width_count] = {};
  for_centroids([&](int w, float distance, float point_rest, float rest) {
    const float score = (square - nearest[w][0]) / 2, excess = 2 * float(threshold_excess(score, short_width(w)));
    candidates[w] += distance + rest - 2 * sqrtf(point_rest * rest) <= nearest[w][0] + excess;
  });
  for (int w = 0; w < width_count; ++w) atomicAdd(&found[w], candidates[w]);
  __syncthreads();
  if (threadIdx.x >= width_count) return;
  // Beside the nearest; the sampled centroids stand for k.
  const int64_t candidate_count = max(int64_t(found[threadIdx.x]) - 1, int64_t(0)) * k / centroids.count;
  if (candidate_count > most_candidates)
    atomicAdd(&counts[threadIdx.x].overflow, 1);
  else
    atomicAdd(&counts[threadIdx.x].candidates, int(candidate_count));
}

// ---- the cost of a row, in products of one column of halves with one centroid

/// The epilogue of a product costs as much as so many columns.
constexpr double epilogue_columns = 24;
/// One feature of an exact distance, from memory: on an H200 300000 exact distances of 408 features take 0.14 ms, and
/// 300000 x 5000 products of 48 columns 0.3 ms.
constexpr double exact_columns = 270;

inline double full_cost(int k, int d) { return k * (blocks(d, mma_depth) * mma_depth + epilogue_columns); }
inline double short_cost(int k, int d, int width, double candidates, double overflow) {
  return k * (width + epilogue_columns) + exact_columns * d * (1 + candidates) + overflow * full_cost(k, d);
}

/// Coordinates in all max_directions directions as floats, max_directions x count, and squared lengths.
template <class T>
void project_floats(cudaStream_t stream, const T* x, const Frame<T>& frame, const Directions& directions,
                    const RowSubset& subset, float* coordinates, float* square, int d) {
  project_few<max_directions>(stream, x, frame, directions, subset, subset.count, d,
                              StoreFloats{coordinates, square, subset.count});
}

/// The short rows' cost at this age of the centroids, by the pilot's counts of `points` points.
double cost_at_age(const PilotCounts* counts_host, int age, int w, int points, int k, int d) {
  const PilotCounts& counts = counts_host[age * width_count + w];
  return short_cost(k, d, short_width(w), double(counts.candidates) / points, double(counts.overflow) / points);
}

}  // namespace

bool worth_a_pilot(int k, int d) {
  return d <= max_projected_features && short_cost(k, d, narrowest, 0, 0) < full_cost(k, d);
}

bool full_start_is_cheaper(const Pilot& pilot, int width, int n, int k, int d) {
  if (!pilot.counts_host || width == 0) return false;
  int w = 0;
  while (short_width(w) != width) ++w;
  const double guesses = k * (width + epilogue_columns);
  return full_cost(k, d) < guesses + cost_at_age(pilot.counts_host, 0, w, std::min(n, pilot_points), k, d);
}

template <class T>
int choose_width(cudaStream_t stream, const T* rows, const Frame<T>& frame, const Directions& directions,
                 const Pilot& pilot, int sample, int n, int k, int d) {
  const RowSubset points{.apart = std::max(1, sample / pilot_points), .count = std::min(sample, pilot_points)};
  const int count = std::min({sample, k, pilot_centroids});
  const RowSubset centroids{.first = sample / count / 2, .apart = sample / count, .count = count};
  project_floats(stream, rows, frame, directions, points, pilot.point, pilot.point_square, d);
  project_floats(stream, rows, frame, directions, centroids, pilot.centroid, pilot.centroid_square, d);
  constexpr size_t bytes = pilot_ages * width_count * sizeof *pilot.counts;
  check(cudaMemsetAsync(pilot.counts, 0, bytes, stream), "clearing the pilot's counts");
  launch(pilot_kernel, dim3(points.count, pilot_ages), pilot_block, 0, stream, pilot, points, centroids,
         float(std::sqrt(std::min(1.0, double(k) / n))), k, pilot.counts);
  check(cudaMemcpyAsync(pilot.counts_host, pilot.counts, bytes, cudaMemcpyDeviceToHost, stream),
        "downloading the pilot's counts");
  check(cudaStreamSynchronize(stream), "trying numbers of directions");
  int cheapest = 0;
  double lowest = full_cost(k, d);
  for (int w = 0; w < width_count; ++w) {
    double cost = 0;
    for (int age = 0; age < pilot_ages; ++age)
      cost += age_share[age] * cost_at_age(pilot.counts_host, age, w, points.count, k, d);
    if (cost < lowest) lowest = cost, cheapest = short_width(w);
  }
  return cheapest;
}
template int choose_width<float>(cudaStream_t, const float*, const Frame<float>&, const Directions&, const Pilot&, int,
                                 int, int, int);
template int choose_width<double>(cudaStream_t, const double*, const Frame<double>&, const Directions&, const Pilot&,
                                  int, int, int, int);

}  // namespace ladder
