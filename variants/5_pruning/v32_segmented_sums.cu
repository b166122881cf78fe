// v29: sums of neighbours. Where many points move, v25 adds up all of them anew, each of N x D coordinates by an
// atomic operation on 64 bits of its cluster's sum: it takes these as long as the labels, and where K is small most of
// them meet in the same few words. Here the points are put in the order of their labels first; then those of a cluster
// are neighbours, and runs of them are added up in registers (update/segmented.cuh). That is so much less that it
// pays as soon as one point in a few moves. And the order is the one that the next contest wants.
//
// for cuda: 90a
#include "../common/pruning/ordered_pipeline.cuh"

namespace {
using namespace ladder;

template <class T>
struct Workspace : FilteredState<T> {
  DistanceBounds bounds;
  ClusterOrder order;
};

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare_ordered<T>,
                                         .upload = upload_filtered<T>,
                                         .restart = restart_ordered<T>,
                                         .assign = assign_ordered<T>,
                                         .update = update_ordered<T>,
                                         .download = download_filtered<T>};
}  // namespace

LADDER_VARIANT(
        .id = "v32_segmented_sums", .base = "v31_distance_bounds",
        .idea = "points in the order of their labels: where many move, a cluster's are summed in registers",
        .expect =
            "the first update of v28 takes 0.76 ms at kmcuda on an H200, most of it 122 million atomics; put in order, "
            "read once and added up in registers the points take 0.25. In the next two iterations, in which a fifth to "
            "a half of the points move, 0.3 ms less; later ones stay. Where K is small, much more: blobs30's update by "
            "v27 takes 20 ms, and the points are read in 1. A new algorithm: points are sorted and added up in runs",
        .shows = "update", .counter = "global_atomics", .source = "W. Hillis and G. Steele, 1986: segmented sums",
        .arithmetic = {.form = Arithmetic::Form::exact},
        .axes = {{"width", {by_pilot, 0, 32, 48, 64, 96, 128}, by_pilot},
                 {"loose", {0, 3, 10, 30, 60}, 10},
                 {"share", {2, 3, 4, 6, 8, 12}, 6}},
        .prunes = true, .refuse = refuse_filtered, .f32 = phases<float>, .f64 = phases<double>)
