// v03k: bounds skip points. v03j computes all N x K distances in each iteration, though after the first ones hardly a
// label changes. Here each point keeps an upper bound of the distance to its centroid and a lower bound of those to all
// others; when centroids move, the one grows by what its centroid moved, the other shrinks by the largest move
// (Hamerly). While they do not meet, the label stays, proven. The other points of a block go into a list, and a short
// list gets more lanes per point. A block computes new centroids by groups of lanes, which also know how far each
// moved.
//
// for cuda: 90a
#include "../common/device/double_double.cuh"
#include "../common/lloyd/one_launch.cuh"
#include "../common/lloyd/vector_load.cuh"
#include "../common/pruning/yinyang_margin.hpp"
#include "../common/update/exact_sums.cuh"

namespace {
using namespace ladder;

constexpr int threads = 512;
constexpr int cluster_blocks = 16;
constexpr size_t count_bytes = 16;  // of the list, a vector

/// Waits for all blocks. The CPU device has no clusters: there a cluster is a cooperative grid.
__device__ void wait_for_all([[maybe_unused]] bool is_cluster) {
#ifdef __CUDACC__
  if (is_cluster) return cooperative_groups::this_cluster().sync();
#endif
  cooperative_groups::this_grid().sync();
}

/// Launches a grid that is one cluster.
template <class... P, class... A>
void launch_cluster(void (*kernel)(P...), int grid, size_t shared_bytes, cudaStream_t stream, A&&... args) {
#ifdef __CUDACC__
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1), "asking for 16 blocks");
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {unsigned(grid), 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = threads;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = &cluster;
  config.numAttrs = 1;
  detail::launch_with(kernel, config, std::forward<A>(args)...);
#else
  launch_cooperative(kernel, grid, threads, shared_bytes, stream, std::forward<A>(args)...);
#endif
}

/// What a squared distance of d features, summed up in any order, is off by at most: a share of itself, twice (the
/// difference, its square, d additions: d + 2 roundings), and where squares underflow, `least`.
template <class T>
struct Rounding {
  T share, least;
  __device__ explicit Rounding(int d)
      : share(T(4) * (d + 8) * (std::numeric_limits<T>::epsilon() / 2)),
        least(T(2) * d * std::numeric_limits<T>::denorm_min()) {}
  /// Whether the exact distance of which `far` was computed is above the exact one of which `near` was computed.
  __device__ bool above(T far, T near) const { return far * (1 - share) > near + least; }
};

template <class T>
struct Nearest {
  T distance = std::numeric_limits<T>::infinity();
  int centroid = 0;
  T second = std::numeric_limits<T>::infinity();  // the distance of another centroid; none is nearer

  __device__ void insert(T other, int j) {
    if (other < distance)  // <, not <=: on a tie the lowest index stays
      second = distance, distance = other, centroid = j;
    else
      second = min(second, other);
  }
};

/// Of a point's distances: to its centroid at most `upper`, to all others at least `lower`.
template <class T>
struct Bounds {
  T upper, lower;
};

/// A block's points: rows of vectors in shared memory, or rows of numbers in L2.
template <class T, bool on_chip>
struct Points {
  const T* x;         // count x d
  Vec16<T>* copy;     // count x pitch
  Bounds<T>* bounds;  // count
  int32_t* held;      // 2 x held_pitch: the cluster in which each copy of the sums holds a point, or -1
  int32_t* open;      // count: the list
  int count, d, pitch, held_pitch;
  __device__ Vec16<T> vector(int i, int v) const {
    if constexpr (on_chip) return copy[i * pitch + v];
    return load_vec16(x + size_t(i) * d + v * Vec16<T>::size, d - v * Vec16<T>::size, d);
  }
  __device__ const T* row(int i) const {
    return on_chip ? reinterpret_cast<const T*>(copy + i * pitch) : x + size_t(i) * d;
  }
};

/// Copies rows of d numbers to rows of vectors, all threads of the block together.
template <class T>
__device__ void copy_rows(Vec16<T>* to, const T* from, int rows, int d, int vectors, int pitch) {
  for (int e = threadIdx.x; e < rows * vectors; e += threads) {
    const int row = e / vectors, v = e % vectors;
    to[row * pitch + v] = load_vec16(from + size_t(row) * d + v * Vec16<T>::size, d - v * Vec16<T>::size, d);
  }
}

/// Compares `most` points, or the first `used` of them, with rows begin, begin + step, ... of a tile of `count` rows,
/// whose row 0 is centroid `first`.
template <int used = 0, int most, bool on_chip, class T>
__device__ void compare(Nearest<T> (&nearest)[most], const Points<T, on_chip>& points, const int (&point)[most],
                        const Vec16<T>* tile, int first, int begin, int step, int count, int vectors, int pitch) {
  constexpr int group = used > 0 ? used : most;
  for (int j = begin; j < count; j += step) {
    T distance[group] = {};
    for (int v = 0; v < vectors; ++v) {
      const Vec16<T> centroid = tile[j * pitch + v];
#pragma unroll
      for (int r = 0; r < group; ++r) add_squares(distance[r], points.vector(point[r], v), centroid);
    }
#pragma unroll
    for (int r = 0; r < group; ++r) nearest[r].insert(distance[r], first + j);
  }
}

/// The nearest of what `lanes` neighbouring lanes have found, in each of them.
template <class T>
__device__ Nearest<T> nearest_of_lanes(Nearest<T> nearest, int lanes) {
  for (int step = 1; step < lanes; step *= 2) {
    const T distance = __shfl_xor_sync(all_lanes, nearest.distance, step);
    const T second = __shfl_xor_sync(all_lanes, nearest.second, step);
    const int centroid = __shfl_xor_sync(all_lanes, nearest.centroid, step);
    if (distance < nearest.distance || (distance == nearest.distance && centroid < nearest.centroid))
      nearest = {distance, centroid, min(nearest.distance, second)};
    else
      nearest.second = min(nearest.second, distance);
  }
  return nearest;
}

/// All centroids: centroid j begins at first + j pitch.
template <class T>
struct Centroids {
  const T* first;
  int pitch;
  __device__ const T* operator[](int j) const { return first + size_t(j) * pitch; }
};

/// The nearest centroid of a point, by a warp; no computed distance is below `least`.
template <class T>
__attribute__((noinline)) __device__ int nearest_exactly(const T* point, T least, Centroids<T> c, int k, int d) {
  const int lane = threadIdx.x % warp_lanes;
  const Rounding<T> rounding(d);
  Exact best;
  for (int first = 0; first < k; first += warp_lanes) {
    T distance = 0;
    for (int f = 0; f < d && first + lane < k; ++f) {
      const T diff = point[f] - c[first + lane][f];
      distance += diff * diff;
    }
    unsigned open = __ballot_sync(all_lanes, first + lane < k && !rounding.above(distance, least));
    for (; open != 0; open &= open - 1) {
      const int j = first + __ffs(int(open)) - 1;
      const Exact exact{exact_warp_sum(exact_distance(point, c[j], d, lane, warp_lanes)), j};
      if (nearer(exact, best)) best = exact;
    }
  }
  return best.centroid;
}

/// The nearest centroid of point i, of which `lanes` neighbouring lanes hold `found`; all lanes of the warp, each with
/// its own point.
template <bool on_chip, class T>
__device__ int settle(const Nearest<T>& found, const Points<T, on_chip>& points, int i, int lanes,
                      const Centroids<T>& c, int k) {
  const int lane = threadIdx.x % warp_lanes;
  int nearest = found.centroid;
  const bool proven = Rounding<T>(points.d).above(found.second, found.distance);
  for (unsigned open = __ballot_sync(all_lanes, !proven && lane % lanes == 0); open != 0; open &= open - 1) {
    const int source = __ffs(int(open)) - 1;
    const int j = nearest_exactly(points.row(__shfl_sync(all_lanes, i, source)),
                                  __shfl_sync(all_lanes, found.distance, source), c, k, points.d);
    if (lane / lanes == source / lanes) nearest = j;
  }
  return nearest;
}

__host__ __device__ int row_vectors(int d, size_t element_bytes) { return int((d * element_bytes + 15) / 16); }
/// Of a row in shared memory, in vectors; odd: 8 lanes read a vector of their rows from 32 banks.
__host__ __device__ int row_pitch(int vectors) { return vectors | 1; }

/// Moves feature f of a point, `value`, from the sums of cluster `from` to those of `to`; from < 0: no sums hold it.
__device__ void move_feature(const ExactSums& sums, double value, int f, int from, int to, int k, int d) {
  for_digits(value, sums.format, [&](int w, long long digit) {
    unsigned long long* const word = sums.sum + size_t(w) * k * d + f;
    if (from >= 0) atomicAdd(word + size_t(from) * d, static_cast<unsigned long long>(-digit));
    atomicAdd(word + size_t(to) * d, static_cast<unsigned long long>(digit));
  });
}

/// Lanes of a point, a power of two. Few points get a lane group each; more of them are compared `group` at a time, so
/// that a centroid is read once for them.
__device__ int lanes_of_points(int points, int group, int k) {
  const int at_once = points <= threads / 4 ? 1 : group;
  int lanes = warp_lanes;
  while (lanes > 1 && (at_once * threads / lanes < points || lanes / 2 >= k)) lanes /= 2;
  return lanes;
}

/// The lanes that share a point with this one.
__device__ unsigned lanes_mask(int lanes) {
  return (all_lanes >> (warp_lanes - lanes)) << (threadIdx.x % warp_lanes / lanes * lanes);
}

/// Of k moves in shared memory.
template <class T>
__host__ __device__ int move_vectors(int k) {
  return int((k * sizeof(T) + 15) / 16);
}

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

/// Lanes that share a centroid of d features, a power of two.
__device__ int row_lanes(int d) {
  int lanes = 1;
  while (lanes < d && lanes < warp_lanes) lanes *= 2;
  return lanes;
}

/// New centroids first / L, first / L + step / L, ..., by L = row_lanes(d) lanes each, of k in `c`; `move`: how far
/// each moved, at most. A centroid without points stays. All lanes of the warp; those of a warp have neighbouring
/// `first`.
template <class T>
__attribute__((noinline)) __device__ void new_centroids(T* c, int c_pitch, T* move, const ExactSums& sums, int first,
                                                        int step, int k, int d) {
  const int lanes = row_lanes(d), lane = first % lanes;
  const Margin<T> margin(d);
  for (int j = first / lanes; j - int(threadIdx.x % warp_lanes) / lanes < k; j += step / lanes) {
    const int count = j < k ? sums.count[j] : 0;
    T squares = 0;
    for (int f = lane; f < d && count > 0; f += lanes) {
      T& feature = c[size_t(j) * c_pitch + f];
      const T mean = cluster_mean<T>(sums, j * d + f, count, k, d), moved = mean - feature;
      squares += moved * moved, feature = mean;
    }
    for (int apart = 1; apart < lanes; apart *= 2) squares += __shfl_xor_sync(all_lanes, squares, apart);
    if (lane == 0 && j < k) move[j] = squares == 0 && count == 0 ? T(0) : margin.above(squares);
  }
}

/// One warp: the largest of k moves.
template <class T>
__device__ T largest_move(const T* move, int k) {
  T largest = 0;
  for (int j = threadIdx.x % warp_lanes; j < k; j += warp_lanes) largest = max(largest, move[j]);
  return warp_max(largest);
}

/// Labels the points of the block that bounds leave open, and those that their sums hold elsewhere. load(from, count)
/// fills the tile with centroids, move_point(i, from, to, lane, lanes) moves a point between the sums. Returns how many
/// labels the thread has changed.
template <int group, class T, bool on_chip, class Load, class Move>
__device__ int assign_open(const Points<T, on_chip>& points, int* open_count, int32_t* in_sums, const int32_t* before,
                           const Vec16<T>* tile, int tile_rows, const Centroids<T>& centroids, int k, const Load& load,
                           const Move& move_point) {
  const Margin<T> margin(points.d);
  const int vectors = row_vectors(points.d, sizeof(T));
  int changed = 0;
  if (threadIdx.x == 0) *open_count = 0;
  __syncthreads();
  for (int i = threadIdx.x; i < points.count; i += threads) {
    const int former = before[i];
    if (former < 0 || former != in_sums[i] || !margin.farther(points.bounds[i].lower, points.bounds[i].upper))
      points.open[atomicAdd(open_count, 1)] = i;
  }
  __syncthreads();
  const int open = *open_count, lanes = lanes_of_points(open, group, k);
  const int lane = threadIdx.x % lanes, points_at_once = threads / lanes;
  for (int begin = 0; begin < open; begin += group * points_at_once) {
    Nearest<T> nearest[group];
    int point[group];
#pragma unroll
    for (int r = 0; r < group; ++r)  // behind the last point: the last one again
      point[r] = points.open[min(open - 1, begin + int(threadIdx.x) / lanes + r * points_at_once)];
    for (int from = 0; from < k; from += tile_rows) {
      const int count = min(tile_rows, k - from);
      if (begin == 0 || tile_rows < k) load(from, count);
      if (open - begin > points_at_once)
        compare(nearest, points, point, tile, from, lane, lanes, count, vectors, points.pitch);
      else  // the others are the last one again
        compare<1>(nearest, points, point, tile, from, lane, lanes, count, vectors, points.pitch);
    }
#pragma unroll
    for (int r = 0; r < group; ++r) {
      if (begin + r * points_at_once >= open) break;
      const Nearest<T> found = nearest_of_lanes(nearest[r], lanes);
      const int i = point[r], j = settle(found, points, i, lanes, centroids, k);
      if (begin + int(threadIdx.x) / lanes + r * points_at_once >= open) continue;
      const int from = in_sums[i];
      changed += lane == 0 && before[i] != j;
      // Of two that rounding leaves open, the computed distance of the other may be the smaller one.
      if (lane == 0)
        points.bounds[i] = {margin.above(found.distance),
                            margin.below(j == found.centroid ? found.second : found.distance)};
      if (from == j) continue;
      move_point(i, from, j, lane, lanes);
      __syncwarp(lanes_mask(lanes));  // all lanes of the point have read its label
      if (lane == 0) in_sums[i] = j;
    }
  }
  return changed;
}

/// `held`: 2 x n, what each copy of the sums holds. `bounds`, `open`: n, `moves`: k. `own_means`: each block divides
/// all sums; else only the first copy is used. `on_chip`: the block's points and labels fit into shared memory, beside
/// a tile of `tile_rows` centroids, all with own_means. A lane compares `group` points at a time.
template <class T, bool on_chip, int group>
__global__ void __launch_bounds__(threads, 1)
    solve_kernel(const T* x, T* c, int32_t* label, int32_t* held, Bounds<T>* bounds, int32_t* open, T* moves,
                 SumCopies copies, Iterations run, bool is_cluster, bool own_means, int tile_rows, int n, int k,
                 int d) {
  int* const open_count = dynamic_shared<int>();
  const int first = share_begin(n, blockIdx.x, gridDim.x), last = share_begin(n, blockIdx.x + 1, gridDim.x);
  const int vectors = row_vectors(d, sizeof(T)), pitch = row_pitch(vectors);
  Vec16<T>* const tile = dynamic_shared<Vec16<T>>() + 1;                               // tile_rows x pitch
  T* const move = own_means ? reinterpret_cast<T*>(tile + tile_rows * pitch) : moves;  // k
  Points<T, on_chip> points{x + size_t(first) * d,
                            tile + tile_rows * pitch + (own_means ? move_vectors<T>(k) : 0),
                            bounds + first,
                            held + first,
                            open + first,
                            last - first,
                            d,
                            pitch,
                            n};
  if constexpr (on_chip) {
    copy_rows(points.copy, points.x, points.count, d, vectors, pitch);
    points.bounds = reinterpret_cast<Bounds<T>*>(points.copy + points.count * pitch);
    points.held = reinterpret_cast<int32_t*>(points.bounds + points.count);
    points.open = points.held + 2 * points.count;
    points.held_pitch = points.count;
    for (int i = threadIdx.x; i < points.count; i += threads) points.bounds[i] = bounds[first + i];
    for (int i = threadIdx.x; i < 2 * points.count; i += threads)
      points.held[i] = held[i < points.count ? first + i : n + first + i - points.count];
  }
  constexpr int width = Vec16<T>::size;
  const Centroids<T> centroids =
      own_means ? Centroids<T>{reinterpret_cast<const T*>(tile), pitch * width} : Centroids<T>{c, d};
  if (own_means) copy_rows(tile, c, k, d, vectors, pitch);
  __syncthreads();
  const Margin<T> margin(d);
  int turn = 0;
  for (int it = 0; it < run.most; ++it) {
    turn = own_means ? (run.done + it) % 2 : 0;
    const ExactSums sums = turn == 0 ? copies.first : copies.second;
    int32_t* const in_sums = points.held + turn * points.held_pitch;
    const int32_t* const before =
        points.held + (own_means ? 1 - turn : 0) * points.held_pitch;  // the labels of the iteration before
    const auto load = [&](int from, int count) {
      if (own_means) return;
      __syncthreads();  // the tile is free
      copy_rows(tile, c + size_t(from) * d, count, d, vectors, pitch);
      __syncthreads();
    };
    const auto move_point = [&](int i, int from, int to, int lane, int lanes) {
      for (int f = lane; f < d; f += lanes) move_feature(sums, double(points.row(i)[f]), f, from, to, k, d);
      if (lane > 0) return;
      if (from >= 0) atomicAdd(&sums.count[from], -1);
      atomicAdd(&sums.count[to], 1);
    };
    const int changed =
        assign_open<group>(points, open_count, in_sums, before, tile, tile_rows, centroids, k, load, move_point);
    run.count(it, changed);
    wait_for_all(is_cluster);
    if (own_means)
      new_centroids(reinterpret_cast<T*>(tile), pitch * width, move, sums, threadIdx.x, threads, k, d);
    else
      new_centroids(c, d, move, sums, blockIdx.x * threads + threadIdx.x, gridDim.x * threads, k, d),
          wait_for_all(is_cluster);
    __syncthreads();
    const T largest = largest_move(move, k);
    for (int i = threadIdx.x; i < points.count; i += threads) {
      Bounds<T>& of = points.bounds[i];
      of = {margin.raised(of.upper, move[in_sums[i]]), margin.lowered(of.lower, largest)};
    }
    if (run.ended(it, n)) break;
  }
  for (int i = threadIdx.x; i < points.count; i += threads) {
    label[first + i] = points.held[turn * points.held_pitch + i];
    if (!on_chip) continue;
    held[first + i] = points.held[i], held[n + first + i] = points.held[points.held_pitch + i];
    bounds[first + i] = points.bounds[i];
  }
  if (own_means && blockIdx.x == 0)
    for (int e = threadIdx.x; e < k * d; e += threads) c[e] = centroids[e / d][e % d];
}

template <class T>
struct Workspace {
  OneLaunch launches;
  ExactSums sums;
  ExactSums other_sums;         // the second copy
  int32_t* held = nullptr;      // 2 x n
  Bounds<T>* bounds = nullptr;  // n
  int32_t* open = nullptr;      // n
  T* moves = nullptr;           // k
};

template <class T>
void prepare(Run<T, Workspace<T>>& s) {
  prepare_pinned(s);
  prepare_one_launch(s);
  prepare_exact_sums(s);
  s.ws.other_sums.sum = s.template device<unsigned long long>(size_t(FixedPoint::most_words) * s.k * s.d);
  s.ws.other_sums.count = s.template device<int>(s.k);
  s.ws.held = s.template device<int32_t>(2 * size_t(s.n));
  s.ws.bounds = s.template device<Bounds<T>>(s.n);
  s.ws.open = s.template device<int32_t>(s.n);
  s.ws.moves = s.template device<T>(s.k);
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
  for (int copy = 0; copy < 2; ++copy) {
    clear_exact_sums(s);
    std::swap(s.ws.sums, s.ws.other_sums);
  }
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
  int group = 1;
};

/// Points go first, where they leave room for a tile that is worth its barriers. With more points than warps, more
/// points per lane.
Plan make_plan(const Shape& p, const Device& device, const Axes& axes, int grid) {
  constexpr int few_rows = 64;
  int most_group = int(16 / p.element_bytes);  // more of them take too many registers
  const size_t row = row_bytes(p), room = device.shared_bytes_optin - count_bytes;
  const int points = blocks(p.n, grid);
  const size_t point_bytes = points * (row + 3 * sizeof(int32_t) + 2 * p.element_bytes);
  const size_t move_bytes = (p.k * p.element_bytes + 15) / 16 * 16;
  Plan plan;
  plan.on_chip = point_bytes + std::min(p.k, few_rows) * row <= room;
  if (!plan.on_chip) most_group = 2;
  const size_t taken = plan.on_chip ? point_bytes : 0;
  plan.tile_rows = int(std::min(size_t(p.k), (room - taken) / row));
  plan.bytes = count_bytes + taken + plan.tile_rows * row;
  plan.own_means = plan.tile_rows == p.k && int64_t(p.k) * p.d <= axes["own_means"] &&
                   plan.bytes + move_bytes <= device.shared_bytes_optin;
  if (plan.own_means) plan.bytes += move_bytes;
  while (plan.group < most_group && plan.group * threads / warp_lanes < points) plan.group *= 2;
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
    const auto with_arguments = [&](const auto& start_kernel) {
      start_kernel(s.x, s.c, s.label, s.ws.held, s.ws.bounds, s.ws.open, s.ws.moves,
                   SumCopies{s.ws.sums, s.ws.other_sums}, run, is_cluster, plan.own_means, plan.tile_rows, s.n, s.k,
                   s.d);
    };
    if (is_cluster)
      with_arguments([&](const auto&... a) { launch_cluster(kernel, grid, plan.bytes, s.stream, a...); });
    else
      with_arguments([&](const auto&... a) { launch_cooperative(kernel, grid, threads, plan.bytes, s.stream, a...); });
  });
}

std::string refuse(const Shape& p, const Device& device, const Axes&) {
  if (device.kind == DeviceKind::cuda && device.compute_capability / 10 != 9)
    return "it is compiled for clusters of compute capability 9.0, this device has " +
           std::to_string(device.compute_capability / 10) + "." + std::to_string(device.compute_capability % 10);
  if (count_bytes + row_bytes(p) <= device.shared_bytes_optin) return "";
  return "a centroid takes " + std::to_string(count_bytes + row_bytes(p)) + " bytes of shared memory, a block has " +
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

LADDER_VARIANT(
        .id = "v03k_bounds", .base = "v03j_short_division",
        .idea = "bounds of each point's distances prove most labels; the other points go into a list (Hamerly)",
        .expect =
            "A larger step: bounds, moves and the list belong together. Counted on the host: of the points of a "
            "run 27 % stay open for wine_k16, 26 % for letter, 55 % for cover's and photo_k64's first 30 or 40 "
            "iterations, 76 % for wine_k900. cover on an H200: distances, 160 us of an iteration for 2,167 "
            "points per block, become 80; wine_k16: 49 points per block take 1,000 of 12,000 cycles, the barrier "
            "and the L2 cache stay, so 6.0 us become 5.5. wine_k900 gains nothing",
        .shows = "solve", .source = "Hamerly, Making k-means even faster, 2010; this project",
        .arithmetic = {.form = Arithmetic::Form::exact},
        .axes = {{"own_means", {0, 1024, 4096, 16384, 65536}, 4096},
                 {"cluster_work", {0, 300, 600, 1200, 2400, 4800}, 600}},
        .prunes = true, .refuse = refuse, .f32 = phases<float>, .f64 = phases<double>)
