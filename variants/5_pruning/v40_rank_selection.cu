// v40: the number of directions is measured. A short row that is too narrow leaves many candidates, one that is too
// wide costs products for nothing, and where points fill all directions alike every width loses. Before the first
// iteration a pilot estimates the candidates of 256 points for each width, and takes the cheapest, or switches the
// filter off (projection/rank_selection.cuh). A wrong choice costs time, never a label.
//
// for cuda: 90a
#include "../common/projection/rank_selection.cuh"

namespace {
using namespace ladder;

template <class T>
struct Workspace : RankedState<T> {};

template <class T>
void assign(Run<T, Workspace<T>>& s) {
  assign_filtered<FilterSm80>(s);
}

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare_ranked<T>,
                                         .upload = upload_ranked<T>,
                                         .restart = restart_filter<T>,
                                         .assign = assign<T>,
                                         .update = update_sorted<T>,
                                         .download = download_filter<T>};
}  // namespace

LADDER_VARIANT(.id = "v40_rank_selection", .base = "v39_pca_projection",
               .idea = "a pilot on a sample chooses the width of short rows, or switches the filter off",
               .expect =
                   "on kmcuda the base's width is near the best: 1.1 times at most. On isotropic points the base "
                   "pays for a filter that decides nothing; here it is off: v34's time, and the pilot's 0.2 ms in "
                   "the upload",
               .shows = "assign", .source = "this project", .arithmetic = {.form = Arithmetic::Form::exact},
               .axes = {{"short_row_width", {by_pilot, 0, 32, 48, 64, 96, 128}, by_pilot}}, .prunes = true,
               .refuse = refuse_filter, .f32 = phases<float>, .f64 = phases<double>)
