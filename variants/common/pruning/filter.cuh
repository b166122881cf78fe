// Labels by bounds in a few directions, most of them without a look at any other centroid. The greatest bound of each
// row gives a guess; its exact distance is part of the same products in a second pass, so that their sign alone says
// who else may be as near (projected.cuh). Where nobody is, the guess is proven; a few are compared exactly
// (candidates.cuh); rows with more are left to others. v29_rank_selection introduces it.
#pragma once
#include "../certified/refine.cuh"
#include "../device/counting_sort.cuh"
#include "../gemm/narrow_mainloop_sm80.cuh"
#include "../lloyd/row_range.cuh"
#include "../update/incremental.cuh"
#include "rank_selection.cuh"

namespace ladder {

/// What an iteration counts.
struct FilterCounters {
  int candidate_rows;     ///< rows with a few candidates
  int candidates;         ///< of these rows, beside their guesses
  int left;               ///< rows with too many
  int listed;             ///< of these, those that go the way of all features: all, or where they are few none
  int exact_distances;    ///< rows whose distance to their guess was worked out, where not all are (row_bounds.cuh)
  int settled_rows;       ///< rows that do not meet all centroids (changed_contest.cuh)
  int skipped_centroids;  ///< centroids that these do not meet
};

/// What the way by few directions keeps.
struct ProjectionFilter {
  int width = 0;  // halves of a short row; 0: points fill all directions alike, this way is not taken
  Subspace subspace;
  Directions directions;
  uint4 *x = nullptr, *c = nullptr;   // short rows, whole tiles of them
  double* square = nullptr;           // n: squared lengths of points, in the unit of short rows
  double* centroid_square = nullptr;  // k: the same of centroids, where somebody asks for them
  uint32_t* threshold = nullptr;      // n: of each row, what it asks for
  int* candidate_rows = nullptr;      // n: rows that are
  int* left = nullptr;                // n: rows that are left
  Candidates candidates;
  RowOrder order;  // of the rows, by their guesses
  Pilot pilot;
  FilterCounters *counters = nullptr, *counters_host = nullptr;  // counted: as Recheck::doubts
  int told = 0;                                                  // how many of them State::counters has
  bool bounded = false;                                          // not all rows are looked at in each iteration
  bool shortened = false;                                        // c has the centroids' short rows already
  bool parted = false;                                           // not all rows are multiplied with all centroids
};

/// The rows and the columns of a contest: all of them. Where they are others, the device alone knows them
/// (changed_contest.cuh).
struct WholeProblem {
  __device__ const int* rows(const int* order) const { return order; }
  __device__ int count(int n) const { return n; }
  __device__ int columns(int k) const { return k; }
  /// Which one a column is.
  __device__ int centroid(int column) const { return column; }
};

// ---- kernels

/// The centroid with the greatest bound, or nearly: the last bits of a bound hold a column. Guesses are counted, to put
/// the rows in order.
template <int width>
__global__ void __launch_bounds__(NarrowMainloopSm80<width>::block, NarrowMainloopSm80<width>::resident)
    max_bound_kernel(const uint4* __restrict__ x, const uint4* __restrict__ c, int* guess, RowOrder order, int n,
                     int k) {
  using Tile = NarrowMainloopSm80<width>;
  const int64_t begin = int64_t(blockIdx.x) * Tile::rows;
  const Tile tile;
  float greatest[Tile::own_rows];
  int at[Tile::own_rows] = {};
  for (float& bound : greatest) bound = -std::numeric_limits<float>::infinity();
  tile.multiply(x, c, k, [&](int first, typename Tile::Products& product) {
#pragma unroll
    for (int r = 0; r < Tile::own_rows; ++r) {
      float here = -std::numeric_limits<float>::infinity();
#pragma unroll
      for (int e = 0; e < 2 * Tile::column_fragments; ++e) {
        const unsigned bits = __float_as_uint(product[r / 2][e / 2][r % 2 * 2 + e % 2]);
        here = fmaxf(here, __uint_as_float((bits & ~15u) | unsigned(e)));
      }
      if (here > greatest[r]) greatest[r] = here, at[r] = first;
    }
  });
  for (int r = 0; r < Tile::own_rows; ++r) {
    const int e = int(__float_as_uint(greatest[r]) & 15u);
    int j = at[r] + tile.column(e / 2, e % 2);
    for (int lanes = 1; lanes < 4; lanes *= 2) {  // four lanes share a row
      const float bound = __shfl_xor_sync(0xffffffffu, greatest[r], lanes);
      const int other = __shfl_xor_sync(0xffffffffu, j, lanes);
      if (bound > greatest[r] || (bound == greatest[r] && other < j)) greatest[r] = bound, j = other;
    }
    const int64_t i = begin + tile.row(r);
    if (tile.lane % 4 == 0 && i < n) count_row(order, guess[i] = min(j, k - 1));
  }
}

/// After the first iteration the labels of the one before are as good, and cost nothing: `holds`, of the update.
__global__ void previous_label_kernel(const int32_t* previous_label, int* guess, RowOrder order, int n) {
  const int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (i < n) count_row(order, guess[i] = previous_label[i]);
}

/// The exact distance of each point to its guess, a warp for each; from it, the point's threshold. Each row is put to
/// its place in order.
template <class T>
__global__ void set_threshold_kernel(const T* __restrict__ x, const T* __restrict__ c, Frame<T> view, const int* guess,
                                     const double* square, uint32_t* thresholds, RowOrder order, int width, int n,
                                     int d) {
  const int64_t i = (blockIdx.x * int64_t(blockDim.x) + threadIdx.x) / 32;
  if (i >= n) return;  // a whole warp at a time
  double distance[1];
  warp_distances(x + i * d, {c + int64_t(guess[i]) * d}, d, distance);
  if (threadIdx.x % 32 != 0) return;
  scatter(order, int(i), guess[i]);
  thresholds[i] = threshold(square[i], scalbn(distance[0], 2 * (view.exponent() + short_exponent(d))), width);
}

/// Which other centroids may be as near as the guess: those whose product is not below 0. A row without any has its
/// label. Rows come in the order of their guesses: those of a warp meet their guesses, and others that are near, in the
/// same few groups of centroids, and all other groups end with a look at the signs.
template <int width, class Part>
__global__ void __launch_bounds__(NarrowMainloopSm80<width>::block, NarrowMainloopSm80<width>::resident)
    filter_kernel(const uint4* __restrict__ x, const uint4* __restrict__ c, const uint32_t* __restrict__ thresholds,
                  Candidates candidates, const int* __restrict__ order, int* candidate_rows, int* left,
                  FilterCounters* contest, int32_t* __restrict__ label, int n, int k, Part part) {
  using Tile = NarrowMainloopSm80<width>;
  order = part.rows(order), n = part.count(n), k = part.columns(k);
  if (int64_t(blockIdx.x) * Tile::rows >= n) return;                     // a launch is for all rows
  int* const found = dynamic_shared<int>() + Tile::bytes / sizeof(int);  // rows: others that may be as near
  int* const guess = found + Tile::rows;                                 // rows
  int* const rows = guess + Tile::rows;                                  // rows: which they are; -1: there is none
  const Tile tile;
  const int64_t place = int64_t(blockIdx.x) * Tile::rows + threadIdx.x;
  const int i = place < n ? order[place] : -1;
  static_assert(Tile::rows == Tile::block);
  rows[threadIdx.x] = i;
  found[threadIdx.x] = 0;
  guess[threadIdx.x] = i >= 0 ? candidates.guess[i] : 0;
  __syncthreads();
  unsigned closed[Tile::own_rows];  // all bits: whatever its products are, nobody looks
  for (int r = 0; r < Tile::own_rows; ++r) closed[r] = rows[tile.row(r)] >= 0 ? 0 : ~0u;
  const auto row_at = [&](int own) { return max(rows[own], 0); };
  tile.multiply(row_at, x, thresholds, c, k, [&](int first, typename Tile::Products& product) {
    unsigned below[Tile::own_rows], all_below = ~0u;  // their sign: that of all products together
#pragma unroll
    for (int r = 0; r < Tile::own_rows; ++r) {
      below[r] = ~0u;
#pragma unroll
      for (int e = 0; e < 2 * Tile::column_fragments; ++e)
        below[r] &= __float_as_uint(product[r / 2][e / 2][r % 2 * 2 + e % 2]);
      all_below &= below[r] |= closed[r];
    }
    if (!__any_sync(0xffffffffu, int(all_below) >= 0)) return;
#pragma unroll  // who is asked for by number must be a register
    for (int r = 0; r < Tile::own_rows; ++r) {
      if (int(below[r]) < 0) continue;
      unsigned reached = 0;
#pragma unroll
      for (int e = 0; e < 2 * Tile::column_fragments; ++e)
        reached |= (~__float_as_uint(product[r / 2][e / 2][r % 2 * 2 + e % 2]) >> 31) << e;
      for (; reached != 0; reached &= reached - 1) {
        const int e = __ffs(int(reached)) - 1, j = first + tile.column(e / 2, e % 2), row = tile.row(r);
        if (j >= k || part.centroid(j) == guess[row]) continue;
        const int before = atomicAdd(&found[row], 1);
        if (before < most_candidates)
          candidates.list[int64_t(rows[row]) * most_candidates + before] = part.centroid(j);
        else
          closed[r] = ~0u;  // this row is left: no more of them
      }
    }
  });
  if (i < 0) return;
  const int others = found[threadIdx.x];
  if (others == 0) {
    label[i] = guess[threadIdx.x];
  } else if (others <= most_candidates) {
    candidates.found[i] = others;
    candidate_rows[atomicAdd(&contest->candidate_rows, 1)] = i;
    atomicAdd(&contest->candidates, others);
  } else {
    left[atomicAdd(&contest->left, 1)] = i;
  }
}

/// One block. Rows that are left, where they are few, are compared with all centroids at once: by doubles that takes no
/// longer than one round of tiles, in which each multiprocessor has room for 128 rows, few or many.
__global__ void route_overflow_kernel(const int* left, FilterCounters* contest, UndecidedPair* undecided_pairs,
                                      RefineCounters* refine_counters, DirtyClusters dirty, int few, int n) {
  if (threadIdx.x == 0) dirty.begin_anew();  // no kernel of this assignment asks any more
  const int count = contest->left;
  if (count > few) {
    if (threadIdx.x == 0) contest->listed = count;
    return;
  }
  for (int at = threadIdx.x; at < count; at += blockDim.x) undecided_pairs[n - 1 - at] = {left[at], 0, 0};
  if (threadIdx.x == 0) refine_counters->brute_force = count;
}
/// So many rows for each multiprocessor are few. On an H200 a round of 128 x 132 rows takes 0.3 ms at kmcuda, 0.4 us a
/// scan: both are products of K and D.
constexpr int brute_force_rows_per_sm = 4;

// ---- the host's side

/// Room for short rows of `width` halves; with `piloted`, for any width, and for the pilot that chooses it.
template <class T, class W>
void prepare_filter(Run<T, W>& s, int width, bool piloted) {
  auto& few = s.ws.filter;
  if (piloted) few.pilot = allocate_pilot(s), width = widest;
  few.subspace = allocate_subspace(s, s.n, s.d);
  few.directions = allocate_directions(s, s.d);
  const int chunks = width / 8;
  few.x = s.template device<uint4>(NarrowMainloopSm80<widest>::padded_rows(s.n) * chunks);
  few.c = s.template device<uint4>(NarrowMainloopSm80<widest>::padded_columns(s.k) * chunks);
  few.square = s.template device<double>(s.n);
  few.threshold = s.template device<uint32_t>(s.n);
  few.candidate_rows = s.template device<int>(s.n);
  few.left = s.template device<int>(s.n);
  few.candidates = allocate_candidates(s, s.n);
  few.order = allocate_order(s, s.n, s.k);
  few.counters = s.template device<FilterCounters>(counted);
  few.counters_host = s.template pinned<FilterCounters>(counted);
}

/// Calls body.template operator()<width>() for the width of short rows.
template <class F>
void dispatch_width(const ProjectionFilter& few, const F& body) {
  dispatch<32, 48, 64, 96, 128>(few.width, body);
}

/// Directions and width, from `sample` of the points; `width`: of short rows, where no pilot chooses it.
template <class T, class W>
void find_projection(Run<T, W>& s, const T* rows, int sample, const Frame<T>& view, int width) {
  auto& few = s.ws.filter;
  find_directions(s.stream, rows, view, few.subspace, few.directions, sample, s.d);
  few.width = few.pilot.counts ? choose_width(s, rows, view, few.directions, few.pilot, sample, s.n, s.k, s.d) : width;
}

/// Short rows of these of the points, Rows::points.
template <class T, class W>
void project_rows(Run<T, W>& s, const Frame<T>& view, const RowRange& range) {
  const auto& few = s.ws.filter;
  if (few.width == 0) return;
  const T* rows = s.ws.rows.points;
  dispatch_width(few, [&]<int width>() {
    const int64_t padded = range.padded(NarrowMainloopSm80<width>::padded_rows(s.n), s.n);
    uint4* const x = few.x + size_t(range.first) * (width / 8);
    project_many<width>(
        s.stream, rows, view, few.directions, {.first = range.first, .count = range.count}, padded, s.d,
        WritePoints<width>{x, few.square + range.first, few.directions.defect, range.count, padded, s.d});
  });
}

/// Directions, width, and short rows of the points, Rows::points.
template <class T, class W>
void project_points(Run<T, W>& s, const Frame<T>& view, int width) {
  find_projection(s, s.ws.rows.points, s.n, view, width);
  project_rows(s, view, all_rows(s));
}

template <class T, class W>
void restart_filter(Run<T, W>& s) {
  auto& few = s.ws.filter;
  few.told = 0;
  if (few.width == 0) return;
  check(cudaMemsetAsync(few.counters, 0, counted * sizeof(FilterCounters), s.stream), "clearing the counts");
  check(cudaMemsetAsync(few.order.count, 0, s.k * sizeof(int), s.stream), "clearing the counts of guesses");
}

/// Where the iteration that has `doubts` counts, from 0.
template <class T, class W>
FilterCounters* next_filter_counters(Run<T, W>& s, const RefineCounters* refine_counters) {
  const auto& refine = s.ws.refinement;
  FilterCounters* const contest = s.ws.filter.counters + (refine_counters - refine.refine_counters);
  if (refine.done >= counted && refine.done <= loop_on_device)
    check(cudaMemsetAsync(contest, 0, sizeof *contest, s.stream), "clearing the counts");
  return contest;
}

/// The products of guess and contest, by warps: short rows of centroids lie one after another.
template <int width>
struct FilterSm80 {
  using Tile = NarrowMainloopSm80<width>;
  static int64_t padded_columns(int k) { return Tile::padded_columns(k); }
  /// Rows that are multiplied at a time: of a block, as the CPU device takes one after another.
  static int rows_at_once(int) { return Tile::rows; }
  /// Where eight halves of centroid j's short row are, from the 8 e-th on.
  static __device__ int64_t chunk(int j, int e) { return int64_t(j) * (width / 8) + e; }
  static __device__ uint4 halves(const uint4* c, int j, int e) { return c[chunk(j, e)]; }
  static WriteCentroids<width> keep(const ProjectionFilter& few, int k, int d) {
    return {few.c, few.directions.defect, k, padded_columns(k), d, few.centroid_square};
  }
  template <class T>
  static void guess(State<T>& s, const ProjectionFilter& few) {
    launch(max_bound_kernel<width>, blocks(s.n, Tile::rows), Tile::block, Tile::bytes, s.stream, few.x, few.c,
           few.candidates.guess, few.order, s.n, s.k);
  }
  template <class T, class Part = WholeProblem, class W>
  static void contest(Run<T, W>& s, const ProjectionFilter& few, FilterCounters* contest, const Part& part = {}) {
    launch(filter_kernel<width, Part>, blocks(s.n, Tile::rows), Tile::block, Tile::bytes + 3 * Tile::rows * sizeof(int),
           s.stream, few.x, few.c, few.threshold, few.candidates, few.order.row, few.candidate_rows, few.left, contest,
           s.label, s.n, s.k, part);
  }
};

/// The short rows of the centroids, guesses of all rows, and where each row's place in their order will be. `ordered`:
/// after the first iteration the update has seen to guesses and order.
template <template <int> class By, class T, class W>
void compute_guesses(Run<T, W>& s, const Frame<T>& view, bool ordered = false) {
  const auto& few = s.ws.filter;
  const auto& moved = s.ws.incremental;
  dispatch_width(few, [&]<int width>() {
    if (!few.shortened)
      project<width>(s.stream, s.c, view, few.directions, {.count = s.k, .dirty = moved.dirty},
                     By<width>::padded_columns(s.k), s.d, By<width>::keep(few, s.k, s.d));
    if (moved.done == 0) By<width>::guess(s, few);
  });
  if (moved.done > 0 && ordered) return;
  if (moved.done > 0)
    launch(previous_label_kernel, blocks(s.n, 256), 256, 0, s.stream, moved.previous_label, few.candidates.guess,
           few.order, s.n);
  launch(prefix_sum_kernel, 1, places_block, 0, s.stream, few.order, s.k);
}

/// Labels of all rows, which have thresholds, but for those that are left: few of them are on the list of scans then,
/// many on that of the contest. `keep`: what is kept of those that are compared.
template <template <int> class By, class T, class Keep, class W>
void filter_rows(Run<T, W>& s, FilterCounters* contest, RefineCounters* refine_counters, const Keep& keep) {
  const auto& few = s.ws.filter;
  dispatch_width(few, [&]<int width>() { By<width>::contest(s, few, contest); });
  launch(compare_kernel<T, Keep>, std::min(blocks(s.n, 8), 8 * s.device_info.multiprocessors), 256, 0, s.stream,
         s.ws.rows.points, s.c, few.candidates, few.candidate_rows, &contest->candidate_rows, keep, s.d);
  launch(route_overflow_kernel, 1, 256, 0, s.stream, few.left, contest, s.ws.refinement.undecided_pairs,
         refine_counters, s.ws.incremental.dirty, brute_force_rows_per_sm * s.device_info.multiprocessors, s.n);
}

/// Both, with the exact distance of each row between them.
template <template <int> class By = FilterSm80, class T, class W>
void assign_filtered(Run<T, W>& s, const Frame<T>& view, FilterCounters* contest, RefineCounters* refine_counters) {
  const auto& few = s.ws.filter;
  compute_guesses<By>(s, view);
  launch(set_threshold_kernel<T>, blocks(int64_t(s.n) * 32, 256), 256, 0, s.stream, s.ws.rows.points, s.c, view,
         few.candidates.guess, few.square, few.threshold, few.order, few.width, s.n, s.d);
  filter_rows<By>(s, contest, refine_counters, StoreLabel{s.label});
}

/// As fetch_refine_counters.
template <class T, class W>
void fetch_filter_counters(Run<T, W>& s) {
  const auto& few = s.ws.filter;
  if (few.width > 0)
    check(cudaMemcpyAsync(few.counters_host, few.counters,
                          std::min(s.ws.refinement.done, counted) * sizeof(FilterCounters), cudaMemcpyDeviceToHost,
                          s.stream),
          "downloading the counts");
}
template <class T, class W>
void report_filter_counters(Run<T, W>& s) {
  auto& few = s.ws.filter;
  FilterCounters all_overflow = {};
  all_overflow.left = s.n;
  for (; few.told < std::min(s.ws.refinement.done, counted); ++few.told) {
    const FilterCounters contest = few.width > 0 ? few.counters_host[few.told] : all_overflow;
    s.counters["halves of a short row"].push_back(few.width);
    s.counters["rows looked at"].push_back(few.width > 0 && few.bounded ? contest.exact_distances : s.n);
    s.counters["rows compared"].push_back(contest.candidate_rows);
    s.counters["candidates compared"].push_back(contest.candidates);
    s.counters["rows of all features"].push_back(contest.left);
    if (!few.parted) continue;
    s.counters["centroids that all rows meet"].push_back(s.k - contest.skipped_centroids);
    s.counters["products multiplied"].push_back(int64_t(s.n) * s.k -
                                                int64_t(contest.settled_rows) * contest.skipped_centroids);
  }
}

// ---- phases and a refusal that all who contest share

constexpr int by_pilot = -1;  // axis "width": the pilot chooses

/// Whether short rows may pay: whoever asks for a width gets it.
template <class T>
bool wants_filter(const State<T>& s) {
  const int width = s.axis("width");
  return width == by_pilot ? worth_a_pilot(s.k, s.d) : width > 0;
}

/// What earlier iterations learnt is forgotten.
template <class T, class W>
void reset_filtered(Run<T, W>& s) {
  reset_refinement(s);
  restart_incremental(s);
  restart_filter(s);
}

template <class T, class W>
void restart_filtered(Run<T, W>& s) {
  restart_rows(s);
  reset_filtered(s);
}

template <class T, class W>
void download_filtered(Run<T, W>& s) {
  fetch_move_counters(s);
  fetch_filter_counters(s);
  download_refined(s);
  report_moves(s);
  report_filter_counters(s);
}

inline std::string refuse_width(const Shape& p, const Axes& axes) {
  if (axes["width"] <= 0 || p.d <= most_projected) return "";
  return "bounds in a few directions are proven for " + std::to_string(most_projected) +
         " features at most, here are " + std::to_string(p.d) + ": --axis width=0 does without";
}

}  // namespace ladder
