// The nearest centroid of a point that several lanes share. v03d_lanes_per_point introduces it.
#pragma once
#include "../device/warp.cuh"

namespace ladder {

template <class T>
struct Nearest {
  T distance = std::numeric_limits<T>::infinity();
  int centroid = 0;

  __device__ void insert(T other, int j) {
    if (other < distance) distance = other, centroid = j;  // <, not <=: on a tie the lowest index stays
  }
};

/// The nearest of what `lanes` neighbouring lanes have found, in each of them; `lanes` is a power of two.
template <class T>
__device__ Nearest<T> nearest_of_lanes(Nearest<T> nearest, int lanes) {
  for (int step = 1; step < lanes; step *= 2) {
    const Nearest<T> other{__shfl_xor_sync(all_lanes, nearest.distance, step),
                           __shfl_xor_sync(all_lanes, nearest.centroid, step)};
    if (other.distance < nearest.distance || (other.distance == nearest.distance && other.centroid < nearest.centroid))
      nearest = other;
  }
  return nearest;
}

}  // namespace ladder
