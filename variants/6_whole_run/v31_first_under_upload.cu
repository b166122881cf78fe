// v31: the first assignment while the points arrive. Since v31 the device has done what it can with each piece of the
// points before the next one is there, and half of the time it still waits for the copy engine. The initial centroids
// are known before any point is; so each piece is assigned to them, too (overlap/eager_assign.cuh), and when the last
// one is, the solve begins with the sums. What was found is taken by the first assignment of a solve that begins with
// these very centroids, once: a solve that is begun again works it out as the base does. Labels and centroids are the
// base's, to the last bit.
//
// for cuda: 90a
#include "../common/overlap/overlapped_phases.cuh"

// After it, as in the base: so that ladder diff shows what changed, not what moved.
#include "../common/overlap/eager_assign.cuh"
#include "../common/overlap/filter_loop.cuh"

namespace {
using namespace ladder;

template <class T>
struct Workspace : FilteredState<T> {
  DistanceBounds bounds;
  ClusterOrder order;
  ChunkedUpload<T> chunks;
  GraphLoop loop;
  EagerAssignment eager;
};

template <class T>
void prepare(Run<T, Workspace<T>>& s) {
  prepare_eager(s);
  prepare_loop(s);
}

template <class T>
void solve(Run<T, Workspace<T>>& s) {
  solve_filtered(s, [&] { assign_or_reuse(s), update_ordered(s); });
}

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare<T>,
                                         .upload = upload_eager<T>,
                                         .restart = restart_eager<T>,
                                         .assign = assign_or_reuse<T>,
                                         .update = update_ordered<T>,
                                         .solve = solve<T>,
                                         .download = download_eager<T>};
}  // namespace

LADDER_VARIANT(
        .id = "v31_first_under_upload", .base = "v32_graph_loop",
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
        .prunes = true, .refuse = refuse_filtered_loop, .f32 = phases<float>, .f64 = phases<double>)
