// v03d: several lanes per point. A tiny problem has fewer points than the device has lanes: of v03c's 512 threads per
// multiprocessor 50 have a point of wine, and at 615 points five. Here up to 32 neighbouring lanes share a point: each
// compares it with every so-many-th centroid, shuffles find the nearest of all (tiny/nearest_of_lanes.cuh), and
// each adds some features to the sums.
#include "../common/lloyd/one_launch.cuh"
#include "../common/tiny/nearest_of_lanes.cuh"

namespace {
using namespace ladder;

constexpr int threads = 512;

/// Compares a point with rows begin, begin + step, ... of a tile of `count` rows, whose row 0 is centroid `first`.
template <class T>
__device__ void compare(Nearest<T>& nearest, const T* point, const T* tile, int first, int begin, int step, int count,
                        int d, int pitch) {
  for (int j = begin; j < count; j += step) {
    T distance = 0;
    for (int f = 0; f < d; ++f) {
      const T diff = point[f] - tile[j * pitch + f];
      distance += diff * diff;
    }
    nearest.insert(distance, first + j);
  }
}

/// Of a row in shared memory, odd: 32 lanes read a feature of their rows from 32 banks.
__host__ __device__ int row_pitch(int d) { return d | 1; }

/// `sums`: two copies of k x (d + 1), zeros before the first iteration. Feature d of every point is 1: its sums are the
/// counts. `on_chip`: the block's points and labels fit into shared memory, beside a tile of `tile_rows` centroids.
/// `lanes`: of a point, a power of two.
template <class T, bool on_chip>
__global__ void __launch_bounds__(threads, 1)
    solve_kernel(const T* x, T* c, int32_t* label, double* sums, Iterations run, int tile_rows, int lanes, int n, int k,
                 int d) {
  const auto grid = cooperative_groups::this_grid();
  const int first = share_begin(n, blockIdx.x, gridDim.x), last = share_begin(n, blockIdx.x + 1, gridDim.x);
  const int values = k * (d + 1), points = last - first, tile_pitch = row_pitch(d), pitch = on_chip ? tile_pitch : d;
  T* const tile = dynamic_shared<T>();            // tile_rows x tile_pitch
  T* const copy = tile + tile_rows * tile_pitch;  // points x pitch
  const T* const rows = on_chip ? copy : x + size_t(first) * d;
  const int lane = threadIdx.x % lanes, points_at_once = threads / lanes;
  int32_t* const row_label = on_chip ? reinterpret_cast<int32_t*>(copy + points * pitch) : label + first;
  if (on_chip) {
    for (int e = threadIdx.x; e < points * d; e += threads) copy[e / d * pitch + e % d] = x[size_t(first) * d + e];
    for (int i = threadIdx.x; i < points; i += threads) row_label[i] = label[first + i];
    __syncthreads();
  }
  for (int it = 0; it < run.most; ++it) {
    double* const sum = sums + ((run.done + it) % 2) * values;
    double* const next_sum = sums + ((run.done + it + 1) % 2) * values;
    int changed = 0;
    for (int begin = 0; begin < points; begin += points_at_once) {
      const int i = begin + threadIdx.x / lanes;
      const T* const row = rows + size_t(i) * pitch;
      Nearest<T> nearest;
      for (int from = 0; from < k; from += tile_rows) {
        const int count = min(tile_rows, k - from);
        if (begin == 0 || tile_rows < k) {
          __syncthreads();  // the tile is free
          for (int e = threadIdx.x; e < count * d; e += threads)
            tile[e / d * tile_pitch + e % d] = c[size_t(from) * d + e];
          __syncthreads();
        }
        if (i < points) compare(nearest, row, tile, from, lane, lanes, count, d, tile_pitch);
      }
      const int j = nearest_of_lanes(nearest, lanes).centroid;
      if (i >= points) continue;
      for (int f = lane; f <= d; f += lanes) atomicAdd(&sum[j * (d + 1) + f], f < d ? double(row[f]) : 1.0);
      if (lane > 0) continue;
      changed += row_label[i] != j;
      row_label[i] = j;
    }
    run.count(it, changed);
    grid.sync();
    for (int e = blockIdx.x * threads + threadIdx.x; e < values; e += gridDim.x * threads) {
      const int j = e / (d + 1), f = e % (d + 1);
      const double count = sum[j * (d + 1) + d];
      if (f < d && count > 0) c[size_t(j) * d + f] = T(sum[e] / count);  // a centroid without points stays
      next_sum[e] = 0;
    }
    grid.sync();
    if (run.ended(it, n)) break;
  }
  for (int i = threadIdx.x; on_chip && i < points; i += threads) label[first + i] = row_label[i];
}

template <class T>
struct Workspace {
  OneLaunch launches;
  double* sums = nullptr;  // 2 x k x (d + 1)
};

template <class T>
void prepare(Run<T, Workspace<T>>& s) {
  prepare_pinned(s);
  prepare_one_launch(s);
  s.ws.sums = s.template device<double>(2 * size_t(s.k) * (s.d + 1));
}

template <class T>
void restart(Run<T, Workspace<T>>& s) {
  restart_rows(s);
  s.ws.launches.done = 0;
  check(cudaMemsetAsync(s.ws.sums, 0, 2 * size_t(s.k) * (s.d + 1) * sizeof(double), s.stream), "clearing the sums");
}

/// All multiprocessors, or as many as have enough to do between two barriers.
template <class T>
int grid_size(const State<T>& s) {
  constexpr int64_t enough = 8192;  // multiply-adds
  const int64_t worth = std::min(int64_t(s.n), int64_t(s.n) * s.k * s.d / enough);
  return int(std::clamp(worth, int64_t(1), int64_t(s.device_info.multiprocessors)));
}

/// How a block uses its shared memory.
struct SharedPlan {
  size_t bytes;
  int tile_rows;
  bool on_chip;
};

/// Points go first, where they leave room for a tile that is worth its barriers.
SharedPlan shared_plan(const Shape& p, const Device& device, int grid) {
  constexpr int few_rows = 64;
  const size_t row = row_pitch(p.d) * p.element_bytes, room = device.shared_bytes_optin;
  size_t points = size_t(blocks(p.n, grid)) * (row + sizeof(int32_t));
  const bool on_chip = points + std::min(p.k, few_rows) * row <= room;
  if (!on_chip) points = 0;
  const int tile_rows = int(std::min(size_t(p.k), (room - points) / row));
  return {points + tile_rows * row, tile_rows, on_chip};
}

/// As many lanes per point as there are threads for.
int lanes_per_point(int points) {
  int lanes = 1;
  while (lanes < warp_lanes && 2 * lanes * points <= threads) lanes *= 2;
  return lanes;
}

template <class T>
void start(Run<T, Workspace<T>>& s, const Iterations& run) {
  const int grid = grid_size(s);
  const SharedPlan plan = shared_plan(s.problem, s.device_info, grid);
  launch_cooperative(plan.on_chip ? solve_kernel<T, true> : solve_kernel<T, false>, grid, threads, plan.bytes, s.stream,
                     s.x, s.c, s.label, s.ws.sums, run, plan.tile_rows, lanes_per_point(blocks(s.n, grid)), s.n, s.k,
                     s.d);
}

std::string refuse(const Shape& p, const Device& device, const Axes&) {
  const size_t row = row_pitch(p.d) * p.element_bytes;
  if (row <= device.shared_bytes_optin) return "";
  return "a centroid takes " + std::to_string(row) + " bytes of shared memory, a block has " +
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
                                         .upload = upload_rows<T>,
                                         .restart = restart<T>,
                                         .iterate = iterate<T>,
                                         .solve = solve<T>,
                                         .download = download_rows<T>};
}  // namespace

LADDER_VARIANT(.id = "v03d_lanes_per_point", .base = "v03c_centroids_on_chip",
               .idea = "up to 32 lanes share a point: each compares it with some of the centroids",
               .expect =
                   "at wine 8 lanes of 50 points: K = 900 takes 113 steps of 11 features in place of 900, and 14 warps "
                   "in place of 2 hide each other's waits. 900 x 11 x 4 instructions for 50 points are 63,000 issue "
                   "slots, 16,000 cycles or 9 us on an H200 where v03c needs some 100 us. K = 16: 1 us less of 5",
               .shows = "solve", .counter = "sm_percent", .source = "this project", .reads_labels = true,
               .refuse = refuse, .f32 = phases<float>, .f64 = phases<double>)
