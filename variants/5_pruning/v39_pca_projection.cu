// v39: principal directions in place of features. Points that lie near a subspace of some dozen dimensions, as most
// real ones do, are told apart in its coordinates, however the subspace is turned against the axes. The directions are
// found on the device when the points arrive (projection/pca.cuh), and short rows are projections
// (projection/projection.cuh).
//
// for cuda: 90a
#include "../common/projection/pca.cuh"

namespace {
using namespace ladder;

template <class T>
struct Workspace : PcaState<T> {};

template <class T>
void prepare(Run<T, Workspace<T>>& s) {
  const int width = s.axis("short_row_width");
  prepare_listed_rows(s, width > 0);
  prepare_incremental(s);
  prepare_order(s, SortState::after_any_move);
  if (width > 0) prepare_pca(s, width);
  s.ws.filter.width = width;
}

template <class T>
void upload(Run<T, Workspace<T>>& s) {
  upload_rows(s);
  quantize_full_dimension(s);
  if (s.ws.filter.width > 0) find_directions(s, s.x, s.n);
  project_rows(s, all_rows(s));
  choose_format(s, s.x);
}

template <class T>
void assign(Run<T, Workspace<T>>& s) {
  assign_filtered<FilterSm80>(s);
}

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare<T>,
                                         .upload = upload<T>,
                                         .restart = restart_filter<T>,
                                         .assign = assign<T>,
                                         .update = update_sorted<T>,
                                         .download = download_filter<T>};
}  // namespace

LADDER_VARIANT(.id = "v39_pca_projection", .base = "v38_first_guess",
               .idea = "short rows along the principal directions of the points",
               .expect =
                   "products of 64 columns in place of D = 408, twice in the first iteration, else once, and one "
                   "exact distance per point: 0.5 to 0.8 ms at kmcuda on an H200, an eighth of v33's labels; upload "
                   "takes some 4 ms more. Where the variance is the same in all directions every row overflows: "
                   "v33's time and more. A larger step: subspace iteration and projection",
               .shows = "assign", .source = "N. Halko, P. G. Martinsson, J. A. Tropp, 2011",
               .arithmetic = {.form = Arithmetic::Form::exact},
               .axes = {{"short_row_width", {0, 32, 48, 64, 96, 128}, 64}}, .prunes = true, .refuse = refuse_filter,
               .f32 = phases<float>, .f64 = phases<double>)
