// All points added up anew, those of a cluster side by side. The points are put in the order of their labels; then a
// thread has a feature, and adds it up over some dozen neighbours in registers: the sums in memory are touched once for
// each run of them, not for each point. v27b_neighbour_sums introduces it.
#pragma once
#include "order.cuh"
#include "update_moved.cuh"

namespace ladder {

constexpr int neighbours = 256;  // points of a block, and threads
constexpr int together = 64;     // features of a block

/// The exact sum of at most `together` values, of a feature. Of doubles, in words; of floats, in doubles: each value is
/// split into pieces of 44 binary digits, and a double holds the sum of 2^9 of these, and more, to the last bit. That
/// is cheaper than whole numbers: the values of most data sets have one piece or two.
template <class T>
struct OwnSum {
  const FixedPoint& format;
  unsigned long long word[FixedPoint::most_words] = {};
  __device__ explicit OwnSum(const FixedPoint& of) : format(of) {}
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

template <>
struct OwnSum<float> {
  static constexpr int bits = 44, most = 5;
  static_assert(most * bits >= FixedPoint::most_words * 62);
  const FixedPoint& format;
  int pieces;
  double rounder[most], sum[most] = {};
  __device__ explicit OwnSum(const FixedPoint& of) : format(of), pieces((of.high - of.low + bits - 1) / bits) {
    // Piece p has units of 2^(low + p bits); what is less is lost beside 1.5 2^52 of them.
    for (int p = 0; p < most; ++p) rounder[p] = scalbn(1.5, of.low + p * bits + 52);
  }
  __device__ void add(float value) {
    double x = double(value);
#pragma unroll
    for (int p = most - 1; p > 0; --p) {
      if (p >= pieces) continue;
      const double piece = __dsub_rn(__dadd_rn(x, rounder[p]), rounder[p]);
      sum[p] += piece, x -= piece;
    }
    sum[0] += x;
  }
  /// A sum may be beyond its values' range: the highest word takes all that is above.
  template <class Put>
  __device__ void give(const Put& put) {
#pragma unroll
    for (int p = 0; p < most; ++p) {
      for (int w = format.words - 1; w >= 0 && sum[p] != 0; --w) {
        const int unit = format.low + w * format.bits;
        const auto digit = static_cast<long long>(scalbn(sum[p], -unit));  // towards 0
        if (digit == 0) continue;
        sum[p] -= scalbn(double(digit), unit);
        put(w, static_cast<unsigned long long>(digit));
      }
    }
  }
};

/// A warp's rows that have the same number, counted and put by one of them: where there are few numbers, all would
/// meet.
__device__ inline void count_in_together(const Order& order, int number, bool mine) {
  const unsigned same = __match_any_sync(0xffffffffu, mine ? number : -1);
  if (mine && __ffs(int(same)) - 1 == int(threadIdx.x % 32)) atomicAdd(&order.count[number], __popc(same));
}
__device__ inline void put_in_together(const Order& order, int row, int number, bool mine) {
  const unsigned same = __match_any_sync(0xffffffffu, mine ? number : -1);
  const int lane = threadIdx.x % 32, leader = __ffs(int(same)) - 1;
  int place = 0;
  if (mine && lane == leader) place = atomicAdd(&order.place[number], __popc(same));
  place = __shfl_sync(0xffffffffu, place, leader) + __popc(same & ((1u << lane) - 1));
  if (mine) order.row[place] = row;
}

/// Is an order asked for? `always`: else where all points are added up anew.
__device__ inline bool orders(const Moves* moves, int share, bool always, int n) {
  return always || moves_are_many(moves->points, n, share);
}

__global__ void count_labels_kernel(const int32_t* label, Order order, const Moves* moves, int share, bool always,
                                    int n) {
  if (!orders(moves, share, always, n)) return;
  const int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  count_in_together(order, i < n ? label[i] : 0, i < n);
}

/// Also takes labels for guesses, where there are any.
__global__ void put_labels_kernel(const int32_t* label, int* guess, Order order, const Moves* moves, int share,
                                  bool always, int n) {
  if (!orders(moves, share, always, n)) return;
  const int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  const int own = i < n ? label[i] : 0;
  put_in_together(order, int(i), own, i < n);
  if (guess && i < n) guess[i] = own;
}

/// Where many points have moved: adds up all of them, in the order of their labels. A block has some neighbours, and
/// some of the features; its threads go through parts of the neighbours side by side.
template <class T>
__global__ void __launch_bounds__(neighbours)
    sum_neighbours_kernel(const T* __restrict__ rows, const int* __restrict__ order, const int32_t* __restrict__ label,
                          const Moves* moves, int share, unsigned long long* sum, int* count, FixedPoint format, int n,
                          int k, int d) {
  constexpr int at_once = 16;  // loads of a thread that are on their way together
  __shared__ int point[neighbours], cluster[neighbours];
  if (!moves_are_many(moves->points, n, share)) return;
  const int at = threadIdx.x;
  const int64_t place = int64_t(blockIdx.x) * neighbours + at;
  const int here = int(min(int64_t(neighbours), n - (place - at)));
  point[at] = at < here ? order[place] : 0;
  cluster[at] = at < here ? label[point[at]] : -1;
  __syncthreads();
  if (blockIdx.y == 0 && at < here) {  // a run adds its end, and takes its begin away
    if (at == 0 || cluster[at - 1] != cluster[at]) atomicAdd(&count[cluster[at]], -at);
    if (at == here - 1 || cluster[at + 1] != cluster[at]) atomicAdd(&count[cluster[at]], at + 1);
  }
  int lanes = together;  // threads with a feature each; others have the same features of as many other points
  while (lanes > 16 && lanes / 2 >= d) lanes /= 2;
  const int f = blockIdx.y * together + at % lanes, begin = at / lanes * lanes, end = min(begin + lanes, here);
  if (f >= d) return;
  OwnSum<T> own_sum(format);
  for (int from = begin; from < end; from += at_once) {
    T value[at_once];
#pragma unroll
    for (int e = 0; e < at_once; ++e) value[e] = from + e < end ? rows[int64_t(point[from + e]) * d + f] : T(0);
#pragma unroll
    for (int e = 0; e < at_once; ++e) {
      if (from + e >= end) continue;
      own_sum.add(value[e]);
      const int j = cluster[from + e];
      if (from + e + 1 < end && cluster[from + e + 1] == j) continue;
      own_sum.give([&](int w, unsigned long long word) { atomicAdd(sum + (int64_t(w) * k + j) * d + f, word); });
    }
  }
}

/// As move_points, after list_moved. `always`: the points are put in order in any case, and labels into `guess`.
template <class T>
void move_neighbours(State<T>& s, const T* rows, const Order& order, int* guess, bool always, const Moves* moves) {
  const auto& m = s.template own<MovedSums>();
  launch(count_labels_kernel, blocks(s.n, 256), 256, 0, s.stream, s.label, order, moves, m.share, always, s.n);
  launch(places_kernel, 1, places_block, 0, s.stream, order, s.k);
  launch(put_labels_kernel, blocks(s.n, 256), 256, 0, s.stream, s.label, guess, order, moves, m.share, always, s.n);
  launch(sum_neighbours_kernel<T>, dim3(blocks(s.n, neighbours), blocks(s.d, together)), neighbours, 0, s.stream, rows,
         order.row, s.label, moves, m.share, m.sum, m.count, m.format, s.n, s.k, s.d);
  move_points(s, rows, moves, false);
}

}  // namespace ladder
