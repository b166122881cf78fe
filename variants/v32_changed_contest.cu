// v32: a contest only between what has changed. The base does anew what a moved point touches, but every row still
// meets every centroid, which is most of its late iterations. A label that was proven in the last one can only change
// if its own centroid has moved, or another one has come nearer: rows of clusters that are not touched meet only
// touched centroids, which lie side by side for that. Others meet all (parts/changed_contest.cuh). With t the share
// that is touched, 1 - (1 - t)^2 of the products are left. Labels and centroids are the base's, to the last bit.
//
// for cuda: 90a
#include "parts/overlapped.cuh"

// After it, as in the base: so that ladder diff shows what changed, not what moved.
#include "parts/contested_loop.cuh"
#include "parts/first_ahead.cuh"

// What is new comes last, for the same reason.
#include "parts/changed_contest.cuh"

namespace {
using namespace ladder;

template <class T>
struct Own : Contested<T> {
  RowBounds bounds;
  Ordered order;
  Pieces<T> chunks;
  DeviceLoop loop;
  FirstAhead eager;
  ChangedContest active;
};

template <class T>
void prepare(Run<T, Own<T>>& s) {
  prepare_first_ahead(s);
  s.own.incremental.touched = take_touched(s, s.k);
  s.own.order.standing.share = s.axis("stands");
  prepare_changed_contest(s);
  prepare_loop(s);
}

template <class T>
void solve(Run<T, Own<T>>& s) {
  solve_contested(s, [&] { assign_first_ahead<T, ChangedContestants>(s), update_changed_contest(s); });
}

template <class T>
constexpr Phases<T, Own<T>> phases{.prepare = prepare<T>,
                                   .upload = upload_first_ahead<T, ChangedContestants>,
                                   .restart = restart_changed_contest<T>,
                                   .assign = assign_first_ahead<T, ChangedContestants>,
                                   .update = update_changed_contest<T>,
                                   .solve = solve<T>,
                                   .download = download_first_ahead<T>};
}  // namespace

LADDER_VARIANT(
        .id = "v32_changed_contest", .base = "v31_changed_only",
        .idea = "rows of clusters that no point has joined or left meet only the centroids of those that one has",
        .expect =
            "some 0.3 of the base's 0.4 ms in a late iteration at kmcuda on an H200 are its contest. While one point "
            "in a hundred moves, 0.7 of the clusters are touched, and 0.9 of the products are left, which a launch "
            "more costs again: the contest stays whole, and to find that out takes 0.01 ms. While one in a thousand "
            "moves, 0.1 are touched, and a fifth is left: with its lists 0.1 ms. So a solve of 15 iterations gains "
            "nothing; of 300 iterations most are of the second kind, and take less than 0.25 ms each. A new algorithm: "
            "what the last iteration proved decides which pairs this one looks at",
        .shows = "solve", .source = "this project; v31_changed_only, taken further",
        .arithmetic = {.form = Arithmetic::Form::exact},
        .axes = {{"width", {by_pilot, 0, 32, 48, 64, 96, 128}, by_pilot},
                 {"loose", {0, 3, 10, 30, 60}, 10},
                 {"share", {2, 3, 4, 6, 8, 12}, 6},
                 {"pieces", {1, 2, 4, 8, 12, 16, 32}, 12},
                 {"stands", {2, 4, 8, 16, 32, 64}, 8}},
        .prunes = true, .refuse = refuse_contested_loop, .f32 = phases<float>, .f64 = phases<double>)
