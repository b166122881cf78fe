// v14d: bounds decide which distances are computed. Lloyd's rungs compute all N x K of them in every iteration, though
// after a few iterations hardly a point changes its centroid. Yinyang keeps for each point an upper bound of the
// distance to its own centroid, and for each group of ten centroids a lower bound of the distance to any of them. When
// centroids move, the bounds are widened by the drift (of the point's centroid, and the largest of each group), and a
// group whose lower bound stays above the upper bound is skipped: first for all groups at once, then, with the upper
// bound made exact, group by group.
//
// Points need different groups, so the threads of a warp would diverge. Here a block takes one group and some 4096
// points, compacts those that need this group, and computes their distances to all of its centroids together. The
// paper's third filter, by single centroids, would diverge again; c4_yinyang has it.
//
// Exact: distances are sums of (x - c)^2 in the order of the features, and a group is skipped
// only where no rounding could make it the nearest (pruning/yinyang_margin.hpp): labels are Lloyd's, ties included.
#include "../common/lloyd/vector_load.cuh"
#include "../common/pruning/yinyang.cuh"

namespace {
using namespace ladder;

constexpr int block = 64;                     // threads
constexpr int thread_points = 2;              // points of a thread
constexpr int batch = block * thread_points;  // points of a block at a time
constexpr int most_points = 4096;             // points that a block tests: enough to fill batches
constexpr int vectors = 4;                    // Vec16 of each row per step: 64 bytes
constexpr int copiers = block / vectors;      // rows that the block copies at once
constexpr int32_t undecided = 0x7fffffff;

/// Widens the bounds of point i; threshold[i] says which groups must be computed: those with a bound below it.
template <class T>
__global__ void filter_kernel(const T* x, const T* c, const int32_t* label, const T* drift, const T* group_drift,
                              T* upper, T* square, T* threshold, T* lower, Counts* counts, int n, int groups, int d) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const Margin<T> margin(d);
  const int current = label[i];
  T lowest = std::numeric_limits<T>::infinity();
  for (int g = 0; g < groups; ++g) {
    T& bound = lower[size_t(g) * n + i];
    bound = margin.lowered(bound, group_drift[g]);
    lowest = min(lowest, bound);
  }
  upper[i] = margin.raised(upper[i], drift[current]);
  threshold[i] = -1;  // none
  if (margin.farther(lowest, upper[i])) return;
  const T *const point = x + size_t(i) * d, *const centroid = c + size_t(current) * d;
  T exact = 0;
#pragma unroll 4
  for (int f = 0; f < d; f += Vec16<T>::size)
    add_squares(exact, load_vec16(point + f, d - f, d), load_vec16(centroid + f, d - f, d));
  atomicAdd(&counts->computed, 1ull);
  atomicAdd(&counts->pairs, 1ull);
  square[i] = exact;
  upper[i] = margin.above(exact);
  if (!margin.farther(lowest, upper[i])) threshold[i] = upper[i];
}

/// First pass: the smallest square of each group that must be computed goes to `lower`, negated as a mark. Last pass:
/// in groups where decide_kernel kept the mark, the centroid with that square becomes the label, and the second
/// smallest square becomes the bound.
///
/// A block has one group, or `work_tile` of them where all points need all: they share the loads of the points. Rows
/// are gathered from all over memory, 64 bytes of each per step, double-buffered as in v17_double_buffer: the next step's
/// loads to registers are issued before a step is computed, and stored to the other shared buffer after it.
template <class T, bool last>
__global__ void __launch_bounds__(block, 6)
    group_distances_kernel(const T* __restrict__ x, const T* __restrict__ c, const int* __restrict__ begin,
                           const int32_t* __restrict__ member, const T* __restrict__ threshold, T* lower,
                           int32_t* label, Counts* counts, int points, int work_tile, int n, int groups, int d) {
  constexpr int tile = 128 / sizeof(T);  // centroids at a time: with 2 points, 64 registers hold distances
  constexpr int size = Vec16<T>::size, width = vectors * size;  // features per step
  constexpr int loads = 8;                                      // bounds of a thread in flight
  __shared__ uint16_t list[most_points];                        // offsets from the first point
  __shared__ int listed;
  __shared__ Vec16<T> point_tile[2][batch][vectors + 1];  // padded: no bank conflicts
  __shared__ Vec16<T> centroid_tile[2][tile][vectors];
  // Blocks that run at the same time share points rather than groups.
  const int work_tiles = (groups + work_tile - 1) / work_tile, t = threadIdx.x;
  const int first_group = int(blockIdx.x) % work_tiles * work_tile, end_group = min(first_group + work_tile, groups);
  const int first_point = int(blockIdx.x) / work_tiles * points, point_count = min(points, n - first_point);
  const int32_t* const centroids = member + begin[first_group];
  const int members = begin[end_group] - begin[first_group];
  const Margin<T> margin(d);
  if (t == 0) listed = 0;
  __syncthreads();
  for (int p = t; p < point_count; p += loads * block) {
    T bound[loads], limit[loads];
    for (int e = 0; e < loads; ++e) {
      const int i = first_point + min(p + e * block, point_count - 1);
      bound[e] = lower[size_t(first_group) * n + i], limit[e] = threshold[i];
    }
    for (int e = 0; e < loads && p + e * block < point_count; ++e) {
      const bool wanted = last ? signbit(bound[e]) : limit[e] >= 0 && !margin.farther(bound[e], limit[e]);
      if (wanted) list[atomicAdd(&listed, 1)] = p + e * block;
    }
  }
  __syncthreads();  // the list is complete
  if (t == 0 && listed > 0) {
    const unsigned long long pairs = static_cast<unsigned long long>(listed) * members;
    atomicAdd(&counts->computed, pairs);
    if (!last) atomicAdd(&counts->pairs, pairs);
  }
  const int rank = t / vectors, q = t % vectors * size;  // this thread copies features q .. q + size - 1 of its rows
  constexpr int rows = batch / copiers, columns = tile / copiers;                  // rows rank, rank + copiers, ...
  const int passes = (members - 1) / tile + 1, most = (members - 1) / passes + 1;  // centroids of a pass
  const int mine = t / 32 * 32 * thread_points + t % 32;  // this thread's first point; its others are 32 apart
  for (int from = 0; from < listed; from += batch) {
    const int batch_points = min(batch, listed - from);
    int offset[rows];  // of a row from that of the first point
    for (int e = 0; e < rows; ++e) offset[e] = list[from + min(rank + e * copiers, batch_points - 1)] * d;
    int g = first_group, end = begin[g + 1] - begin[first_group];
    T nearest[thread_points], second[thread_points];
    int32_t best[thread_points];
    const auto start = [&] {
      for (int p = 0; p < thread_points; ++p)
        nearest[p] = second[p] = std::numeric_limits<T>::infinity(), best[p] = undecided;
    };
    const auto finish = [&] {
      for (int p = 0; p < thread_points && mine + 32 * p < batch_points; ++p) {
        const int i = first_point + list[from + mine + 32 * p];
        T& bound = lower[size_t(g) * n + i];
        if (!last) {
          bound = -nearest[p];
        } else {
          atomicMin(&label[i], best[p]);
          // Two groups may tie; the one without the label has this square as its bound.
          bound = margin.below(threshold[i] > 1 ? nearest[p] : second[p]);
        }
      }
    };
    start();
    for (int first = 0; first < members; first += most) {
      const int wide = min(most, members - first);
      const T* row[columns];
      for (int e = 0; e < columns; ++e)
        row[e] = c + size_t(centroids[first + min(rank + e * copiers, wide - 1)]) * d + q;
      const T* next = x + size_t(first_point) * d + q;
      Vec16<T> point[rows] = {}, centroid[columns] = {};
      const auto load = [&](int f) {
        if (f + q >= d) return;  // behind the last feature
        for (int e = 0; e < rows; ++e) point[e] = load_vec16(next + offset[e], d - f - q, d);
        for (int e = 0; e < columns; ++e) centroid[e] = load_vec16(row[e], d - f - q, d), row[e] += width;
        next += width;
      };
      const auto store = [&](int to) {
        for (int e = 0; e < rows; ++e) point_tile[to][rank + e * copiers][t % vectors] = point[e];
        for (int e = 0; e < columns; ++e) centroid_tile[to][rank + e * copiers][t % vectors] = centroid[e];
      };
      T distance[thread_points][tile] = {};
      load(0);
      store(0);
      __syncthreads();  // the first step is in shared memory
      for (int f = 0, now = 0; f < d; f += width, now ^= 1) {
        const bool more = f + width < d;
        if (more) load(f + width);
#pragma unroll 1
        for (int w = 0; w < vectors && mine < batch_points && f + w * size < d; ++w) {
          Vec16<T> a[thread_points];
          for (int p = 0; p < thread_points; ++p) a[p] = point_tile[now][mine + 32 * p][w];
#pragma unroll
          for (int m = 0; m < tile; m += 2) {  // by twos: half as many tests
            if (m >= wide) break;
            for (int e = m; e < m + 2; ++e) {
              for (int p = 0; p < thread_points; ++p) add_squares(distance[p][e], a[p], centroid_tile[now][e][w]);
            }
          }
        }
        if (more) store(now ^ 1);
        __syncthreads();  // one buffer is full, the other one free
      }
#pragma unroll
      for (int m = 0; m < tile; ++m) {
        if (m >= wide) break;
        for (; !last && first + m == end; end = begin[++g + 1] - begin[first_group]) finish(), start();
        const int32_t j = centroids[first + m];  // in any order: ties go to the lower index
        for (int p = 0; p < thread_points; ++p) {
          if (distance[p][m] < nearest[p] || (distance[p][m] == nearest[p] && j < best[p])) {
            second[p] = nearest[p], nearest[p] = distance[p][m], best[p] = j;
          } else {
            second[p] = min(second[p], distance[p][m]);
          }
        }
      }
    }
    for (; g < end_group; ++g) finish(), start();
  }
}

/// Decides which group has the nearest centroid of point i: its mark stays, all others become bounds.
template <class T>
__global__ void decide_kernel(const int32_t* group, T* upper, const T* square, T* threshold, T* lower, int32_t* label,
                              Counts* counts, bool labelled, int n, int groups, int d) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n || threshold[i] < 0) return;
  const Margin<T> margin(d);
  T lowest = std::numeric_limits<T>::infinity();
  int ties = 0;
  for (int g = 0; g < groups; ++g) {
    const T value = lower[size_t(g) * n + i];
    if (!signbit(value) || -value > lowest) continue;
    ties = -value < lowest ? 1 : ties + 1;
    lowest = -value;
  }
  // The current centroid, where its group was skipped: filter_kernel has computed its distance.
  const int current = labelled ? label[i] : 0;
  T* const current_bound = &lower[size_t(group[current]) * n + i];
  const bool skipped = labelled && !signbit(*current_bound);
  if (labelled && !skipped) atomicAdd(&counts->pairs, ~0ull);  // less one: filter_kernel counted it, too
  const bool stays = skipped && square[i] <= lowest;
  if (skipped && lowest <= square[i])
    *current_bound = min(*current_bound, margin.below(square[i]));  // its point may move to another
  const bool tied = stays && square[i] == lowest;
  for (int g = 0; g < groups; ++g) {
    T& value = lower[size_t(g) * n + i];
    if (signbit(value) && (-value > lowest || (stays && !tied))) value = margin.below(-value);
  }
  if (!stays) label[i] = undecided;
  threshold[i] = T(ties + (tied ? 1 : 0));
  upper[i] = margin.above(stays ? square[i] : lowest);
}

template <class T>
struct Workspace {
  Sums sums;
  Yinyang<T> yinyang;
};

template <class T>
void assign(Run<T, Workspace<T>>& s) {
  auto& y = s.ws.yinyang;
  const bool labelled = y.done > 0;
  Counts* counts = y.counts + std::min(y.done++, counted - 1);
  if (labelled) {
    launch(filter_kernel<T>, blocks(s.n, 128), 128, 0, s.stream, s.x, s.c, s.label, y.drift, y.group_drift, y.upper,
           y.square, y.threshold, y.lower, counts, s.n, y.groups, s.d);
  } else {
    group_centroids(s);
    // Bounds of 0 with a threshold of 0: every group is computed.
    check(cudaMemsetAsync(y.lower, 0, size_t(y.groups) * s.n * sizeof(T), s.stream), "clearing the bounds");
    check(cudaMemsetAsync(y.threshold, 0, s.n * sizeof(T), s.stream), "clearing the thresholds");
  }
  int points = most_points;
  const auto too_many = [&] {  // too few blocks for the device, or offsets beyond an int
    return blocks(s.n, points) * int64_t(y.groups) < 4 * s.device_info.multiprocessors ||
           int64_t(points) * s.d > std::numeric_limits<int>::max();
  };
  while (points > batch && too_many()) points /= 2;
  const int work_tile = labelled ? 1 : 8, ranges = blocks(s.n, points);
  launch(group_distances_kernel<T, false>, ranges * blocks(y.groups, work_tile), block, 0, s.stream, s.x, s.c, y.begin,
         y.member, y.threshold, y.lower, s.label, counts, points, work_tile, s.n, y.groups, s.d);
  launch(decide_kernel<T>, blocks(s.n, 256), 256, 0, s.stream, y.group, y.upper, y.square, y.threshold, y.lower,
         s.label, counts, labelled, s.n, y.groups, s.d);
  launch(group_distances_kernel<T, true>, ranges * y.groups, block, 0, s.stream, s.x, s.c, y.begin, y.member,
         y.threshold, y.lower, s.label, counts, points, 1, s.n, y.groups, s.d);
}

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare_yinyang<T>,
                                         .upload = upload_rows<T>,
                                         .restart = restart_yinyang<T>,
                                         .assign = assign<T>,
                                         .update = update_yinyang<T>,
                                         .download = download_yinyang<T>};
}  // namespace

LADDER_VARIANT(.id = "v14d_yinyang", .base = "v14_block_size",
               .idea = "bounds per group of centroids decide which distances are computed",
               .expect =
                   "Titan X: 7:16 -> 4:38 for 6 times the memory; the first iteration costs more than Lloyd's, the "
                   "eighth computes a tenth of the distances; a loss where K or the number of iterations is small. "
                   "A new algorithm: nearly every line is new",
               .shows = "solve", .source = "000; Ding and others, Yinyang K-Means, ICML 2015", .reads_labels = true,
               .prunes = true, .refuse = refuse_yinyang, .f32 = phases<float>, .f64 = phases<double>)
