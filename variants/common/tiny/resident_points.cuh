// Points of a block that stay in its shared memory, and those that change their cluster. v03k_cluster_messages
// introduces it.
#pragma once
#include "../lloyd/vector_load.cuh"

namespace ladder {

/// A block's points: rows of `vectors` vectors in shared memory.
template <class T>
struct ResidentPoints {
  const Vec16<T>* copy;
  int d, vectors;
  __device__ const T* row(int i) const { return reinterpret_cast<const T*>(copy + i * vectors); }
};

/// A point that goes from one cluster to another; from < 0: it was in none.
struct Move {
  int point, from, to;
};

}  // namespace ladder
