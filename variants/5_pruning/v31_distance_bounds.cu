// v28: no look at a point of which enough is known. v27 works out the exact distance of each point to its guess in
// each iteration, which reads all N x D coordinates, though its products need no more than a bound of it. Such bounds
// are at hand: the distance when it was last exact, and the way the centroid has gone since; and the short rows of both
// (pruning/distance_bounds.cuh). Where they leave little room the threshold is theirs, which is a little wider: a few
// more candidates come through, and whoever is compared with them has an exact distance again.
//
// for cuda: 90a
#include "../common/pruning/pipeline.cuh"

// After it, as in the base: so that ladder diff shows what changed, not what moved.
#include "../common/pruning/distance_bounds.cuh"

namespace {
using namespace ladder;

template <class T>
struct Workspace : FilteredState<T> {
  DistanceBounds bounds;
};

template <class T>
void assign(Run<T, Workspace<T>>& s) {
  assign_with_bounds(s, false);
}

template <class T>
void update(Run<T, Workspace<T>>& s) {
  move_points(s, s.x, list_moved(s));
  step_to_means(s);
}

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare_bounds<T>,
                                         .upload = upload_filtered<T>,
                                         .restart = restart_bounds<T>,
                                         .assign = assign<T>,
                                         .update = update<T>,
                                         .download = download_filtered<T>};
}  // namespace

LADDER_VARIANT(
        .id = "v31_distance_bounds", .base = "v30_filter_wgmma",
        .idea =
            "the distance of most rows is known well enough from their old one and their short ones: they are not read",
        .expect =
            "the exact step reads all points, 0.17 of the 0.6 ms of a late iteration of v27 at kmcuda on an H200; of "
            "short rows, a tenth as long, 0.03 remain, and a few more candidates to compare. Where few directions have "
            "little of the distance, rows are read until centroids hardly move: no loss, and little gain. A new "
            "algorithm: distances are left out where bounds will do",
        .shows = "solve", .counter = "dram_bytes", .source = "C. Elkan, 2003: an upper bound that drifts",
        .arithmetic = {.form = Arithmetic::Form::exact},
        .axes = {{"width", {by_pilot, 0, 32, 48, 64, 96, 128}, by_pilot}, {"loose", {0, 3, 10, 30, 60}, 10}},
        .prunes = true, .refuse = refuse_filtered, .f32 = phases<float>, .f64 = phases<double>)
