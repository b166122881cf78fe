// v05b: 128 neighbouring points are compared with few centroids. v05a compares each point with all K of them, though
// its points lie side by side and most centroids are far from all 128. Here a warp owns a box of 128 points. It tests
// each centroid once for the whole box, with a lane per centroid (boxes/boxes.cuh), and compares the points with those
// that are left: two or three on average. If one is left, it is the label of all, and no point is read. The tests allow
// for rounding, and points between two centroids are compared in whole numbers, so labels are exact.
#include "../common/boxes/boxes.cuh"
#include "../common/boxes/spatial_order.cuh"
#include "../common/update/block_private.cuh"

namespace {
using namespace ladder;

/// A warp per box.
template <class T, int d>
__global__ void assign_kernel(const T* x, const Box<d>* bounds, const T* c, int32_t* label, int n, int k) {
  const int lane = threadIdx.x % warp_lanes, box = (blockIdx.x * blockDim.x + threadIdx.x) / warp_lanes;
  const int begin = box * box_points, end = min(begin + box_points, n);
  if (begin >= n) return;
  BoxPoints<T, d> points;
  int labels[points_per_lane];
  BoxTests<T, d> tests{bounds[box], c};
  const int only = assign_box(tests, points, c, k, labels, [&] { points.load(x, begin, end, n); });
  for (int q = 0; q < points_per_lane; ++q) {
    const int i = begin + q * warp_lanes + lane;
    if (i < end) label[i] = only >= 0 ? only : labels[q];
  }
}

template <class T>
struct Workspace {
  Rows<T> rows;
  SpatialOrder order;
  Boxes boxes;
  Sums sums;
};

template <class T>
void prepare(Run<T, Workspace<T>>& s) {
  prepare_features(s);
  prepare_spatial(s);
  prepare_boxes(s);
}

template <class T>
void upload(Run<T, Workspace<T>>& s) {
  upload_spatial(s);
  find_bounds(s);
}

template <class T>
void assign(Run<T, Workspace<T>>& s) {
  dispatch<1, 2, 3>(s.d, [&]<int d>() {
    launch(assign_kernel<T, d>, blocks(boxes_of(s.n), warps_per_block), warps_per_block * warp_lanes, 0, s.stream, s.x,
           static_cast<const Box<d>*>(s.ws.boxes.bounds), s.c, s.label, s.n, s.k);
  });
}

std::string refuse(const Shape& p, const Device& device, const Axes& axes) {
  const std::string why = refuse_dimensions(p);
  return why.empty() ? refuse_update_shared(p, device, axes) : why;
}

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare<T>,
                                         .upload = upload<T>,
                                         .restart = restart_rows<T>,
                                         .assign = assign<T>,
                                         .update = update_shared<T, Layout::features>,
                                         .download = download_spatial<T>};
}  // namespace

LADDER_VARIANT(.id = "v05b_box_pruning", .base = "v05a_spatial_order",
               .idea = "centroids that are nearest to no place in a box of 128 points are skipped for all of them",
               .expect =
                   "points2d_k_100 on an H200: 50 million distances of 5 operations in double at 64 per cycle and "
                   "multiprocessor take 17 us. Here 3,907 boxes test 100 centroids in some 35 operations each, 14 "
                   "million, and 500,000 points are compared with 2.5 centroids on average, 7 million operations: "
                   "some 2.5 us, of which the launch hides little; 5 us with it. Nothing is gained where K is below "
                   "10. A larger step: bounds, a test, and a comparison that knows when it is not certain",
               .shows = "assign", .counter = "sm_percent", .source = "Pelleg, Moore 1999; Kanungo et al. 2002",
               .arithmetic = {.form = Arithmetic::Form::exact}, .prunes = true, .refuse = refuse, .f32 = phases<float>,
               .f64 = phases<double>)
