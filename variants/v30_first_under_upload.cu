// v30: the first assignment while the points arrive. Since v28 the device has done what it can with each piece of the
// points before the next one is there, and half of the time it still waits for the copy engine. The initial centroids
// are known before any point is; so each piece is assigned to them, too (parts/first_ahead.cuh), and when the last one
// is, the solve begins with the sums. What was found is taken by the first assignment of a solve that begins with these
// very centroids, once: a solve that is begun again works it out as the base does. Labels and centroids are the base's,
// to the last bit.
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
        .id = "v30_first_under_upload", .base = "v29_device_loop",
        .idea = "the first assignment, of each piece of the points, while the next ones are copied",
        .expect =
            "the base's whole run at kmcuda on an H200 takes 20.4 ms: 9.66 the upload, of which the copy alone is 8.9 "
            "and the device works some 4, and 10.33 the solve, whose first iteration is about 1.5. Its guess of 0.36, "
            "exact distances of 0.18, contest of 0.34 and comparisons of 0.1 go under the copy, but for those of the "
            "last piece: nearly 1 ms less. The sums, 0.35, stay: their format is known when all points are. A new "
            "algorithm: labels are found before anybody asks for them, and believed where centroids and unit hold",
        .shows = "end_to_end", .source = "this project", .arithmetic = {.form = Arithmetic::Form::exact},
        .axes = {{"width", {by_pilot, 0, 32, 48, 64, 96, 128}, by_pilot},
                 {"loose", {0, 3, 10, 30, 60}, 10},
                 {"share", {2, 3, 4, 6, 8, 12}, 6},
                 {"pieces", {1, 2, 4, 8, 12, 16, 32}, 12}},
        .prunes = true, .refuse = refuse_contested_loop, .f32 = phases<float>, .f64 = phases<double>)
