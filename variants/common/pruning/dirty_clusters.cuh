// Which clusters a point has joined or left since the last assignment, for those who keep what hangs on a centroid
// while it stays: only a centroid whose cluster is touched can change. v30_clean_clusters introduces it.
#pragma once
#include "../lloyd/phases.cuh"

namespace ladder {

struct DirtyClusters {
  int* at = nullptr;   ///< k: when each was; null: nobody keeps anything, all are
  int* now = nullptr;  ///< 1: how many assignments there were before
  __device__ void mark(int j) const {
    if (at) atomicExch(&at[j], *now);  // atomic: others say the same
  }
  __device__ bool operator[](int j) const { return !at || at[j] == *now; }
  /// One thread, when an assignment has used all that was touched before it.
  __device__ void begin_anew() const {
    if (now) ++*now;
  }
};

inline DirtyClusters allocate_dirty(Resources& s, int k) {
  int* const at = s.device<int>(k + 1);
  return {at, at + k};
}

/// All are, until the next assignment.
inline void mark_all_dirty(const DirtyClusters& dirty, int k, cudaStream_t stream) {
  if (dirty.at) check(cudaMemsetAsync(dirty.at, 0, (k + 1) * sizeof(int), stream), "touching all clusters");
}

}  // namespace ladder
