// Rows that are added to the sums from registers. v04q_first_apart introduces it.
#pragma once
#include "added_rounding.cuh"
#include "row_pairs.cuh"

namespace ladder {

/// x = high units[0] + mid units[1] + lost.
template <class T>
struct Parts {
  int high, mid;
  T lost;
  __device__ Parts(const Units<T>& units, T x) {
    const Whole<T> q(x * units.scale[0]);
    const T remainder = x - q.value() * units.unit[0];
    const Whole<T> p(remainder * units.scale[1]);
    high = q.bits(), mid = p.bits(), lost = remainder - p.value() * units.unit[1];
  }
};

/// Adds what the first two parts do not hold to sum number `to`, and subtracts it from sum number `from`, if that is
/// not negative.
template <class T>
__device__ void move_lost(const FixedSums& sums, const Units<T>& units, int to, int from, T lost) {
  const T l = rint(lost * units.scale[2]), rest = lost - l * units.unit[2];
  const auto low = static_cast<unsigned long long>(static_cast<long long>(l));
  atomicAdd(&sums.low[to], low);
  if (from >= 0) atomicAdd(&sums.low[from], 0 - low);
  if (rest != 0) atomicAdd(&sums.rest[to], double(rest));  // such rows are added anew in each iteration: no `from`
}

/// Adds the row of a lane to the sums that begin with number `to`.
template <class T, class RowEntries>
__device__ void add_row(const RowEntries& entries, int* high, int* mid, const FixedSums& sums, const Units<T>& units,
                        int to) {
  bool more = false;
  entries.pairs([&](const auto& value, const auto& column) {
#pragma unroll
    for (int p = 0; p < pair; ++p) {
      const Parts<T> part(units, value.of[p]);
      const int e = to + int(column.of(p));
      atomicAdd(&high[e], part.high), atomicAdd(&mid[e], part.mid);
      more |= part.lost != 0;
    }
  });
  if (!more) return;
#pragma unroll 1
  for (int e = 0; e < entries.width * pair; ++e) {
    const int at = e / pair * warp_lanes, p = e % pair;
    const Parts<T> part(units, entries.values[at].of[p]);
    if (part.lost != 0) move_lost(sums, units, to + int(entries.columns[at].of(p)), -1, part.lost);
  }
}

}  // namespace ladder
