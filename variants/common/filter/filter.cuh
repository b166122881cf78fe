// Labels by upper bounds from short rows. A row's guess is a centroid that is probably the nearest; its exact distance
// gives a threshold, and a centroid whose bound reaches it may be as near: a candidate. A row without candidates has
// its label. Up to 15 candidates are compared exactly (candidates.cuh); rows with more, the overflow, go to the
// full-dimension assignment. v35_short_rows introduces it.
#pragma once
#include "../certified/candidates.cuh"
#include "../pruning/listed_rows.cuh"
#include "../update/cluster_order.cuh"
#include "short_rows.cuh"

namespace ladder {

/// Of one iteration.
struct FilterCounters {
  int candidate_rows;     ///< rows with 1 to most_candidates candidates
  int candidates;         ///< of these rows
  int overflow;           ///< rows with more
  int listed;             ///< of these, rows for the full-dimension kernel: all, or none where brute force takes them
  int exact_distances;    ///< rows whose distance to their guess was computed, where not all are (distance_bounds.cuh)
  int settled_rows;       ///< rows that are compared with dirty centroids only (active_set.cuh)
  int skipped_centroids;  ///< clean centroids
};

struct ProjectionFilter {
  int width = 0;                      // halves of a short row; 0: the filter is off
  uint4 *x = nullptr, *c = nullptr;   // short rows, whole tiles of them
  double* square = nullptr;           // n: squared lengths of the points, in the unit of short rows
  double* centroid_square = nullptr;  // k: the same of centroids; null where nothing reads it
  uint32_t* threshold = nullptr;      // n
  int* candidate_rows = nullptr;      // n: list of rows with candidates
  int* overflow = nullptr;            // n: list of rows with too many
  Candidates candidates;
  FilterCounters* counters = nullptr;       // counted: iteration i since the restart is entry i
  FilterCounters* counters_host = nullptr;  // page-locked
  int reported = 0;                         // how many of them State::counters has
  bool centroids_ready = false;             // c is up to date already
};

/// State of a rung with the filter.
template <class T>
struct FilterState : ListedDimension<T> {
  IncrementalSums sums;
  ClusterOrder order;
  ProjectionFilter filter;
};

/// Where the candidates of all rows go.
struct FilterLists {
  Candidates candidates;
  int *candidate_rows, *overflow;
  FilterCounters* counters;
  int32_t* label;
  /// Of row i, with `count` candidates: its label where there are none, else an entry in one of the lists.
  __device__ void finish_row(int i, int guess, int count) const {
    if (count == 0) {
      label[i] = guess;
    } else if (count <= most_candidates) {
      candidates.found[i] = count;
      candidate_rows[atomicAdd(&counters->candidate_rows, 1)] = i;
      atomicAdd(&counters->candidates, count);
    } else {
      overflow[atomicAdd(&counters->overflow, 1)] = i;
    }
  }
};

/// Thresholds from exact distances to the guesses, a warp per row; and the rows' places in `order`.
template <class T>
__global__ void set_threshold_kernel(const T* __restrict__ x, const T* __restrict__ c, Frame<T> frame, const int* guess,
                                     const double* square, uint32_t* thresholds, RowOrder order, int width, int n,
                                     int d) {
  const int64_t i = (blockIdx.x * int64_t(blockDim.x) + threadIdx.x) / 32;
  if (i >= n) return;  // a whole warp at a time
  double distance[1];
  warp_distances(x + i * d, {c + int64_t(guess[i]) * d}, d, distance);
  if (threadIdx.x % 32 != 0) return;
  scatter(order, int(i), guess[i]);
  thresholds[i] = threshold(square[i], scalbn(distance[0], 2 * (frame.exponent() + short_exponent(d))), width);
}

// ---- phases

/// Memory for the lists of candidates.
template <class T, class W>
void prepare_filter_lists(Run<T, W>& s) {
  auto& f = s.ws.filter;
  f.candidate_rows = s.template device<int>(s.n);
  f.overflow = s.template device<int>(s.n);
  f.candidates = allocate_candidates(s, s.n);
  f.counters = s.template device<FilterCounters>(counted);
  f.counters_host = s.template pinned<FilterCounters>(counted);
}
/// Memory for short rows of up to `width` halves, and the lists.
template <class T, class W>
void prepare_filter(Run<T, W>& s, int width) {
  auto& f = s.ws.filter;
  const size_t chunks = width / 8;
  f.x = s.template device<uint4>(size_t(padded_short_rows(s.n)) * chunks);
  f.c = s.template device<uint4>(size_t(padded_short_rows(s.k)) * chunks);
  f.square = s.template device<double>(s.n);
  f.threshold = s.template device<uint32_t>(s.n);
  prepare_filter_lists(s);
}

/// Forgets what earlier iterations computed; the centroids are those of the caller.
template <class T, class W>
void reset_filter(Run<T, W>& s) {
  reset_refinement(s);
  restart_incremental(s);
  restart_order(s);
  s.ws.filter.reported = 0;
  if (s.ws.filter.width == 0) return;
  check(cudaMemsetAsync(s.ws.filter.counters, 0, counted * sizeof(FilterCounters), s.stream), "clearing the counts");
}
template <class T, class W>
void restart_filter(Run<T, W>& s) {
  restart_rows(s);
  reset_filter(s);
}

/// The counters of the assignment that has begun, all 0.
template <class T, class W>
FilterCounters* filter_counters(Run<T, W>& s) {
  const int done = s.ws.refinement.done;
  FilterCounters* const counters = s.ws.filter.counters + (std::min(done, counted) - 1);
  if (done >= counted && done <= loop_on_device)
    check(cudaMemsetAsync(counters, 0, sizeof *counters, s.stream), "clearing the counts");
  return counters;
}

/// The candidates; the guesses are the previous labels as soon as there are any.
template <class T, class W>
Candidates current_candidates(Run<T, W>& s) {
  Candidates candidates = s.ws.filter.candidates;
  if (s.ws.sums.done > 0) candidates.guess = s.ws.sums.previous_label;
  return candidates;
}

template <class T, class W>
FilterLists filter_lists(Run<T, W>& s, FilterCounters* counters) {
  return {current_candidates(s), s.ws.filter.candidate_rows, s.ws.filter.overflow, counters, s.label};
}

/// The order that kernels put rows to: only the first iteration does; later the update sorts.
template <class T, class W>
RowOrder current_order(Run<T, W>& s) {
  return s.ws.sums.done > 0 ? read_only(s.ws.order.rows) : s.ws.order.rows;
}

template <class T, class W>
void set_exact_thresholds(Run<T, W>& s) {
  const auto& f = s.ws.filter;
  launch(set_threshold_kernel<T>, blocks(int64_t(s.n) * 32, 256), 256, 0, s.stream, s.ws.rows.points, s.c, frame_of(s),
         current_candidates(s).guess, f.square, f.threshold, current_order(s), f.width, s.n, s.d);
}

/// Labels of the rows with candidates, from their exact distances. keep(row, label, squared distance) is called for
/// each.
template <class T, class Keep, class W>
void compare_candidates(Run<T, W>& s, const FilterCounters* counters, const Keep& keep) {
  launch(compare_kernel<T, Keep>, std::min(blocks(s.n, 8), 8 * s.device_info.multiprocessors), 256, 0, s.stream,
         s.ws.rows.points, s.c, current_candidates(s), s.ws.filter.candidate_rows, &counters->candidate_rows, keep,
         s.d);
}

inline std::string refuse_filter(const Shape& p, const Device& device, const Axes& axes) {
  if (axes["short_row_width"] > 0 && p.d > max_projected_features)
    return "bounds in a few directions are proven for " + std::to_string(max_projected_features) +
           " features at most, here are " + std::to_string(p.d) + ": --axis short_row_width=0 does without";
  const std::string why = refuse_full_dimension(p, device);
  // The filter's products by mma.sync (filter_sm80.cuh); on the CPU device they have been probed.
  return why.empty() && device.kind == DeviceKind::cuda ? refuse_accumulator(device) : why;
}

}  // namespace ladder
