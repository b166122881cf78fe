// Candidates from the signs of products alone, by mma.sync: the threshold is a part of the product (short_rows.cuh).
// Rows are sorted by their guess. v36_narrow_mainloop introduces it.
#pragma once
#include "../update/cluster_order.cuh"
#include "filter_report.cuh"
#include "short_row_layout.cuh"

namespace ladder {

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
struct FilterOperands : FilterLists {
  const uint4 *x, *c;
  const uint32_t* threshold;
  const int* order;
  int n, k, multiprocessors;
  int blocks = 0;  // of the launch; 0: as many as run at a time (FilterSm90)
};

// ---- launchers (filter_sm80.cu)

/// The product of short rows by mma.sync.
struct FilterSm80 {
  static constexpr ShortRowLayout layout = ShortRowLayout::rows;
  /// Rows that are multiplied at a time: those of a block, as the CPU device runs one block after another.
  static int rows_at_once(int width, int multiprocessors);
  /// Labels of rows without candidates, lists of candidates and of overflow rows.
  static void filter(int width, cudaStream_t stream, const FilterOperands& o, const FilterPart& part);
};

/// Overflow rows: few of them are listed for brute force, many for the full-dimension kernel. Ends the use of `dirty`.
void route_overflow(cudaStream_t stream, const int* overflow, FilterCounters* counters, UndecidedPair* undecided_pairs,
                    RefineCounters* refine_counters, const DirtyClusters& dirty, int multiprocessors, int n);

// ---- phases

template <class T, class W>
FilterOperands filter_operands(Run<T, W>& s, FilterCounters* counters) {
  const auto& f = s.ws.filter;
  return {filter_lists(s, counters), f.x, f.c, f.threshold,
          s.ws.order.rows.row,       s.n, s.k, s.device_info.multiprocessors};
}

/// Does main() and side(), in any order or at the same time; W::branch is a shared_ptr to a SideBranch, if there is
/// one.
template <class Main, class Side, class T, class W>
void side_by_side(Run<T, W>& s, const Main& main, const Side& side) {
  if constexpr (requires { s.ws.branch; }) {
    if (s.ws.branch) return s.ws.branch->run(s, main, side);
  }
  main(), side();
}

/// Labels of all rows, which have thresholds. multiply(counters) is the filter's product; keep(row, label, squared
/// distance) is called for rows that are compared.
template <class T, class Multiply, class Keep, class W>
void filter_rows(Run<T, W>& s, FilterCounters* counters, RefineCounters* refine_counters, const Multiply& multiply,
                 const Keep& keep) {
  const auto& f = s.ws.filter;
  multiply(counters);
  side_by_side(
      s, [&] { compare_candidates(s, counters, keep); },
      [&] {  // other rows
        route_overflow(s.stream, f.overflow, counters, s.ws.refinement.undecided_pairs, refine_counters,
                       s.ws.sums.dirty, s.device_info.multiprocessors, s.n);
        assign_listed_rows(s, f.overflow, &counters->listed, refine_counters);
      });
}

/// The same with the product of all rows and all centroids.
template <class Form, class T, class Keep, class W>
void filter_all_rows(Run<T, W>& s, FilterCounters* counters, RefineCounters* refine_counters, const Keep& keep) {
  const auto multiply = [&](FilterCounters* counters) {
    Form::filter(s.ws.filter.width, s.stream, filter_operands(s, counters), FilterPart{});
  };
  filter_rows(s, counters, refine_counters, multiply, keep);
}

/// After list_moved(): sorts the points, always while the filter is on, which reads them in this order.
template <class T, class W>
void sort_for_filter(Run<T, W>& s, const MoveCounters* moves) {
  SortState sort = s.ws.order.sort;
  if (s.ws.filter.width == 0) sort.resort_share = 0;
  sort_by_cluster(s, sort, moves);
}

/// The update of v34, with these points sorted.
template <class T, class W>
const MoveCounters* list_and_sort(Run<T, W>& s) {
  const MoveCounters* const moves = list_moved(s);
  sort_for_filter(s, moves);
  return moves;
}
template <class T, class W>
void update_sorted(Run<T, W>& s) {
  move_points(s, s.x, list_and_sort(s), FullUpdate{.order = s.ws.order.rows.row});
  divide_exact(s);
}

}  // namespace ladder
