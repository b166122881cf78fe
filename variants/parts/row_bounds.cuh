// What is known of a row's distance without a look at the row: its centroid was so far away when that was last exact,
// and has gone so far since; by the triangle inequality it is no farther than both together. Everything is rounded
// upwards, so that a bound stays one (docs/certificate.md). v27_row_bounds introduces it.
// Source: C. Elkan, "Using the triangle inequality to accelerate k-means", 2003: his upper bound.
#pragma once
#include "contested.cuh"

namespace ladder {

/// Of a row, when its distance was exact.
struct RowBound {
  double distance;   ///< not less than that to its centroid
  double travelled;  ///< how far the centroid had gone by then
  int centroid;      ///< -1: nothing is known
};

struct RowBounds {
  RowBound* known = nullptr;    // n
  double* travelled = nullptr;  // k: the lengths of all its steps since the restart, added up
};

/// Not less than the root of a squared distance, as sums in double have it.
__device__ inline double distance_above(double squared) { return sqrt(squared) * (1 + 4 * of_doubles); }

/// As start_kernel, but a row whose centroid has hardly moved is not looked at: what it begins with comes from its
/// bound. A warp has 32 rows, and goes together through those of them that it has to look at. `loose`: how much a bound
/// may exceed the distance, relative, for the row not to be looked at.
template <class T>
__global__ void bounded_start_kernel(const T* __restrict__ x, const T* __restrict__ c, View<T> view, const int* guess,
                                     const double* square, float* start, Order order, RowBounds bounds, double loose,
                                     int width, int n, int d) {
  const int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x, first = i - threadIdx.x % 32;
  const bool mine = i < n;
  const int own = mine ? guess[i] : 0;
  const double here = bounds.travelled[own];
  double distance = 0;
  bool look = false;
  if (mine) {
    const RowBound known = bounds.known[i];
    const double since = __dsub_ru(here, known.travelled);
    distance = __dadd_ru(known.distance, since);
    look = known.centroid != own || !(since <= loose * known.distance);  // nor is what is no number small
  }
  for (unsigned open = __ballot_sync(0xffffffffu, look); open != 0; open &= open - 1) {
    const int lane = __ffs(int(open)) - 1, j = __shfl_sync(0xffffffffu, own, lane);
    double squared[1];
    distances_of_warp(x + (first + lane) * d, {c + int64_t(j) * d}, d, squared);
    if (int(threadIdx.x % 32) != lane) continue;
    distance = distance_above(squared[0]);
    bounds.known[i] = {distance, here, own};
  }
  if (!mine) return;
  put_in(order, int(i), own);
  const double scaled = scalbn(distance, view.exponent() + short_exponent(d));
  start[i] = threshold(square[i], scaled * scaled, width);
}

/// Keeps of a row that was compared its label, and the distance to it.
struct KeepBound {
  int32_t* label;
  RowBounds bounds;
  __device__ void operator()(int64_t row, int nearest, double squared) const {
    label[row] = nearest;
    bounds.known[row] = {distance_above(squared), bounds.travelled[nearest], nearest};
  }
};

/// As exact_means_kernel, a warp for each centroid, which also adds the length of its step to the way it has gone.
template <class T>
__global__ void step_means_kernel(const unsigned long long* sum, const int* count, T* c, double* travelled,
                                  FixedPoint format, int k, int d) {
  const int64_t j = (blockIdx.x * int64_t(blockDim.x) + threadIdx.x) / 32;
  if (j >= k || count[j] == 0) return;  // a whole warp at a time; a centroid without points stays
  double squared = 0;
  for (int f = threadIdx.x % 32; f < d; f += 32) {
    const int64_t e = j * d + f;
    const T mean = mean_of<T>(sum + e, size_t(k) * d, count[j], format);
    const double step = double(mean) - double(c[e]);
    squared += step * step;
    c[e] = mean;
  }
  squared = sum_of_warp(squared);
  if (threadIdx.x % 32 == 0) travelled[j] = __dadd_ru(travelled[j], distance_above(squared));
}

// ---- the host's side

template <class T>
void prepare_bounded(State<T>& s) {
  prepare_contested(s);
  s.template own<RowBounds>() = {s.template device<RowBound>(s.n), s.template device<double>(s.k)};
}

/// Nothing is known of any row, and no centroid has gone anywhere.
template <class T>
void forget_bounded(State<T>& s) {
  forget_contested(s);
  const auto& bounds = s.template own<RowBounds>();
  check(cudaMemsetAsync(bounds.known, -1, s.n * sizeof *bounds.known, s.stream), "clearing the bounds of the rows");
  check(cudaMemsetAsync(bounds.travelled, 0, s.k * sizeof *bounds.travelled, s.stream),
        "clearing how far centroids have gone");
}
template <class T>
void restart_bounded(State<T>& s) {
  restart_rows(s);
  forget_bounded(s);
}

/// `loose`: as bounded_start_kernel.
template <class T>
void assign_bounded(State<T>& s, double loose) {
  const auto& few = s.template own<Few>();
  const auto& bounds = s.template own<RowBounds>();
  if (few.width == 0) return assign_by_all(s);
  Doubts* const doubts = next_doubts(s);
  Contest* const contest = contest_of(s, doubts);
  guess_by_few<Contestants>(s, view_of(s));
  launch(bounded_start_kernel<T>, blocks(s.n, 256), 256, 0, s.stream, s.x, s.c, view_of(s), few.candidates.guess,
         few.square, few.start, few.order, bounds, loose, few.width, s.n, s.d);
  contest_by_few<Contestants>(s, contest, doubts, KeepBound{s.label, bounds});
  assign_left(s, contest, doubts);
}

/// The means, and how far they have gone. The sums are up to date.
template <class T>
void step_to_means(State<T>& s) {
  const auto& m = s.template own<MovedSums>();
  launch(step_means_kernel<T>, blocks(int64_t(s.k) * 32, 256), 256, 0, s.stream, m.sum, m.count, s.c,
         s.template own<RowBounds>().travelled, m.format, s.k, s.d);
}

}  // namespace ladder
