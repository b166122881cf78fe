// v05e: the whole run in one launch. An iteration of v05d is five operations, some 15 us, of work that takes two. Here
// a cooperative launch runs all iterations: a warp finds the labels of a box and adds its sums, the blocks meet at a
// barrier of the grid, and each of them computes all new centroids for itself, in its shared memory. Sums are added up
// per block first, where they fit there. The kernel counts changed labels and evaluates the stop rule. Labels of a box
// with one label are written once, at the end.
#include "../common/boxes/box_phases.cuh"
#include "../common/boxes/one_launch.cuh"
#include "../common/boxes/spatial_order.cuh"

namespace {
using namespace ladder;

/// Of a block: with more of them a thread has too few registers.
template <int d>
constexpr int solve_threads = d < 3 ? 512 : 384;

template <class T, int d>
__global__ void __launch_bounds__(solve_threads<d>, 1) solve_kernel(Solve<T, d> s) {
  const int lane = threadIdx.x % warp_lanes, warp = threadIdx.x / warp_lanes, warps = blockDim.x / warp_lanes;
  const int values = BoxSums::values(s.format, d), entries = sum_entries(s.format, s.k, d);
  const int64_t boxes = (s.n + box_points - 1) / box_points;
  const int first = int(boxes * blockIdx.x / gridDim.x), last = int(boxes * (blockIdx.x + 1) / gridDim.x);
  auto* const block_sum = dynamic_shared<unsigned long long>();                  // entries, if they fit
  T* const c = reinterpret_cast<T*>(block_sum + (s.shared_sums ? entries : 0));  // k x d
  for (int e = threadIdx.x; e < s.k * d; e += blockDim.x) c[e] = s.c[e];
  for (int e = threadIdx.x; e < entries && s.shared_sums; e += blockDim.x) block_sum[e] = 0;
  __syncthreads();
  for (int done = s.progress->done;;) {
    unsigned long long* const sum = s.sum + size_t(done % OneLaunch::buffers) * entries;
    unsigned long long* const next = s.sum + size_t((done + 1) % OneLaunch::buffers) * entries;
    unsigned long long* const added = s.shared_sums ? block_sum : sum;
    int changed = 0;
    for (int box = first + warp; box < last; box += warps) {
      const int begin = box * box_points, end = min(begin + box_points, s.n), before = s.box_label[box];
      BoxPoints<T, d> points;
      int labels[points_per_lane];
      BoxTests<T, d> tests{s.bounds[box], c};
      const int only = assign_box(tests, points, c, s.k, labels, [&] { points.load(s.x, begin, end, s.n); });
      const unsigned valid = valid_points(begin, end);
      const auto total = lane <= values ? static_cast<long long>(s.total[size_t(box) * (values + 1) + lane]) : 0;
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
        int32_t& label = s.label[begin + q * warp_lanes + lane];
        changed += (before == several_centroids ? label : before) != (only >= 0 ? only : labels[q]);
        if (only < 0) label = labels[q];
      }
      __syncwarp();  // all lanes have read `before`
      if (lane == 0) s.box_label[box] = only;
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
    for (int e = threadIdx.x; e < s.k * d; e += blockDim.x) c[e] = mean_or(c[e], sum, s.format, e / d, e % d, d);
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
    const int begin = box * box_points, only = s.box_label[box];
    for (int i = begin + lane; i < min(begin + box_points, s.n) && only >= 0; i += warp_lanes) s.label[i] = only;
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
  find_totals(s);
}

template <class T>
void solve(Run<T, Workspace<T>>& s) {
  constexpr int least_boxes = 4;  // of a block
  dispatch<1, 2, 3>(s.d, [&]<int d>() {
    solve_in_one_launch<d>(s, [&](const Solve<T, d>& arguments, size_t bytes) {
      const int grid = std::min(s.device_info.multiprocessors, blocks(boxes_of(s.n), least_boxes));
      launch_cooperative(solve_kernel<T, d>, grid, solve_threads<d>, bytes, s.stream, arguments);
    });
  });
}

std::string refuse(const Shape& p, const Device& device, const Axes&) { return refuse_one_launch(p, device); }

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
        .id = "v05e_one_launch", .base = "v05d_warp_sums",
        .idea = "all iterations in one cooperative launch, a barrier of the grid between two of them",
        .expect =
            "points2d_k_100 on an H200: five operations of 3 us become one barrier of 1.2 us. Between two barriers "
            "each of a block's 16 warps has two boxes: 100 centroids each (4 x 60 instructions), half of them with "
            "points to compare and sum (1,000 instructions): 30 boxes of 750 on average, 22,000 instructions on four "
            "schedulers at half their rate, 11,000 cycles; 500 sums to memory and back, 2,000: 7.5 us, with the "
            "barrier 9 in place of 20. The launch and its ends, 15 us, are spread over all iterations. A larger "
            "step: a solve of its own has a kernel, a stop rule and a report",
        .shows = "solve", .source = "this project: cooperative launches",
        .arithmetic = {.form = Arithmetic::Form::exact}, .prunes = true, .refuse = refuse, .f32 = phases<float>,
        .f64 = phases<double>)
