// v43: a full re-sum adds runs in registers. Where most points moved, the base adds each of N x D coordinates by a
// 64-bit atomic to its cluster's sum: that takes as long as the labels, and where K is small most atomics contend for
// few words. The points are sorted by cluster already (v34), so a thread sums one feature over a run of equal labels in
// registers, and one atomic adds the run (update/segmented.cuh). That is so much cheaper that it pays as soon as one
// point in six moves.
//
// for cuda: 90a
#include "../common/pruning/distance_bounds.cuh"
#include "../common/update/segmented.cuh"

namespace {
using namespace ladder;

template <class T>
struct Workspace : BoundedState<T> {};

template <class T>
void prepare(Run<T, Workspace<T>>& s) {
  prepare_bounds(s);
  s.ws.sums.full_update_share = s.axis("full_update_share");
}

template <class T>
void assign(Run<T, Workspace<T>>& s) {
  assign_with_bounds(s);
}

template <class T>
void update(Run<T, Workspace<T>>& s) {
  move_or_sum_segments(s, s.x, list_and_sort(s));
  step_to_means(s);
}

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare<T>,
                                         .upload = upload_ranked<T>,
                                         .restart = restart_bounds<T>,
                                         .assign = assign<T>,
                                         .update = update<T>,
                                         .download = download_filter<T>};
}  // namespace

LADDER_VARIANT(.id = "v43_segmented_sums", .base = "v42_distance_bounds",
               .idea = "a full re-sum adds runs of a cluster's points in registers, one atomic per run",
               .expect =
                   "the first update of the base takes 0.76 ms at kmcuda on an H200, most of it 122 million atomics; "
                   "read once and summed in registers the points take 0.25. In the next two iterations, in which a "
                   "fifth to a half of the points move, 0.3 ms less; later ones stay. Where K is small, much more: "
                   "blobs30's update takes 20 ms in the base, and the points are read in 1",
               .shows = "update", .counter = "global_atomics",
               .source = "W. Hillis and G. Steele, 1986: segmented sums",
               .arithmetic = {.form = Arithmetic::Form::exact},
               .axes = {{"short_row_width", {by_pilot, 0, 32, 48, 64, 96, 128}, by_pilot},
                        {"slack_permille", {0, 3, 10, 30, 60}, 30},
                        {"full_update_share", {2, 3, 4, 6, 8, 12}, 6}},
               .prunes = true, .refuse = refuse_filter, .f32 = phases<float>, .f64 = phases<double>)
