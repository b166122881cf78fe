// v31: an iteration does what has changed. In late iterations one point in a hundred moves, but the base does as if all
// had: all are put in order anew, all clusters have new means and short rows, all points begin with new bounds. Here
// the order stands until many points have left their place in it (parts/neighbour_sums.cuh). And a point that moves
// touches two clusters: only these have new means and short rows, and only their points begin anew (parts/touched.cuh).
//
// for cuda: 90a
#include "parts/overlapped.cuh"

// After it, as in the base: so that ladder diff shows what changed, not what moved.
#include "parts/contested_loop.cuh"
#include "parts/first_ahead.cuh"

namespace {
using namespace ladder;

template <class T>
struct Own : Contested<T> {
  RowBounds bounds;
  Ordered order;
  Pieces<T> chunks;
  DeviceLoop loop;
  FirstAhead eager;
};

template <class T>
void prepare(Run<T, Own<T>>& s) {
  prepare_first_ahead(s);
  s.own.incremental.touched = take_touched(s, s.k);
  s.own.order.standing.share = s.axis("stands");
  prepare_loop(s);
}

template <class T>
void solve(Run<T, Own<T>>& s) {
  solve_contested(s, [&] { assign_first_ahead(s), update_ordered(s); });
}

template <class T>
constexpr Phases<T, Own<T>> phases{.prepare = prepare<T>,
                                   .upload = upload_first_ahead<T>,
                                   .restart = restart_first_ahead<T>,
                                   .assign = assign_first_ahead<T>,
                                   .update = update_ordered<T>,
                                   .solve = solve<T>,
                                   .download = download_first_ahead<T>};
}  // namespace

LADDER_VARIANT(
        .id = "v31_changed_only", .base = "v30_first_under_upload",
        .idea = "the order of the points stands while few have moved; only touched clusters have new means, short rows",
        .expect =
            "of some 500 us of a late iteration at kmcuda on an H200 the base puts points in order for 21, which here "
            "it does once in 37,500 moves: in few of its iterations with 2,700 to 12,000. So many touch nearly all of "
            "5,000 clusters: new means, short rows and bounds, 105 us, are the same there. They are saved where a "
            "solve goes on until hardly a point moves; but the contest stays, which is more than half of it",
        .shows = "solve", .source = "this project; v25_delta_update, taken further",
        .arithmetic = {.form = Arithmetic::Form::exact},
        .axes = {{"width", {by_pilot, 0, 32, 48, 64, 96, 128}, by_pilot},
                 {"loose", {0, 3, 10, 30, 60}, 10},
                 {"share", {2, 3, 4, 6, 8, 12}, 6},
                 {"pieces", {1, 2, 4, 8, 12, 16, 32}, 12},
                 {"stands", {2, 4, 8, 16, 32, 64}, 8}},
        .prunes = true, .refuse = refuse_contested_loop, .f32 = phases<float>, .f64 = phases<double>)
