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
#include "parts/yinyang.cuh"

namespace {
using namespace ladder;

constexpr int block = 128;               // threads; as many points are worked on at a time
constexpr int most_points = 32 * block;  // that a block looks through: enough to find some that need its group
constexpr int width = 32;                // features at a time
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
  T exact = 0;
  for (int f = 0; f < d; ++f) {
    const T diff = x[size_t(i) * d + f] - c[size_t(own) * d + f];
    exact += diff * diff;
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
template <class T, bool last>
__global__ void __launch_bounds__(block)
    group_distances_kernel(const T* __restrict__ x, const T* __restrict__ c, const int* begin, const int32_t* member,
                           const T* threshold, T* lower, int32_t* label, Counts* counts, int points, int n, int d) {
  constexpr int tile = 64 / sizeof(T);
  __shared__ uint16_t list[most_points];  // by their distance from the first point
  __shared__ int listed;
  __shared__ T own[block][width + 1];  // one more: 32 threads that read one feature find it in 32 banks
  __shared__ __align__(16) T part[width][tile];
  const int g = blockIdx.y, t = threadIdx.x, lane = t % 32, warp = t / 32;
  const int members = begin[g + 1] - begin[g], first_point = blockIdx.x * points;
  const Margin<T> margin(d);
  if (t == 0) listed = 0;
  __syncthreads();
  for (int p = t; p < min(points, n - first_point); p += block) {
    const int i = first_point + p;
    const T bound = lower[size_t(g) * n + i];
    const bool wanted = last ? signbit(bound) : threshold[i] >= 0 && !margin.farther(bound, threshold[i]);
    if (wanted) list[atomicAdd(&listed, 1)] = p;
  }
  __syncthreads();  // the list is complete
  if (t == 0 && listed > 0) {
    const unsigned long long pairs = static_cast<unsigned long long>(listed) * members;
    atomicAdd(&counts->computed, pairs);
    if (!last) atomicAdd(&counts->pairs, pairs);
  }
  for (int from = 0; from < listed; from += block) {
    const int here = min(block, listed - from);
    T nearest = std::numeric_limits<T>::infinity(), second = nearest;
    int32_t best = undecided;
    for (int first = 0; first < members; first += tile) {
      T distance[tile] = {};
      for (int f = 0; f < d; f += width) {
        const int wide = min(width, d - f);
        __syncthreads();    // nobody still reads the features before
        if (lane < wide) {  // a warp copies neighbouring features of one row
          for (int p = warp; p < here; p += block / 32) {
            own[p][lane] = x[size_t(first_point + list[from + p]) * d + f + lane];
          }
          for (int m = warp; m < tile; m += block / 32) {
            part[lane][m] = first + m < members ? c[size_t(member[begin[g] + first + m]) * d + f + lane] : T(0);
          }
        }
        __syncthreads();  // all of them are there
        if (t >= here) continue;
#pragma unroll 4
        for (int w = 0; w < wide; ++w) {
          for (int m = 0; m < tile; ++m) {
            const T diff = own[t][w] - part[w][m];
            distance[m] += diff * diff;
          }
        }
      }
      for (int m = 0; m < tile && t < here; ++m) {
        if (first + m >= members) break;
        const int32_t j = member[begin[g] + first + m];  // in no order: ties go to the lower number
        if (distance[m] < nearest || (distance[m] == nearest && j < best)) {
          second = nearest, nearest = distance[m], best = j;
        } else {
          second = min(second, distance[m]);
        }
      }
    }
    if (t >= here) continue;
    const int i = first_point + list[from + t];
    if (!last) {
      lower[size_t(g) * n + i] = -nearest;
    } else {
      atomicMin(&label[i], best);
      // Two groups may have the same least square; then one of them does not hold the label, and its bound is that.
      lower[size_t(g) * n + i] = margin.below(threshold[i] > 1 ? nearest : second);
    }
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
void assign(State<T>& s) {
  auto& y = s.template own<Yinyang<T>>();
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
  while (points > block && blocks(s.n, points) * int64_t(y.groups) < 4 * s.device_info.multiprocessors) points /= 2;
  const dim3 grid(blocks(s.n, points), y.groups);
  launch(group_distances_kernel<T, false>, grid, block, 0, s.stream, s.x, s.c, y.begin, y.member, y.threshold, y.lower,
         s.label, counts, points, s.n, s.d);
  launch(decide_kernel<T>, blocks(s.n, 256), 256, 0, s.stream, y.group, y.upper, y.square, y.threshold, y.lower,
         s.label, counts, known, s.n, y.groups, s.d);
  launch(group_distances_kernel<T, true>, grid, block, 0, s.stream, s.x, s.c, y.begin, y.member, y.threshold, y.lower,
         s.label, counts, points, s.n, s.d);
}

template <class T>
constexpr Phases<T> phases{.prepare = prepare_yinyang<T>,
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
