// v32: the loop goes to where its data is. So far the host keeps it: after each iteration it has changed labels
// counted, waits for the count, asks whether the solve ends, and launches the next iteration's kernels, the first of
// which the device waits for. Here an iteration is captured once, as the body of a loop in a graph
// (overlap/graph_loop.cuh); a kernel at its end asks the same question of the same count, which the update has
// anyway, and the host hears of nothing but the end. Labels and centroids are the base's, to the last bit.
//
// for cuda: 90a
#include "../common/overlap/overlapped_phases.cuh"

// After it, as in the base: so that ladder diff shows what changed, not what moved.
#include "../common/overlap/filter_loop.cuh"

namespace {
using namespace ladder;

template <class T>
struct Workspace : FilteredState<T> {
  DistanceBounds bounds;
  ClusterOrder order;
  ChunkedUpload<T> chunks;
  GraphLoop loop;
};

template <class T>
void prepare(Run<T, Workspace<T>>& s) {
  prepare_overlapped(s);
  prepare_loop(s);
}

template <class T>
void solve(Run<T, Workspace<T>>& s) {
  solve_filtered(s, [&] { assign_ordered(s), update_ordered(s); });
}

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare<T>,
                                         .upload = upload_overlapped<T>,
                                         .restart = restart_overlapped<T>,
                                         .assign = assign_ordered<T>,
                                         .update = update_ordered<T>,
                                         .solve = solve<T>,
                                         .download = download_overlapped<T>};
}  // namespace

LADDER_VARIANT(
        .id = "v35_graph_loop", .base = "v34_overlapped_upload",
        .idea = "the loop and its stop rule on the device: one iteration captured in a graph that repeats itself",
        .expect =
            "an iteration of some 20 launches ends with a count of labels, a copy of 8 bytes, a wait, and a first "
            "launch into an idle stream: some 30 us in all. v27's iterations at kmcuda on an H200 take 0.95 to 2.9 "
            "ms: "
            "1 to 3 %; of its 97 us at wine_k900 it is nearly half, for there the gaps between kernels shrink as well. "
            "A larger step: a loop has a graph, a history and a rule",
        .shows = "solve", .source = "CUDA 12.4: conditional nodes of graphs",
        .arithmetic = {.form = Arithmetic::Form::exact},
        .axes = {{"width", {by_pilot, 0, 32, 48, 64, 96, 128}, by_pilot},
                 {"loose", {0, 3, 10, 30, 60}, 10},
                 {"share", {2, 3, 4, 6, 8, 12}, 6},
                 {"pieces", {1, 2, 4, 8, 12, 16, 32}, 12}},
        .prunes = true, .refuse = refuse_filtered_loop, .f32 = phases<float>, .f64 = phases<double>)
