// All points added up anew, those of a cluster side by side. The points are put in the order of their labels; then a
// thread has a feature, and adds it up over some dozen neighbours in registers: the sums in memory are touched once for
// each run of them, not for each point. v32_segmented_sums introduces it.
#pragma once
#include "../device/counting_sort.cuh"
#include "incremental.cuh"

namespace ladder {

constexpr int run_points = 256;   // points of a block, and threads
constexpr int run_features = 64;  // features of a block
template <class T>
constexpr int run_blocks_per_sm = sizeof(T) == 4 ? 5 : 4;  // blocks of a multiprocessor

/// The exact sum of at most `together` values, of a feature. Of doubles, in words; of floats, in doubles: each value is
/// split into pieces of 44 binary digits, and a double holds the sum of 2^9 of these, and more, to the last bit. That
/// is cheaper than whole numbers: the values of most data sets have one piece or two. `pieces`: as the format has, or
/// more.
template <class T, int pieces>
struct RunSum {
  const FixedPoint& format;
  unsigned long long word[FixedPoint::most_words] = {};
  __device__ explicit RunSum(const FixedPoint& of) : format(of) {}
  __device__ void add(T x) {
    for_digits(x, format, [&](int w, long long digit) {
#pragma unroll
      for (int e = 0; e < FixedPoint::most_words; ++e) word[e] += e == w ? static_cast<unsigned long long>(digit) : 0;
    });
  }
  /// Calls put(w, word) for each word that is not 0; then the sum is 0.
  template <class Put>
  __device__ void give(const Put& put) {
#pragma unroll
    for (int w = 0; w < FixedPoint::most_words; ++w) {
      if (word[w] != 0) put(w, word[w]);
      word[w] = 0;
    }
  }
};

constexpr int sum_piece_bits = 44, most_sum_pieces = 5;
static_assert(most_sum_pieces * sum_piece_bits >= FixedPoint::most_words * 62);

template <int pieces>
struct RunSum<float, pieces> {
  const FixedPoint& format;
  double rounder[pieces], sum[pieces] = {};
  __device__ explicit RunSum(const FixedPoint& of) : format(of) {
    // Piece p has units of 2^(low + p sum_piece_bits); what is less is lost beside 1.5 2^52 of them.
    for (int p = 0; p < pieces; ++p) rounder[p] = 1.5 * power_of_two(of.low + p * sum_piece_bits + 52);
  }
  __device__ void add(float value) {
    double x = double(value);
#pragma unroll
    for (int p = pieces - 1; p > 0; --p) {
      const double piece = __dsub_rn(__dadd_rn(x, rounder[p]), rounder[p]);
      sum[p] += piece, x -= piece;
    }
    sum[0] += x;
  }
  /// A sum may be beyond its values' range: the highest word takes all that is above.
  template <class Put>
  __device__ void give(const Put& put) {
#pragma unroll
    for (int p = 0; p < pieces; ++p) {
      for (int w = format.words - 1; w >= 0 && sum[p] != 0; --w) {
        const int unit = format.low + w * format.bits;
        const auto digit = static_cast<long long>(sum[p] * power_of_two(-unit));  // towards 0
        if (digit == 0) continue;
        sum[p] -= double(digit) * power_of_two(unit);
        put(w, static_cast<unsigned long long>(digit));
      }
    }
  }
};

/// Calls use<pieces>() for values of this format.
template <class T, class Use>
void with_sum_pieces(const FixedPoint& format, const Use& use) {
  const int digits = format.high - format.low;
  if constexpr (!std::is_same_v<T, float>)
    use.template operator()<1>();
  else
    dispatch<1, 2, most_sum_pieces>(digits <= sum_piece_bits       ? 1
                                    : digits <= 2 * sum_piece_bits ? 2
                                                                   : most_sum_pieces,
                                    use);
}

/// A warp's rows that have the same number are put by one of them, as in count_by_warp.
__device__ inline void scatter_by_warp(const RowOrder& order, int row, int number, bool mine) {
  const unsigned same = __match_any_sync(0xffffffffu, mine ? number : -1);
  const int lane = threadIdx.x % 32, leader = __ffs(int(same)) - 1;
  int place = 0;
  if (mine && lane == leader) place = atomicAdd(&order.place[number], __popc(same));
  place = __shfl_sync(0xffffffffu, place, leader) + __popc(same & ((1u << lane) - 1));
  if (mine) order.row[place] = row;
}

/// Whether the order of the points is good enough. It must hold each point once; those that moved since it was made are
/// not among their like, and whoever wants neighbours has a little more to do.
struct SortState {
  static constexpr int not_at_all = std::numeric_limits<int>::max();
  int share = 0;  ///< it is made anew as soon as one point in so many has moved; 0: only where all are added up anew
  struct State {
    unsigned long long moved;  ///< points, since it was made, some of them more than once
    int ends;                  ///< it is made anew in this update
  }* state = nullptr;          // 1
};

/// One block: whether the order stands; where it does not, the places of the points of each cluster.
__global__ void __launch_bounds__(places_block)
    cluster_offsets_kernel(RowOrder order, const int* count, SortState standing, const MoveCounters* moves, int share,
                           int n, int k) {
  __shared__ bool ends;
  if (threadIdx.x == 0) {
    const unsigned long long moved = standing.state->moved + moves->points;
    ends = moves_are_many(moves->points, n, share) || standing.share * moved >= unsigned(n);
    *standing.state = {ends ? 0 : moved, ends};
  }
  __syncthreads();
  if (ends) exclusive_prefix_sum(count, order.place, k);
}

__global__ void scatter_labels_kernel(const int32_t* label, RowOrder order, SortState standing, int n) {
  if (!standing.state->ends) return;
  const int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  scatter_by_warp(order, int(i), i < n ? label[i] : 0, i < n);
}

/// Where many points have moved: adds up all of them, in the order of their labels. A block has some neighbours, and
/// some of the features; its threads go through parts of the neighbours side by side.
template <class T, int pieces>
__global__ void __launch_bounds__(run_points, run_blocks_per_sm<T>)
    segmented_sum_kernel(const T* __restrict__ rows, const int* __restrict__ order, const int32_t* __restrict__ label,
                         const MoveCounters* moves, int share, unsigned long long* sum, FixedPoint format, int n, int k,
                         int d) {
  constexpr int at_once = 8;  // loads of a thread that are on their way together
  __shared__ int64_t row[run_points];
  __shared__ int cluster[run_points];
  __shared__ unsigned ends[run_points / 32];  // a bit for each neighbour: the next one is of another cluster, or part
  if (!moves_are_many(moves->points, n, share)) return;
  const int at = threadIdx.x;
  int lanes = run_features;  // threads with a feature each; others have the same features of as many other points
  while (lanes > 16 && lanes / 2 >= d) lanes /= 2;
  const int f = blockIdx.y * run_features + at % lanes, begin = at / lanes * lanes;
  const T* const column = rows + f;
  for (int64_t first = int64_t(blockIdx.x) * run_points; first < n; first += int64_t(gridDim.x) * run_points) {
    const int here = int(min(int64_t(run_points), n - first));
    __syncthreads();  // nobody reads the neighbours before any more
    // Beyond the last point are others of no cluster, so that what follows need not ask where the points end.
    const int point = order[at < here ? first + at : 0];
    row[at] = int64_t(point) * d;
    cluster[at] = at < here ? label[point] : -1;
    __syncthreads();
    const bool ends_here = at % lanes == lanes - 1 || cluster[at] != cluster[at + 1];
    const unsigned among_32 = __ballot_sync(0xffffffffu, ends_here);
    if (at % 32 == 0) ends[at / 32] = among_32;
    __syncthreads();
    RunSum<T, pieces> own_sum(format);
    const int end = f < d ? min(begin + lanes, here) : 0;
    for (int from = begin; from < end; from += at_once) {
      T value[at_once];
#pragma unroll
      for (int e = 0; e < at_once; ++e) value[e] = column[row[from + e]];
      // Run by run, so that what ends a run stands here once, and not once for each value.
      unsigned left = ends[from / 32] >> from % 32 & ((1u << at_once) - 1);
      for (int done = 0, to; done < at_once; done = to) {
        to = left ? __ffs(int(left)) : at_once;
        const unsigned run = (1u << to) - (1u << done);
#pragma unroll
        for (int e = 0; e < at_once; ++e)
          if (run & 1u << e) own_sum.add(value[e]);
        if (!left) break;
        left &= left - 1;
        const int j = cluster[from + to - 1];
        own_sum.give([&](int w, unsigned long long word) {
          if (j >= 0) atomicAdd(sum + (int64_t(w) * k + j) * d + f, word);
        });
      }
    }
  }
}

/// As move_points, after list_moved; the points are put in order where `standing` wants it.
template <class T, class W>
void sum_segments(Run<T, W>& s, const T* rows, const RowOrder& order, const SortState& standing,
                  const MoveCounters* moves) {
  const auto& m = s.ws.incremental;
  launch(cluster_offsets_kernel, 1, places_block, 0, s.stream, order, m.count, standing, moves, m.share, s.n, s.k);
  launch(scatter_labels_kernel, blocks(s.n, 256), 256, 0, s.stream, s.label, order, standing, s.n);
  // As many blocks as run at a time, as in list_moved(), and none more: it would begin when the others end.
  const int parts = blocks(s.d, run_features);
  const int most = std::max(1, run_blocks_per_sm<T> * s.device_info.multiprocessors / parts);
  const int grid = std::min(blocks(s.n, run_points), most);
  with_sum_pieces<T>(m.format, [&]<int pieces>() {
    launch(segmented_sum_kernel<T, pieces>, dim3(grid, parts), run_points, 0, s.stream, rows, order.row, s.label, moves,
           m.share, m.sum, m.format, s.n, s.k, s.d);
  });
  move_points(s, rows, moves, false);
}

}  // namespace ladder
