// v03m: centroids that stayed are not compared again. With many clusters bounds seldom hold, as one centroid that moves
// far lowers them all; yet after some iterations most clusters neither win nor lose a point, and their centroids are
// the same to the last bit. v03l's grid compares each open point with all centroids, and reads all of them from the L2
// cache. Here a point keeps its bound from before the move where the two meet: it holds for all centroids that stayed.
// The point is compared with its own centroid and those that moved; only where this proves no label, with all. A block
// reads the moved rows alone.
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

/// Waits for all blocks of the cluster. The CPU device has no clusters: there a cooperative grid takes its place.
__device__ void wait_for_cluster() {
#ifdef __CUDACC__
  cooperative_groups::this_cluster().sync();
#else
  cooperative_groups::this_grid().sync();
#endif
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
  int32_t* open;      // 2 x held_pitch: the list, and that of the points that the moved centroids leave open
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

/// Compares `most` points, or the first `used` of them, with rows begin, begin + step, ... of `count` rows of a tile,
/// or of those in `rows`, whose row 0 is centroid `first`.
template <int used = 0, int most, bool on_chip, class T>
__device__ void compare(Nearest<T> (&nearest)[most], const Points<T, on_chip>& points, const int (&point)[most],
                        const Vec16<T>* tile, const int32_t* rows, int first, int begin, int step, int count,
                        int vectors, int pitch) {
  constexpr int group = used > 0 ? used : most;
  for (int at = begin; at < count; at += step) {
    const int j = rows ? rows[at] : at;
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

/// All threads of the block: the centroids that moved, in any order.
template <class T>
__device__ void list_moved(int32_t* rows, int* count, const T* move, int k) {
  if (threadIdx.x == 0) *count = 0;
  __syncthreads();
  for (int j = threadIdx.x; j < k; j += threads)
    if (move[j] > 0) rows[atomicAdd(count, 1)] = j;
  __syncthreads();
}

/// As copy_rows(), of `count` listed rows.
template <class T>
__device__ void copy_listed_rows(Vec16<T>* to, const T* from, const int32_t* rows, int count, int d, int vectors,
                                 int pitch) {
  for (int e = threadIdx.x; e < count * vectors; e += threads) {
    const int row = rows[e / vectors], v = e % vectors;
    to[row * pitch + v] = load_vec16(from + size_t(row) * d + v * Vec16<T>::size, d - v * Vec16<T>::size, d);
  }
}

struct SumCopies {
  ExactSums first, second;
};

/// The mean of `count` > 0 values.
template <class T>
__device__ T short_mean(const SumWords& words, int count, const FixedPoint& format) {
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
      const T mean = short_mean<T>(SumWords(sums.sum + j * d + f, size_t(k) * d, sums.format), count, sums.format),
              moved = mean - feature;
      squares += moved == 0 ? 0 : max(moved * moved, std::numeric_limits<T>::min()), feature = mean;
    }
    for (int apart = 1; apart < lanes; apart *= 2) squares += __shfl_xor_sync(all_lanes, squares, apart);
    if (lane == 0 && j < k) move[j] = squares == 0 ? T(0) : margin.above(squares);
  }
}

/// One warp: the largest of k moves.
template <class T>
__device__ T largest_move(const T* move, int k) {
  T largest = 0;
  for (int j = threadIdx.x % warp_lanes; j < k; j += warp_lanes) largest = max(largest, move[j]);
  return warp_max(largest);
}

/// The centroids that moved, if `row` is not null.
template <class T>
struct Moved {
  const int32_t* row;
  int count;
  const T* move;  // of all centroids
};

/// Labels `listed` points of a list. With `moved`, a point's lower bound holds for all other centroids but its own;
/// points that this leaves open go to another list. All other arguments are those of assign_open().
template <int group, class T, bool on_chip, class Load, class Move>
__device__ int assign_listed(const Points<T, on_chip>& points, const int32_t* list, int listed, const Moved<T>& moved,
                             int* again_count, int32_t* in_sums, const int32_t* before, const Vec16<T>* tile,
                             int tile_rows, const Centroids<T>& centroids, int k, const Load& load,
                             const Move& move_point) {
  const Margin<T> margin(points.d);
  const int vectors = row_vectors(points.d, sizeof(T)), lanes = lanes_of_points(listed, group, k);
  const int lane = threadIdx.x % lanes, points_at_once = threads / lanes;
  int changed = 0;
  for (int begin = 0; begin < listed; begin += group * points_at_once) {
    Nearest<T> nearest[group];
    int point[group];
#pragma unroll
    for (int r = 0; r < group; ++r)  // behind the last point: the last one again
      point[r] = list[min(listed - 1, begin + int(threadIdx.x) / lanes + r * points_at_once)];
    for (int from = 0; from < k; from += tile_rows) {
      const int count = moved.row ? moved.count : min(tile_rows, k - from);
      if (!moved.row && (begin == 0 || tile_rows < k)) load(from, count);
      if (listed - begin > points_at_once)
        compare(nearest, points, point, tile, moved.row, from, lane, lanes, count, vectors, points.pitch);
      else  // the others are the last one again
        compare<1>(nearest, points, point, tile, moved.row, from, lane, lanes, count, vectors, points.pitch);
    }
#pragma unroll
    for (int r = 0; r < group; ++r) {
      const bool exists = begin + int(threadIdx.x) / lanes + r * points_at_once < listed;
      const int former = moved.row && lane == 0 && exists ? before[point[r]] : -1;
      if (former < 0 || moved.move[former] > 0) continue;
      T distance = 0;
      for (int v = 0; v < vectors; ++v)
        add_squares(distance, points.vector(point[r], v), tile[former * points.pitch + v]);
      nearest[r].insert(distance, former);
    }
#pragma unroll
    for (int r = 0; r < group; ++r) {
      if (begin + r * points_at_once >= listed) break;
      const bool exists = begin + int(threadIdx.x) / lanes + r * points_at_once < listed;
      const int i = point[r];
      const Nearest<T> found = nearest_of_lanes(nearest[r], lanes);
      int j = found.centroid;
      T others = found.second;
      if (moved.row) {
        const T bound = exists ? points.bounds[i].lower : T(0);
        __syncwarp();  // all lanes of the point have read it
        const bool proven = Rounding<T>(points.d).above(found.second, found.distance) &&
                            margin.farther(bound, margin.above(found.distance));
        if (exists && !proven && lane == 0) points.open[points.held_pitch + atomicAdd(again_count, 1)] = i;
        if (!exists || !proven) continue;
        if (lane == 0) points.bounds[i] = {margin.above(found.distance), min(bound, margin.below(others))};
      } else {
        j = settle(found, points, i, lanes, centroids, k);
        if (!exists) continue;
        // Of two that rounding leaves open, the computed distance of the other may be the smaller one.
        if (j != found.centroid) others = found.distance;
        if (lane == 0) points.bounds[i] = {margin.above(found.distance), margin.below(others)};
      }
      const int from = in_sums[i];
      changed += lane == 0 && before[i] != j;
      if (from == j) continue;
      move_point(i, from, j, lane, lanes);
      __syncwarp(lanes_mask(lanes));  // all lanes of the point have read its label
      if (lane == 0) in_sums[i] = j;
    }
  }
  return changed;
}

/// Labels the points of the block that bounds leave open, and those that their sums hold elsewhere. load(from, count)
/// fills the tile with centroids, move_point(i, from, to, lane, lanes) moves a point between the sums. Returns how many
/// labels the thread has changed. `counts`: of the two lists.
template <int group, class T, bool on_chip, class Load, class Move>
__device__ int assign_open(const Points<T, on_chip>& points, int* counts, const Moved<T>& moved, int32_t* in_sums,
                           const int32_t* before, const Vec16<T>* tile, int tile_rows, const Centroids<T>& centroids,
                           int k, const Load& load, const Move& move_point) {
  const Margin<T> margin(points.d);
  if (threadIdx.x == 0) counts[0] = counts[1] = 0;
  __syncthreads();
  for (int i = threadIdx.x; i < points.count; i += threads) {
    const int former = before[i];
    if (former < 0 || former != in_sums[i] || !margin.farther(points.bounds[i].lower, points.bounds[i].upper))
      points.open[atomicAdd(&counts[0], 1)] = i;
  }
  __syncthreads();
  const auto assign = [&](const int32_t* list, int listed, const Moved<T>& rows) {
    return assign_listed<group>(points, list, listed, rows, &counts[1], in_sums, before, tile, tile_rows, centroids, k,
                                load, move_point);
  };
  const int changed = assign(points.open, counts[0], moved);
  if (!moved.row) return changed;
  __syncthreads();
  return changed + assign(points.open + points.held_pitch, counts[1], {});
}

/// `held`: 2 x n, what each copy of the sums holds. `bounds`, `open`: n, `moves`: k. `own_means`: each block divides
/// all sums; else only the first copy is used. `on_chip`: the block's points and labels fit into shared memory, beside
/// a tile of `tile_rows` centroids, all with own_means. A lane compares `group` points at a time.
template <class T, bool on_chip, int group>
__global__ void __launch_bounds__(threads, 1)
    solve_kernel(const T* x, T* c, int32_t* label, int32_t* held, Bounds<T>* bounds, int32_t* open, T* moves,
                 SumCopies copies, Iterations run, bool own_means, bool resident, int tile_rows, int n, int k, int d) {
  int* const counts = dynamic_shared<int>();  // of the lists, and of moved centroids
  const int first = share_begin(n, blockIdx.x, gridDim.x), last = share_begin(n, blockIdx.x + 1, gridDim.x);
  const int vectors = row_vectors(d, sizeof(T)), pitch = row_pitch(vectors);
  Vec16<T>* const tile = dynamic_shared<Vec16<T>>() + 1;                               // tile_rows x pitch
  T* const move = own_means ? reinterpret_cast<T*>(tile + tile_rows * pitch) : moves;  // k
  int32_t* const moved_rows =
      reinterpret_cast<int32_t*>(tile + tile_rows * pitch + (own_means ? move_vectors<T>(k) : 0));  // k
  Points<T, on_chip> points{x + size_t(first) * d,
                            reinterpret_cast<Vec16<T>*>(moved_rows + (resident ? (k + 3) / 4 * 4 : 0)),
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
      resident ? Centroids<T>{reinterpret_cast<const T*>(tile), pitch * width} : Centroids<T>{c, d};
  Moved<T> moved{nullptr, 0, move};
  if (resident) copy_rows(tile, c, k, d, vectors, pitch);
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
      if (resident) return;
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
        assign_open<group>(points, counts, moved, in_sums, before, tile, tile_rows, centroids, k, load, move_point);
    run.count(it, changed);
    cooperative_groups::this_grid().sync();
    if (own_means)
      new_centroids(reinterpret_cast<T*>(tile), pitch * width, move, sums, threadIdx.x, threads, k, d);
    else
      new_centroids(c, d, move, sums, blockIdx.x * threads + threadIdx.x, gridDim.x * threads, k, d),
          cooperative_groups::this_grid().sync();
    __syncthreads();
    const T largest = largest_move(move, k);
    for (int i = threadIdx.x; i < points.count; i += threads) {
      Bounds<T>& of = points.bounds[i];
      const Bounds<T> after{margin.raised(of.upper, move[in_sums[i]]), margin.lowered(of.lower, largest)};
      if (margin.farther(after.lower, after.upper))
        of = after;
      else  // open; the bound holds for centroids that stayed
        of.upper = std::numeric_limits<T>::infinity();
    }
    if (resident) {
      list_moved(moved_rows, &counts[2], move, k);
      moved.count = counts[2], moved.row = 2 * moved.count <= k ? moved_rows : nullptr;
      if (!own_means) copy_listed_rows(tile, c, moved_rows, moved.count, d, vectors, pitch);
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

/// What a block of a cluster keeps where the others write to it: offsets in bytes, all multiples of 16.
struct Mailbox {
  int values, owned;           // numbers of a centroid's sum, the last one its count; centroids of a block, at most
  size_t slots;                // blocks x owned x values: changes, by the block that they come from
  size_t tiles;                // 2 x k rows: centroids, and the next ones
  size_t moves, changed, end;  // k; blocks: labels that each has changed
  Mailbox(const FixedPoint& format, int size, int k, int d, size_t row, size_t element)
      : values(d * format.words + 1), owned(blocks(k, size)) {
    const auto padded = [](size_t bytes) { return (bytes + 15) / 16 * 16; };
    slots = 0, tiles = padded(sizeof(unsigned long long) * size * owned * values);
    moves = tiles + 2 * k * row, changed = moves + padded(k * element), end = changed + padded(size * sizeof(int));
  }
  /// Of what the block has for itself behind it: the changes of all centroids and the sums of its own, 8 bytes each.
  __host__ __device__ size_t own_bytes(int k) const { return size_t(k * values + owned * values + 1) / 2 * 16; }
};

/// The mailbox of block `rank`; `mailbox` is that of the calling one. The CPU device keeps all of them in `instead`.
__device__ char* mailbox_of(int rank, [[maybe_unused]] char* mailbox, [[maybe_unused]] char* instead,
                            [[maybe_unused]] const Mailbox& box) {
#ifdef __CUDACC__
  return cooperative_groups::this_cluster().map_shared_rank(mailbox, rank);
#else
  return instead + rank * box.end;
#endif
}

/// Blocks of the cluster: a constant, where divisions by it are to be fast.
__device__ int cluster_size() {
#ifdef __CUDACC__
  return cluster_blocks;
#else
  return gridDim.x;
#endif
}

/// Adds to a number in shared memory by its halves: for 32 bits there are atomics there, for 64 there is a loop.
__device__ void add_halves(unsigned* number, long long value) {
  const auto low = unsigned(value), sum = atomicAdd(number, low) + low;
  const unsigned high = unsigned(static_cast<unsigned long long>(value) >> 32) + unsigned(sum < low);
  if (high != 0) atomicAdd(number + 1, high);
}

/// One cluster. `totals`: k x values, the sums of all points as `held` has them.
template <class T, int group>
__global__ void __launch_bounds__(threads, 1)
    cluster_kernel(const T* x, T* c, int32_t* label, int32_t* held, Bounds<T>* bounds, unsigned long long* totals,
                   char* instead, Mailbox box, FixedPoint format, Iterations run, int n, int k, int d) {
  using Number = unsigned long long;
  constexpr int width = Vec16<T>::size;
  const int rank = blockIdx.x, size = cluster_size(), values = box.values, words = format.words;
  const int first = share_begin(n, rank, size), last = share_begin(n, rank + 1, size);
  const int vectors = row_vectors(d, sizeof(T)), pitch = row_pitch(vectors);
  int* const counters = dynamic_shared<int>();  // of the lists, and of changed labels
  char* const shared_box = dynamic_shared<char>() + count_bytes;
  char* const mailbox = mailbox_of(rank, shared_box, instead, box);
  auto* const delta = reinterpret_cast<unsigned*>(shared_box + box.end);  // k x values x 2 halves
  auto* const total = reinterpret_cast<Number*>(delta) + k * values;      // owned x values
  Points<T, true> points{x + size_t(first) * d, nullptr, nullptr, nullptr, nullptr, last - first, d, pitch, 0};
  points.copy = reinterpret_cast<Vec16<T>*>(shared_box + box.end + box.own_bytes(k));
  points.bounds = reinterpret_cast<Bounds<T>*>(points.copy + points.count * pitch);
  points.held = reinterpret_cast<int32_t*>(points.bounds + points.count);
  points.open = points.held + points.count;
  const auto remote = [&](int block) { return mailbox_of(block, shared_box, instead, box); };
  const auto tile_of = [&](char* of, int turn) {
    return reinterpret_cast<Vec16<T>*>(of + box.tiles) + turn * k * pitch;
  };
  copy_rows(points.copy, points.x, points.count, d, vectors, pitch);
  for (int turn : {0, 1})
    copy_rows(tile_of(mailbox, turn), c, k, d, vectors, pitch);  // zeros behind d features in both
  for (int i = threadIdx.x; i < points.count; i += threads)
    points.bounds[i] = bounds[first + i], points.held[i] = held[first + i];
  for (int e = threadIdx.x; e < 2 * k * values; e += threads) delta[e] = 0;
  for (int e = threadIdx.x; e < box.owned * values; e += threads) {
    const int j = e / values * size + rank;
    total[e] = j < k ? totals[j * values + e % values] : 0;
  }
  if (threadIdx.x == 0) counters[2] = 0;
  wait_for_cluster();
  const Margin<T> margin(d);
  int turn = 0;
  for (int it = 0;; turn = 1 - turn) {
    const Centroids<T> centroids{reinterpret_cast<const T*>(tile_of(mailbox, turn)), pitch * width};
    const auto move_point = [&](int i, int from, int to, int lane, int lanes) {
      const auto add = [&](int e, long long value) {
        if (from >= 0) add_halves(delta + 2 * (from * values + e), -value);
        add_halves(delta + 2 * (to * values + e), value);
      };
      for (int f = lane; f < d; f += lanes)
        for_digits(double(points.row(i)[f]), format, [&](int w, long long digit) { add(f * words + w, digit); });
      if (lane == 0) add(values - 1, 1);
    };
    const int by_warp = warp_sum(assign_open<group>(
        points, counters, Moved<T>{}, points.held, points.held, tile_of(mailbox, turn), k, centroids, k,
        [](int, int) {}, move_point));
    const int lane = threadIdx.x % warp_lanes;
    if (lane == 0 && by_warp > 0) atomicAdd(&counters[2], by_warp);
    __syncthreads();
    for (int e = threadIdx.x; e < k * values; e += threads) {
      const int j = e / values;
      auto* const slot = reinterpret_cast<Number*>(remote(j % size) + box.slots);
      slot[(rank * box.owned + j / size) * values + e % values] = Number(delta[2 * e + 1]) << 32 | delta[2 * e];
      delta[2 * e] = delta[2 * e + 1] = 0;
    }
    if (int(threadIdx.x) < size) reinterpret_cast<int*>(remote(threadIdx.x) + box.changed)[rank] = counters[2];
    wait_for_cluster();
    for (int e = threadIdx.x; e < box.owned * values; e += threads) {
      Number sum = total[e];
      for (int b = 0; b < size; ++b)
        sum += reinterpret_cast<const Number*>(mailbox + box.slots)[b * box.owned * values + e];
      total[e] = sum;
    }
    const int changed = warp_sum(lane < size ? reinterpret_cast<const int*>(mailbox + box.changed)[lane] : 0);
    __syncthreads();
    if (threadIdx.x == 0) counters[2] = 0;
    const int lanes = row_lanes(d);
    for (int begin = 0; begin < box.owned * size; begin += threads / lanes) {
      const int pair = begin + int(threadIdx.x) / lanes, at = pair / size, j = at * size + rank;
      const bool exists = at < box.owned && j < k;
      const int count = exists ? int(total[(at + 1) * values - 1]) : 0;
      char* const to = remote(pair % size);
      T squares = 0;
      for (int f = threadIdx.x % lanes; f < d && exists; f += lanes) {
        const T before = centroids[j][f];
        const SumWords sum(total + at * values + f * words, 1, format);
        const T mean = count > 0 ? short_mean<T>(sum, count, format) : before, moved = mean - before;
        squares += moved * moved;
        reinterpret_cast<T*>(tile_of(to, 1 - turn) + j * pitch)[f] = mean;
      }
      for (int apart = 1; apart < lanes; apart *= 2) squares += __shfl_xor_sync(all_lanes, squares, apart);
      if (threadIdx.x % lanes == 0 && exists)
        reinterpret_cast<T*>(to + box.moves)[j] = count > 0 ? margin.above(squares) : T(0);
    }
    wait_for_cluster();
    const T* const move = reinterpret_cast<const T*>(mailbox + box.moves);
    const T largest = largest_move(move, k);
    for (int i = threadIdx.x; i < points.count; i += threads) {
      Bounds<T>& of = points.bounds[i];
      of = {margin.raised(of.upper, move[points.held[i]]), margin.lowered(of.lower, largest)};
    }
    if (rank == 0 && threadIdx.x == 0) run.changed[it] = changed;
    if (run.stop.reached(run.done + ++it, changed, n) || it == run.most) break;
  }
  for (int i = threadIdx.x; i < points.count; i += threads)
    label[first + i] = held[first + i] = points.held[i], bounds[first + i] = points.bounds[i];
  for (int e = threadIdx.x; e < box.owned * values; e += threads) {
    const int j = e / values * size + rank;
    if (j < k) totals[j * values + e % values] = total[e];
  }
  const T* const last_rows = reinterpret_cast<const T*>(tile_of(mailbox, 1 - turn));
  for (int e = threadIdx.x; e < k * d && rank == 0; e += threads) c[e] = last_rows[e / d * pitch * width + e % d];
}

template <class T>
struct Workspace {
  OneLaunch launches;
  ExactSums sums;
  ExactSums other_sums;                  // the second copy
  int32_t* held = nullptr;               // 2 x n
  Bounds<T>* bounds = nullptr;           // n
  int32_t* open = nullptr;               // 2 x n
  T* moves = nullptr;                    // k
  unsigned long long* totals = nullptr;  // a cluster's sums
  char* instead = nullptr;               // mailboxes on the CPU device
};

template <class T>
size_t most_totals(const State<T>& s) {
  return s.k * (size_t(s.d) * FixedPoint::most_words + 1);
}

template <class T>
void prepare(Run<T, Workspace<T>>& s) {
  prepare_pinned(s);
  prepare_one_launch(s);
  prepare_exact_sums(s);
  s.ws.other_sums.sum = s.template device<unsigned long long>(size_t(FixedPoint::most_words) * s.k * s.d);
  s.ws.other_sums.count = s.template device<int>(s.k);
  s.ws.held = s.template device<int32_t>(2 * size_t(s.n));
  s.ws.bounds = s.template device<Bounds<T>>(s.n);
  s.ws.open = s.template device<int32_t>(2 * size_t(s.n));
  s.ws.moves = s.template device<T>(s.k);
  s.ws.totals = s.template device<unsigned long long>(most_totals(s));
  if (s.device_info.kind != DeviceKind::cuda)
    s.ws.instead = s.template device<char>(cluster_blocks * s.device_info.shared_bytes_optin);
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
  check(cudaMemsetAsync(s.ws.totals, 0, most_totals(s) * sizeof *s.ws.totals, s.stream), "clearing a cluster's sums");
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
  bool resident = false;  // all centroids stay in the tile
  int group = 1;
};

/// Points go first, where they leave room for a tile that is worth its barriers. With more points than warps, more
/// points per lane.
Plan make_plan(const Shape& p, const Device& device, const Axes& axes, int grid) {
  constexpr int few_rows = 64;
  int most_group = int(16 / p.element_bytes);  // more of them take too many registers
  const size_t row = row_bytes(p), room = device.shared_bytes_optin - count_bytes;
  const int points = blocks(p.n, grid);
  const size_t point_bytes = points * (row + 4 * sizeof(int32_t) + 2 * p.element_bytes);
  const size_t move_bytes = (p.k * p.element_bytes + 15) / 16 * 16;
  Plan plan;
  plan.on_chip = point_bytes + std::min(p.k, few_rows) * row <= room;
  if (!plan.on_chip) most_group = 2;
  const size_t taken = plan.on_chip ? point_bytes : 0;
  plan.tile_rows = int(std::min(size_t(p.k), (room - taken) / row));
  plan.bytes = count_bytes + taken + plan.tile_rows * row;
  const size_t list_bytes = (p.k * sizeof(int32_t) + 15) / 16 * 16;
  plan.resident = plan.tile_rows == p.k && plan.bytes + move_bytes + list_bytes <= device.shared_bytes_optin;
  plan.own_means = plan.resident && int64_t(p.k) * p.d <= axes["own_means"];
  if (plan.resident) plan.bytes += list_bytes;
  if (plan.own_means) plan.bytes += move_bytes;
  while (plan.group < most_group && plan.group * threads / warp_lanes < points) plan.group *= 2;
  return plan;
}

/// Whether a cluster was started: it takes problems that are small enough, and fit into its shared memory.
template <class T>
bool start_cluster(Run<T, Workspace<T>>& s, const Iterations& run) {
  const int grid = std::min(cluster_blocks, s.device_info.multiprocessors), points = blocks(s.n, grid);
  const size_t row = row_bytes(s.problem), beside = 2 * sizeof(int32_t) + sizeof(Bounds<T>);
  const Mailbox box(s.ws.sums.format, grid, s.k, s.d, row, sizeof(T));
  const size_t bytes = count_bytes + box.end + box.own_bytes(s.k) + points * (row + beside);
  if (s.n < grid || int64_t(s.n) * s.k * s.d > int64_t(s.axis("cluster_work")) * 1000) return false;
  if (bytes > s.device_info.shared_bytes_optin) return false;
  constexpr int most = int(16 / sizeof(T));
  launch_cluster(points > threads / 4 ? cluster_kernel<T, most> : cluster_kernel<T, 1>, grid, bytes, s.stream, s.x, s.c,
                 s.label, s.ws.held, s.ws.bounds, s.ws.totals, s.ws.instead, box, s.ws.sums.format, run, s.n, s.k, s.d);
  return true;
}

template <class T>
void start(Run<T, Workspace<T>>& s, const Iterations& run) {
  if (start_cluster(s, run)) return;
  const int grid = grid_size(s);
  const Plan plan = make_plan(s.problem, s.device_info, s.axes, grid);
  dispatch<1, 2, 4>(plan.group, [&]<int group>() {
    constexpr int most = int(16 / sizeof(T));
    const auto kernel =
        plan.on_chip ? solve_kernel<T, true, std::min(group, most)> : solve_kernel<T, false, std::min(group, 2)>;
    launch_cooperative(kernel, grid, threads, plan.bytes, s.stream, s.x, s.c, s.label, s.ws.held, s.ws.bounds,
                       s.ws.open, s.ws.moves, SumCopies{s.ws.sums, s.ws.other_sums}, run, plan.own_means, plan.resident,
                       plan.tile_rows, s.n, s.k, s.d);
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

LADDER_VARIANT(.id = "v03m_moved_centroids", .base = "v03l_cluster_sums",
               .idea = "an open point is compared with the centroids that moved, and with all if these leave it open",
               .expect =
                   "A larger step: two lists of points and one of centroids. Counted on the host for wine_k900: of 900 "
                   "centroids 848, 651, 421, 269, 157, 101, 47 and then fewer than 20 move in an iteration, so 3 of 14 "
                   "iterations compare with all, the others with 10 % on average: on an H200 the distances, 14,000 of "
                   "42,000 cycles, become 4,500, and the rows that each block copies, 4,500, become 1,500: 21 us "
                   "become 14 to 16",
               .shows = "solve", .source = "this project", .arithmetic = {.form = Arithmetic::Form::exact},
               .axes = {{"own_means", {0, 1024, 4096, 16384, 65536}, 4096},
                        {"cluster_work", {0, 300, 600, 1200, 2400, 4800}, 2400}},
               .prunes = true, .refuse = refuse, .f32 = phases<float>, .f64 = phases<double>)
