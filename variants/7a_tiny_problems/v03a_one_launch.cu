// v03a: all iterations in one launch. For a tiny problem v03 mostly waits: two memsets and three launches per
// iteration, and the host looks at the count of changed labels before it starts the next one. Here the whole grid stays
// on the device: a cooperative launch, in which a barrier of the grid takes the place of a launch. A block owns
// consecutive points and adds each to the sums as soon as it has a label; there are two copies of the sums, one of
// which is cleared while the other is divided.
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

/// `sums`: two copies of k x (d + 1), zeros before the first iteration. Feature d of every point is 1: its sums are the
/// counts.
template <class T>
__global__ void __launch_bounds__(threads, 1)
    solve_kernel(const T* x, T* c, int32_t* label, double* sums, Iterations run, int n, int k, int d) {
  const auto grid = cooperative_groups::this_grid();
  const int first = share_begin(n, blockIdx.x, gridDim.x), last = share_begin(n, blockIdx.x + 1, gridDim.x);
  const int values = k * (d + 1);
  for (int it = 0; it < run.most; ++it) {
    double* const sum = sums + ((run.done + it) % 2) * values;
    double* const next_sum = sums + ((run.done + it + 1) % 2) * values;
    int changed = 0;
    for (int i = first + threadIdx.x; i < last; i += threads) {
      const int j = nearest_centroid(x + size_t(i) * d, c, k, d);
      changed += label[i] != j;
      label[i] = j;
      for (int f = 0; f <= d; ++f) atomicAdd(&sum[j * (d + 1) + f], f < d ? double(x[size_t(i) * d + f]) : 1.0);
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
    if (run.ended(it, n)) return;
  }
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
  launch_cooperative(solve_kernel<T>, grid_size(s), threads, 0, s.stream, s.x, s.c, s.label, s.ws.sums, run, s.n, s.k,
                     s.d);
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

LADDER_VARIANT(.id = "v03a_one_launch", .base = "v03_device_update",
               .idea = "all iterations in one launch: barriers of a cooperative grid, the stop rule on the device",
               .expect =
                   "v03's iteration of five launches and a look at a count takes 25 to 40 us on an H200 whatever is "
                   "in it; two grid barriers take 2.5 to 3 us. At wine (K = 16) some 50 points per multiprocessor and "
                   "176 products each, read through L1 by one thread, add 3 to 5 us: 6 to 8 us in place of 35. A "
                   "larger step: a loop on the device has a barrier, a history and a rule",
               .shows = "solve", .source = "this project", .reads_labels = true, .f32 = phases<float>,
               .f64 = phases<double>)
