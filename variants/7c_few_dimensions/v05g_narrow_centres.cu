// v05g: the centroid near a box's centre is found in float. Each box of v05f first looks for it in double, and 15
// shuffles reduce 32 distances of 64 bits and their indices. Any centroid near the centre is right, so float will do:
// in a frame in which the points' range is about 1 (boxes/narrow_boxes.cuh) positive floats compare as whole numbers,
// and one instruction finds the least of a warp.
#include "../common/boxes/box_phases.cuh"
#include "../common/boxes/narrow_boxes.cuh"
#include "../common/boxes/resident_boxes.cuh"
#include "../common/boxes/spatial_order.cuh"

namespace {
using namespace ladder;

/// Of a block: with more of them a thread has too few registers.
template <int d>
constexpr int solve_threads = d < 3 ? 512 : 384;

template <class T, int d>
__global__ void __launch_bounds__(solve_threads<d>, 1) solve_kernel(Solve<T, d> s, int capacity, NarrowFrame<d> frame) {
  const int lane = threadIdx.x % warp_lanes, warp = threadIdx.x / warp_lanes, warps = blockDim.x / warp_lanes;
  const int values = BoxSums::values(s.format, d), entries = sum_entries(s.format, s.k, d);
  const int64_t boxes = (s.n + box_points - 1) / box_points;
  const int first = int(boxes * blockIdx.x / gridDim.x), last = int(boxes * (blockIdx.x + 1) / gridDim.x);
  auto* const resident = dynamic_shared<ResidentBox<T, d, Box<d>>>();                  // capacity
  auto* const block_sum = reinterpret_cast<unsigned long long*>(resident + capacity);  // entries, if they fit
  T* const c = reinterpret_cast<T*>(block_sum + (s.shared_sums ? entries : 0));        // k x d
  auto* const narrow = reinterpret_cast<NarrowCentroid<d>*>(c + s.k * d);              // k
  using Place = BoxPlace<T, d, Box<d>>;
  const auto place_of = [&](int box) {
    return box - first < capacity ? Place(resident[box - first]) : Place(s, s.bounds, box, values);
  };
  for (int box = first + warp; box < min(last, first + capacity); box += warps)
    copy_in(resident[box - first], Place(s, s.bounds, box, values), min(box_points, s.n - box * box_points), values);
  for (int j = threadIdx.x; j < s.k; j += blockDim.x) {
    for (int f = 0; f < d; ++f) c[j * d + f] = s.c[j * d + f];
    narrow[j] = frame(c + j * d);
  }
  for (int e = threadIdx.x; e < entries && s.shared_sums; e += blockDim.x) block_sum[e] = 0;
  __syncthreads();
  for (int done = s.progress->done;;) {
    unsigned long long* const sum = s.sum + size_t(done % OneLaunch::buffers) * entries;
    unsigned long long* const next = s.sum + size_t((done + 1) % OneLaunch::buffers) * entries;
    unsigned long long* const added = s.shared_sums ? block_sum : sum;
    int changed = 0;
    for (int box = first + warp; box < last; box += warps) {
      const auto place = place_of(box);
      const int end = min(box_points, s.n - box * box_points), before = *place.only;
      BoxPoints<T, d> points;
      int labels[points_per_lane];
      NarrowCentreTests<T, d> tests{{*place.bounds, c}, NarrowBox<d>(frame, *place.bounds), narrow};
      const int only = assign_box(tests, points, c, s.k, labels, [&] { points.load(place.x, 0, end, place.pitch); });
      const unsigned valid = valid_points(0, end);
      const auto total = lane <= values ? static_cast<long long>(place.total[lane]) : 0;
      const auto put = [&](int j, long long part) {
        if (lane <= values) atomicAdd(&added[size_t(j) * (values + 1) + lane], static_cast<unsigned long long>(part));
      };
      if (only >= 0)
        put(only, total);
      else
        sum_by_label(points, labels, valid, total, s.format, put);
      if (only >= 0 && only == before) continue;
      for (int q = 0; q < points_per_lane; ++q) {
        if (!(valid >> q & 1)) continue;
        int32_t& label = place.label[q * warp_lanes + lane];
        changed += (before == several_centroids ? label : before) != (only >= 0 ? only : labels[q]);
        if (only < 0) label = labels[q];
      }
      __syncwarp();  // all lanes have read `before`
      if (lane == 0) *place.only = only;
    }
    changed = warp_sum(changed);
    if (lane == 0 && changed > 0) atomicAdd(&added[entries - 1], static_cast<unsigned long long>(changed));
    __syncthreads();
    for (int e = threadIdx.x; e < entries && s.shared_sums; e += blockDim.x) {
      if (block_sum[e] != 0) atomicAdd(&sum[e], block_sum[e]);
      block_sum[e] = 0;
    }
    for (int e = blockIdx.x * blockDim.x + threadIdx.x; e < entries; e += gridDim.x * blockDim.x) next[e] = 0;
    cooperative_groups::this_grid().sync();
    for (int j = threadIdx.x; j < s.k; j += blockDim.x) {
      for (int f = 0; f < d; ++f) c[j * d + f] = mean_or(c[j * d + f], sum, s.format, j, f, d);
      narrow[j] = frame(c + j * d);
    }
    const auto moved = sum[entries - 1];
    const bool ended = s.stop.reached(++done, int64_t(moved), s.n);
    if (blockIdx.x == 0 && threadIdx.x == 0) {
      s.progress->changed[(done - 1) % kept_iterations] = moved;
      s.progress->done = done, s.progress->ended = ended;
    }
    __syncthreads();
    if (ended || done % kept_iterations == 0) break;
  }
  for (int e = threadIdx.x; e < s.k * d && blockIdx.x == 0; e += blockDim.x) s.c[e] = c[e];
  for (int box = first + warp; box < last; box += warps) {
    const auto place = place_of(box);
    const int begin = box * box_points, end = min(begin + box_points, s.n), only = *place.only;
    __syncwarp();  // all lanes have read it
    if (lane == 0) s.box_label[box] = only;
    for (int i = begin + lane; i < end; i += warp_lanes) s.label[i] = only >= 0 ? only : place.label[i - begin];
  }
}

template <class T>
struct Workspace {
  Rows<T> rows;
  SpatialOrder order;
  Boxes boxes;
  int* box_label = nullptr;  // boxes
  BoxSums sums;
  OneLaunch one_launch;
  unsigned long long range[2 * most_dimensions];  // SpatialOrder::range, on the host
};

template <class T>
void prepare(Run<T, Workspace<T>>& s) {
  prepare_pinned(s);
  s.ws.rows.points = s.template device<T>(size_t(s.n) * s.d);
  prepare_spatial(s);
  prepare_boxes(s);
  prepare_box_sums(s);
  prepare_one_launch(s);
  s.ws.box_label = s.template device<int>(boxes_of(s.n));
}

template <class T>
void upload(Run<T, Workspace<T>>& s) {
  upload_spatial(s);
  find_bounds(s);
  fetch_order_range(s);
  find_totals(s);  // waits for the range, too
}

template <class T>
void solve(Run<T, Workspace<T>>& s) {
  constexpr int least_boxes = 4;  // of a block
  dispatch<1, 2, 3>(s.d, [&]<int d>() {
    const auto start = [&](const Solve<T, d>& arguments, size_t bytes) {
      const int grid = std::min(s.device_info.multiprocessors, blocks(boxes_of(s.n), least_boxes));
      const int room = int((s.device_info.shared_bytes_optin - bytes) / sizeof(ResidentBox<T, d, Box<d>>));
      const int capacity = std::min(room, blocks(boxes_of(s.n), grid));
      launch_cooperative(solve_kernel<T, d>, grid, solve_threads<d>,
                         bytes + capacity * sizeof(ResidentBox<T, d, Box<d>>), s.stream, arguments, capacity,
                         NarrowFrame<d>(s.ws.range));
    };
    solve_in_one_launch<d>(s, start, sizeof(NarrowCentroid<d>));
  });
}

std::string refuse(const Shape& p, const Device& device, const Axes&) {
  return refuse_one_launch(p, device, (p.d + 1) * sizeof(float));
}

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare<T>,
                                         .upload = upload<T>,
                                         .restart = restart_rows<T>,
                                         .assign = assign_boxes<T, Workspace<T>>,
                                         .update = update_boxes<T, Workspace<T>>,
                                         .solve = solve<T>,
                                         .download = download_spatial<T>};
}  // namespace

LADDER_VARIANT(
        .id = "v05g_narrow_centres", .base = "v05f_resident_boxes",
        .idea = "the centroid near a box's centre by distances in float, and one reduction",
        .expect =
            "points2d_k_100 on an H200: for a box 4 distances per lane of 5 operations in double, at half the rate, "
            "and "
            "5 steps of 3 shuffles, a comparison and two selections: 90 issue slots and 5 x 30 cycles of latency. In "
            "float 40 and 60 cycles. A block has 30 boxes on four schedulers: 400 slots and two rounds of 90 cycles, "
            "600 "
            "of 15,000 cycles: 4 % of the iteration. A larger step: a frame for floats, which v05h uses, too",
        .shows = "solve", .counter = "instructions_per_cycle", .source = "this project",
        .arithmetic = {.form = Arithmetic::Form::exact}, .prunes = true, .refuse = refuse, .f32 = phases<float>,
        .f64 = phases<double>)
