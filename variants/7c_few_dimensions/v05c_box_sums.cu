// v05c: sums of whole boxes, computed once. v05b knows that a box has one label without a look at its points, but its
// update still reads and adds up all of them. Here each box has the sum of its points from the upload on: where it has
// one label, D + 1 additions stand for 128 points. Boxes with several labels are summed point by point, as before.
#include "../common/boxes/assign_boxes.cuh"
#include "../common/boxes/spatial_order.cuh"
#include "../common/update/block_private.cuh"

namespace {
using namespace ladder;

/// A warp per box: the sums of its points, d of them.
template <class T>
__global__ void box_sums_kernel(const T* x, double* box_sum, int n, int d) {
  const int lane = threadIdx.x % warp_lanes, box = (blockIdx.x * blockDim.x + threadIdx.x) / warp_lanes;
  const int begin = box * box_points, end = min(begin + box_points, n);
  for (int f = 0; f < d && begin < n; ++f) {
    double sum = 0;
    for (int i = begin + lane; i < end; i += warp_lanes) sum += double(x[size_t(f) * n + i]);
    sum = warp_sum(sum);
    if (lane == 0) box_sum[box * d + f] = sum;
  }
}

/// A block adds up `boxes` boxes in shared memory, a warp at a time.
template <class T>
__global__ void sum_boxes_kernel(const T* x, const int32_t* label, const int* box_label, const double* box_sum,
                                 double* sum, int* count, int boxes, int n, int k, int d) {
  double* const block_sum = dynamic_shared<double>();                  // k x d
  int* const block_count = reinterpret_cast<int*>(block_sum + k * d);  // k
  const int lane = threadIdx.x % warp_lanes, warp = threadIdx.x / warp_lanes;
  for (int e = threadIdx.x; e < k * d; e += blockDim.x) block_sum[e] = 0;
  for (int j = threadIdx.x; j < k; j += blockDim.x) block_count[j] = 0;
  __syncthreads();
  const int last = min((blockIdx.x + 1) * boxes, (n + box_points - 1) / box_points);
  for (int box = blockIdx.x * boxes + warp; box < last; box += warps_per_block) {
    const int begin = box * box_points, end = min(begin + box_points, n), only = box_label[box];
    if (only >= 0 && lane < d) atomicAdd(&block_sum[only * d + lane], box_sum[box * d + lane]);
    if (only >= 0 && lane == d) atomicAdd(&block_count[only], end - begin);
    for (int i = begin + lane; i < end && only < 0; i += warp_lanes) {
      for (int f = 0; f < d; ++f) atomicAdd(&block_sum[label[i] * d + f], double(x[size_t(f) * n + i]));
      atomicAdd(&block_count[label[i]], 1);
    }
  }
  __syncthreads();
  for (int e = threadIdx.x; e < k * d; e += blockDim.x) {
    if (block_count[e / d] == 0) continue;
    atomicAdd(&sum[e], block_sum[e]);
    if (e % d == 0) atomicAdd(&count[e / d], block_count[e / d]);
  }
}

template <class T>
struct Workspace {
  Rows<T> rows;
  SpatialOrder order;
  Boxes boxes;
  double* box_sum = nullptr;  // boxes x d
  int* box_label = nullptr;   // boxes
  Sums sums;
};

template <class T>
void prepare(Run<T, Workspace<T>>& s) {
  prepare_features(s);
  prepare_spatial(s);
  prepare_boxes(s);
  s.ws.box_sum = s.template device<double>(size_t(boxes_of(s.n)) * s.d);
  s.ws.box_label = s.template device<int>(boxes_of(s.n));
}

template <class T>
void upload(Run<T, Workspace<T>>& s) {
  upload_spatial(s);
  find_bounds(s);
  launch(box_sums_kernel<T>, blocks(boxes_of(s.n), warps_per_block), warps_per_block * warp_lanes, 0, s.stream, s.x,
         s.ws.box_sum, s.n, s.d);
}

template <class T>
void update(Run<T, Workspace<T>>& s) {
  const int boxes = blocks(points_per_block(s.k), box_points);  // of a block, as in v05
  clear_sums(s);
  launch(sum_boxes_kernel<T>, blocks(boxes_of(s.n), boxes), warps_per_block * warp_lanes,
         s.k * shared_bytes_per_cluster(s.d), s.stream, s.x, s.label, s.ws.box_label, s.ws.box_sum, s.ws.sums.sum,
         s.ws.sums.count, boxes, s.n, s.k, s.d);
  divide(s);
}

std::string refuse(const Shape& p, const Device& device, const Axes&) {
  if (p.d > most_dimensions || features_per_block(p.k, p.d, device) == p.d) return refuse_dimensions(p);
  return "a block keeps the sums of all clusters in shared memory: K = " + std::to_string(p.k) + " is too large";
}

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare<T>,
                                         .upload = upload<T>,
                                         .restart = restart_rows<T>,
                                         .assign = assign_boxes<T, Workspace<T>>,
                                         .update = update<T>,
                                         .download = download_spatial<T>};
}  // namespace

LADDER_VARIANT(.id = "v05c_box_sums", .base = "v05b_box_pruning",
               .idea = "the sum of each box once, at upload: a box with one label adds it and touches no point",
               .expect =
                   "points2d_k_100: a cluster is some 39 boxes, 6 by 6; of these about half lie inside. The update "
                   "adds 2,000 boxes at once and 1,900 point by point: half the 8 MB of points and half the 1.5 "
                   "million additions in shared memory, which are the time: 2x for the update. 10 million points: "
                   "nine boxes in ten lie inside, 5x or more.",
               .shows = "update", .counter = "shared_atomics", .source = "Kanungo et al. 2002: sums of tree nodes",
               .arithmetic = {.form = Arithmetic::Form::exact}, .prunes = true, .refuse = refuse, .f32 = phases<float>,
               .f64 = phases<double>)
