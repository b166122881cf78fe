// v35: most centroids are ruled out in a few features. A short row of halves holds the first features of a row and the
// length of the rest, so a product of 64 columns, not D, gives a rigorous upper bound of every score
// (filter/short_rows.cuh; proofs in docs/certificate.md). A row's guess is its previous label. The exact distance to it
// says which score a nearer centroid has at least; centroids whose bound reaches it are candidates. Rows without
// candidates keep their guess, up to 15 candidates are compared exactly, and rows with more take the base's way in all
// D features, as all rows do in the first iteration. The product is that of v24, with rows of 64 columns.
//
// for cuda: 90a
#include <array>
#include <numeric>

#include "../common/gemm/mainloop_sm80.cuh"
#include "../common/projection/feature_rows.cuh"

namespace {
using namespace ladder;

template <class T>
struct Workspace : FeatureState<T> {};

template <class T>
void prepare(Run<T, Workspace<T>>& s) {
  const int width = s.axis("short_row_width");
  prepare_listed_rows(s, width > 0);
  prepare_incremental(s);
  prepare_order(s, 0);
  if (width > 0) prepare_features_filter(s, width);
}

template <class T>
void upload(Run<T, Workspace<T>>& s) {
  upload_rows(s);
  quantize_full_dimension(s);
  choose_format(s, s.x);
  if (s.ws.filter.width == 0) return;
  std::array<int, widest> features;
  std::iota(features.begin(), features.end(), 0);
  to_device(s, s.ws.features, features.data(), widest, "choosing the first features");
  shorten_points(s);
}

using Tile = MainloopSm80<1>;

/// The candidates of each row: centroids other than the guess whose bound reaches the row's threshold.
__global__ void __launch_bounds__(Tile::block)
    find_candidates_kernel(Fp16Rows x, Fp16Rows c, const uint32_t* thresholds, FilterLists lists, int width, int n,
                           int k) {
  int* const found = dynamic_shared<int>() + Tile::bytes / sizeof(int);  // rows: number of candidates
  const int64_t begin = int64_t(blockIdx.x) * Tile::rows;
  const Tile tile;
  if (threadIdx.x < Tile::rows) found[threadIdx.x] = 0;
  float lowest[Tile::lane_rows];  // score that a candidate reaches
  int guess[Tile::lane_rows];
  for (int r = 0; r < Tile::lane_rows; ++r) {
    const int64_t i = min(begin + tile.row(r), int64_t(n) - 1);
    lowest[r] = score_to_reach(thresholds[i]), guess[r] = lists.candidates.guess[i];
  }
  __syncthreads();
  tile.multiply(x, c, n, k, width, [&](int first, const Tile::Products& bound) {
#pragma unroll  // a dynamically indexed array would go to local memory
    for (int r = 0; r < Tile::lane_rows; ++r) {
#pragma unroll
      for (int e = 0; e < 2 * Tile::column_fragments; ++e) {
        if (bound[r / 2][e / 2][r % 2 * 2 + e % 2] < lowest[r]) continue;
        const int j = first + tile.column(e / 2, e % 2), row = tile.row(r);
        if (begin + row >= n || j >= k || j == guess[r]) continue;
        const int before = atomicAdd(&found[row], 1);
        if (before < most_candidates)
          lists.candidates.list[(begin + row) * most_candidates + before] = j;
        else
          lowest[r] = std::numeric_limits<float>::infinity();  // an overflow row needs no more candidates
      }
    }
  });
  const int64_t i = begin + threadIdx.x;
  if (threadIdx.x < Tile::rows && i < n) lists.finish_row(int(i), lists.candidates.guess[i], found[threadIdx.x]);
}

template <class T>
void assign(Run<T, Workspace<T>>& s) {
  const auto& f = s.ws.filter;
  if (f.width == 0 || s.ws.sums.done == 0) return assign_full_dimension(s);  // at 0 iterations there are no labels
  RefineCounters* const refine_counters = next_refine_counters(s);
  FilterCounters* const counters = filter_counters(s);
  shorten_centroids(s);
  set_exact_thresholds(s);
  launch(find_candidates_kernel, blocks(s.n, Tile::rows), Tile::block, Tile::bytes + Tile::rows * sizeof(int), s.stream,
         Fp16Rows{{f.x}, f.width / 8}, Fp16Rows{{f.c}, f.width / 8}, f.threshold, filter_lists(s, counters), f.width,
         s.n, s.k);
  compare_candidates(s, counters, StoreLabel{s.label});
  assign_listed_rows(s, f.overflow, &counters->overflow, refine_counters);
}

template <class T>
void update(Run<T, Workspace<T>>& s) {
  const MoveCounters* const moves = list_moved(s);
  sort_by_cluster(s, moves);
  move_points(s, s.x, moves, FullUpdate{.order = s.ws.order.rows.row});
  divide_exact(s);
}

template <class T>
void download(Run<T, Workspace<T>>& s) {
  fetch_move_counters(s);
  download_refined(s);
  report_moves(s);
}

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare<T>,
                                         .upload = upload<T>,
                                         .restart = restart_filter<T>,
                                         .assign = assign<T>,
                                         .update = update<T>,
                                         .download = download<T>};
}  // namespace

LADDER_VARIANT(.id = "v35_short_rows", .base = "v34_cluster_order",
               .idea = "bounds from the first features and the length of the rest; exact distances only for candidates",
               .expect =
                   "no gain on kmcuda, where 57 of 408 features hold a seventh of the distances: nearly every row "
                   "overflows, and the bounds are 1.5 ms on top of the base on an H200. 300,000 x 5,000 products of 64 "
                   "columns take 0.3 ms of tensor cores at v24's rate, but a tile of 128 x 256 products has two steps "
                   "to hide an epilogue of 32,768 comparisons, which takes most of the time. A gain where the "
                   "first features carry the variance. A new algorithm: bounds, thresholds and candidates",
               .shows = "solve", .source = "this project: docs/certificate.md",
               .arithmetic = {.form = Arithmetic::Form::exact}, .axes = {{"short_row_width", {0, 32, 64, 96, 128}, 64}},
               .prunes = true, .refuse = refuse_filter, .f32 = phases<float>, .f64 = phases<double>)
