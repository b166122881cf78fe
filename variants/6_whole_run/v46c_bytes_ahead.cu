// v46c: nothing of the bytes is left behind the upload. In the base a run without a filter begins when the last point
// has arrived: it writes the bytes, multiplies halves for the first labels, and sums. Here all of that is done chunk by
// chunk while later chunks are copied: the first assignment, its sums and small last chunks are those of v47 to v52,
// side branches too; and each chunk is written as bytes (arrival/bytes_ahead.cuh), which the second iteration is the
// first to multiply.
//
// for cuda: 90a
#include "../common/arrival/bytes_ahead.cuh"
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
  BytesAhead bytes;
};

template <class T>
void prepare(Run<T, Workspace<T>>& s) {
  prepare_arrival(s);
  prepare_loop(s);
  prepare_unit(s);
  prepare_sums_ahead(s);
  prepare_bytes_ahead(s);
  s.ws.branch = std::make_shared<SideBranch>();
  s.ws.chunks.taper = s.axis("upload_taper");
  s.ws.chunks.survey = std::make_shared<Copies>();
}

template <class T>
void upload(Run<T, Workspace<T>>& s) {
  upload_overlapped(
      s, [&](const T* sample, int count) { find_projection_and_unit(s, sample, count), choose_bytes(s); },
      [&](const RowRange& range) { assign_ahead(s, range), add_ahead(s, range), write_bytes_ahead(s, range); });
}

template <class T>
void restart(Run<T, Workspace<T>>& s) {
  const bool pending = s.ws.chunks.pending;
  restart_overlapped(
      s, [&](const Extremes& range) { keep_unit(s, range); },
      [&] { keep_bytes(s, pending && s.ws.chunks.again), reset_but_sums_ahead(s); });
}

template <class T>
void assign(Run<T, Workspace<T>>& s) {
  assign_by_bytes_or_reuse(s);
}

template <class T>
void update(Run<T, Workspace<T>>& s) {
  update_or_adopt(s);
}

template <class T>
void solve(Run<T, Workspace<T>>& s) {
  solve_filtered(s, [&] { assign_by_bytes_or_reuse(s), update_or_adopt(s); });
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
        .id = "v46c_bytes_ahead", .base = "v46b_byte_filter",
        .idea = "bytes are written, and the first assignment and its sums made, while the points are copied",
        .expect =
            "kmcuda_isotropic on an H200: the first iteration, 1.95 + 0.27 ms in halves, and 0.2 ms to write the bytes "
            "go under the copy, of whose 8.9 ms the device has work for 4.7: 2.4 ms less than the base's whole run. "
            "Measured on an H100: 25.0 ms, before 28.0; v52, which does the same without bytes, takes 25.6. A solve "
            "takes 16.8 ms, before 17.1, as sums by a unit from the sample do. kmcuda_large_isotropic_15, 40,000 "
            "centroids of 480 features: 163 ms an iteration, v46 267. kmcuda has a filter: as v52. A combination: "
            "bytes of v46b, arrival of v47 to v52",
        .shows = "end_to_end", .source = "this project", .arithmetic = {.form = Arithmetic::Form::exact},
        .axes = {{"short_row_width", {by_pilot, 0, 32, 48, 64, 96, 128}, by_pilot},
                 {"slack_permille", {0, 3, 10, 30, 60}, 30},
                 {"full_update_share", {2, 3, 4, 6, 8, 12}, 6},
                 {"resort_share", {2, 4, 8, 16, 32, 64}, 8},
                 {"upload_chunks", {1, 2, 4, 8, 12, 16, 32}, 12},
                 {"upload_taper", {1, 2, 3, 4, 6, 8}, 4},
                 {"bytes", {where_useless, 0, 1}, where_useless}},
        .prunes = true, .refuse = refuse, .f32 = phases<float>, .f64 = phases<double>)
