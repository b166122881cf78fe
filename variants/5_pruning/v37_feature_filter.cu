// v37: the features that tell points apart. The base takes the first ones, whatever they hold: in an image with a dark
// border, nothing. The length of the rest then holds nearly all of the distance, and bounds exclude no centroid. Here
// the short rows have the features with the largest variance, measured on a sample when the points arrive.
//
// for cuda: 90a
#include "../common/filter/filter_sm80.cuh"
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

LADDER_VARIANT(.id = "v37_feature_filter", .base = "v36_narrow_mainloop",
               .idea = "short rows of the features with the largest variance",
               .expect =
                   "little on kmcuda: its points lie near 30 directions that are spread over all 408 features, so 57 "
                   "features hold a seventh of the distances, whichever they are, and nearly every row overflows. A "
                   "large gain where a few features carry the variance (images with dark borders, unscaled tables). "
                   "The upload takes 0.1 ms more",
               .shows = "solve", .source = "this project", .arithmetic = {.form = Arithmetic::Form::exact},
               .axes = {{"short_row_width", {0, 32, 48, 64, 96, 128}, 64}}, .prunes = true, .refuse = refuse_filter,
               .f32 = phases<float>, .f64 = phases<double>)
