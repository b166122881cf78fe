// One format for the sums of all devices (update/reproducible_sum.cuh), from the ranges of each one's rows.
// v33a_split_rows introduces it.
#pragma once
#include "../update/exact_sums.cuh"
#include "device_rows.cuh"

namespace ladder {

inline void widen(Extremes& range, const Extremes& by) {
  range.low = std::min(range.low, by.low), range.high = std::max(range.high, by.high);
  range.not_finite = std::min(range.not_finite, by.not_finite);
}

/// Widens `all` by the ranges that these devices have found for their rows. Waits for them.
template <class T, class W, class Outer>
void widen_by_found(Run<T, Outer>& s, DevicesOf<T, W>& devices, Extremes& all) {
  for (int gpu = 0; gpu < s.gpus(); ++gpu) {
    Extremes range;
    s.on_gpu(gpu, [&] {
      fetch_range(*devices[gpu]->run, &range);
      check(cudaStreamSynchronize(s.stream_of(gpu)), "finding the range of the points");
    });
    const auto before = static_cast<unsigned long long>(devices[gpu]->rows.first) * s.d;  // values of other devices
    if (range.high != 0) range.low += before, range.high += before;
    if (range.not_finite != ~0ull) range.not_finite += before;
    widen(all, range);
  }
}

/// The format of the sums of all points, from the range of those of this rank. Throws Error where they have none.
template <class T>
FixedPoint common_format(State<T>& s, Extremes mine) {
  std::vector<Extremes> of_ranks(size_t(s.device_info.ranks), mine);
  if (s.device_info.ranks > 1) s.device_info.communicator->gather(&mine, sizeof mine, of_ranks.data());
  for (const Extremes& range : of_ranks) widen(mine, range);
  return fixed_point(mine, s.problem.points, s.n, s.d);
}

}  // namespace ladder
