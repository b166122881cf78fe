// What is known of a row's distance without a look at the row. First, its centroid was so far away when that was last
// exact, and has gone so far since: by the triangle inequality it is between the difference of both and their sum.
// Second, the short rows of both bound it, from either side. Where the two leave little room, the upper end will do.
// Upper ends are rounded upwards, so that a bound stays one (docs/certificate.md). v31_distance_bounds introduces it.
// Source: C. Elkan, "Using the triangle inequality to accelerate k-means", 2003: an upper bound that drifts.
#pragma once
#include "pipeline.cuh"

namespace ladder {

/// Of a row, when its distance was exact.
struct DistanceBound {
  double distance;   ///< not less than that to its centroid
  double travelled;  ///< how far the centroid had gone by then
  int centroid;      ///< -1: nothing is known
};

struct DistanceBounds {
  DistanceBound* known = nullptr;  // n
  double* travelled = nullptr;     // k: the lengths of all its steps since the restart, added up
};

/// Not less than the root of a squared distance, as sums in double have it.
__device__ inline double distance_above(double squared) { return sqrt(squared) * (1 + 4 * of_doubles); }

/// The threshold of a row that is no farther than `distance` from its guess; and its place. `square` is that of its
/// length, `exponent` that of the unit of short rows.
__device__ inline void set_threshold(int i, int guess, double distance, double square, int exponent,
                                     uint32_t* thresholds, const RowOrder& order, int width) {
  const double scaled = distance * power_of_two(exponent);
  thresholds[i] = threshold(square, scaled * scaled, width);
  scatter(order, i, guess);
}

/// Begins rows of which enough is known, and lists the others. `loose`: how much the upper end of what is known may
/// exceed the lower one, relative. Where its centroid has stayed, and so its guess, a row begins as it did last.
template <class By, int width, class T>
__global__ void __launch_bounds__(256, 4)  // else registers are saved, and a row's loads wait for each other
    threshold_by_bounds_kernel(const uint4* __restrict__ x, const uint4* __restrict__ c, Frame<T> view,
                               const int* guess, const double* square, const double* centroid_square,
                               uint32_t* thresholds, RowOrder order, DistanceBounds bounds, double loose, int* list,
                               FilterCounters* contest, DirtyClusters dirty, int n, int d) {
  const int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  const int guessed = i < n ? guess[i] : 0;
  const bool mine = i < n && dirty[guessed];
  if (!__any_sync(0xffffffffu, mine)) return;
  const int64_t row = mine ? i : 0;
  const int own = mine ? guessed : 0;
  const double own_square = square[row], travelled = bounds.travelled[own];
  const DistanceBound known = bounds.known[row];
  const Interval squares = distance_interval<width>(
      x + row * (width / 8), own_square, [&](int e) { return By::halves(c, own, e); }, centroid_square[own]);
  const int exponent = view.exponent() + short_exponent(d);
  const double unit = power_of_two(-exponent);
  double low = sqrt(squares.low) * unit, high = distance_above(squares.high) * unit;
  if (known.centroid == own) {
    const double since = __dsub_ru(travelled, known.travelled);
    low = max(low, known.distance - since), high = min(high, __dadd_ru(known.distance, since));
  }
  const bool enough = high <= (1 + loose) * low;
  const int place = warp_compact(&contest->exact_distances, mine && !enough);
  if (!mine) return;
  if (enough)
    set_threshold(int(i), own, high, own_square, exponent, thresholds, order, width);
  else
    list[place] = int(i);
}

/// Begins the rows that are listed by their exact distances, a warp for each.
template <class T>
__global__ void __launch_bounds__(256)
    threshold_by_distances_kernel(const T* __restrict__ x, const T* __restrict__ c, Frame<T> view, const int* guess,
                                  const double* square, uint32_t* thresholds, RowOrder order, DistanceBounds bounds,
                                  const int* list, const FilterCounters* contest, int width, int d) {
  const int warps = gridDim.x * blockDim.x / 32, exponent = view.exponent() + short_exponent(d);
  for (int at = (blockIdx.x * blockDim.x + threadIdx.x) / 32; at < contest->exact_distances; at += warps) {
    const int i = list[at], own = guess[i];
    double squared[1];
    warp_distances(x + int64_t(i) * d, {c + int64_t(own) * d}, d, squared);
    if (threadIdx.x % 32 != 0) continue;
    const double distance = distance_above(squared[0]);
    bounds.known[i] = {distance, bounds.travelled[own], own};
    set_threshold(i, own, distance, square[i], exponent, thresholds, order, width);
  }
}

/// Keeps of a row that was compared its label, and the distance to it.
struct StoreBound {
  int32_t* label;
  DistanceBounds bounds;
  __device__ void operator()(int64_t row, int nearest, double squared) const {
    label[row] = nearest;
    bounds.known[row] = {distance_above(squared), bounds.travelled[nearest], nearest};
  }
};

constexpr int step_block = 128;

/// As exact_means_kernel, a block for each centroid, which also adds the length of its step to the way it has gone.
template <class T, int words_of_sum>
__global__ void __launch_bounds__(step_block)
    step_means_kernel(const unsigned long long* sum, const int* count, T* c, double* travelled, DirtyClusters dirty,
                      FixedPoint format, int k, int d) {
  constexpr int at_once = 4;  // features of a thread whose loads are on their way together
  __shared__ double of_warp[step_block / 32];
  const int64_t j = blockIdx.x;
  const int own_count = count[j];
  const double way = travelled[j];               // asked for here, it is there at the end
  if (!dirty[int(j)] || own_count == 0) return;  // a centroid without points stays
  format.words = words_of_sum;                   // so that nobody asks which words there are
  double squared = 0;
  for (int from = threadIdx.x; from < d; from += at_once * step_block) {
    SumWords words[at_once];
    T before[at_once];
#pragma unroll
    for (int e = 0; e < at_once; ++e) {
      const int64_t at = j * d + from + e * step_block;
      if (from + e * step_block < d) words[e] = SumWords(sum + at, size_t(k) * d, format), before[e] = c[at];
    }
#pragma unroll
    for (int e = 0; e < at_once; ++e) {
      if (from + e * step_block >= d) break;
      const T mean = mean_of<T>(words[e], own_count, format);
      const double step = double(mean) - double(before[e]);
      squared += step * step;
      c[j * d + from + e * step_block] = mean;
    }
  }
  squared = warp_sum(squared);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = squared;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int w = 1; w < step_block / 32; ++w) squared += of_warp[w];
  travelled[j] = __dadd_ru(way, distance_above(squared));
}

// ---- the host's side

template <class T, class W>
void prepare_bounds(Run<T, W>& s) {
  prepare_filtered(s);
  auto& few = s.ws.filter;
  few.bounded = true;
  few.centroid_square = s.template device<double>(s.k);
  s.ws.bounds = {s.template device<DistanceBound>(s.n), s.template device<double>(s.k)};
}

/// Nothing is known of any row, and no centroid has gone anywhere.
template <class T, class W>
void reset_bounds(Run<T, W>& s) {
  reset_filtered(s);
  const auto& bounds = s.ws.bounds;
  check(cudaMemsetAsync(bounds.known, -1, s.n * sizeof *bounds.known, s.stream), "clearing the bounds of the rows");
  check(cudaMemsetAsync(bounds.travelled, 0, s.k * sizeof *bounds.travelled, s.stream),
        "clearing how far centroids have gone");
}
template <class T, class W>
void restart_bounds(Run<T, W>& s) {
  restart_rows(s);
  reset_bounds(s);
}

/// As assign_filtered, with what is known of the rows. `ordered`: as compute_guesses.
template <class T, template <int> class By = DeviceFilter, class W>
void assign_with_bounds(Run<T, W>& s, bool ordered) {
  const auto& few = s.ws.filter;
  const auto& bounds = s.ws.bounds;
  if (few.width == 0) return assign_by_all(s);
  RefineCounters* const refine_counters = next_refine_counters(s);
  FilterCounters* const contest = next_filter_counters(s, refine_counters);
  compute_guesses<By>(s, view_of(s), ordered);
  const RowOrder order = ordered && s.ws.incremental.done > 0 ? standing(few.order) : few.order;
  int* const list = few.candidate_rows;  // it is free until the contest
  dispatch_width(few, [&]<int width>() {
    launch(threshold_by_bounds_kernel<By<width>, width, T>, blocks(s.n, 256), 256, 0, s.stream, few.x, few.c,
           view_of(s), few.candidates.guess, few.square, few.centroid_square, few.threshold, order, bounds,
           s.axis("loose") / 1000.0, list, contest, s.ws.incremental.dirty, s.n, s.d);
  });
  launch(threshold_by_distances_kernel<T>, std::min(blocks(s.n, 8), 8 * s.device_info.multiprocessors), 256, 0,
         s.stream, s.x, s.c, view_of(s), few.candidates.guess, few.square, few.threshold, order, bounds, list, contest,
         few.width, s.d);
  filter_rows<By>(s, contest, refine_counters, StoreBound{s.label, bounds});
  assign_overflow(s, contest, refine_counters);
}

/// The means, and how far they have gone. The sums are up to date.
template <class T, class W>
void step_to_means(Run<T, W>& s) {
  const auto& m = s.ws.incremental;
  dispatch<1, 2, 3>(m.format.words, [&]<int words>() {
    launch(step_means_kernel<T, words>, s.k, step_block, 0, s.stream, m.sum, m.count, s.c, s.ws.bounds.travelled,
           m.dirty, m.format, s.k, s.d);
  });
}

}  // namespace ladder
