// v49: the unit of the sums is a sample's. Exact sums are whole numbers of a unit, the least bit that is set in any
// point, and the base knows it when the last point has arrived: no sum can begin before. Here the sample that already
// gives frame and directions gives the unit, too, with binary digits to spare on both sides, which the words of the
// sums mostly have anyway (arrival/sampled_unit.cuh); most values then have digits in one word, so that a move is one
// atomic in place of two. When all points are there, their range says whether the unit holds; if not, theirs is chosen,
// as in the base. A mean depends on the sum and not on its unit, so the centroids are the base's to the last bit.
//
// for cuda: 90a
#include "../common/arrival/sampled_unit.cuh"
#include "../common/overlap/graph_loop.cuh"

namespace {
using namespace ladder;

template <class T>
struct Workspace : OverlappedState<T> {
  GraphLoop loop;
  SampledUnit unit;
};

template <class T>
void prepare(Run<T, Workspace<T>>& s) {
  prepare_arrival(s);
  prepare_loop(s);
  prepare_unit(s);
  s.ws.chunks.taper = s.axis("upload_taper");
}

template <class T>
void upload(Run<T, Workspace<T>>& s) {
  upload_overlapped(
      s, [&](const T* sample, int count) { find_projection_and_unit(s, sample, count); },
      [&](const RowRange& range) { assign_ahead(s, range); });
}

template <class T>
void restart(Run<T, Workspace<T>>& s) {
  restart_overlapped(
      s, [&](const Extremes& range) { keep_unit(s, range); }, [&] { reset_active_set(s); });
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

template <class T>
void download(Run<T, Workspace<T>>& s) {
  download_overlapped(s);
  report_unit(s);
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

LADDER_VARIANT(.id = "v49_sampled_unit", .base = "v48_all_features_ahead",
               .idea = "the unit of the exact sums is the sample's with headroom, checked when all points are there",
               .expect =
                   "at kmcuda the sums keep their two words of 44 digits, but the unit moves: the base's is 2^-50, and "
                   "a float's 24 digits mostly lie in both words (1.99 on average, computed); with 12 digits above the "
                   "sample's largest value it is 2^-73, and most lie in the upper word (1.01). So a move takes half "
                   "the atomics. In v45's record an iteration takes some 6 us more for each 1,000 points that move, "
                   "and 126,000 move in iterations 4 to 15: 0.3 to 0.4 ms of a whole run of 16.8 on an H200, which "
                   "shows in solve, too. What the unit is for comes in v50. Measured on an H100: a solve takes 8.04 ms "
                   "after 8.42 and a whole run 17.5 after 17.8, as forecast",
               .shows = "end_to_end", .source = "this project", .arithmetic = {.form = Arithmetic::Form::exact},
               .axes = {{"short_row_width", {by_pilot, 0, 32, 48, 64, 96, 128}, by_pilot},
                        {"slack_permille", {0, 3, 10, 30, 60}, 30},
                        {"full_update_share", {2, 3, 4, 6, 8, 12}, 6},
                        {"resort_share", {2, 4, 8, 16, 32, 64}, 8},
                        {"upload_chunks", {1, 2, 4, 8, 12, 16, 32}, 12},
                        {"upload_taper", {1, 2, 3, 4, 6, 8}, 4}},
               .prunes = true, .refuse = refuse, .f32 = phases<float>, .f64 = phases<double>)
