// v03h: one barrier per iteration. v03g's grid waits twice: until all sums are complete, and until all centroids are
// divided. Where there are few centroids, each block divides all of them itself. Blocks that are ahead would then add
// to sums that others still read, so there are two copies of the sums, which take turns. A point has a label in each:
// the cluster in which that copy holds it. When a copy's turn comes, it makes up for both iterations.
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

/// All centroids, to a tile with room for them. A centroid without points stays.
template <class T>
__device__ void divide_to_tile(Vec16<T>* tile, const ExactSums& sums, int k, int d, int pitch) {
  for (int e = threadIdx.x; e < k * d; e += threads) {
    const int j = e / d, count = sums.count[j];
    if (count == 0) continue;
    const SumWords sum(sums.sum + e, size_t(k) * d, sums.format);
    reinterpret_cast<T*>(tile + j * pitch)[e % d] = mean_of<T>(sum, count, sums.format);
  }
}

/// `held`: 2 x n, what each copy of the sums holds. `own_means`: each block divides all sums; else only the first copy
/// is used. `on_chip`: the block's points and labels fit into shared memory, beside a tile of `tile_rows` centroids,
/// all with own_means. `lanes`: of a point, a power of two; each has `group` points.
template <class T, bool on_chip, int group>
__global__ void __launch_bounds__(threads, 1)
    solve_kernel(const T* x, T* c, int32_t* label, int32_t* held, SumCopies copies, Iterations run, bool own_means,
                 int tile_rows, int lanes, int n, int k, int d) {
  const auto grid = cooperative_groups::this_grid();
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
    grid.sync();
    if (own_means) {
      divide_to_tile(tile, sums, k, d, pitch);
      __syncthreads();
    } else {
      for (int e = blockIdx.x * threads + threadIdx.x; e < k * d; e += gridDim.x * threads) {
        const int count = sums.count[e / d];
        if (count > 0) c[e] = mean_of<T>(SumWords(sums.sum + e, size_t(k) * d, sums.format), count, sums.format);
      }
      grid.sync();
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
  const int grid = grid_size(s);
  const Plan plan = make_plan(s.problem, s.device_info, s.axes, grid);
  dispatch<1, 2, 4>(plan.group, [&]<int group>() {
    constexpr int most = int(16 / sizeof(T));
    launch_cooperative(
        plan.on_chip ? solve_kernel<T, true, std::min(group, most)> : solve_kernel<T, false, std::min(group, 2)>, grid,
        threads, plan.bytes, s.stream, s.x, s.c, s.label, s.ws.held, SumCopies{s.ws.sums, s.ws.other_sums}, run,
        plan.own_means, plan.tile_rows, plan.lanes, s.n, s.k, s.d);
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

LADDER_VARIANT(.id = "v03h_one_barrier", .base = "v03g_exact_labels",
               .idea = "one grid barrier per iteration: each block divides all sums itself, of two copies in turn",
               .expect =
                   "a barrier of 132 blocks takes some 2,100 cycles, 1.2 us of an H200, and the centroids one trip to "
                   "L2 of 0.4 us less: at wine K = 16 1.5 us of 4.5. In return 176 quotients for each block, one per "
                   "thread, 0.2 us, and each move is made twice. A quotient takes some 60 instructions, at half rate: "
                   "4,096 of them take a block 1.1 us, so with more the grid divides as before. A larger step: a "
                   "second copy of the sums needs labels of its own",
               .shows = "solve", .source = "this project",
               .arithmetic = {.form = Arithmetic::Form::exact, .operands = "own"},
               .axes = {{"own_means", {0, 1024, 4096, 16384, 65536}, 4096}}, .refuse = refuse, .f32 = phases<float>,
               .f64 = phases<double>)
