// v05d: points are summed in the warp, and sums are exact. In v05c the points of a box with several labels go to shared
// memory one by one, by additions of doubles that wait for each other, and a block then adds all K sums to memory. Here
// a warp sums the points of a label in registers, as whole numbers (boxes/exact_box_sums.cuh), and adds them to memory
// at once; the last label gets the box's sum less the others, which is exact. No shared memory is needed, so any K
// fits; and the sums, so the centroids, are the same bits in every run.
#include "../common/boxes/exact_box_sums.cuh"
#include "../common/boxes/spatial_order.cuh"

namespace {
using namespace ladder;

/// A warp per box. `box_label`: several_centroids where the points have labels of their own.
template <class T, int d>
__global__ void assign_kernel(const T* x, const Box<d>* bounds, const T* c, int32_t* label, int* box_label, int n,
                              int k) {
  const int lane = threadIdx.x % warp_lanes, box = (blockIdx.x * blockDim.x + threadIdx.x) / warp_lanes;
  const int begin = box * box_points, end = min(begin + box_points, n);
  if (begin >= n) return;
  BoxPoints<T, d> points;
  int labels[points_per_lane];
  BoxTests<T, d> tests{bounds[box], c};
  const int only = assign_box(tests, points, c, k, labels, [&] { points.load(x, begin, end, n); });
  if (lane == 0) box_label[box] = only;
  for (int q = 0; q < points_per_lane; ++q) {
    const int i = begin + q * warp_lanes + lane;
    if (i < end) label[i] = only >= 0 ? only : labels[q];
  }
}

/// A warp per box.
template <class T, int d>
__global__ void sum_boxes_kernel(const T* x, const int32_t* label, const int* box_label,
                                 const unsigned long long* total, unsigned long long* sum, FixedPoint format, int n) {
  const int lane = threadIdx.x % warp_lanes, box = (blockIdx.x * blockDim.x + threadIdx.x) / warp_lanes;
  const int begin = box * box_points, end = min(begin + box_points, n), values = BoxSums::values(format, d);
  if (begin >= n) return;
  const auto put = [&](int j, long long part) {
    if (lane <= values) atomicAdd(&sum[size_t(j) * (values + 1) + lane], static_cast<unsigned long long>(part));
  };
  const auto own_total = lane <= values ? static_cast<long long>(total[size_t(box) * (values + 1) + lane]) : 0;
  if (box_label[box] >= 0) return put(box_label[box], own_total);
  BoxPoints<T, d> points;
  points.load(x, begin, end, n);
  int labels[points_per_lane];
  for (int q = 0; q < points_per_lane; ++q) labels[q] = label[min(begin + q * warp_lanes + lane, end - 1)];
  sum_by_label(points, labels, valid_points(begin, end), own_total, format, put);
}

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

template <class T>
void assign(Run<T, Workspace<T>>& s) {
  dispatch<1, 2, 3>(s.d, [&]<int d>() {
    launch(assign_kernel<T, d>, blocks(boxes_of(s.n), warps_per_block), warps_per_block * warp_lanes, 0, s.stream, s.x,
           static_cast<const Box<d>*>(s.ws.boxes.bounds), s.c, s.label, s.ws.box_label, s.n, s.k);
  });
}

template <class T>
void update(Run<T, Workspace<T>>& s) {
  const BoxSums& sums = s.ws.sums;
  clear_box_sums(s);
  dispatch<1, 2, 3>(s.d, [&]<int d>() {
    launch(sum_boxes_kernel<T, d>, blocks(boxes_of(s.n), warps_per_block), warps_per_block * warp_lanes, 0, s.stream,
           s.x, s.label, s.ws.box_label, sums.total, sums.sum, sums.format, s.n);
  });
  means_of_boxes(s);
}

std::string refuse(const Shape& p, const Device&, const Axes&) { return refuse_dimensions(p); }

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare<T>,
                                         .upload = upload<T>,
                                         .restart = restart_rows<T>,
                                         .assign = assign<T>,
                                         .update = update<T>,
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
