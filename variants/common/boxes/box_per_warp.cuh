// One box for each warp: its coordinates as whole numbers in shared memory, its labels in a register, and tests against
// up to 256 centroids in rounds that are unrolled. v05n_box_per_warp introduces it.
#pragma once
#include "box_phases.cuh"
#include "narrow_distances.cuh"

namespace ladder {

/// A box's coordinates as whole numbers, for a warp: word w of feature f of point i is digit[(w x d + f) x 128 + i].
template <int d>
struct WholeNumbers {
  long long* digit;
  template <class T>
  __device__ void keep(const T* x, int pitch, int end, const FixedPoint& format) const {
    for (int i = threadIdx.x % warp_lanes; i < end; i += warp_lanes)
      for (int f = 0; f < d; ++f)
        balanced_digits(double(x[size_t(f) * pitch + i]), format,
                        [&](int w, long long value) { digit[(w * d + f) * box_points + i] = value; });
  }
  /// A point as it was: from the top word down a partial sum is the coordinate, rounded to whole units of that word. It
  /// has no more digits than the coordinate, so nothing is rounded here.
  template <class T>
  __device__ void point(T (&x)[d], int i, const FixedPoint& format) const {
    for (int f = 0; f < d; ++f) {
      double value = 0;
      for (int w = format.words - 1; w >= 0; --w)
        value = __fma_rn(value, power_of_two(format.bits), double(digit[(w * d + f) * box_points + i]));
      x[f] = T(value * format.unit);
    }
  }
  /// One warp, as sum_members().
  __device__ long long sum(unsigned members, const FixedPoint& format) const {
    const int lane = threadIdx.x % warp_lanes;
    const int count = warp_add(__popc(members));
    long long part = lane == BoxSums::values(format, d) ? count : 0;
    for (int w = 0; w < format.words; ++w) {
#pragma unroll
      for (int f = 0; f < d; ++f) {
        long long word = 0;
#pragma unroll
        for (int q = 0; q < points_per_lane; ++q)
          if (members >> q & 1) word += digit[(w * d + f) * box_points + q * warp_lanes + lane];
        word = warp_sum_wide(word);
        if (lane == f * format.words + w) part = word;
      }
    }
    return part;
  }
};

/// The labels of a lane's points, a byte for each.
struct PackedLabels {
  static constexpr int bits = 8;
  unsigned all = 0;
  __device__ int of(int q) const { return int(all >> (q * bits) & ((1u << bits) - 1)); }
  __device__ void set(int q, int label) {
    all = (all & ~(((1u << bits) - 1) << (q * bits))) | unsigned(label) << (q * bits);
  }
  __device__ static PackedLabels same(int label) { return {unsigned(label) * 0x01010101u}; }
};

/// One warp: for each pair of a former and a new label among the points with a bit in `changed`: put(label, part) with
/// the lane's part of their sum and, unless they had no label, put(former, -part).
template <int d, class Put>
__device__ void move_by_label(const WholeNumbers<d>& points, PackedLabels from, PackedLabels to, bool unlabelled,
                              unsigned changed, const FixedPoint& format, const Put& put) {
  const auto pair_of = [&](int q) { return from.of(q) | to.of(q) << PackedLabels::bits; };
  for (unsigned lanes; (lanes = __ballot_sync(all_lanes, changed != 0)) != 0;) {
    const int mine = changed != 0 ? pair_of(__ffs(int(changed)) - 1) : 0;
    const int pair = __shfl_sync(all_lanes, mine, __ffs(int(lanes)) - 1);
    unsigned members = 0;
#pragma unroll
    for (int q = 0; q < points_per_lane; ++q) members |= unsigned(pair_of(q) == pair) << q;
    members &= changed, changed ^= members;
    const long long part = points.sum(members, format);
    put(pair >> PackedLabels::bits, part);
    if (!unlabelled) put(pair & ((1 << PackedLabels::bits) - 1), -part);
  }
}

/// One warp: a centroid near the box's centre, as near_centre().
template <int rounds, int d>
__device__ int near_in_rounds(const NarrowBox<d>& box, const NarrowCentroid<d>* c, int k) {
  unsigned nearest = ~0u;
  int best = 0;
#pragma unroll
  for (int r = 0; r < rounds; ++r) {
    const int j = min(r * warp_lanes + int(threadIdx.x % warp_lanes), k - 1);
    float distance = 0;
    for (int f = 0; f < d; ++f) {
      const float difference = 0.5f * (box.low[f] + box.high[f]) - c[j].x[f];
      distance += difference * difference;
    }
    if (__float_as_uint(distance) < nearest) nearest = __float_as_uint(distance), best = j;
  }
  const unsigned holders = __ballot_sync(all_lanes, nearest == warp_least(nearest));
  return __shfl_sync(all_lanes, best, __ffs(int(holders)) - 1);
}

/// The centroids that may be nearest to a point of a box, of `rounds` times 32.
template <int rounds>
struct Survivors {
  unsigned mask[rounds];
  template <int d>
  __device__ Survivors(const NarrowHalves<d>& box, const NarrowCentroid<d>* c, int k) {
    unsigned kept = tested(box.first, c, k);
    if (box.split) kept |= tested(box.second, c, k);
#pragma unroll
    for (int r = 0; r < rounds; ++r) mask[r] = __ballot_sync(all_lanes, kept >> r & 1);
  }
  /// One warp: bit r says whether the lane's centroid of round r is left. No branches: the rounds overlap.
  template <int d>
  __device__ static unsigned tested(const NarrowBox<d>& box, const NarrowCentroid<d>* c, int k) {
    const NarrowTests<d> tests{box, c, near_in_rounds<rounds>(box, c, k)};
    unsigned kept = 0;
#pragma unroll
    for (int r = 0; r < rounds; ++r) {
      const int j = r * warp_lanes + int(threadIdx.x % warp_lanes);
      kept |= unsigned(tests.keeps(min(j, k - 1)) & (j < k)) << r;
    }
    return kept;
  }
  /// The only one, or several_centroids.
  __device__ int only() const {
    int count = 0, found = 0;
#pragma unroll
    for (int r = 0; r < rounds; ++r) {
      count += __popc(mask[r]);
      if (mask[r] != 0) found = r * warp_lanes + __ffs(int(mask[r])) - 1;
    }
    return count == 1 ? found : several_centroids;
  }
  template <class Visit>
  __device__ void each(const Visit& visit) const {
#pragma unroll
    for (int r = 0; r < rounds; ++r)
      for (unsigned rest = mask[r]; rest != 0; rest &= rest - 1) visit(r * warp_lanes + __ffs(int(rest)) - 1);
  }
};

}  // namespace ladder
