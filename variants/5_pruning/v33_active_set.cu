// v30: a contest only between what has changed. The base does anew what a moved point touches, but every row still
// meets every centroid, which is most of its late iterations. A label that was proven in the last one can only change
// if its own centroid has moved, or another one has come nearer: rows of clusters that are not touched meet only
// touched centroids, which lie side by side for that. Others meet all (pruning/active_set.cuh). With t the share
// that is touched, 1 - (1 - t)^2 of the products are left. Labels and centroids are the base's, to the last bit.
//
// for cuda: 90a
#include "../common/overlap/overlapped_phases.cuh"

// After it, as in the base: so that ladder diff shows what changed, not what moved.
#include "../common/overlap/eager_assign.cuh"
#include "../common/overlap/filter_loop.cuh"

// What is new comes last, for the same reason.
#include "../common/pruning/active_set.cuh"

namespace {
using namespace ladder;

template <class T>
struct Workspace : FilteredState<T> {
  DistanceBounds bounds;
  ClusterOrder order;
  ChunkedUpload<T> chunks;
  GraphLoop loop;
  EagerAssignment eager;
  ActiveSet active;
};

template <class T>
void prepare(Run<T, Workspace<T>>& s) {
  prepare_eager(s);
  s.ws.incremental.dirty = allocate_dirty(s, s.k);
  s.ws.order.standing.share = s.axis("stands");
  prepare_active_set(s);
  prepare_loop(s);
}

template <class T>
void solve(Run<T, Workspace<T>>& s) {
  solve_filtered(s, [&] { assign_or_reuse<T, ActiveSetFilter>(s), update_active_set(s); });
}

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare<T>,
                                         .upload = upload_eager<T, ActiveSetFilter>,
                                         .restart = restart_active_set<T>,
                                         .assign = assign_or_reuse<T, ActiveSetFilter>,
                                         .update = update_active_set<T>,
                                         .solve = solve<T>,
                                         .download = download_eager<T>};
}  // namespace

LADDER_VARIANT(
        .id = "v33_active_set", .base = "v33_active_set",
        .idea = "rows of clusters that no point has joined or left meet only the centroids of those that one has",
        .expect =
            "some 0.3 of the base's 0.4 ms in a late iteration at kmcuda on an H200 are its contest. While one point "
            "in a hundred moves, 0.7 of the clusters are touched, and 0.9 of the products are left, which a launch "
            "more costs again: the contest stays whole, and to find that out takes 0.01 ms. While one in a thousand "
            "moves, 0.1 are touched, and a fifth is left: with its lists 0.1 ms. So a solve of 15 iterations gains "
            "nothing; of 300 iterations most are of the second kind, and take less than 0.25 ms each. A new algorithm: "
            "what the last iteration proved decides which pairs this one looks at",
        .shows = "solve", .source = "this project; v33_active_set, taken further",
        .arithmetic = {.form = Arithmetic::Form::exact},
        .axes = {{"width", {by_pilot, 0, 32, 48, 64, 96, 128}, by_pilot},
                 {"loose", {0, 3, 10, 30, 60}, 10},
                 {"share", {2, 3, 4, 6, 8, 12}, 6},
                 {"pieces", {1, 2, 4, 8, 12, 16, 32}, 12},
                 {"stands", {2, 4, 8, 16, 32, 64}, 8}},
        .prunes = true, .refuse = refuse_filtered_loop, .f32 = phases<float>, .f64 = phases<double>)
