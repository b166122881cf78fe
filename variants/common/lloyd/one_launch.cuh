// A solve in one launch: a kernel whose blocks are all on the device at once repeats the iterations and evaluates the
// stop rule itself. The host waits once and reads how many labels each iteration changed. v03a_one_launch introduces
// it.
#pragma once
#include <cooperative_groups.h>

#include "../device/warp.cuh"
#include "phases.cuh"

namespace ladder {

constexpr int kept_changes_of_launch = 1024;  ///< iterations of a launch, at most; then the host launches the next

/// What a kernel knows of the iterations that it is to do.
struct Iterations {
  int done;                     ///< since the restart, before this launch
  int most;                     ///< of this launch
  unsigned long long* changed;  ///< most: labels changed by each; zeros before the launch
  Stop stop;

  /// All threads of the block: adds the labels that each of them has changed in iteration `it` of this launch.
  __device__ void count(int it, int changed_labels) const {
    const int all = warp_sum(changed_labels);
    if (threadIdx.x % warp_lanes == 0 && all > 0) atomicAdd(&changed[it], static_cast<unsigned long long>(all));
  }
  /// Whether iteration `it` of this launch is the last of the solve. After a grid barrier behind count().
  __device__ bool ended(int it, int n) const { return stop.reached(done + it + 1, int64_t(changed[it]), n); }
};

/// Where the share of block `block` of `blocks` begins; it ends where the next one begins.
__device__ inline int share_begin(int count, int block, int blocks) { return int(int64_t(count) * block / blocks); }

struct OneLaunch {
  unsigned long long* changed = nullptr;       // kept_changes_of_launch
  unsigned long long* changed_host = nullptr;  // page-locked
  int done = 0;                                // iterations since the restart
};

// ---- phases; W::launches is a OneLaunch

template <class T, class W>
void prepare_one_launch(Run<T, W>& s) {
  s.ws.launches = {s.template device<unsigned long long>(kept_changes_of_launch),
                   s.template pinned<unsigned long long>(kept_changes_of_launch)};
}

/// Calls start(iterations), which launches a kernel for the next iterations, at most `most` of them.
template <class T, class Start, class W>
void start_iterations(Run<T, W>& s, int most, const Start& start) {
  auto& launches = s.ws.launches;
  check(cudaMemsetAsync(launches.changed, 0, most * sizeof *launches.changed, s.stream), "clearing the counts");
  start(Iterations{launches.done, most, launches.changed, s.problem.stop});
}

template <class T, class Start, class W>
void iterate_in_one_launch(Run<T, W>& s, const Start& start) {
  start_iterations(s, 1, start);
  ++s.ws.launches.done;
}

template <class T, class Start, class W>
void solve_in_one_launch(Run<T, W>& s, const Start& start) {
  auto& launches = s.ws.launches;
  const Stop& stop = s.problem.stop;
  for (;;) {
    const int most = std::min(kept_changes_of_launch, std::max(1, stop.max_iterations - launches.done));
    start_iterations(s, most, start);
    check(cudaMemcpyAsync(launches.changed_host, launches.changed, most * sizeof *launches.changed,
                          cudaMemcpyDeviceToHost, s.stream),
          "downloading the counts of changed labels");
    check(cudaStreamSynchronize(s.stream), "solving in one launch");
    for (int it = 0; it < most; ++it) {
      const auto changed = int64_t(launches.changed_host[it]);
      s.reassigned.push_back(changed);
      if (stop.reached(++launches.done, changed, s.n)) return;
    }
  }
}

}  // namespace ladder
