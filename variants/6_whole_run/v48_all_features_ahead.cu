// v48: the first assignment goes under the upload without a filter, too. Where the pilot finds that no short rows pay,
// the base only rounds the points while they arrive, and the longest assignment of all, in all features, begins behind
// the last of them. Here each chunk is assigned in all features while the next one is copied
// (arrival/full_ahead.cuh), as v45 does it by the filter.
//
// for cuda: 90a
#include "../common/arrival/full_ahead.cuh"
#include "../common/overlap/graph_loop.cuh"

namespace {
using namespace ladder;

template <class T>
struct Workspace : OverlappedState<T> {
  GraphLoop loop;
};

template <class T>
void prepare(Run<T, Workspace<T>>& s) {
  prepare_arrival(s);
  prepare_loop(s);
  s.ws.chunks.taper = s.axis("upload_taper");
}

template <class T>
void upload(Run<T, Workspace<T>>& s) {
  upload_overlapped(
      s, [&](const T* sample, int count) { find_projection(s, sample, count); },
      [&](const RowRange& range) { assign_ahead(s, range); });
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
                                         .upload = upload<T>,
                                         .restart = restart_overlapped<T>,
                                         .assign = assign<T>,
                                         .update = update<T>,
                                         .solve = solve<T>,
                                         .download = download_overlapped<T>};
}  // namespace

LADDER_VARIANT(.id = "v48_all_features_ahead", .base = "v47_tapered_chunks",
               .idea = "without a filter each chunk is assigned in all features while the next one is copied",
               .expect =
                   "kmcuda_isotropic has no filter: its first assignment, 1.95 of the 27.5 ms of a whole run on an "
                   "H200, goes under the copy, but for the last chunk's. The device has the time: 8.9 ms of copies, "
                   "some 2 of rounding the points and 2 of products in parts of a wave more. 25.7 ms. kmcuda has a "
                   "filter and stays. Measured on an H100: 25.5 ms after 27.3, as forecast",
               .shows = "end_to_end", .source = "this project", .arithmetic = {.form = Arithmetic::Form::exact},
               .axes = {{"short_row_width", {by_pilot, 0, 32, 48, 64, 96, 128}, by_pilot},
                        {"slack_permille", {0, 3, 10, 30, 60}, 30},
                        {"full_update_share", {2, 3, 4, 6, 8, 12}, 6},
                        {"resort_share", {2, 4, 8, 16, 32, 64}, 8},
                        {"upload_chunks", {1, 2, 4, 8, 12, 16, 32}, 12},
                        {"upload_taper", {1, 2, 3, 4, 6, 8}, 4}},
               .prunes = true, .refuse = refuse, .f32 = phases<float>, .f64 = phases<double>)
