// v44: an iteration does what has changed. Late in a solve one point in a hundred moves, but the base compares every
// row with every centroid, sorts all points, divides all sums and projects all centroids. A point that moves makes two
// clusters dirty (pruning/dirty_clusters.cuh). Clean clusters keep their means and short rows, and their points their
// thresholds; the order stays until many points have left it. And a label that was proven in the last iteration can
// only change if its own centroid has moved, or another one has come nearer: rows of clean clusters meet only dirty
// centroids, which are copied side by side (pruning/active_set.cuh). With t the share of dirty clusters, 1 - (1 - t)^2
// of the products remain.
//
// for cuda: 90a
#include "../common/pruning/active_set.cuh"

namespace {
using namespace ladder;

template <class T>
struct Workspace : ActiveState<T> {};

template <class T>
void assign(Run<T, Workspace<T>>& s) {
  assign_active_set(s);
}

template <class T>
void update(Run<T, Workspace<T>>& s) {
  update_active_set(s);
}

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare_active_set<T>,
                                         .upload = upload_ranked<T>,
                                         .restart = restart_active_set<T>,
                                         .assign = assign<T>,
                                         .update = update<T>,
                                         .download = download_active_set<T>};
}  // namespace

LADDER_VARIANT(.id = "v44_active_set", .base = "v43_segmented_sums",
               .idea = "rows of clusters that no point joined or left meet only the centroids of clusters that one did",
               .expect =
                   "some 0.3 of the base's 0.4 ms in a late iteration at kmcuda on an H200 are its filter. While one "
                   "point in a hundred moves, 0.7 of the clusters are dirty and 0.9 of the products remain, which a "
                   "launch more costs again: the filter stays whole, and the sort is saved, 0.02 ms. While one in a "
                   "thousand moves, a tenth is dirty and a fifth of the products remains: 0.1 ms. So a solve of 15 "
                   "iterations gains little; of 300 iterations most are of the second kind, and take less than 0.25 "
                   "ms each. A new algorithm: what the last iteration proved decides which pairs this one compares",
               .shows = "solve", .source = "this project; v33_incremental_update, taken further",
               .arithmetic = {.form = Arithmetic::Form::exact},
               .axes = {{"short_row_width", {by_pilot, 0, 32, 48, 64, 96, 128}, by_pilot},
                        {"slack_permille", {0, 3, 10, 30, 60}, 30},
                        {"full_update_share", {2, 3, 4, 6, 8, 12}, 6},
                        {"resort_share", {2, 4, 8, 16, 32, 64}, 8}},
               .prunes = true, .refuse = refuse_filter, .f32 = phases<float>, .f64 = phases<double>)
