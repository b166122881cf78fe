// v45: points are prepared and assigned while they arrive. The base's upload is a copy and then 4 ms of work: halves,
// directions, short rows, the range of the sums. All of that goes point by point once centre, scale, directions and
// width are known; these are found from a sample that is copied first. Then the points come in chunks, and each chunk
// is prepared while the copy engine brings the next one (overlap/chunked_upload.cuh). Where a point exceeds the
// sample's scale, all are prepared again. The device still has time, so each chunk is assigned to the initial
// centroids, too (overlap/eager_assign.cuh); the result is reused once, by the first iteration of a solve with the same
// initial centroids.
//
// for cuda: 90a
#include "../common/overlap/eager_assign.cuh"

namespace {
using namespace ladder;

template <class T>
struct Workspace : OverlappedState<T> {};

template <class T>
void assign(Run<T, Workspace<T>>& s) {
  assign_or_reuse(s);
}

template <class T>
void update(Run<T, Workspace<T>>& s) {
  update_active_set(s);
}

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare_overlapped<T>,
                                         .upload = upload_overlapped<T>,
                                         .restart = restart_overlapped<T>,
                                         .assign = assign<T>,
                                         .update = update<T>,
                                         .download = download_overlapped<T>};
}  // namespace

LADDER_VARIANT(.id = "v45_overlapped_upload", .base = "v44_active_set",
               .idea =
                   "each chunk of the points is prepared, and assigned for the first time, while the next one is "
                   "copied",
               .expect =
                   "the base's upload takes 13.1 ms at kmcuda on an H200, 8.9 of them the copy. The sample is 7 of "
                   "490 MB, and the last of 12 chunks 0.2 ms of work: 9.5 ms. The first assignment, about 1 ms, goes "
                   "under the copy as well, but for the last chunk's; the sums stay, as their format needs all "
                   "points. Whole runs gain both; iterations take the same. A new algorithm: frame and directions "
                   "are a sample's, and labels are computed before the solve",
               .shows = "end_to_end",
               .source = "this project; CUDA C++ Best Practices Guide, staged concurrent copy and execute",
               .arithmetic = {.form = Arithmetic::Form::exact},
               .axes = {{"short_row_width", {by_pilot, 0, 32, 48, 64, 96, 128}, by_pilot},
                        {"slack_permille", {0, 3, 10, 30, 60}, 30},
                        {"full_update_share", {2, 3, 4, 6, 8, 12}, 6},
                        {"resort_share", {2, 4, 8, 16, 32, 64}, 8},
                        {"upload_chunks", {1, 2, 4, 8, 12, 16, 32}, 12}},
               .prunes = true, .refuse = refuse_filter, .f32 = phases<float>, .f64 = phases<double>)
