// v03b: points and labels stay on the chip. v03a reads every point anew in each iteration, from L2 or at best from L1,
// though a block has the same points all the time. Here it copies them to shared memory once, when the launch begins,
// and its labels with them. Where they do not fit, they stay in L2.
#include "../common/lloyd/one_launch.cuh"

namespace {
using namespace ladder;

constexpr int threads = 512;

template <class T>
__device__ int nearest_centroid(const T* point, const T* c, int k, int d) {
  T nearest = std::numeric_limits<T>::infinity();
  int best = 0;
  for (int j = 0; j < k; ++j) {
    T distance = 0;
    for (int f = 0; f < d; ++f) {
      const T diff = point[f] - c[size_t(j) * d + f];
      distance += diff * diff;
    }
    if (distance < nearest) nearest = distance, best = j;  // <, not <=: on a tie the lowest index stays
  }
  return best;
}

/// Of a row in shared memory, odd: 32 lanes read a feature of their rows from 32 banks.
__host__ __device__ int row_pitch(int d) { return d | 1; }

/// `sums`: two copies of k x (d + 1), zeros before the first iteration. Feature d of every point is 1: its sums are the
/// counts. `on_chip`: the block's points and labels fit into shared memory.
template <class T, bool on_chip>
__global__ void __launch_bounds__(threads, 1)
    solve_kernel(const T* x, T* c, int32_t* label, double* sums, Iterations run, int n, int k, int d) {
  const auto grid = cooperative_groups::this_grid();
  const int first = share_begin(n, blockIdx.x, gridDim.x), last = share_begin(n, blockIdx.x + 1, gridDim.x);
  const int values = k * (d + 1), points = last - first, pitch = on_chip ? row_pitch(d) : d;
  T* const copy = dynamic_shared<T>();  // points x pitch
  const T* const rows = on_chip ? copy : x + size_t(first) * d;
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
    for (int i = threadIdx.x; i < points; i += threads) {
      const T* const row = rows + size_t(i) * pitch;
      const int j = nearest_centroid(row, c, k, d);
      changed += row_label[i] != j;
      row_label[i] = j;
      for (int f = 0; f <= d; ++f) atomicAdd(&sum[j * (d + 1) + f], f < d ? double(row[f]) : 1.0);
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

template <class T>
void start(Run<T, Workspace<T>>& s, const Iterations& run) {
  const int grid = grid_size(s);
  const size_t bytes = size_t(blocks(s.n, grid)) * (row_pitch(s.d) * sizeof(T) + sizeof(int32_t));
  const bool on_chip = bytes <= s.device_info.shared_bytes_optin;
  launch_cooperative(on_chip ? solve_kernel<T, true> : solve_kernel<T, false>, grid, threads, on_chip ? bytes : 0,
                     s.stream, s.x, s.c, s.label, s.ws.sums, run, s.n, s.k, s.d);
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

LADDER_VARIANT(.id = "v03b_points_on_chip", .base = "v03a_one_launch",
               .idea = "points and labels stay in shared memory from the first iteration to the last",
               .expect =
                   "at wine a block reads 2 KB of points per iteration: 11 dependent loads of 250 cycles from L2 or 35 "
                   "from L1 become 11 of 30: up to 1 us less of v03a's 6 to 8 us on an H200. More for long rows: at "
                   "11,000 x 256 a block has 84 KB of points, which each of 500 centroids makes it read again",
               .shows = "solve", .source = "this project", .reads_labels = true, .f32 = phases<float>,
               .f64 = phases<double>)
