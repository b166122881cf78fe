// v47: the last chunks of the upload are small. When the last point has arrived, the base still has a twelfth of the
// points to prepare and to assign, about 0.4 ms of work, and the copy engine is idle meanwhile. Here the last chunks
// shrink step by step (overlap/chunked_upload.cuh): while one is copied, the device works on the one before, which is
// larger by as much, and after the last copy little work remains. Same points, same labels, other boundaries.
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
  s.ws.chunks.taper = s.axis("upload_taper");
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

LADDER_VARIANT(
        .id = "v47_tapered_chunks", .base = "v46_graph_loop",
        .idea = "the last chunks of the upload become smaller: little work is left after the last copy",
        .expect =
            "the base's upload takes 9.85 ms at kmcuda on an H200, the copies in it 8.9 + 0.13 for the sample. Behind "
            "the last of 12 chunks it prepares and assigns 25,000 points: a twelfth of 4 + 1 ms. Of chunks that shrink "
            "to 3/4, 2/4 and 1/4 the last has 7,100 points, 0.12 ms of that work, and some 20 launches of 3 to 20 us "
            "for part of a wave: 0.2 ms in place of 0.45, so 16.8 ms for a whole run of 17.1. Measured on an H100: "
            "slower, 18.0 ms after 17.6, and 17.8 in v48, which does the same there. A small chunk takes as many "
            "launches as a large one, which may end later than its copy; not profiled",
        .shows = "end_to_end",
        .source =
            "this project; C. Polychronopoulos and D. Kuck, 1987: guided "
            "self-scheduling, whose last chunks are the smallest, too",
        .arithmetic = {.form = Arithmetic::Form::exact},
        .axes = {{"short_row_width", {by_pilot, 0, 32, 48, 64, 96, 128}, by_pilot},
                 {"slack_permille", {0, 3, 10, 30, 60}, 30},
                 {"full_update_share", {2, 3, 4, 6, 8, 12}, 6},
                 {"resort_share", {2, 4, 8, 16, 32, 64}, 8},
                 {"upload_chunks", {1, 2, 4, 8, 12, 16, 32}, 12},
                 {"upload_taper", {1, 2, 3, 4, 6, 8}, 4}},
        .prunes = true, .refuse = refuse, .f32 = phases<float>, .f64 = phases<double>)
