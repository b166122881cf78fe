// The filter restricted to what has changed. A row was compared with all centroids by the last assignment, and its
// label is the nearest, exactly. If its own centroid has not moved since (its cluster is clean), only a centroid that
// has moved can be nearer now. So the rows are split: those of dirty clusters meet all centroids, all others dirty ones
// alone, whose short rows are copied side by side. The device decides the split; the launches are the same for any. In
// the same way the sorted order stays until many points have moved, and clean clusters keep means, short rows and
// thresholds. v44_active_set introduces it; docs/certificate.md says why labels stay exact.
#pragma once
#include "../update/segmented.cuh"
#include "distance_bounds.cuh"

namespace ladder {

struct ActiveSet {
  FilterSplit* split = nullptr;  // 1
  int* rows = nullptr;           // n: rows of dirty clusters, then the others, both nearly sorted
  int* dirty = nullptr;          // k: the dirty centroids
  uint4* short_rows = nullptr;   // theirs, whole tiles of them
  bool proven = false;           // the sums hold proven labels: one update since the last assignment, and no other
};

/// The unit of the product's time: a tile of columns with as many rows as are multiplied at a time, full or not.
struct Waves {
  int rows, columns;
  __device__ int64_t operator()(int of_rows, int of_columns) const {
    return (int64_t(of_rows) + rows - 1) / rows * ((int64_t(of_columns) + columns - 1) / columns);
  }
};

// ---- launchers (active_set.cu)

/// Splits the rows, in `order` with these guesses, and copies the dirty centroids' short rows from o.c.
void split_active_set(int width, ShortRowLayout layout, cudaStream_t stream, const FilterOperands& o,
                      const DirtyClusters& dirty, const int* count, const ActiveSet& active, const Waves& waves);

// ---- phases

template <class T>
struct ActiveState : BoundedState<T> {
  ActiveSet active;
};

/// Memory; the clusters are marked from here on.
template <class T, class W>
void prepare_active_set(Run<T, W>& s, size_t behind) {
  prepare_bounds(s, behind);
  s.ws.sums.full_update_share = s.axis("full_update_share");
  s.ws.sums.dirty = allocate_dirty(s, s.k);
  s.ws.order.sort.resort_share = s.axis("resort_share");
  if (!wants_filter(s)) return;
  const int width = s.axis("short_row_width") == by_pilot ? widest : s.axis("short_row_width");
  auto& active = s.ws.active;
  active.split = s.template device<FilterSplit>(1);
  active.rows = s.template device<int>(s.n);
  active.dirty = s.template device<int>(s.k);
  active.short_rows = s.template device<uint4>(size_t(padded_short_rows(s.k)) * (width / 8));
}
template <class T, class W>
void prepare_active_set(Run<T, W>& s) {
  prepare_active_set(s, 0);
}

template <class T, class W>
void reset_active_set(Run<T, W>& s) {
  reset_bounds(s);
  s.ws.active.proven = false;
}
template <class T, class W>
void restart_active_set(Run<T, W>& s) {
  restart_rows(s);
  reset_active_set(s);
}

/// The filter's product, of what has changed.
template <class T, class W>
void filter_active_set(Run<T, W>& s, FilterCounters* counters) {
  auto& active = s.ws.active;
  const auto& f = s.ws.filter;
  FilterOperands o = filter_operands(s, counters);
  const Waves waves{DeviceFilter::rows_at_once(f.width, s.device_info.multiprocessors), short_row_tile};
  const bool single_wave = s.n <= waves.rows;  // each part would take as long
  if (!std::exchange(active.proven, false) || single_wave)
    return DeviceFilter::filter(f.width, s.stream, o, FilterPart{});
  split_active_set(f.width, DeviceFilter::layout, s.stream, o, s.ws.sums.dirty, s.ws.sums.count, active, waves);
  DeviceFilter::filter(f.width, s.stream, o, FilterPart{active.split, active.rows});
  o.c = active.short_rows;
  DeviceFilter::filter(f.width, s.stream, o, FilterPart{active.split, active.rows, active.dirty});
}

template <class T, class W>
void assign_active_set(Run<T, W>& s) {
  assign_with_bounds(s, [&](FilterCounters* counters) { filter_active_set(s, counters); });
}

template <class T, class W>
void update_active_set(Run<T, W>& s) {
  const MoveCounters* const moves = list_moved(s);
  side_by_side(
      s, [&] { move_points(s, s.x, moves, FullUpdate{.skip = true}); },
      [&] { sort_for_filter(s, moves), sum_segments(s, s.x, moves); });  // one of the two sums does nothing
  step_to_means(s);
  s.ws.active.proven = true;
}

template <class T, class W>
void download_active_set(Run<T, W>& s) {
  const int reported = s.ws.filter.reported;
  download_filter(s);
  const auto& f = s.ws.filter;
  if (!wants_filter(s)) return;
  for (int i = reported; i < f.reported; ++i) {
    const FilterCounters counters = f.width > 0 ? f.counters_host[i] : FilterCounters{};
    s.counters["centroids that all rows meet"].push_back(s.k - counters.skipped_centroids);
    s.counters["products multiplied"].push_back(int64_t(s.n) * s.k -
                                                int64_t(counters.settled_rows) * counters.skipped_centroids);
  }
}

}  // namespace ladder
