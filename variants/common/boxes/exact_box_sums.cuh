// Exact sums of the points of boxes (update/reproducible_sum.cuh), by a warp: the points of a box that share a label
// are summed in registers, and one atomic per number adds them to their cluster. v05d_warp_sums introduces it.
//
// The sums are whole numbers in `words` words of 64 bits for each feature. Words count digits of 44 bits here, in place
// of what the number of points allows, so that a lane's four digits add up to 46 bits and those of a warp to 51: two
// reductions of 32-bit numbers. Digits are balanced: the rest below the digit lies between minus and plus a half, and
// adding 1.5 x 2^52 to a double rounds it to such a whole number.
#pragma once
#include "../update/reproducible_sum.cuh"
#include "boxes.cuh"

namespace ladder {

struct BoxSums {
  Extremes* extremes = nullptr;         // 1: the range of the points
  FixedPoint format;                    // chosen at upload
  unsigned long long* total = nullptr;  // boxes x (values + 1): of each box, and its number of points
  unsigned long long* sum = nullptr;    // k x (values + 1): of each cluster, and its number of points
  __host__ __device__ static int values(const FixedPoint& format, int d) { return d * format.words; }
};

constexpr int least_summands = 1 << 19;  // of which FixedPoint allows digits of 44 bits

/// Calls add(w, digit) for each word of x, a multiple of 2^low.
template <class Add>
__device__ void balanced_digits(double x, const FixedPoint& format, const Add& add) {
  constexpr double rounder = 0x1.8p52;
  constexpr int far = 500;  // from there on a power of two, or its inverse, may be no normal number
  const int lift = format.low < -far ? far : format.low > far ? -far : 0;
  x *= power_of_two(lift);
#pragma unroll
  for (int w = FixedPoint::most_words - 1; w >= 0; --w) {
    if (w >= format.words) continue;
    const int unit = format.low + lift + w * format.bits;
    const double rounded = __fma_rn(x, power_of_two(-unit), rounder);
    add(w, __double_as_longlong(rounded) - __double_as_longlong(rounder));
    x = __fma_rn(-__dsub_rn(rounded, rounder), power_of_two(unit), x);
  }
}

/// The sum over the lanes of a warp, in each of them, of numbers below 2^46.
__device__ inline long long warp_sum_wide(long long value) {
  constexpr int low_bits = 26;
  const unsigned low = warp_add(unsigned(value) & ((1u << low_bits) - 1));
  const int high = warp_add(int(value >> low_bits));
  return static_cast<long long>(high) * (1ll << low_bits) + low;
}

/// One warp: the sums of the points with a bit in `members`, a lane's own four bits. Lane f x words + w returns word w
/// of feature f, the lane behind them the number of points.
template <class T, int d>
__device__ long long sum_members(const BoxPoints<T, d>& points, unsigned members, const FixedPoint& format) {
  const int lane = threadIdx.x % warp_lanes;
  const int count = warp_add(__popc(members));
  long long part = lane == BoxSums::values(format, d) ? count : 0;
#pragma unroll
  for (int f = 0; f < d; ++f) {
    long long word[FixedPoint::most_words] = {};
#pragma unroll
    for (int q = 0; q < points_per_lane; ++q)
      if (members >> q & 1)
        balanced_digits(double(points.x[q][f]), format, [&](int w, long long digit) { word[w] += digit; });
#pragma unroll
    for (int w = 0; w < FixedPoint::most_words; ++w) {
      if (w >= format.words) continue;
      const long long sum = warp_sum_wide(word[w]);
      if (lane == f * format.words + w) part = sum;
    }
  }
  return part;
}

/// Bits of a lane's points that exist.
__device__ inline unsigned valid_points(int begin, int end) {
  unsigned valid = 0;
  for (int q = 0; q < points_per_lane; ++q)
    valid |= unsigned(begin + q * warp_lanes + int(threadIdx.x % warp_lanes) < end) << q;
  return valid;
}

/// One warp: calls put(j, value) for each label j in the box with the lane's part of its sum, as sum_members(). `total`
/// is that of the whole box: the last label gets what the others leave.
template <class T, int d, class Put>
__device__ void sum_by_label(const BoxPoints<T, d>& points, const int (&label)[points_per_lane], unsigned valid,
                             long long total, const FixedPoint& format, const Put& put) {
  for (unsigned lanes; (lanes = __ballot_sync(all_lanes, valid != 0)) != 0;) {
    int first = 0;
    unsigned members = 0;
#pragma unroll
    for (int q = points_per_lane - 1; q >= 0; --q)
      if (valid >> q & 1) first = label[q];
    const int j = __shfl_sync(all_lanes, first, __ffs(int(lanes)) - 1);
#pragma unroll
    for (int q = 0; q < points_per_lane; ++q) members |= unsigned(label[q] == j) << q;
    members &= valid, valid ^= members;
    const bool last = !__any_sync(all_lanes, valid != 0);
    const long long part = last ? total : sum_members(points, members, format);
    total -= part;
    put(j, part);
  }
}

/// A warp per box: its total.
template <class T, int d>
__global__ void box_totals_kernel(const T* x, unsigned long long* total, FixedPoint format, int n) {
  const int lane = threadIdx.x % warp_lanes, box = (blockIdx.x * blockDim.x + threadIdx.x) / warp_lanes;
  const int begin = box * box_points, end = min(begin + box_points, n), values = BoxSums::values(format, d);
  if (begin >= n) return;
  BoxPoints<T, d> points;
  points.load(x, begin, end, n);
  const long long part = sum_members(points, valid_points(begin, end), format);
  if (lane <= values) total[size_t(box) * (values + 1) + lane] = static_cast<unsigned long long>(part);
}

/// The new centroid j, feature f; a centroid without points stays.
template <class T>
__device__ T mean_or(T former, const unsigned long long* sum, const FixedPoint& format, int j, int f, int d) {
  const int values = BoxSums::values(format, d);
  const unsigned long long* const words = sum + size_t(j) * (values + 1);
  const int count = int(__ldcg(words + values));
  return count == 0 ? former : mean_of<T>(SumWords(words + f * format.words, 1, format), count, format);
}

template <class T>
__global__ void means_kernel(const unsigned long long* sum, T* c, FixedPoint format, int k, int d) {
  const int e = blockIdx.x * blockDim.x + threadIdx.x;
  if (e < k * d) c[e] = mean_or(c[e], sum, format, e / d, e % d, d);
}

// ---- phases; W::sums is a BoxSums

template <class T, class W>
void prepare_box_sums(Run<T, W>& s) {
  constexpr int most = FixedPoint::most_words;
  auto& sums = s.ws.sums;
  sums.extremes = s.template device<Extremes>(1);
  sums.total = s.template device<unsigned long long>(size_t(boxes_of(s.n)) * (most * s.d + 1));
  sums.sum = s.template device<unsigned long long>(size_t(s.k) * (most * s.d + 1));
}

/// Chooses the format of the sums and adds up each box. Waits for the device.
template <class T, class W>
void find_totals(Run<T, W>& s) {
  auto& sums = s.ws.sums;
  const int64_t values = int64_t(s.n) * s.d;
  Extremes range;
  to_device(s, sums.extremes, &range, 1, "clearing the range of the points");
  launch(extremes_kernel<T>, std::min(blocks(values, 256), 4 * s.device_info.multiprocessors), 256, 0, s.stream,
         s.ws.rows.points, sums.extremes, int64_t(0), values);
  check(cudaMemcpyAsync(&range, sums.extremes, sizeof range, cudaMemcpyDeviceToHost, s.stream),
        "downloading the range of the points");
  check(cudaStreamSynchronize(s.stream), "finding the range of the points");
  sums.format = fixed_point(range, s.points, std::max(s.n, least_summands), s.d);
  dispatch<1, 2, 3>(s.d, [&]<int d>() {
    launch(box_totals_kernel<T, d>, blocks(boxes_of(s.n), warps_per_block), warps_per_block * warp_lanes, 0, s.stream,
           s.x, sums.total, sums.format, s.n);
  });
}

template <class T, class W>
void clear_box_sums(Run<T, W>& s) {
  const auto& sums = s.ws.sums;
  const size_t count = size_t(s.k) * (BoxSums::values(sums.format, s.d) + 1);
  check(cudaMemsetAsync(sums.sum, 0, count * sizeof *sums.sum, s.stream), "clearing the sums");
}

template <class T, class W>
void means_of_boxes(Run<T, W>& s) {
  const auto& sums = s.ws.sums;
  launch(means_kernel<T>, blocks(int64_t(s.k) * s.d, 256), 256, 0, s.stream, sums.sum, s.c, sums.format, s.k, s.d);
}

}  // namespace ladder
