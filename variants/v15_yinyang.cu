// v15: most distances need not be known. Lloyd's rungs compute all N x K of them in every iteration, though after a few
// iterations hardly a point changes its centroid. Yinyang keeps for each point an upper bound of the distance to its
// own centroid, and for each group of ten centroids a lower bound of the distance to any of them. When centroids move,
// the bounds are widened by how far (the drift of the own one, the most of each group), and a group whose lower bound
// stays above the upper bound is left out: first for all groups at once, then, with the upper bound made exact, one by
// one.
//
// Threads of a warp would part here: each point needs groups of its own. So a block takes one group and some 4096
// points, collects those that need this group, and computes their distances to all its centroids side by side. The
// paper's third filter, by single centroids, would let lanes part again and is left to c4_yinyang.
//
// Exact: distances are v10's, sums of (x - c)^2 in the order of the features, and a group is left out only where no
// rounding of theirs could make it the nearest (parts/margin.hpp): labels are those of Lloyd, ties included.
#include "parts/pieces.cuh"
#include "parts/yinyang.cuh"

namespace {
using namespace ladder;

constexpr int block = 64;                // threads
constexpr int each = 2;                  // points of a thread
constexpr int crew = block * each;       // points that are worked on at a time
constexpr int most_points = 4096;        // that a block looks through: enough to find some that need its group
constexpr int pieces = 4;                // of each row per step: 64 bytes
constexpr int copiers = block / pieces;  // rows that the block's threads copy at once
constexpr int32_t undecided = 0x7fffffff;

/// Widens the bounds of point i, and states in threshold[i] which groups must be looked at.
template <class T>
__global__ void filter_kernel(const T* x, const T* c, const int32_t* label, const T* drift, const T* group_drift,
                              T* upper, T* square, T* threshold, T* lower, Counts* counts, int n, int groups, int d) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const Margin<T> margin(d);
  const int own = label[i];
  T least = std::numeric_limits<T>::infinity();
  for (int g = 0; g < groups; ++g) {
    T& bound = lower[size_t(g) * n + i];
    bound = margin.lowered(bound, group_drift[g]);
    least = min(least, bound);
  }
  upper[i] = margin.raised(upper[i], drift[own]);
  threshold[i] = -1;  // none: no bound is below it
  if (margin.farther(least, upper[i])) return;
  const T *const point = x + size_t(i) * d, *const centroid = c + size_t(own) * d;
  const bool aligned = aligned_rows<T>(d);
  T exact = 0;
#pragma unroll 4
  for (int f = 0; f < d; f += Piece<T>::size) {
    add_squares(exact, load_piece(point + f, d - f, aligned), load_piece(centroid + f, d - f, aligned));
  }
  atomicAdd(&counts->computed, 1ull);
  atomicAdd(&counts->pairs, 1ull);
  square[i] = exact;
  upper[i] = margin.above(exact);
  if (!margin.farther(least, upper[i])) threshold[i] = upper[i];
}

/// In the first pass, the least computed square of each group that must be looked at goes to `lower`, with its sign
/// turned to mark it. In the last pass, in the groups where decide_kernel left that mark, the centroid that has it
/// becomes the label, and the second least becomes the bound.
///
/// A block has one group, or `bundle` of them where all points need all: then they share what is read of the points.
/// Rows come from all over memory, 64 bytes of each in a step. While a step's features are computed, the next step's
/// are on their way, as in v12b: loaded to registers before, stored to the other of two buffers after.
template <class T, bool last>
__global__ void __launch_bounds__(block, 6)
    group_distances_kernel(const T* __restrict__ x, const T* __restrict__ c, const int* __restrict__ begin,
                           const int32_t* __restrict__ member, const T* __restrict__ threshold, T* lower,
                           int32_t* label, Counts* counts, int points, int bundle, int n, int groups, int d) {
  constexpr int tile = 128 / sizeof(T);  // centroids at a time: with 2 points, 64 registers hold distances
  constexpr int size = Piece<T>::size, width = pieces * size;  // features per step
  constexpr int ahead = 8;                // bounds that a thread reads before it looks at the first
  __shared__ uint16_t list[most_points];  // by their distance from the first point
  __shared__ int listed;
  __shared__ Piece<T> own[2][crew][pieces + 1];  // one more: 8 threads that read their rows find them in all 32 banks
  __shared__ Piece<T> other[2][tile][pieces];
  // Blocks that run together share points rather than groups.
  const int bundles = (groups + bundle - 1) / bundle, t = threadIdx.x;
  const int first_group = int(blockIdx.x) % bundles * bundle, end_group = min(first_group + bundle, groups);
  const int first_point = int(blockIdx.x) / bundles * points, here = min(points, n - first_point);
  const int32_t* const centroids = member + begin[first_group];
  const int members = begin[end_group] - begin[first_group];
  const Margin<T> margin(d);
  if (t == 0) listed = 0;
  __syncthreads();
  for (int p = t; p < here; p += ahead * block) {
    T bound[ahead], limit[ahead];
    for (int e = 0; e < ahead; ++e) {
      const int i = first_point + min(p + e * block, here - 1);
      bound[e] = lower[size_t(first_group) * n + i], limit[e] = threshold[i];
    }
    for (int e = 0; e < ahead && p + e * block < here; ++e) {
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
  const bool aligned = aligned_rows<T>(d);
  const int rank = t / pieces, q = t % pieces * size;  // this thread copies so many features from q on, of every row
  constexpr int rows = crew / copiers, columns = tile / copiers;  // whose number is rank modulo copiers
  const int passes = (members - 1) / tile + 1, most = (members - 1) / passes + 1;  // centroids, alike in each pass
  const int mine = t / 32 * 32 * each + t % 32;  // the first of this thread's points; the others are 32 apart
  for (int from = 0; from < listed; from += crew) {
    const int crowd = min(crew, listed - from);
    int offset[rows];  // of a row from that of the first point
    for (int e = 0; e < rows; ++e) offset[e] = list[from + min(rank + e * copiers, crowd - 1)] * d;
    int g = first_group, end = begin[g + 1] - begin[first_group];
    T nearest[each], second[each];
    int32_t best[each];
    const auto start = [&] {
      for (int p = 0; p < each; ++p) {
        nearest[p] = second[p] = std::numeric_limits<T>::infinity(), best[p] = undecided;
      }
    };
    const auto finish = [&] {
      for (int p = 0; p < each && mine + 32 * p < crowd; ++p) {
        const int i = first_point + list[from + mine + 32 * p];
        T& bound = lower[size_t(g) * n + i];
        if (!last) {
          bound = -nearest[p];
        } else {
          atomicMin(&label[i], best[p]);
          // Two groups may have the same least square; then one of them does not hold the label, and its bound is that.
          bound = margin.below(threshold[i] > 1 ? nearest[p] : second[p]);
        }
      }
    };
    start();
    for (int first = 0; first < members; first += most) {
      const int wide = min(most, members - first);
      const T* row[columns];
      for (int e = 0; e < columns; ++e) {
        row[e] = c + size_t(centroids[first + min(rank + e * copiers, wide - 1)]) * d + q;
      }
      const T* next = x + size_t(first_point) * d + q;
      Piece<T> point[rows] = {}, centroid[columns] = {};
      const auto load = [&](int f) {
        if (f + q >= d) return;  // nobody reads beyond the last feature
        for (int e = 0; e < rows; ++e) point[e] = load_piece(next + offset[e], d - f - q, aligned);
        for (int e = 0; e < columns; ++e) centroid[e] = load_piece(row[e], d - f - q, aligned), row[e] += width;
        next += width;
      };
      const auto store = [&](int to) {
        for (int e = 0; e < rows; ++e) own[to][rank + e * copiers][t % pieces] = point[e];
        for (int e = 0; e < columns; ++e) other[to][rank + e * copiers][t % pieces] = centroid[e];
      };
      T distance[each][tile] = {};
      load(0);
      store(0);
      __syncthreads();  // the first step's features are there
      for (int f = 0, now = 0; f < d; f += width, now ^= 1) {
        const bool more = f + width < d;
        if (more) load(f + width);
#pragma unroll 1
        for (int w = 0; w < pieces && mine < crowd && f + w * size < d; ++w) {
          Piece<T> a[each];
          for (int p = 0; p < each; ++p) a[p] = own[now][mine + 32 * p][w];
#pragma unroll
          for (int m = 0; m < tile; m += 2) {  // by twos: the test costs a thirtieth of what it saves
            if (m >= wide) break;
            for (int e = m; e < m + 2; ++e) {
              for (int p = 0; p < each; ++p) add_squares(distance[p][e], a[p], other[now][e][w]);
            }
          }
        }
        if (more) store(now ^ 1);
        __syncthreads();  // one buffer is full, and nobody reads the other any more
      }
#pragma unroll
      for (int m = 0; m < tile; ++m) {
        if (m >= wide) break;
        for (; !last && first + m == end; end = begin[++g + 1] - begin[first_group]) finish(), start();
        const int32_t j = centroids[first + m];  // in no order: ties go to the lower number
        for (int p = 0; p < each; ++p) {
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

/// Which group holds the label of point i? Its mark stays, all others become bounds.
template <class T>
__global__ void decide_kernel(const int32_t* group, T* upper, const T* square, T* threshold, T* lower, int32_t* label,
                              Counts* counts, bool known, int n, int groups, int d) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n || threshold[i] < 0) return;
  const Margin<T> margin(d);
  T least = std::numeric_limits<T>::infinity();
  int ties = 0;
  for (int g = 0; g < groups; ++g) {
    const T value = lower[size_t(g) * n + i];
    if (!signbit(value) || -value > least) continue;
    ties = -value < least ? 1 : ties + 1;
    least = -value;
  }
  // The own centroid, where its group was left out: its distance was computed by filter_kernel.
  const int own = known ? label[i] : 0;
  T* const own_bound = &lower[size_t(group[own]) * n + i];
  const bool apart = known && !signbit(*own_bound);
  if (known && !apart) atomicAdd(&counts->pairs, ~0ull);  // less one: filter_kernel has counted it too
  const bool stays = apart && square[i] <= least;
  if (apart && least <= square[i]) *own_bound = min(*own_bound, margin.below(square[i]));  // it may lose its point
  const bool tied = stays && square[i] == least;
  for (int g = 0; g < groups; ++g) {
    T& value = lower[size_t(g) * n + i];
    if (signbit(value) && (-value > least || (stays && !tied))) value = margin.below(-value);
  }
  if (!stays) label[i] = undecided;
  threshold[i] = T(ties + (tied ? 1 : 0));
  upper[i] = margin.above(stays ? square[i] : least);
}

template <class T>
struct Own {
  Sums sums;
  Yinyang<T> yinyang;
};

template <class T>
void assign(Run<T, Own<T>>& s) {
  auto& y = s.own.yinyang;
  const bool known = y.done > 0;
  Counts* counts = y.counts + std::min(y.done++, counted - 1);
  if (known) {
    launch(filter_kernel<T>, blocks(s.n, 128), 128, 0, s.stream, s.x, s.c, s.label, y.drift, y.group_drift, y.upper,
           y.square, y.threshold, y.lower, counts, s.n, y.groups, s.d);
  } else {
    group_centroids(s);
    // Bounds of 0 under a threshold of 0: every group is looked at.
    check(cudaMemsetAsync(y.lower, 0, size_t(y.groups) * s.n * sizeof(T), s.stream), "clearing the bounds");
    check(cudaMemsetAsync(y.threshold, 0, s.n * sizeof(T), s.stream), "clearing the thresholds");
  }
  int points = most_points;
  const auto too_many = [&] {  // or too few blocks for the device; or rows too far apart for an int
    return blocks(s.n, points) * int64_t(y.groups) < 4 * s.device_info.multiprocessors ||
           int64_t(points) * s.d > std::numeric_limits<int>::max();
  };
  while (points > crew && too_many()) points /= 2;
  const int bundle = known ? 1 : 8, ranges = blocks(s.n, points);
  launch(group_distances_kernel<T, false>, ranges * blocks(y.groups, bundle), block, 0, s.stream, s.x, s.c, y.begin,
         y.member, y.threshold, y.lower, s.label, counts, points, bundle, s.n, y.groups, s.d);
  launch(decide_kernel<T>, blocks(s.n, 256), 256, 0, s.stream, y.group, y.upper, y.square, y.threshold, y.lower,
         s.label, counts, known, s.n, y.groups, s.d);
  launch(group_distances_kernel<T, true>, ranges * y.groups, block, 0, s.stream, s.x, s.c, y.begin, y.member,
         y.threshold, y.lower, s.label, counts, points, 1, s.n, y.groups, s.d);
}

template <class T>
constexpr Phases<T, Own<T>> phases{.prepare = prepare_yinyang<T>,
                                   .upload = upload_rows<T>,
                                   .restart = restart_yinyang<T>,
                                   .assign = assign<T>,
                                   .update = update_yinyang<T>,
                                   .download = download_yinyang<T>};
}  // namespace

LADDER_VARIANT(.id = "v15_yinyang", .base = "v12_block_size",
               .idea = "bounds per group of centroids decide which distances are computed",
               .expect =
                   "Titan X: 7:16 -> 4:38 for 6 times the memory; the first iteration costs more than Lloyd's, the "
                   "eighth computes a tenth of the distances; a loss where K or the number of iterations is small. "
                   "A new algorithm: nearly every line is new",
               .shows = "solve", .source = "000; Ding and others, Yinyang K-Means, ICML 2015", .reads_labels = true,
               .prunes = true, .refuse = refuse_yinyang, .f32 = phases<float>, .f64 = phases<double>)
