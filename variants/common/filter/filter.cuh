// Labels by upper bounds from short rows. A row's guess is a centroid that is probably the nearest; its exact distance
// is folded into the products as a threshold, so a product that is not negative marks a centroid that may be as near: a
// candidate. A row without candidates has its label. Up to 15 candidates are compared exactly (candidates.cuh); rows
// with more, the overflow, go to the full-dimension assignment. v27_feature_filter introduces it.
#pragma once
#include "../pruning/full_dimension.cuh"
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
struct FilterState : FullDimension<T> {
  IncrementalSums incremental;
  ClusterOrder order;
  ProjectionFilter filter;
};

/// How the device has split rows and centroids in two (active_set.cuh).
struct FilterSplit {
  int dirty_rows;  ///< rows of dirty clusters; all rows where a split does not pay
  int clean_rows;  ///< all other rows
  int dirty;       ///< dirty centroids
  int next[2];     ///< where the next row of either kind is listed
};

/// The rows and columns of the short rows' product; by default all. With a split: the rows of dirty clusters and all
/// centroids, or, where `dirty` is there, the other rows and dirty centroids.
struct FilterPart {
  const FilterSplit* split = nullptr;  // 1
  const int* rows = nullptr;           // n: rows of dirty clusters, then the others
  const int* dirty = nullptr;          // split->dirty: the centroid of each column
  __device__ const int* order(const int* all) const {
    if (!split || split->clean_rows == 0) return all;
    return dirty ? rows + split->dirty_rows : rows;
  }
  __device__ int count(int n) const { return !split ? n : dirty ? split->clean_rows : split->dirty_rows; }
  __device__ int columns(int k) const { return dirty ? split->dirty : k; }
  __device__ int centroid(int column) const { return dirty ? dirty[column] : column; }
};

/// What the kernels of the filter read and write.
struct FilterOperands {
  const uint4 *x, *c;
  const uint32_t* threshold;
  Candidates candidates;
  const int* order;
  int *candidate_rows, *overflow;
  FilterCounters* counters;
  int32_t* label;
  int n, k, multiprocessors;
  int blocks = 0;  // of the launch; 0: as many as run at a time (FilterSm90)
};

// ---- launchers (filter.cu)

/// The product of short rows by mma.sync.
struct FilterSm80 {
  static constexpr ShortRowLayout layout = ShortRowLayout::rows;
  /// Rows that are multiplied at a time: those of a block, as the CPU device runs one block after another.
  static int rows_at_once(int width, int multiprocessors);
  /// Labels of rows without candidates, lists of candidates and of overflow rows.
  static void filter(int width, cudaStream_t stream, const FilterOperands& o, const FilterPart& part);
};

/// Thresholds from exact distances to the guesses, a warp per row; and the rows' places in `order`. `frame`: the
/// points'.
template <class T>
void set_exact_thresholds(cudaStream_t stream, const T* x, const T* c, const Frame<T>& frame, const int* guess,
                          const double* square, uint32_t* threshold, const RowOrder& order, int width, int n, int d);

/// Overflow rows: few of them are listed for brute force, many for the full-dimension kernel. Ends the use of `dirty`.
void route_overflow(cudaStream_t stream, const int* overflow, FilterCounters* counters, UndecidedPair* undecided_pairs,
                    RefineCounters* refine_counters, const DirtyClusters& dirty, int multiprocessors, int n);

// ---- phases

/// Memory for short rows of up to `width` halves.
template <class T, class W>
void prepare_filter(Run<T, W>& s, int width) {
  auto& f = s.ws.filter;
  const size_t chunks = width / 8;
  f.x = s.template device<uint4>(size_t(padded_filter_rows(s.n)) * chunks);
  f.c = s.template device<uint4>(size_t(padded_short_rows(s.k)) * chunks);
  f.square = s.template device<double>(s.n);
  f.threshold = s.template device<uint32_t>(s.n);
  f.candidate_rows = s.template device<int>(s.n);
  f.overflow = s.template device<int>(s.n);
  f.candidates = allocate_candidates(s, s.n);
  f.counters = s.template device<FilterCounters>(counted);
  f.counters_host = s.template pinned<FilterCounters>(counted);
}

/// Forgets what earlier iterations computed; the centroids are those of the caller.
template <class T, class W>
void reset_filter(Run<T, W>& s) {
  reset_refinement(s);
  restart_incremental(s);
  restart_order(s);
  auto& f = s.ws.filter;
  f.reported = 0;
  if (f.width == 0) return;
  check(cudaMemsetAsync(f.counters, 0, counted * sizeof(FilterCounters), s.stream), "clearing the counts");
  check(cudaMemsetAsync(s.ws.order.rows.count, 0, s.k * sizeof(int), s.stream), "clearing the counts of guesses");
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

/// After an assignment without the filter: all rows took the full-dimension kernel.
template <class T, class W>
void count_all_overflow(Run<T, W>& s) {
  to_device(s, &filter_counters(s)->overflow, &s.n, 1, "counting the rows");
}

/// The candidates; the guesses are the previous labels as soon as there are any.
template <class T, class W>
Candidates current_candidates(Run<T, W>& s) {
  Candidates candidates = s.ws.filter.candidates;
  if (s.ws.incremental.done > 0) candidates.guess = s.ws.incremental.previous_label;
  return candidates;
}

template <class T, class W>
FilterOperands filter_operands(Run<T, W>& s, FilterCounters* counters) {
  const auto& f = s.ws.filter;
  return {f.x,
          f.c,
          f.threshold,
          current_candidates(s),
          s.ws.order.rows.row,
          f.candidate_rows,
          f.overflow,
          counters,
          s.label,
          s.n,
          s.k,
          s.device_info.multiprocessors};
}

/// The order that kernels put rows to: only the first iteration does; later the update sorts.
template <class T, class W>
RowOrder current_order(Run<T, W>& s) {
  return s.ws.incremental.done > 0 ? read_only(s.ws.order.rows) : s.ws.order.rows;
}

template <class T, class W>
void set_exact_thresholds(Run<T, W>& s) {
  const auto& f = s.ws.filter;
  set_exact_thresholds(s.stream, s.ws.rows.points, s.c, frame_of(s), current_candidates(s).guess, f.square, f.threshold,
                       current_order(s), f.width, s.n, s.d);
}

/// Labels of all rows, which have thresholds. multiply(counters) is the filter's product; keep(row, label, squared
/// distance) is called for rows that are compared.
template <class T, class Multiply, class Keep, class W>
void filter_rows(Run<T, W>& s, FilterCounters* counters, RefineCounters* refine_counters, const Multiply& multiply,
                 const Keep& keep) {
  const auto& f = s.ws.filter;
  multiply(counters);
  launch(compare_kernel<T, Keep>, std::min(blocks(s.n, 8), 8 * s.device_info.multiprocessors), 256, 0, s.stream,
         s.ws.rows.points, s.c, current_candidates(s), f.candidate_rows, &counters->candidate_rows, keep, s.d);
  route_overflow(s.stream, f.overflow, counters, s.ws.refinement.undecided_pairs, refine_counters,
                 s.ws.incremental.dirty, s.device_info.multiprocessors, s.n);
  assign_overflow(s, f.overflow, &counters->listed, refine_counters);
}

/// The update of v26 with the points always sorted while the filter is on: it reads them in this order.
template <class T, class W>
const MoveCounters* list_and_sort(Run<T, W>& s) {
  SortState sort = s.ws.order.sort;
  if (s.ws.filter.width == 0) sort.resort_share = 0;
  const MoveCounters* const moves = list_moved(s);
  sort_by_cluster(s, sort, moves);
  return moves;
}
template <class T, class W>
void update_sorted(Run<T, W>& s) {
  move_points(s, s.x, list_and_sort(s), FullUpdate{.order = s.ws.order.rows.row});
  divide_exact(s);
}

template <class T, class W>
void report_filter_counters(Run<T, W>& s) {
  auto& f = s.ws.filter;
  FilterCounters all_overflow = {};
  all_overflow.overflow = s.n;
  for (; f.reported < std::min(s.ws.refinement.done, counted); ++f.reported) {
    const FilterCounters counters = f.width > 0 ? f.counters_host[f.reported] : all_overflow;
    s.counters["halves of a short row"].push_back(f.width);
    s.counters["rows looked at"].push_back(f.width > 0 && f.centroid_square ? counters.exact_distances : s.n);
    s.counters["rows compared"].push_back(counters.candidate_rows);
    s.counters["candidates compared"].push_back(counters.candidates);
    s.counters["rows of all features"].push_back(counters.overflow);
  }
}
template <class T, class W>
void download_filter(Run<T, W>& s) {
  const auto& f = s.ws.filter;
  fetch_move_counters(s);
  if (f.width > 0)
    check(cudaMemcpyAsync(f.counters_host, f.counters, std::min(s.ws.refinement.done, counted) * sizeof *f.counters,
                          cudaMemcpyDeviceToHost, s.stream),
          "downloading the counts");
  download_refined(s);
  report_moves(s);
  report_filter_counters(s);
}

/// Before assignments that do not follow a restart.
template <class T, class W>
void begin_assignments(Run<T, W>& s) {
  check(cudaMemsetAsync(s.ws.order.rows.count, 0, s.k * sizeof(int), s.stream), "clearing the counts of guesses");
  clear_brute_force_parts(s, s.ws.refinement.parts, s.ws.refinement.blocks);
}

/// Makes `chunk`, a run of these rows alone, share what was prepared for all of them.
template <class T, class W>
void slice_filter(Run<T, W>& s, const RowRange& range, Run<T, W>& chunk) {
  slice_full_dimension(s, range, chunk);
  chunk.ws.order = s.ws.order;
  auto& f = chunk.ws.filter = s.ws.filter;
  f.x += size_t(range.first) * (f.width / 8), f.square += range.first;
}
/// The next assignment counts at entry `index` of these arrays.
template <class T, class W>
void count_at(Run<T, W>& s, RefineCounters* refine_counters, FilterCounters* counters, int index) {
  s.ws.refinement.refine_counters = refine_counters, s.ws.refinement.done = index;
  s.ws.filter.counters = counters;
}

inline std::string refuse_filter(const Shape& p, const Device& device, const Axes& axes) {
  if (axes["short_row_width"] > 0 && p.d > max_projected_features)
    return "bounds in a few directions are proven for " + std::to_string(max_projected_features) +
           " features at most, here are " + std::to_string(p.d) + ": --axis short_row_width=0 does without";
  return refuse_full_dimension(p, device);
}

}  // namespace ladder
