// v46: the loop runs on the device. So far the host keeps it: after each iteration it reads the count of changed
// labels, evaluates the stop rule and launches the next iteration's kernels, while the device idles. Here an iteration
// is captured once, as the body of a WHILE node of a CUDA graph (overlap/graph_loop.cuh); a kernel at its end evaluates
// the stop rule, and the host waits once. Labels and centroids are the base's, to the last bit.
//
// for cuda: 90a
#include "../common/overlap/eager_assign.cuh"
#include "../common/overlap/graph_loop.cuh"

namespace {
using namespace ladder;

template <class T>
struct Workspace : OverlappedState<T> {
  GraphLoop loop;
};

template <class T>
void prepare(Run<T, Workspace<T>>& s) {
  prepare_overlapped(s);
  prepare_loop(s);
}

template <class T>
void assign(Run<T, Workspace<T>>& s) {
  assign_or_reuse(s);
}

template <class T>
void update(Run<T, Workspace<T>>& s) {
  update_active_set(s);
}

template <class T>
void solve(Run<T, Workspace<T>>& s) {
  solve_filtered(s, [&] { assign_or_reuse(s), update_active_set(s); });
}

std::string refuse(const Shape& p, const Device& device, const Axes& axes) {
  const std::string why = refuse_filter(p, device, axes);
  return why.empty() ? refuse_loop() : why;
}

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare<T>,
                                         .upload = upload_overlapped<T>,
                                         .restart = restart_overlapped<T>,
                                         .assign = assign<T>,
                                         .update = update<T>,
                                         .solve = solve<T>,
                                         .download = download_overlapped<T>};
}  // namespace

LADDER_VARIANT(.id = "v46_graph_loop", .base = "v45_overlapped_upload",
               .idea =
                   "the loop and its stop rule on the device: one iteration captured in a graph that repeats itself",
               .expect =
                   "an iteration of some 20 launches ends with a count of labels, a copy of 8 bytes, a wait, and a "
                   "first launch into an idle stream: some 30 us in all. Iterations at kmcuda on an H200 take 0.4 to "
                   "2 ms: 2 to 7 %; of 97 us at wine_k900 it is nearly half, as the gaps between kernels shrink as "
                   "well. A larger step: a loop has a graph, a history and a rule",
               .shows = "solve", .source = "CUDA 12.4: conditional nodes of graphs",
               .arithmetic = {.form = Arithmetic::Form::exact},
               .axes = {{"short_row_width", {by_pilot, 0, 32, 48, 64, 96, 128}, by_pilot},
                        {"slack_permille", {0, 3, 10, 30, 60}, 30},
                        {"full_update_share", {2, 3, 4, 6, 8, 12}, 6},
                        {"resort_share", {2, 4, 8, 16, 32, 64}, 8},
                        {"upload_chunks", {1, 2, 4, 8, 12, 16, 32}, 12}},
               .prunes = true, .refuse = refuse, .f32 = phases<float>, .f64 = phases<double>)
