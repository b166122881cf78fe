// v36: a mainloop for rows that are short. The base copies 64 columns of points through shared memory for each tile of
// centroids, as if there were 408, and its epilogue compares every product with a threshold. Here a warp keeps the
// whole short rows of its 32 points in registers, and only centroids pass through shared memory
// (gemm/narrow_mainloop_sm80.cuh). The threshold is one more column of the product, so the sign of a product is the
// answer, and a warp ends a tile after one AND of all signs. Rows are read in the order of their guesses, so those of a
// warp have their candidates in the same tiles; and overflow rows are compared by brute force where they are few.
//
// for cuda: 90a
#include <array>
#include <numeric>

#include "../common/filter/filter_sm80.cuh"
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
  prepare_order(s, SortState::after_any_move);
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

template <class T>
void assign(Run<T, Workspace<T>>& s) {
  if (s.ws.filter.width == 0) return assign_full_dimension(s);
  if (s.ws.sums.done == 0) {  // no labels yet
    assign_full_dimension(s);
    return count_all_overflow(s);
  }
  RefineCounters* const refine_counters = next_refine_counters(s);
  FilterCounters* const counters = filter_counters(s);
  shorten_centroids(s);
  set_exact_thresholds(s);
  filter_all_rows<FilterSm80>(s, counters, refine_counters, StoreLabel{s.label});
}

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare<T>,
                                         .upload = upload<T>,
                                         .restart = restart_filter<T>,
                                         .assign = assign<T>,
                                         .update = update_sorted<T>,
                                         .download = download_filter<T>};
}  // namespace

LADDER_VARIANT(.id = "v36_narrow_mainloop", .base = "v35_short_rows",
               .idea = "points stay in registers, and the sign of a product says whether a centroid is a candidate",
               .expect =
                   "300,000 x 5,000 products of 64 columns take 1 ms on an H200 where the base's take 1.5 to 2: three "
                   "in four instructions of its epilogue compare, here an AND per product remains. On kmcuda nearly "
                   "every row overflows, and that time comes on top of v34's labels. A larger step: another mainloop",
               .shows = "assign", .source = "this project", .arithmetic = {.form = Arithmetic::Form::exact},
               .axes = {{"short_row_width", {0, 32, 48, 64, 96, 128}, 64}}, .prunes = true, .refuse = refuse_filter,
               .f32 = phases<float>, .f64 = phases<double>)
