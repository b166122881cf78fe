// Which clusters a point has joined or left since the last assignment: only their centroids can change, so whatever
// depends on the other centroids may be kept. v44_active_set introduces it; in earlier rungs every cluster is dirty.
#pragma once
#include "../lloyd/phases.cuh"

namespace ladder {

struct DirtyClusters {
  int* stamp = nullptr;  ///< k: the assignment before which each was last marked; null: all clusters are dirty, always
  int* now = nullptr;    ///< 1: assignments so far
  __device__ void mark(int j) const {
    if (stamp) atomicExch(&stamp[j], *now);  // atomic: several threads may store the same value
  }
  __device__ bool operator[](int j) const { return !stamp || stamp[j] == *now; }
  /// One thread, at the end of an assignment: all clusters are clean.
  __device__ void clean_all() const {
    if (now) ++*now;
  }
};

inline DirtyClusters allocate_dirty(Resources& s, int k) {
  int* const stamp = s.device<int>(k + 1);
  return {stamp, stamp + k};
}

/// All clusters are dirty until the next assignment.
inline void mark_all_dirty(const DirtyClusters& dirty, int k, cudaStream_t stream) {
  if (dirty.stamp) check(cudaMemsetAsync(dirty.stamp, 0, (k + 1) * sizeof(int), stream), "marking all clusters dirty");
}

}  // namespace ladder
