// How short rows of centroids lie in memory: row by row, or in tiles as wgmma reads them from shared memory (from
// v41_filter_wgmma on). v36_narrow_mainloop introduces it.
#pragma once
#include "../gemm/wgmma_sm90.cuh"

namespace ladder {

enum class ShortRowLayout {
  rows,   ///< row-major
  tiles,  ///< tiles of short_row_tile rows, as wgmma reads them from shared memory
};
constexpr int short_row_tile = 128;

/// The index of half f of centroid j.
template <int width, ShortRowLayout layout>
__host__ __device__ constexpr int64_t short_row_offset(int64_t j, int f) {
  if constexpr (layout == ShortRowLayout::rows) return j * width + f;
  return j / short_row_tile * (short_row_tile * width) +
         b_smem_offset<short_row_tile>(int(j % short_row_tile), f / 2) * 2 + f % 2;
}
template <int width, ShortRowLayout layout>
struct ShortRowOffset {
  __device__ int64_t operator()(int64_t j, int f) const { return short_row_offset<width, layout>(j, f); }
};
/// The index of the 16 bytes with halves 8 e to 8 e + 7 of centroid j: one term for all e, and one that is a constant.
template <int width, ShortRowLayout layout>
__host__ __device__ constexpr int64_t short_row_chunk(int64_t j, int e) {
  return short_row_offset<width, layout>(j, 0) / 8 + short_row_offset<width, layout>(0, e * 8) / 8;
}

/// Calls body.template operator()<layout>().
template <class F>
void dispatch_layout(ShortRowLayout layout, const F& body) {
  layout == ShortRowLayout::rows ? body.template operator()<ShortRowLayout::rows>()
                                 : body.template operator()<ShortRowLayout::tiles>();
}

}  // namespace ladder
