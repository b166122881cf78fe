// A grid that is one thread block cluster: its blocks have a barrier in hardware. Needs compute capability 9.0.
// v03i_cluster introduces it.
#pragma once
#include <cooperative_groups.h>

#include "../../../harness/contract/launch.cuh"

namespace ladder {

/// Waits for all blocks, of the cluster or of a cooperative grid.
__device__ inline void wait_for_all(bool is_cluster) {
  if (is_cluster) return cooperative_groups::this_cluster().sync();
  cooperative_groups::this_grid().sync();
}

/// Launches a grid that is one cluster.
template <class... P, class... A>
void launch_cluster(void (*kernel)(P...), int grid, int threads, size_t shared_bytes, cudaStream_t stream,
                    A&&... args) {
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1), "asking for 16 blocks");
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {unsigned(grid), 1, 1};
  cudaLaunchConfig_t config = detail::configuration(grid, threads, shared_bytes, stream);
  config.attrs = &cluster;
  config.numAttrs = 1;
  detail::launch_with(kernel, config, std::forward<A>(args)...);
}

}  // namespace ladder
