// v50: the sums begin before the last point has arrived. In the base the first update, 0.27 ms at kmcuda, is the first
// thing after the upload: it reads all points once more. But labels of all chunks but the last were known long before,
// and so is the unit of the sums (v49). Here each chunk's points are added to the sums of their clusters while the next
// chunk is copied (arrival/sums_ahead.cuh), and the first update only sorts and divides. The sums are whole numbers: in
// whatever order the chunks are added, the centroids have the base's bits.
//
// for cuda: 90a
#include "../common/arrival/sums_ahead.cuh"
#include "../common/overlap/graph_loop.cuh"

namespace {
using namespace ladder;

template <class T>
struct Workspace : OverlappedState<T> {
  GraphLoop loop;
  SampledUnit unit;
  SumsAhead ahead;
};

template <class T>
void prepare(Run<T, Workspace<T>>& s) {
  prepare_arrival(s);
  prepare_loop(s);
  prepare_unit(s);
  prepare_sums_ahead(s);
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
        .id = "v50_sums_ahead", .base = "v49_sampled_unit",
        .idea = "each chunk is added to its clusters' sums while the next one is copied",
        .expect =
            "of the 0.27 ms of the first update at kmcuda on an H200, 0.19 are the sum of runs, 0.01 clear the sums, "
            "and 0.02 list points: these go under the copy, and 0.05 for the order and the means remain. A chunk has 5 "
            "points of each cluster, so a run is 12 times as short and there are as many more atomics, 24 million in "
            "all, 0.3 ms of 8.9. The last chunk's sums are 4 launches, 0.02 ms. 0.2 ms of 16.4, and as much of "
            "kmcuda_isotropic's 25.7. Measured on an H100: 17.6 ms after 17.5, and 25.4 after 25.6 on "
            "kmcuda_isotropic; samples of one run differ by more than 0.2 ms, so a gain is not shown",
        .shows = "end_to_end", .source = "this project", .arithmetic = {.form = Arithmetic::Form::exact},
        .axes = {{"short_row_width", {by_pilot, 0, 32, 48, 64, 96, 128}, by_pilot},
                 {"slack_permille", {0, 3, 10, 30, 60}, 30},
                 {"full_update_share", {2, 3, 4, 6, 8, 12}, 6},
                 {"resort_share", {2, 4, 8, 16, 32, 64}, 8},
                 {"upload_chunks", {1, 2, 4, 8, 12, 16, 32}, 12},
                 {"upload_taper", {1, 2, 3, 4, 6, 8}, 4}},
        .prunes = true, .refuse = refuse, .f32 = phases<float>, .f64 = phases<double>)
