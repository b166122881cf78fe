// v42: rows whose distance is known well enough are not read. The base computes the exact distance of each point to its
// guess in each iteration, which reads all N x D coordinates, though the threshold needs no more than an upper bound.
// Two bounds are at hand: the distance when it was last exact plus the path of the centroid since, and the interval
// that both short rows give (pruning/distance_bounds.cuh). Where they are tight the threshold is theirs. It is a little
// wider, so a few more candidates come through; a row that is compared has an exact distance again.
//
// for cuda: 90a
#include "../common/pruning/distance_bounds.cuh"

namespace {
using namespace ladder;

template <class T>
struct Workspace : BoundedState<T> {};

template <class T>
void assign(Run<T, Workspace<T>>& s) {
  assign_with_bounds(s);
}

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare_bounds<T>,
                                         .upload = upload_ranked<T>,
                                         .restart = restart_bounds<T>,
                                         .assign = assign<T>,
                                         .update = update_with_bounds<T>,
                                         .download = download_filter<T>};
}  // namespace

LADDER_VARIANT(.id = "v42_distance_bounds", .base = "v41_filter_wgmma",
               .idea = "thresholds from the previous distance and the short rows: most rows of X are not read",
               .expect =
                   "exact distances read all points, 0.17 of the 0.6 ms of a late iteration of the base at kmcuda on "
                   "an H200; short rows are a tenth as long: 0.03 remain, and a few more candidates to compare. "
                   "Where few directions have little of the distance, rows are read until centroids hardly move: no "
                   "loss, and little gain. A new algorithm: bounds in place of distances",
               .shows = "solve", .counter = "dram_bytes", .source = "C. Elkan, 2003: an upper bound that drifts",
               .arithmetic = {.form = Arithmetic::Form::exact},
               .axes = {{"short_row_width", {by_pilot, 0, 32, 48, 64, 96, 128}, by_pilot},
                        {"slack_permille", {0, 3, 10, 30, 60}, 30}},
               .prunes = true, .refuse = refuse_filter, .f32 = phases<float>, .f64 = phases<double>)
