// v51: what does not depend on each other runs at the same time. A late iteration of the base is a chain of 20 kernels,
// and half of them find nothing to do: five for rows with too many candidates, four for a full re-sum. Each takes 3 us
// all the same, one after the other. Here the chain has two side branches (arrival/side_branch.cuh), which the graph of
// the loop keeps as branches: rows with too many candidates beside the comparison of the other rows' candidates, and
// the order and the full re-sum beside the sums of the points that moved. Labels and centroids are the base's.
//
// for cuda: 90a
#include "../common/arrival/side_branch.cuh"
#include "../common/arrival/sums_ahead.cuh"
#include "../common/overlap/graph_loop.cuh"

namespace {
using namespace ladder;

template <class T>
struct Workspace : OverlappedState<T> {
  GraphLoop loop;
  SampledUnit unit;
  SumsAhead ahead;
  std::shared_ptr<SideBranch> branch;
};

template <class T>
void prepare(Run<T, Workspace<T>>& s) {
  prepare_arrival(s);
  prepare_loop(s);
  prepare_unit(s);
  prepare_sums_ahead(s);
  s.ws.branch = std::make_shared<SideBranch>();
  s.ws.chunks.taper = s.axis("upload_taper");
}

template <class T>
void upload(Run<T, Workspace<T>>& s) {
  upload_overlapped(
      s, [&](const T* sample, int count) { find_projection_and_unit(s, sample, count); },
      [&](const RowRange& range) { assign_ahead(s, range), add_ahead(s, range); });
}

template <class T>
void restart(Run<T, Workspace<T>>& s) {
  restart_overlapped(
      s, [&](const Extremes& range) { keep_unit(s, range); }, [&] { reset_but_sums_ahead(s); });
}

template <class T>
void assign(Run<T, Workspace<T>>& s) {
  assign_or_reuse(s);
}

template <class T>
void update(Run<T, Workspace<T>>& s) {
  update_or_adopt(s);
}

template <class T>
void solve(Run<T, Workspace<T>>& s) {
  solve_filtered(s, [&] { assign_or_reuse(s), update_or_adopt(s); });
}

template <class T>
void download(Run<T, Workspace<T>>& s) {
  download_overlapped(s);
  report_unit(s);
  report_sums_ahead(s);
}

std::string refuse(const Shape& p, const Device& device, const Axes& axes) {
  const std::string why = refuse_filter(p, device, axes);
  return why.empty() ? refuse_loop() : why;
}

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare<T>,
                                         .upload = upload<T>,
                                         .restart = restart<T>,
                                         .assign = assign<T>,
                                         .update = update<T>,
                                         .solve = solve<T>,
                                         .download = download<T>};
}  // namespace

LADDER_VARIANT(
        .id = "v51_side_branch", .base = "v50_sums_ahead",
        .idea = "two side branches of an iteration: kernels that mostly find nothing to do run beside others",
        .expect =
            "in the profile of an iteration at kmcuda on an H200 the kernels for rows with too many candidates take "
            "2.9 + 3.3 + 3.2 + 3.7 + 3.2 + 3.0 us, and late ones compare 9,000 to 20,000 rows in about as much: 15 us "
            "less. Offsets, scatter and the skipped re-sum take 3 us each beside the 5 to 20 us of the moves: 5 to 9 "
            "us less. Some 22 us of an iteration of 450, if two more joins cost nothing. In the second iteration 994 "
            "rows have too many candidates, and their product, 0.3 ms on 8 of 132 multiprocessors, runs beside the "
            "comparison of 131,000 rows, 0.16 ms. 0.45 ms of a whole run of 16.2, 0.03 of an average iteration of "
            "0.50. Measured on an H100: 8.09 to 7.93 ms a solve, 0.011 of an iteration, a third of the forecast; a "
            "whole run takes 17.1 ms after 17.6, of which the solve explains 0.16. The counted times are a profile's; "
            "that empty kernels take less within a graph is likely and not measured",
        .shows = "solve", .source = "CUDA C++ Programming Guide: cross-stream dependencies of captured graphs",
        .arithmetic = {.form = Arithmetic::Form::exact},
        .axes = {{"short_row_width", {by_pilot, 0, 32, 48, 64, 96, 128}, by_pilot},
                 {"slack_permille", {0, 3, 10, 30, 60}, 30},
                 {"full_update_share", {2, 3, 4, 6, 8, 12}, 6},
                 {"resort_share", {2, 4, 8, 16, 32, 64}, 8},
                 {"upload_chunks", {1, 2, 4, 8, 12, 16, 32}, 12},
                 {"upload_taper", {1, 2, 3, 4, 6, 8}, 4}},
        .prunes = true, .refuse = refuse, .f32 = phases<float>, .f64 = phases<double>)
