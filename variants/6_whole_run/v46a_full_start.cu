// v46a: the first assignment may take all features. A first assignment has no previous labels: the base multiplies the
// short rows once for guesses and once for candidates, reads every point for its distance to the guess, and compares
// most rows, as centroids that are points have long rests. With some hundred clusters that takes longer than the
// product in all features, which is short. Here the pilot, which counts candidates at that age anyway, decides about
// the first assignment apart from the others (projection/rank_selection.cuh). One that was done under the upload is
// reused. A wrong choice costs time, never a label.
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

constexpr int decided = -1;  // axis "full_start": by the pilot; 0: never, 1: always

template <class T>
bool starts_full(Run<T, Workspace<T>>& s) {
  const int wanted = s.axis("full_start");
  if (s.ws.sums.done > 0 || s.ws.eager.reuse || wanted == 0) return false;
  return wanted == 1 || full_start_is_cheaper(s.ws.pilot, s.ws.filter.width, s.n, s.k, s.d);
}

template <class T>
void assign(Run<T, Workspace<T>>& s) {
  if (starts_full(s)) return assign_full_dimension(s);
  assign_or_reuse(s);
}

template <class T>
void update(Run<T, Workspace<T>>& s) {
  update_active_set(s);
}

template <class T>
void solve(Run<T, Workspace<T>>& s) {
  solve_filtered(s, [&] { assign(s), update_active_set(s); });
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

LADDER_VARIANT(
        .id = "v46a_full_start", .base = "v46_graph_loop",
        .idea = "a pilot decides whether the first assignment takes all features",
        .expect =
            "at 300,000 x 408, K = 777 on an H200 the base's first assignment takes 0.82 ms: 0.12 for guesses, 0.23 "
            "for thresholds, 0.16 for the product of 128 halves, 0.27 for 0.37 million candidates. In all features "
            "v31 takes 0.445. The second iteration then has no exact distances to start from and reads 300,000 points "
            "instead of 128,000 for its thresholds, 0.1 ms more. 0.27 ms of 6.89 for twelve iterations: 0.55 ms each. "
            "With K = 5,000 the product in all features is six times as long, and the base's start stays",
        .shows = "solve", .source = "this project", .arithmetic = {.form = Arithmetic::Form::exact},
        .axes = {{"short_row_width", {by_pilot, 0, 32, 48, 64, 96, 128}, by_pilot},
                 {"slack_permille", {0, 3, 10, 30, 60}, 30},
                 {"full_update_share", {2, 3, 4, 6, 8, 12}, 6},
                 {"resort_share", {2, 4, 8, 16, 32, 64}, 8},
                 {"upload_chunks", {1, 2, 4, 8, 12, 16, 32}, 12},
                 {"full_start", {decided, 0, 1}, decided}},
        .prunes = true, .refuse = refuse, .f32 = phases<float>, .f64 = phases<double>)
