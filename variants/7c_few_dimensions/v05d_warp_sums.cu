// v05d: points are summed in the warp, and sums are exact. In v05c the points of a box with several labels go to shared
// memory one by one, by additions of doubles that wait for each other, and a block then adds all K sums to memory. Here
// a warp sums the points of a label in registers, as whole numbers (boxes/box_phases.cuh, exact_box_sums.cuh), and adds
// them to memory at once; the last label gets the box's sum less the others, which is exact. No shared memory is
// needed, so any K fits; and the sums, so the centroids, are the same bits in every run.
#include "../common/boxes/box_phases.cuh"
#include "../common/boxes/spatial_order.cuh"

namespace {
using namespace ladder;

template <class T>
struct Workspace {
  Rows<T> rows;
  SpatialOrder order;
  Boxes boxes;
  int* box_label = nullptr;  // boxes
  BoxSums sums;
};

template <class T>
void prepare(Run<T, Workspace<T>>& s) {
  prepare_pinned(s);
  s.ws.rows.points = s.template device<T>(size_t(s.n) * s.d);
  prepare_spatial(s);
  prepare_boxes(s);
  prepare_box_sums(s);
  s.ws.box_label = s.template device<int>(boxes_of(s.n));
}

template <class T>
void upload(Run<T, Workspace<T>>& s) {
  upload_spatial(s);
  find_bounds(s);
  find_totals(s);
}

std::string refuse(const Shape& p, const Device&, const Axes&) { return refuse_dimensions(p); }

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare<T>,
                                         .upload = upload<T>,
                                         .restart = restart_rows<T>,
                                         .assign = assign_boxes<T, Workspace<T>>,
                                         .update = update_boxes<T, Workspace<T>>,
                                         .download = download_spatial<T>};
}  // namespace

LADDER_VARIANT(.id = "v05d_warp_sums", .base = "v05c_box_sums",
               .idea = "points of a label are summed in the warp, as whole numbers: exact, and any K",
               .expect =
                   "points2d_k_100: 1,900 boxes with 2.5 labels on average. For each label but the last a warp takes "
                   "some 130 instructions (128 conversions in 24, 40 additions, 9 reductions), 370,000 in all, 700 "
                   "cycles or 0.4 us of the device; 30,000 atomics on 500 addresses take as long. The update is the "
                   "launches then, some 3 us each. A larger step: exact sums have a range, a format and digits",
               .shows = "update", .counter = "shared_atomics", .source = "this project: v32_reproducible_sums",
               .arithmetic = {.form = Arithmetic::Form::exact}, .prunes = true, .refuse = refuse, .f32 = phases<float>,
               .f64 = phases<double>)
