// How many directions pay: measured on a sample before the first iteration. Some sampled points stand for points,
// others for centroids; for each width of short rows the candidates that the bounds would leave are counted, and the
// cheapest width is taken, or none. Centroids begin as points and end as means; the rest of a mean of n / k points is
// shorter by about sqrt(k / n), which is too good where clusters differ outside the directions, so both ages are tried.
// A wrong choice costs time, never a label. v40_rank_selection introduces it.
#pragma once
#include "pca.cuh"

namespace ladder {

constexpr int width_count = 5, narrowest = 32;
/// Widths of short rows: 32, 48, 64, 96, 128.
__host__ __device__ constexpr int short_width(int w) { return w < 3 ? narrowest + 16 * w : 32 * w; }

constexpr int pilot_points = 256, pilot_centroids = 4096;
constexpr int pilot_ages = 2;  // of centroids: points, and means

/// Of the pilot's points, for one width and age.
struct PilotCounts {
  int candidates;  ///< beside the nearest, of points with at most most_candidates
  int overflow;    ///< points with more
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

/// Whether any width could pay.
bool worth_a_pilot(int k, int d);

/// Launcher (rank_selection.cu): the cheapest width of short rows, from `sample` of the n points; 0: the filter does
/// not pay. Waits for the device.
template <class T>
int choose_width(cudaStream_t stream, const T* rows, const Frame<T>& frame, const Directions& directions,
                 const Pilot& pilot, int sample, int n, int k, int d);

/// Of a pilot that took `width`: would the first assignment cost less in all features? It has no labels to guess from,
/// so it multiplies the short rows twice; and its centroids are points, whose rests are longest.
bool full_start_is_cheaper(const Pilot& pilot, int width, int n, int k, int d);

// ---- phases

constexpr int by_pilot = -1;  // axis "short_row_width": the pilot chooses

template <class T>
struct RankedState : PcaState<T> {
  Pilot pilot;
};

/// Whether short rows may pay; a width that the user asks for is taken.
template <class T>
bool wants_filter(const State<T>& s) {
  const int width = s.axis("short_row_width");
  return width == by_pilot ? worth_a_pilot(s.k, s.d) : width > 0;
}

/// `behind`: words of the caller's own behind those of the sums.
template <class T, class W>
void prepare_ranked(Run<T, W>& s, size_t behind) {
  prepare_listed_rows(s, wants_filter(s));
  prepare_incremental(s, behind);
  prepare_order(s, SortState::after_any_move);
  if (!wants_filter(s)) return;
  const int width = s.axis("short_row_width");
  prepare_pca(s, width == by_pilot ? widest : width);
  if (width == by_pilot) s.ws.pilot = allocate_pilot(s);
}
template <class T, class W>
void prepare_ranked(Run<T, W>& s) {
  prepare_ranked(s, 0);
}

/// Directions and width, from `count` rows on the device.
template <class T, class W>
void find_projection(Run<T, W>& s, const T* rows, int count) {
  if (!wants_filter(s)) return;
  find_directions(s, rows, count);
  const int width = s.axis("short_row_width");
  s.ws.filter.width =
      width != by_pilot ? width
                        : choose_width(s.stream, rows, frame_of(s), s.ws.directions, s.ws.pilot, count, s.n, s.k, s.d);
}

/// Operands of the points, which are on the device.
template <class T, class W>
void prepare_points(Run<T, W>& s) {
  quantize_full_dimension(s);
  find_projection(s, s.ws.rows.points, s.n);
  project_rows(s, all_rows(s));
}
template <class T, class W>
void upload_ranked(Run<T, W>& s) {
  upload_rows(s);
  prepare_points(s);
  choose_format(s, s.x);
}

}  // namespace ladder
