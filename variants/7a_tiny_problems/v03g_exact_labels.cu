// v03g: exact labels. v03f's distances are rounded, so of two centroids that are nearly as near the wrong one may win,
// and another order of the same additions gives another run. Here a lane keeps the second smallest distance, too. Each
// is off by a known share of itself at most: where the second is above the first by more than both can be off, the
// label is proven. For the few other points a warp compares all centroids that may be nearest in double-double
// arithmetic (tiny/proven_nearest.cuh).
#include "../common/lloyd/one_launch.cuh"
#include "../common/tiny/point_group.cuh"
#include "../common/tiny/proven_nearest.cuh"
#include "../common/update/exact_sums.cuh"

namespace {
using namespace ladder;

constexpr int threads = 512;

/// A block's points: rows of vectors in shared memory, or rows of numbers in L2.
template <class T, bool on_chip>
struct Points {
  const T* x;      // count x d
  Vec16<T>* copy;  // count x pitch
  int32_t* label;  // count
  int count, d, pitch;
  __device__ Vec16<T> vector(int i, int v) const {
    if constexpr (on_chip) return copy[i * pitch + v];
    return load_vec16(x + size_t(i) * d + v * Vec16<T>::size, d - v * Vec16<T>::size, d);
  }
  __device__ const T* row(int i) const {
    return on_chip ? reinterpret_cast<const T*>(copy + i * pitch) : x + size_t(i) * d;
  }
};

/// `sums` hold each point in the cluster of its label. `on_chip`: the block's points and labels fit into shared memory,
/// beside a tile of `tile_rows` centroids. `lanes`: of a point, a power of two; each has `group` points.
template <class T, bool on_chip, int group>
__global__ void __launch_bounds__(threads, 1)
    solve_kernel(const T* x, T* c, int32_t* label, ExactSums sums, Iterations run, int tile_rows, int lanes, int n,
                 int k, int d) {
  const auto grid = cooperative_groups::this_grid();
  const int first = share_begin(n, blockIdx.x, gridDim.x), last = share_begin(n, blockIdx.x + 1, gridDim.x);
  const int vectors = row_vectors(d, sizeof(T)), pitch = row_pitch(vectors);
  const int lane = threadIdx.x % lanes, points_at_once = threads / lanes;
  Vec16<T>* const tile = dynamic_shared<Vec16<T>>();  // tile_rows x pitch
  Points<T, on_chip> points{x + size_t(first) * d, tile + tile_rows * pitch, label + first, last - first, d, pitch};
  if constexpr (on_chip) {
    points.label = reinterpret_cast<int32_t*>(points.copy + points.count * pitch);
    copy_rows<threads>(points.copy, points.x, points.count, d, vectors, pitch);
    for (int i = threadIdx.x; i < points.count; i += threads) points.label[i] = label[first + i];
  }
  for (int it = 0; it < run.most; ++it) {
    int changed = 0;
    for (int begin = 0; begin < points.count; begin += group * points_at_once) {
      NearestAndSecond<T> nearest[group];
      int point[group];
#pragma unroll
      for (int r = 0; r < group; ++r)  // behind the last point: the last one again
        point[r] = min(points.count - 1, begin + int(threadIdx.x) / lanes + r * points_at_once);
      for (int from = 0; from < k; from += tile_rows) {
        const int count = min(tile_rows, k - from);
        if (begin == 0 || tile_rows < k) {
          __syncthreads();  // the tile is free
          copy_rows<threads>(tile, c + size_t(from) * d, count, d, vectors, pitch);
          __syncthreads();
        }
        compare(nearest, points, point, tile, from, lane, lanes, count, vectors, pitch);
      }
#pragma unroll
      for (int r = 0; r < group; ++r) {
        const int i = point[r],
                  j = settle(nearest_of_lanes(nearest[r], lanes), points, i, lanes, Centroids<T>{c, d}, k);
        const bool valid = begin + int(threadIdx.x) / lanes + r * points_at_once == i;
        const int from = valid ? points.label[i] : j;
        __syncwarp();  // all lanes of the point have read its label
        if (from == j) continue;
        for (int f = lane; f < d; f += lanes)
          move_feature(sums.sum, sums.format, double(points.row(i)[f]), f, from, j, k, d);
        if (lane > 0) continue;
        if (from >= 0) atomicAdd(&sums.count[from], -1);
        atomicAdd(&sums.count[j], 1);
        points.label[i] = j;
        ++changed;
      }
    }
    run.count(it, changed);
    grid.sync();
    for (int e = blockIdx.x * threads + threadIdx.x; e < k * d; e += gridDim.x * threads) {
      const int count = sums.count[e / d];
      if (count > 0) c[e] = mean_of<T>(SumWords(sums.sum + e, size_t(k) * d, sums.format), count, sums.format);
    }
    grid.sync();
    if (run.ended(it, n)) break;
  }
  for (int i = threadIdx.x; on_chip && i < points.count; i += threads) label[first + i] = points.label[i];
}

template <class T>
struct Workspace {
  OneLaunch launches;
  ExactSums sums;
};

template <class T>
void prepare(Run<T, Workspace<T>>& s) {
  prepare_pinned(s);
  prepare_one_launch(s);
  prepare_exact_sums(s);
}

template <class T>
void upload(Run<T, Workspace<T>>& s) {
  upload_rows(s);
  choose_format(s, s.x);
}

template <class T>
void restart(Run<T, Workspace<T>>& s) {
  restart_rows(s);
  s.ws.launches.done = 0;
  clear_exact_sums(s);
}

/// All multiprocessors, or as many as have enough to do between two barriers.
template <class T>
int grid_size(const State<T>& s) {
  constexpr int64_t enough = 8192;  // multiply-adds
  const int64_t worth = std::min(int64_t(s.n), int64_t(s.n) * s.k * s.d / enough);
  return int(std::clamp(worth, int64_t(1), int64_t(s.device_info.multiprocessors)));
}

size_t row_bytes(const Shape& p) { return row_pitch(row_vectors(p.d, p.element_bytes)) * size_t(16); }

/// How a block uses its shared memory and its threads.
struct Plan {
  size_t bytes = 0;
  int tile_rows = 0;
  bool on_chip = false;
  int lanes = warp_lanes, group = 1;
};

/// Points go first, where they leave room for a tile that is worth its barriers. As many lanes per point as there are
/// threads for, with few points; with more of them more points per lane, then fewer lanes.
Plan make_plan(const Shape& p, const Device& device, int grid) {
  constexpr int few_rows = 64, most_group = 4;
  const size_t row = row_bytes(p), room = device.shared_bytes_optin;
  const int points = blocks(p.n, grid);
  const size_t point_bytes = points * (row + sizeof(int32_t));
  Plan plan;
  plan.on_chip = point_bytes + std::min(p.k, few_rows) * row <= room;
  const size_t taken = plan.on_chip ? point_bytes : 0;
  plan.tile_rows = int(std::min(size_t(p.k), (room - taken) / row));
  plan.bytes = taken + plan.tile_rows * row;
  while (plan.group < most_group && plan.group * threads / plan.lanes < points) plan.group *= 2;
  while (plan.lanes > 1 && plan.group * threads / plan.lanes < points) plan.lanes /= 2;
  return plan;
}

template <class T>
void start(Run<T, Workspace<T>>& s, const Iterations& run) {
  const int grid = grid_size(s);
  const Plan plan = make_plan(s.problem, s.device_info, grid);
  dispatch<1, 2, 4>(plan.group, [&]<int group>() {
    launch_cooperative(plan.on_chip ? solve_kernel<T, true, group> : solve_kernel<T, false, group>, grid, threads,
                       plan.bytes, s.stream, s.x, s.c, s.label, s.ws.sums, run, plan.tile_rows, plan.lanes, s.n, s.k,
                       s.d);
  });
}

std::string refuse(const Shape& p, const Device& device, const Axes&) {
  if (row_bytes(p) <= device.shared_bytes_optin) return "";
  return "a centroid takes " + std::to_string(row_bytes(p)) + " bytes of shared memory, a block has " +
         std::to_string(device.shared_bytes_optin) + ": take fewer features";
}

template <class T>
void iterate(Run<T, Workspace<T>>& s) {
  iterate_in_one_launch(s, [&](const Iterations& run) { start(s, run); });
}

template <class T>
void solve(Run<T, Workspace<T>>& s) {
  solve_in_one_launch(s, [&](const Iterations& run) { start(s, run); });
}

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare<T>,
                                         .upload = upload<T>,
                                         .restart = restart<T>,
                                         .iterate = iterate<T>,
                                         .solve = solve<T>,
                                         .download = download_rows<T>};
}  // namespace

LADDER_VARIANT(.id = "v03g_exact_labels", .base = "v03f_moved_sums",
               .idea = "labels are proven by a rounding bound, or settled in double-double arithmetic",
               .expect =
                   "two more instructions per distance of 2 D + 4: 8 % of the assignment at D = 11 on an H200. Floats "
                   "of 11 features are off by 5e-6 of themselves: of 6,497 points few are undecided, each 900 "
                   "distances by one warp, some 3 us in the iterations that have one. Doubles are never undecided "
                   "unless distances are equal. A larger step: a bound, a second minimum and an exact comparison",
               .shows = "solve", .source = "this project: v24_certified",
               .arithmetic = {.form = Arithmetic::Form::exact, .operands = "own"}, .reads_labels = true,
               .refuse = refuse, .f32 = phases<float>, .f64 = phases<double>)
