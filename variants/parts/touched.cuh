// Which clusters a point has joined or left since the last assignment, for those who keep what hangs on a centroid
// while it stays: only a centroid whose cluster is touched can change. v31_changed_only introduces it.
#pragma once
#include "phases.cuh"

namespace ladder {

struct Touched {
  int* at = nullptr;   ///< k: when each was; null: nobody keeps anything, all are
  int* now = nullptr;  ///< 1: how many assignments there were before
  __device__ void touch(int j) const {
    if (at) atomicExch(&at[j], *now);  // atomic: others say the same
  }
  __device__ bool operator[](int j) const { return !at || at[j] == *now; }
  /// One thread, when an assignment has used all that was touched before it.
  __device__ void begin_anew() const {
    if (now) ++*now;
  }
};

inline Touched take_touched(Resources& s, int k) {
  int* const at = s.device<int>(k + 1);
  return {at, at + k};
}

/// All are, until the next assignment.
inline void touch_all(const Touched& touched, int k, cudaStream_t stream) {
  if (touched.at) check(cudaMemsetAsync(touched.at, 0, (k + 1) * sizeof(int), stream), "touching all clusters");
}

}  // namespace ladder
