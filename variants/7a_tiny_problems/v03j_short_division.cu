// v03j: a shorter division. v03i's blocks divide all sums in each iteration while nothing else goes on, by mean_of(),
// which is made for sums of three words whose carries have to be settled: some 100 instructions, one after the other.
// Here a sum of one word that is not above the largest digit, as nearly all are, takes the last ten of them, to the
// same bits.
//
// for cuda: 90a
#include "../common/lloyd/one_launch.cuh"
#include "../common/tiny/cluster.cuh"
#include "../common/tiny/point_group.cuh"
#include "../common/tiny/proven_nearest.cuh"
#include "../common/update/exact_sums.cuh"

namespace {
using namespace ladder;

constexpr int threads = 512;
constexpr int cluster_blocks = 16;

/// A block's points: rows of vectors in shared memory, or rows of numbers in L2.
template <class T, bool on_chip>
struct Points {
  const T* x;      // count x d
  Vec16<T>* copy;  // count x pitch
  int32_t* held;   // 2 x held_pitch: the cluster in which each copy of the sums holds a point, or -1
  int count, d, pitch, held_pitch;
  __device__ Vec16<T> vector(int i, int v) const {
    if constexpr (on_chip) return copy[i * pitch + v];
    return load_vec16(x + size_t(i) * d + v * Vec16<T>::size, d - v * Vec16<T>::size, d);
  }
  __device__ const T* row(int i) const {
    return on_chip ? reinterpret_cast<const T*>(copy + i * pitch) : x + size_t(i) * d;
  }
};

struct SumCopies {
  ExactSums first, second;
};

/// The mean of the `count` > 0 values whose sum is element e of k x d.
template <class T>
__device__ T cluster_mean(const ExactSums& sums, int e, int count, int k, int d) {
  const FixedPoint& format = sums.format;
  const SumWords words(sums.sum + e, size_t(k) * d, format);
  const auto sum = static_cast<long long>(words.of[0]);
  const unsigned long long size = sum < 0 ? 0 - words.of[0] : words.of[0];
  if (format.words > 1 || size >> format.bits != 0) return mean_of<T>(words, count, format);
  const double value = double(sum), share = 1.0 / count, quotient = value * share;
  return T(__fma_rn(__fma_rn(-quotient, count, value), share, quotient) * format.unit);
}

/// All centroids, to a tile with room for them. A centroid without points stays.
template <class T>
__device__ void divide_to_tile(Vec16<T>* tile, const ExactSums& sums, int k, int d, int pitch) {
  for (int e = threadIdx.x; e < k * d; e += threads) {
    const int j = e / d, count = sums.count[j];
    if (count == 0) continue;
    reinterpret_cast<T*>(tile + j * pitch)[e % d] = cluster_mean<T>(sums, e, count, k, d);
  }
}

/// `held`: 2 x n, what each copy of the sums holds. `own_means`: each block divides all sums; else only the first copy
/// is used. `on_chip`: the block's points and labels fit into shared memory, beside a tile of `tile_rows` centroids,
/// all with own_means. `lanes`: of a point, a power of two; each has `group` points.
template <class T, bool on_chip, int group>
__global__ void __launch_bounds__(threads, 1)
    solve_kernel(const T* x, T* c, int32_t* label, int32_t* held, SumCopies copies, Iterations run, bool is_cluster,
                 bool own_means, int tile_rows, int lanes, int n, int k, int d) {
  const int first = share_begin(n, blockIdx.x, gridDim.x), last = share_begin(n, blockIdx.x + 1, gridDim.x);
  const int vectors = row_vectors(d, sizeof(T)), pitch = row_pitch(vectors);
  const int lane = threadIdx.x % lanes, points_at_once = threads / lanes;
  Vec16<T>* const tile = dynamic_shared<Vec16<T>>();  // tile_rows x pitch
  Points<T, on_chip> points{x + size_t(first) * d, tile + tile_rows * pitch, held + first, last - first, d, pitch, n};
  if constexpr (on_chip) {
    copy_rows<threads>(points.copy, points.x, points.count, d, vectors, pitch);
    points.held = reinterpret_cast<int32_t*>(points.copy + points.count * pitch);
    points.held_pitch = points.count;
    for (int i = threadIdx.x; i < 2 * points.count; i += threads)
      points.held[i] = held[i < points.count ? first + i : n + first + i - points.count];
  }
  constexpr int width = Vec16<T>::size;
  const Centroids<T> centroids =
      own_means ? Centroids<T>{reinterpret_cast<const T*>(tile), pitch * width} : Centroids<T>{c, d};
  if (own_means) copy_rows<threads>(tile, c, k, d, vectors, pitch);
  __syncthreads();
  int turn = 0;
  for (int it = 0; it < run.most; ++it) {
    turn = own_means ? (run.done + it) % 2 : 0;
    const ExactSums sums = turn == 0 ? copies.first : copies.second;
    int32_t* const in_sums = points.held + turn * points.held_pitch;
    const int32_t* const before =
        points.held + (own_means ? 1 - turn : 0) * points.held_pitch;  // the labels of the iteration before
    int changed = 0;
    for (int begin = 0; begin < points.count; begin += group * points_at_once) {
      NearestAndSecond<T> nearest[group];
      int point[group];
#pragma unroll
      for (int r = 0; r < group; ++r)  // behind the last point: the last one again
        point[r] = min(points.count - 1, begin + int(threadIdx.x) / lanes + r * points_at_once);
      for (int from = 0; from < k; from += tile_rows) {
        const int count = min(tile_rows, k - from);
        if (!own_means && (begin == 0 || tile_rows < k)) {
          __syncthreads();  // the tile is free
          copy_rows<threads>(tile, c + size_t(from) * d, count, d, vectors, pitch);
          __syncthreads();
        }
        compare(nearest, points, point, tile, from, lane, lanes, count, vectors, pitch);
      }
#pragma unroll
      for (int r = 0; r < group; ++r) {
        const int i = point[r], j = settle(nearest_of_lanes(nearest[r], lanes), points, i, lanes, centroids, k);
        const bool valid = begin + int(threadIdx.x) / lanes + r * points_at_once == i;
        const int from = valid ? in_sums[i] : j;
        changed += valid && lane == 0 && before[i] != j;
        __syncwarp();  // all lanes of the point have read its label
        if (from == j) continue;
        for (int f = lane; f < d; f += lanes)
          move_feature(sums.sum, sums.format, double(points.row(i)[f]), f, from, j, k, d);
        if (lane > 0) continue;
        if (from >= 0) atomicAdd(&sums.count[from], -1);
        atomicAdd(&sums.count[j], 1);
        in_sums[i] = j;
      }
    }
    run.count(it, changed);
    wait_for_all(is_cluster);
    if (own_means) {
      divide_to_tile(tile, sums, k, d, pitch);
      __syncthreads();
    } else {
      for (int e = blockIdx.x * threads + threadIdx.x; e < k * d; e += gridDim.x * threads) {
        const int count = sums.count[e / d];
        if (count > 0) c[e] = cluster_mean<T>(sums, e, count, k, d);
      }
      wait_for_all(is_cluster);
    }
    if (run.ended(it, n)) break;
  }
  for (int i = threadIdx.x; i < points.count; i += threads) {
    label[first + i] = points.held[turn * points.held_pitch + i];
    if (on_chip) held[first + i] = points.held[i], held[n + first + i] = points.held[points.held_pitch + i];
  }
  if (own_means && blockIdx.x == 0)
    for (int e = threadIdx.x; e < k * d; e += threads) c[e] = centroids[e / d][e % d];
}

template <class T>
struct Workspace {
  OneLaunch launches;
  ExactSums sums;
  ExactSums other_sums;     // the second copy
  int32_t* held = nullptr;  // 2 x n
};

template <class T>
void prepare(Run<T, Workspace<T>>& s) {
  prepare_pinned(s);
  prepare_one_launch(s);
  prepare_exact_sums(s);
  s.ws.other_sums.sum = s.template device<unsigned long long>(size_t(FixedPoint::most_words) * s.k * s.d);
  s.ws.other_sums.count = s.template device<int>(s.k);
  s.ws.held = s.template device<int32_t>(2 * size_t(s.n));
}

template <class T>
void upload(Run<T, Workspace<T>>& s) {
  upload_rows(s);
  choose_format(s, s.x);
  s.ws.other_sums.format = s.ws.sums.format;
}

template <class T>
void restart(Run<T, Workspace<T>>& s) {
  restart_rows(s);
  s.ws.launches.done = 0;
  clear_exact_sums(s);
  clear_exact_sums(s, s.ws.other_sums);
  check(cudaMemsetAsync(s.ws.held, -1, 2 * size_t(s.n) * sizeof(int32_t), s.stream), "clearing the labels of the sums");
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
  bool own_means = false;
  int lanes = warp_lanes, group = 1;
};

/// Points go first, where they leave room for a tile that is worth its barriers. As many lanes per point as there are
/// threads for, with few points; with more of them more points per lane, then fewer lanes.
Plan make_plan(const Shape& p, const Device& device, const Axes& axes, int grid) {
  constexpr int few_rows = 64;
  int most_group = int(16 / p.element_bytes);  // more of them take too many registers
  const size_t row = row_bytes(p), room = device.shared_bytes_optin;
  const int points = blocks(p.n, grid);
  const size_t point_bytes = points * (row + 2 * sizeof(int32_t));
  Plan plan;
  plan.on_chip = point_bytes + std::min(p.k, few_rows) * row <= room;
  if (!plan.on_chip) most_group = 2;
  const size_t taken = plan.on_chip ? point_bytes : 0;
  plan.tile_rows = int(std::min(size_t(p.k), (room - taken) / row));
  plan.own_means = plan.tile_rows == p.k && int64_t(p.k) * p.d <= axes["own_means"];
  plan.bytes = taken + plan.tile_rows * row;
  while (plan.group < most_group && plan.group * threads / plan.lanes < points) plan.group *= 2;
  while (plan.lanes > 1 && plan.group * threads / plan.lanes < points) plan.lanes /= 2;
  return plan;
}

template <class T>
void start(Run<T, Workspace<T>>& s, const Iterations& run) {
  int grid = std::min(cluster_blocks, s.device_info.multiprocessors);
  Plan plan = make_plan(s.problem, s.device_info, s.axes, grid);
  const bool is_cluster = plan.on_chip && plan.own_means && s.n >= grid &&
                          int64_t(s.n) * s.k * s.d <= int64_t(s.axis("cluster_work")) * 1000;
  if (!is_cluster) grid = grid_size(s), plan = make_plan(s.problem, s.device_info, s.axes, grid);
  dispatch<1, 2, 4>(plan.group, [&]<int group>() {
    constexpr int most = int(16 / sizeof(T));
    const auto kernel =
        plan.on_chip ? solve_kernel<T, true, std::min(group, most)> : solve_kernel<T, false, std::min(group, 2)>;
    const auto with_arguments = [&](const auto& launch_kernel) {
      launch_kernel(s.x, s.c, s.label, s.ws.held, SumCopies{s.ws.sums, s.ws.other_sums}, run, is_cluster,
                    plan.own_means, plan.tile_rows, plan.lanes, s.n, s.k, s.d);
    };
    if (is_cluster)
      with_arguments([&](const auto&... a) { launch_cluster(kernel, grid, threads, plan.bytes, s.stream, a...); });
    else
      with_arguments([&](const auto&... a) { launch_cooperative(kernel, grid, threads, plan.bytes, s.stream, a...); });
  });
}

std::string refuse(const Shape& p, const Device& device, const Axes&) {
  if (device.kind == DeviceKind::cuda && device.compute_capability / 10 != 9)
    return "it is compiled for clusters of compute capability 9.0, this device has " +
           std::to_string(device.compute_capability / 10) + "." + std::to_string(device.compute_capability % 10);
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

LADDER_VARIANT(.id = "v03j_short_division", .base = "v03i_cluster",
               .idea = "a sum of one word is divided without settling carries, to the same bits",
               .expect =
                   "some 90 dependent instructions of 4 to 8 cycles less, once per iteration: 500 cycles or 0.3 us of "
                   "1.7 us at 1,599 x 11, K = 16 on an H200. At K = 900, where 9,900 quotients are shared by 132 "
                   "blocks, a thread has none or one: the same 0.3 us of 8",
               .shows = "solve", .source = "this project",
               .arithmetic = {.form = Arithmetic::Form::exact, .operands = "own"},
               .axes = {{"own_means", {0, 1024, 4096, 16384, 65536}, 4096},
                        {"cluster_work", {0, 300, 600, 1200, 2400, 4800}, 600}},
               .refuse = refuse, .f32 = phases<float>, .f64 = phases<double>)
