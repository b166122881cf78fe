// A full re-sum over sorted points: the points of a cluster are neighbours, so a thread sums one feature over a run of
// them in registers, and one atomic adds the run to memory, where v34 needs one per point. v43_segmented_sums
// introduces it.
#pragma once
#include "cluster_order.cuh"

namespace ladder {

constexpr int run_features = 64;  // features of a block; a run has at most as many points

/// The exact sum of at most run_features values of one feature. Doubles are summed in integer words; floats are split
/// into summands of 44 bits, and a double holds the sum of more than 2^9 of these exactly. That is cheaper than
/// integers: the values of most data sets have one summand or two. `summands`: as many as the format needs, or more.
template <class T, int summands>
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
  /// Calls put(w, word) for each nonzero word, and clears the sum.
  template <class Put>
  __device__ void flush(const Put& put) {
#pragma unroll
    for (int w = 0; w < FixedPoint::most_words; ++w) {
      if (word[w] != 0) put(w, word[w]);
      word[w] = 0;
    }
  }
};

constexpr int summand_bits = 44, most_summands = 5;
static_assert(most_summands * summand_bits >= FixedPoint::most_words * 62);

template <int summands>
struct RunSum<float, summands> {
  const FixedPoint& format;
  double rounder[summands], sum[summands] = {};
  __device__ explicit RunSum(const FixedPoint& of) : format(of) {
    // Summand p has units of 2^(low + p summand_bits): adding 1.5 2^52 units rounds to them.
    for (int p = 0; p < summands; ++p) rounder[p] = 1.5 * power_of_two(of.low + p * summand_bits + 52);
  }
  __device__ void add(float value) {
    double x = double(value);
#pragma unroll
    for (int p = summands - 1; p > 0; --p) {
      const double summand = __dsub_rn(__dadd_rn(x, rounder[p]), rounder[p]);
      sum[p] += summand, x -= summand;
    }
    sum[0] += x;
  }
  /// A sum may exceed the range of its values: the highest word takes what is above.
  template <class Put>
  __device__ void flush(const Put& put) {
#pragma unroll
    for (int p = 0; p < summands; ++p) {
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

/// Calls body.template operator()<summands>() for values of this format.
template <class T, class Body>
void dispatch_summands(const FixedPoint& format, const Body& body) {
  const int digits = format.high - format.low;
  if constexpr (!std::is_same_v<T, float>)
    body.template operator()<1>();
  else
    dispatch<1, 2, most_summands>(digits <= summand_bits ? 1 : digits <= 2 * summand_bits ? 2 : most_summands, body);
}

/// Launcher (segmented.cu): where most points moved, adds all of them to the sums, in the order `order`.
template <class T>
void segmented_sums(cudaStream_t stream, const T* rows, const int* order, const int32_t* label,
                    const IncrementalSums& sums, const MoveCounters* moves, int n, int k, int d, int multiprocessors);

template <class T, class W>
void sum_segments(Run<T, W>& s, const T* rows, const MoveCounters* moves) {
  segmented_sums(s.stream, rows, s.ws.order.rows.row, s.label, s.ws.sums, moves, s.n, s.k, s.d,
                 s.device_info.multiprocessors);
}

/// As move_points(), with a full re-sum by runs. The points are sorted.
template <class T, class W>
void move_or_sum_segments(Run<T, W>& s, const T* rows, const MoveCounters* moves) {
  sum_segments(s, rows, moves);
  move_points(s, rows, moves, FullUpdate{.skip = true});
}

}  // namespace ladder
