// v38: the first iteration is filtered, too. The base has no guesses there and assigns all rows in all D features,
// though the bounds of short rows say which centroid is probably the nearest: the one with the largest bound. That is
// one more product, whose epilogue keeps an argmax (filter/first_guess.cu). A wrong guess costs time, never a label.
//
// for cuda: 90a
#include "../common/filter/first_guess.cuh"
#include "../common/projection/feature_selection.cuh"

namespace {
using namespace ladder;

template <class T>
struct Workspace : FeatureState<T> {
  float* variances = nullptr;  // d
};

template <class T>
void prepare(Run<T, Workspace<T>>& s) {
  const int width = s.axis("short_row_width");
  prepare_listed_rows(s, width > 0);
  prepare_incremental(s);
  prepare_order(s, SortState::after_any_move);
  if (width > 0) prepare_features_filter(s, width);
  s.ws.variances = s.template device<float>(s.d);
}

template <class T>
void upload(Run<T, Workspace<T>>& s) {
  upload_rows(s);
  quantize_full_dimension(s);
  choose_format(s, s.x);
  if (s.ws.filter.width == 0) return;
  select_features(s);
  shorten_points(s);
}

template <class T>
void assign(Run<T, Workspace<T>>& s) {
  if (s.ws.filter.width == 0) return assign_full_dimension(s);
  RefineCounters* const refine_counters = next_refine_counters(s);
  FilterCounters* const counters = filter_counters(s);
  shorten_centroids(s);
  make_first_guesses<FilterSm80>(s);
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

LADDER_VARIANT(
        .id = "v38_first_guess", .base = "v37_feature_filter",
        .idea = "the largest bound is the first guess, so the first iteration is filtered like all others",
        .expect =
            "where bounds are tight, the first iteration takes two products of 64 columns, 1.4 ms at N = 300,000 "
            "and K = 5,000 on an H200, in place of one of D, 2.6 ms at D = 408; where they are not, as on "
            "kmcuda, a guess is often wrong, nearly every row overflows, and these 1.4 ms are lost. Later "
            "iterations stay",
        .shows = "assign", .source = "this project", .arithmetic = {.form = Arithmetic::Form::exact},
        .axes = {{"short_row_width", {0, 32, 48, 64, 96, 128}, 64}}, .prunes = true, .refuse = refuse_filter,
        .f32 = phases<float>, .f64 = phases<double>)
