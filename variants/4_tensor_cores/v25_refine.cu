// v25: v24's exact kernel reads all centroids for a row of which the bounds usually leave two, and double cannot
// separate two centroids that are equally near up to its rounding. Here a warp compares the two in double-double, some
// 100 bits. Rows with three or more candidates are still compared with all centroids, eight rows of a block at a time,
// so that a tile of centroids in shared memory serves eight rows (certified/refine.cuh). Labels are now those of the
// exact minimum.
#include "../common/certified/assign_sm80.cuh"
#include "../common/certified/refine.cuh"
#include "../common/update/choose_update.cuh"

namespace {
using namespace ladder;

template <class T>
struct Workspace {
  Rows<T> rows;
  Sums sums;
  certified::Certified<T> certified;
  Refinement refinement;
};

template <class T>
void prepare(Run<T, Workspace<T>>& s) {
  prepare_features(s);
  prepare_certified(s);
}

template <class T>
void upload(Run<T, Workspace<T>>& s) {
  upload_features(s);
  quantize_points(s);
}

std::string refuse(const Shape& p, const Device& device, const Axes&) { return refuse_certified(p, device); }

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare<T>,
                                         .upload = upload<T>,
                                         .restart = restart_refinement<T>,
                                         .assign = assign_certified<T>,
                                         .update = update_any<T, Layout::features>,
                                         .download = download_refined<T>};
}  // namespace

LADDER_VARIANT(.id = "v25_refine", .base = "v24_certified",
               .idea = "undecided rows compare their two candidates in double-double; few need all centroids",
               .expect =
                   "two rows of X and C instead of all K for nearly every undecided row: the exact kernel's 5 ms at "
                   "kmcuda shrink to 0.1, and the assignment is 2.5 to 3 times as fast as v22's. Where many centroids "
                   "are equally near (duplicates), brute force still takes longer than the products",
               .shows = "assign", .counter = "tensor_percent", .source = "this project: docs/certificate.md",
               .arithmetic = {.form = Arithmetic::Form::exact, .operands = "fp16"}, .refuse = refuse,
               .f32 = phases<float>, .f64 = phases<double>)
