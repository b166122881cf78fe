// v27: most centroids are ruled out in a few features. A short row of halves holds the features with the largest
// variance and the length of the rest, so one product of 64 columns, not D, gives a rigorous upper bound of every score
// (filter/short_rows.cuh; proofs in docs/certificate.md). A row's guess is its previous label; the exact distance to it
// is folded into the product as a threshold, so a product that is not negative marks a candidate. Rows without
// candidates keep their guess, up to 15 candidates are compared exactly, and rows with more take the base's way in all
// D features, as all rows do in the first iteration.
//
// for cuda: 90a
#include "../common/projection/feature_selection.cuh"

namespace {
using namespace ladder;

template <class T>
struct Workspace : FeatureState<T> {};

template <class T>
void prepare(Run<T, Workspace<T>>& s) {
  const int width = s.axis("short_row_width");
  prepare_full_dimension(s, width > 0);
  prepare_incremental(s);
  prepare_order(s, SortState::after_any_move);
  if (width > 0) prepare_features_filter(s, width);
}

template <class T>
void upload(Run<T, Workspace<T>>& s) {
  upload_rows(s);
  quantize_full_dimension(s);
  if (s.ws.filter.width > 0) shorten_points(s);
  choose_format(s, s.x);
}

template <class T>
void assign(Run<T, Workspace<T>>& s) {
  if (s.ws.filter.width == 0) return assign_full_dimension(s);
  if (s.ws.incremental.done == 0) {  // no labels yet
    assign_full_dimension(s);
    return count_all_overflow(s);
  }
  RefineCounters* const refine_counters = next_refine_counters(s);
  FilterCounters* const counters = filter_counters(s);
  shorten_centroids(s);
  set_exact_thresholds(s);
  const auto multiply = [&](FilterCounters* counters) {
    FilterSm80::filter(s.ws.filter.width, s.stream, filter_operands(s, counters), FilterPart{});
  };
  filter_rows(s, counters, refine_counters, multiply, StoreLabel{s.label});
}

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare<T>,
                                         .upload = upload<T>,
                                         .restart = restart_filter<T>,
                                         .assign = assign<T>,
                                         .update = update_sorted<T>,
                                         .download = download_filter<T>};
}  // namespace

LADDER_VARIANT(.id = "v27_feature_filter", .base = "v26_cluster_order",
               .idea = "bounds from the features with the largest variance; exact distances only for candidates",
               .expect =
                   "little on kmcuda: its points lie near 30 directions that are spread over all 408 features, so 57 "
                   "features hold a seventh of the distances and nearly every row overflows: the base's time and 1 "
                   "ms more. A large gain where a few features carry the variance (images with dark borders, "
                   "unscaled tables). A new algorithm: bounds, thresholds and candidates",
               .shows = "solve", .source = "this project: docs/certificate.md",
               .arithmetic = {.form = Arithmetic::Form::exact},
               .axes = {{"short_row_width", {0, 32, 48, 64, 96, 128}, 64}}, .prunes = true, .refuse = refuse_filter,
               .f32 = phases<float>, .f64 = phases<double>)
