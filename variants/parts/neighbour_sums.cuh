// All points added up anew, those of a cluster side by side. A block takes some hundred points that are neighbours in
// an order and sorts them by their labels. Then a thread has a feature, and adds it up over the points of one cluster
// after the other in its registers: the sums in memory are touched once for each cluster of the block, not for each
// point. v27b_neighbour_sums introduces it.
#pragma once
#include "update_moved.cuh"

namespace ladder {

constexpr int neighbours = 256;  // points of a block, and threads

/// Adds the digits of values, for_digits, to the words of a sum. A float's are worked out by numbers in double, which
/// are all exact: what is above the unit of each word, cut to a whole number, and the rest.
template <class T>
struct Digits {
  FixedPoint format;
  double unit[FixedPoint::most_words], inverse[FixedPoint::most_words];
  __device__ explicit Digits(const FixedPoint& of) : format(of) {
    for (int w = 0; w < FixedPoint::most_words; ++w) {
      unit[w] = w < format.words ? scalbn(1.0, format.low + w * format.bits) : 0;
      inverse[w] = w < format.words ? scalbn(1.0, -format.low - w * format.bits) : 0;
    }
  }
  __device__ void add(T x, unsigned long long (&word)[FixedPoint::most_words]) const {
    if constexpr (sizeof(T) == 4) {
      double rest = double(x);
#pragma unroll
      for (int w = FixedPoint::most_words - 1; w >= 0; --w) {
        const auto digit = static_cast<long long>(rest * inverse[w]);  // towards 0
        rest -= double(digit) * unit[w];
        word[w] += static_cast<unsigned long long>(digit);
      }
    } else {  // units may be beyond a double
      for_digits(x, format, [&](int w, long long digit) {
#pragma unroll
        for (int e = 0; e < FixedPoint::most_words; ++e) word[e] += e == w ? static_cast<unsigned long long>(digit) : 0;
      });
    }
  }
};

/// Where many points have moved. `order`: of the points; null: as they come.
template <class T>
__global__ void __launch_bounds__(neighbours)
    sum_neighbours_kernel(const T* __restrict__ rows, const int* __restrict__ order, const int32_t* __restrict__ label,
                          const Moves* moves, int share, unsigned long long* sum, int* count, FixedPoint format, int n,
                          int k, int d) {
  constexpr int at_once = 8;  // loads of a thread that are on their way together
  __shared__ int key[neighbours], point[neighbours], cluster[neighbours];
  if (!moves_are_many(moves->points, n, share)) return;
  // Where there are few features, several threads have the same, and a part of the points each.
  int lanes = neighbours;
  while (lanes / 2 >= d) lanes /= 2;
  const Digits<T> digits(format);
  const int own_feature = threadIdx.x % lanes, part = threadIdx.x / lanes, of_part = lanes;  // points of a part
  for (int64_t first = int64_t(blockIdx.x) * neighbours; first < n; first += int64_t(gridDim.x) * neighbours) {
    const int here = int(min(int64_t(neighbours), n - first)), at = threadIdx.x;
    const int64_t place = first + at;
    const int own = at >= here ? 0 : order ? order[place] : int(place);
    const int own_key = at < here ? label[own] : k;
    __syncthreads();  // nobody reads the points before any more
    key[at] = own_key;
    __syncthreads();
    int rank = 0, before = 0, same = 0;
    for (int e = 0; e < neighbours; ++e) {
      const int other = key[e];
      rank += other < own_key, same += other == own_key, before += other == own_key && e < at;
    }
    point[rank + before] = own, cluster[rank + before] = own_key;
    if (before == 0 && at < here) atomicAdd(&count[own_key], same);
    __syncthreads();
    const int begin = part * of_part, end = min(begin + of_part, here);
    for (int f = own_feature; f < d; f += lanes) {
      unsigned long long word[FixedPoint::most_words] = {};
      for (int from = begin; from < end; from += at_once) {
        T value[at_once];
#pragma unroll
        for (int e = 0; e < at_once; ++e) value[e] = from + e < end ? rows[int64_t(point[from + e]) * d + f] : T(0);
#pragma unroll
        for (int e = 0; e < at_once; ++e) {
          if (from + e >= end) continue;
          digits.add(value[e], word);
          const int j = cluster[from + e];
          if (from + e + 1 < end && cluster[from + e + 1] == j) continue;
#pragma unroll
          for (int w = 0; w < FixedPoint::most_words; ++w) {  // its last one here
            if (word[w] != 0) atomicAdd(sum + (int64_t(w) * k + j) * d + f, word[w]);
            word[w] = 0;
          }
        }
      }
    }
  }
}

/// As move_points, after list_moved.
template <class T>
void move_neighbours(State<T>& s, const T* rows, const int* order, const Moves* moves) {
  const auto& m = s.template own<MovedSums>();
  const int grid = std::min(blocks(s.n, neighbours), 32 * s.device_info.multiprocessors);
  launch(sum_neighbours_kernel<T>, grid, neighbours, 0, s.stream, rows, order, s.label, moves, m.share, m.sum, m.count,
         m.format, s.n, s.k, s.d);
  move_points(s, rows, moves, false);
}

}  // namespace ladder
