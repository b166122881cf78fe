// The filter's products by warpgroups: wgmma on tiles of centroids that a TMA ring keeps coming
// (gemm/narrow_mainloop_sm90.cuh). Centroids lie in tiles. v41_filter_wgmma introduces it; the CPU device, which has no
// warpgroups, keeps the mma.sync form.
#pragma once
#include "../projection/rank_selection.cuh"

namespace ladder {

/// The bits of a float that are a bound's; the others hold one of a thread's columns.
constexpr unsigned guess_bits = ~15u;

// ---- launchers (filter_sm90.cu), as those of FilterSm80

struct FilterSm90 {
  static constexpr ShortRowLayout layout = ShortRowLayout::tiles;
  static int rows_at_once(int width, int multiprocessors);
  static void filter(int width, cudaStream_t stream, const FilterOperands& o, const FilterPart& part);
};
void max_bound(FilterSm90, int width, cudaStream_t stream, const FilterOperands& o, const RowOrder& order);

#ifdef __CUDACC__
using DeviceFilter = FilterSm90;
#else
using DeviceFilter = FilterSm80;
#endif

}  // namespace ladder
