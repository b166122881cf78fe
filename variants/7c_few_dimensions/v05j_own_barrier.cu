// v05j: a barrier of its own. The grid's barrier of cooperative groups, as v05i uses it, fences memory, waits until its
// arrival has been counted, and then polls. Here one thread of a block adds its arrival with release order, does not
// wait for the answer, and polls with acquire order; the count only grows, so nothing is reset.
#include "../common/boxes/box_halves.cuh"
#include "../common/boxes/box_phases.cuh"
#include "../common/boxes/resident_boxes.cuh"
#include "../common/boxes/spatial_order.cuh"
#include "../common/device/grid_barrier.cuh"

namespace {
using namespace ladder;

/// Of a block: with more of them a thread has too few registers.
template <int d>
constexpr int solve_threads = d < 3 ? 512 : 384;

template <class T, int d>
__global__ void __launch_bounds__(solve_threads<d>, 1)
    solve_kernel(Solve<T, d> s, int capacity, NarrowFrame<d> frame, const Halves<d>* halves) {
  const int lane = threadIdx.x % warp_lanes, warp = threadIdx.x / warp_lanes, warps = blockDim.x / warp_lanes;
  const int values = BoxSums::values(s.format, d), entries = sum_entries(s.format, s.k, d);
  const int64_t boxes = (s.n + box_points - 1) / box_points;
  const int first = int(boxes * blockIdx.x / gridDim.x), last = int(boxes * (blockIdx.x + 1) / gridDim.x);
  auto* const resident = dynamic_shared<ResidentBox<T, d, Halves<d>>>();               // capacity
  auto* const block_sum = reinterpret_cast<unsigned long long*>(resident + capacity);  // entries, if they fit
  T* const c = reinterpret_cast<T*>(block_sum + (s.shared_sums ? entries : 0));        // k x d
  auto* const narrow = reinterpret_cast<NarrowCentroid<d>*>(c + s.k * d);              // k
  using Place = BoxPlace<T, d, Halves<d>>;
  const auto place_of = [&](int box) {
    return box - first < capacity ? Place(resident[box - first]) : Place(s, halves, box, values);
  };
  for (int box = first + warp; box < min(last, first + capacity); box += warps)
    copy_in(resident[box - first], Place(s, halves, box, values), min(box_points, s.n - box * box_points), values);
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
      const Halves<d>& box_of = *place.bounds;
      HalvesTests<d> tests{
          {NarrowBox<d>(frame, box_of.first), narrow}, {NarrowBox<d>(frame, box_of.second), narrow}, box_of.split != 0};
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
    grid_barrier(&s.progress->arrived, unsigned(done + 1) * gridDim.x);
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
  void* halves = nullptr;                         // Halves<d> of each box
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
  dispatch<1, 2, 3>(s.d, [&]<int d>() { s.ws.halves = s.template device<Halves<d>>(boxes_of(s.n)); });
  s.ws.box_label = s.template device<int>(boxes_of(s.n));
}

template <class T>
void upload(Run<T, Workspace<T>>& s) {
  upload_spatial(s);
  find_bounds(s);
  fetch_order_range(s);
  find_totals(s);  // waits for the range, too
  dispatch<1, 2, 3>(s.d, [&]<int d>() {
    launch(halves_kernel<T, d>, blocks(boxes_of(s.n), warps_per_block), warps_per_block * warp_lanes, 0, s.stream, s.x,
           static_cast<Halves<d>*>(s.ws.halves), s.n);
  });
}

template <class T>
void solve(Run<T, Workspace<T>>& s) {
  constexpr int least_boxes = 4;  // of a block
  dispatch<1, 2, 3>(s.d, [&]<int d>() {
    const auto start = [&](const Solve<T, d>& arguments, size_t bytes) {
      const int grid = std::min(s.device_info.multiprocessors, blocks(boxes_of(s.n), least_boxes));
      const int room = int((s.device_info.shared_bytes_optin - bytes) / sizeof(ResidentBox<T, d, Halves<d>>));
      const int capacity = std::min(room, blocks(boxes_of(s.n), grid));
      launch_cooperative(solve_kernel<T, d>, grid, solve_threads<d>,
                         bytes + capacity * sizeof(ResidentBox<T, d, Halves<d>>), s.stream, arguments, capacity,
                         NarrowFrame<d>(s.ws.range), static_cast<const Halves<d>*>(s.ws.halves));
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
        .id = "v05j_own_barrier", .base = "v05i_box_halves",
        .idea = "a barrier of the grid with one release, one acquire and a count that only grows",
        .expect =
            "points2d_k_100 on an H200: the barrier of cooperative groups takes two fences and a round trip to the L2 "
            "cache (700 cycles) before it begins to poll; without them some 700 of 2,100 cycles: 0.4 us of 5",
        .shows = "solve", .source = "this project; PTX ISA: memory consistency model",
        .arithmetic = {.form = Arithmetic::Form::exact}, .prunes = true, .refuse = refuse, .f32 = phases<float>,
        .f64 = phases<double>)
