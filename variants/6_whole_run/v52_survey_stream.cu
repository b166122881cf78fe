// v52: what needs no directions does not wait for them. In the base the search for directions and the pilot take some
// 2.5 ms, small kernels on few multiprocessors; only then is the first chunk worked on, and three more have arrived by
// then. But the range of a chunk, the rows that the scale leaves out and the rounding to halves need the frame alone.
// Here a stream of their own does these (overlap/chunked_upload.cuh): they run beside the search, and later beside the
// kernels of the chunk before. What remains in the session's stream takes less time than the copy.
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
  s.ws.chunks.survey = std::make_shared<Copies>();
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
        .id = "v52_survey_stream", .base = "v51_side_branch",
        .idea = "range and halves of each chunk in a stream of their own, beside the search for directions",
        .expect =
            "at kmcuda a profile on an H100 has, for one of 12 chunks, 32 us to count long rows, 61 for the range and "
            "52 to round it, and some 450 for the rest, gaps between 25 launches included. With 2.5 ms before the "
            "first chunk the base's chain takes 2.5 + 12 x 0.6 = 9.7 ms, longer than the copies, 9.2: so neither small "
            "last chunks (v47) nor sums ahead (v50) gain what they could. Without 0.145 for each chunk it takes 7.9, "
            "and behind the last copy only the last chunk remains, 0.2 ms: 0.5 to 0.9 ms of a whole run of 17 on that "
            "GPU. Measured there: 17.1 ms as in the base, and 25.1 after 25.6 on kmcuda_isotropic, where the base's "
            "later samples take 25.0. Gaps between launches are longer in a profile; without one the base's chain "
            "keeps up with the copies, it seems, and what is taken out of it ends no run earlier",
        .shows = "end_to_end", .source = "this project", .arithmetic = {.form = Arithmetic::Form::exact},
        .axes = {{"short_row_width", {by_pilot, 0, 32, 48, 64, 96, 128}, by_pilot},
                 {"slack_permille", {0, 3, 10, 30, 60}, 30},
                 {"full_update_share", {2, 3, 4, 6, 8, 12}, 6},
                 {"resort_share", {2, 4, 8, 16, 32, 64}, 8},
                 {"upload_chunks", {1, 2, 4, 8, 12, 16, 32}, 12},
                 {"upload_taper", {1, 2, 3, 4, 6, 8}, 4}},
        .prunes = true, .refuse = refuse, .f32 = phases<float>, .f64 = phases<double>)
