// A value that moves from one sum to another, rounded by an addition. v04m_added_rounding introduces it.
#pragma once
#include "added_rounding.cuh"

namespace ladder {

/// Adds x to sum number `to` and subtracts it from sum number `from`, if that is not negative; `high` and `mid` are the
/// block's own.
template <class T>
__device__ void move_fixed(int* high, int* mid, const FixedSums& sums, const Units<T>& units, int to, int from, T x) {
  const Whole<T> q(x * units.scale[0]);
  const T remainder = x - q.value() * units.unit[0];
  const Whole<T> p(remainder * units.scale[1]);
  const T lost = remainder - p.value() * units.unit[1];
  atomicAdd(&high[to], q.bits()), atomicAdd(&mid[to], p.bits());
  if (from >= 0) atomicAdd(&high[from], -q.bits()), atomicAdd(&mid[from], -p.bits());
  if (lost == 0) return;
  const T l = rint(lost * units.scale[2]), rest = lost - l * units.unit[2];
  const auto low = static_cast<unsigned long long>(static_cast<long long>(l));
  atomicAdd(&sums.low[to], low);
  if (from >= 0) atomicAdd(&sums.low[from], 0 - low);
  if (rest != 0) atomicAdd(&sums.rest[to], double(rest));  // such rows are added anew in each iteration: no `from`
}

}  // namespace ladder
