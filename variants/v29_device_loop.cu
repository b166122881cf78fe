// v29: the loop goes to where its data is. So far the host keeps it: after each iteration it has changed labels
// counted, waits for the count, asks whether the solve ends, and launches the next iteration's kernels, the first of
// which the device waits for. Here an iteration is captured once, as the body of a loop in a graph
// (parts/device_loop.cuh); a kernel at its end asks the same question of the same count, which the update has
// anyway, and the host hears of nothing but the end. Labels and centroids are the base's, to the last bit.
//
// for cuda: 90a
#include "parts/overlapped.cuh"

// After it, as in the base: so that ladder diff shows what changed, not what moved.
#include "parts/contested_loop.cuh"

namespace {
using namespace ladder;

template <class T>
struct Own : Contested<T> {
  RowBounds bounds;
  Ordered order;
  Pieces<T> chunks;
  DeviceLoop loop;
};

template <class T>
void prepare(Run<T, Own<T>>& s) {
  prepare_overlapped(s);
  prepare_loop(s);
}

template <class T>
void solve(Run<T, Own<T>>& s) {
  solve_contested(s, [&] { assign_ordered(s), update_ordered(s); });
}

template <class T>
constexpr Phases<T, Own<T>> phases{.prepare = prepare<T>,
                                   .upload = upload_overlapped<T>,
                                   .restart = restart_overlapped<T>,
                                   .assign = assign_ordered<T>,
                                   .update = update_ordered<T>,
                                   .solve = solve<T>,
                                   .download = download_overlapped<T>};
}  // namespace

LADDER_VARIANT(
        .id = "v29_device_loop", .base = "v28_overlapped_upload",
        .idea = "the loop and its stop rule on the device: one iteration captured in a graph that repeats itself",
        .expect =
            "an iteration of some 20 launches ends with a count of labels, a copy of 8 bytes, a wait, and a first "
            "launch into an idle stream: some 30 us in all. v26b's iterations at kmcuda on an H200 take 0.95 to 2.9 "
            "ms: "
            "1 to 3 %; of its 97 us at wine_k900 it is nearly half, for there the gaps between kernels shrink as well. "
            "A larger step: a loop has a graph, a history and a rule",
        .shows = "solve", .source = "CUDA 12.4: conditional nodes of graphs",
        .arithmetic = {.form = Arithmetic::Form::exact},
        .axes = {{"width", {by_pilot, 0, 32, 48, 64, 96, 128}, by_pilot},
                 {"loose", {0, 3, 10, 30, 60}, 10},
                 {"share", {2, 3, 4, 6, 8, 12}, 6},
                 {"pieces", {1, 2, 4, 8, 12, 16, 32}, 12}},
        .prunes = true, .refuse = refuse_contested_loop, .f32 = phases<float>, .f64 = phases<double>)
