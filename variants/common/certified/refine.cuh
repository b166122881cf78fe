// The rows that bounds did not prove, decided exactly: a list that the assignment fills, and the kernel that goes
// through it. v19_refine introduces it; v23_multicast keeps it.
#pragma once
#include "../lloyd/feature_major.cuh"
#include "brute_force.cuh"
#include "error_bound.cuh"

namespace ladder {

/// A row whose label is not proven, and its two candidates.
struct UndecidedPair {
  int row, first, second;
};

/// Of one iteration.
struct RefineCounters {
  int pairs;        ///< rows with two candidates: doubtful[0 .. pairs)
  int brute_force;  ///< rows with more: the last ones of the list
  int few;          ///< rows with a few, which are not in this list (two_greatest.cuh)
};
constexpr int counted = 1024;            ///< iterations of a solve whose counts are kept
constexpr int refine_blocks_per_sm = 4;  ///< blocks of a multiprocessor that recheck

struct Refinement {
  UndecidedPair* undecided_pairs = nullptr;        // n: pairs from the front, scans from the back
  RefineCounters* refine_counters = nullptr;       // counted: those of iteration i since the restart are at i
  RefineCounters* refine_counters_host = nullptr;  // page-locked
  int blocks = 0;                                  // that recheck
  BruteForceParts parts;
  int done = 0;  // iterations since the restart
  int told = 0;  // how many of them State::counters has
};

/// Gives row i its label where `leaders`, which have heard of all centroids, prove it; else puts it on the list.
__device__ inline void decide(int i, const Top3& top3, int32_t* label, UndecidedPair* undecided_pairs,
                              RefineCounters* refine_counters, int n) {
  if (top3.proven()) {
    label[i] = top3.first_index;
  } else if (top3.pair()) {
    undecided_pairs[atomicAdd(&refine_counters->pairs, 1)] = {i, top3.first_index, top3.second_index};
  } else {
    undecided_pairs[n - 1 - atomicAdd(&refine_counters->brute_force, 1)] = {i, 0, 0};
  }
}

/// The exact labels of the rows in the list: a warp compares the two candidates of a row; of who has more
/// all centroids are gone through.
template <class T>
__global__ void __launch_bounds__(brute_force_block, refine_blocks_per_sm)
    refine_kernel(const T* __restrict__ x, const T* __restrict__ c, int32_t* __restrict__ label,
                  const UndecidedPair* undecided_pairs, const RefineCounters* refine_counters, BruteForceParts parts,
                  int n, int k, int d) {
  const int lane = threadIdx.x % 32, warps = blockDim.x / 32;
  for (int at = blockIdx.x * warps + threadIdx.x / 32; at < refine_counters->pairs; at += gridDim.x * warps) {
    const UndecidedPair it = undecided_pairs[at];
    const auto exact = [&](int j) {
      return Exact{exact_warp_sum(exact_distance(x + size_t(it.row) * d, c + size_t(j) * d, d, lane, 32)), j};
    };
    const Exact first = exact(it.first), second = exact(it.second);
    if (lane == 0) label[it.row] = nearer(first, second) ? it.first : it.second;
  }
  const auto row_at = [&](int at) { return undecided_pairs[n - 1 - at].row; };
  nearest_by_brute_force(x, c, label, refine_counters->brute_force, row_at, parts, k, d);
}

// ---- the host's side: what each phase does for it

template <class T, class W>
void prepare_refinement(Run<T, W>& s) {
  auto& own = s.ws.refinement;
  own.undecided_pairs = s.template device<UndecidedPair>(s.n);
  own.refine_counters = s.template device<RefineCounters>(counted);
  own.refine_counters_host = s.template pinned<RefineCounters>(counted);
  own.blocks = refine_blocks_per_sm * s.device_info.multiprocessors;
  own.parts = allocate_brute_force_parts(s, own.blocks);
}

template <class T, class W>
void reset_refinement(Run<T, W>& s) {
  auto& own = s.ws.refinement;
  own.done = own.told = 0;
  clear_brute_force_parts(s, own.parts, own.blocks);
  check(cudaMemsetAsync(own.refine_counters, 0, counted * sizeof(RefineCounters), s.stream), "clearing the counts");
}
template <class T, class W>
void restart_refinement(Run<T, W>& s) {
  restart_rows(s);
  reset_refinement(s);
}

/// Where the assignment that begins now counts, from 0.
template <class T, class W>
RefineCounters* next_refine_counters(Run<T, W>& s) {
  auto& own = s.ws.refinement;
  RefineCounters* const refine_counters = own.refine_counters + std::min(own.done, counted - 1);
  if (const int before = own.done++; before >= counted - 1 && before < loop_on_device)
    check(cudaMemsetAsync(refine_counters, 0, sizeof *refine_counters, s.stream), "clearing the counts");
  return refine_counters;
}

template <class T, class W>
void refine(Run<T, W>& s, const RefineCounters* refine_counters) {
  const auto& own = s.ws.refinement;
  launch(refine_kernel<T>, own.blocks, brute_force_block, 0, s.stream, s.ws.rows.points, s.c, s.label,
         own.undecided_pairs, refine_counters, own.parts, s.n, s.k, s.d);
}

/// What the iterations since the last download counted comes down with their result: no iteration waits for it. First
/// it is fetched; it is there to be told once the labels are.
template <class T, class W>
void fetch_refine_counters(Run<T, W>& s) {
  auto& own = s.ws.refinement;
  check(cudaMemcpyAsync(own.refine_counters_host, own.refine_counters,
                        std::min(own.done, counted) * sizeof(RefineCounters), cudaMemcpyDeviceToHost, s.stream),
        "downloading the counts");
}
template <class T, class W>
void report_refine_counters(Run<T, W>& s) {
  auto& own = s.ws.refinement;
  for (; own.told < std::min(own.done, counted); ++own.told) {
    const RefineCounters& refine_counters = own.refine_counters_host[own.told];
    s.counters["rows rechecked"].push_back(refine_counters.pairs + refine_counters.few + refine_counters.brute_force);
    s.counters["rows rechecked against all"].push_back(refine_counters.brute_force);
  }
}

template <class T, class W>
void download_refined(Run<T, W>& s) {
  fetch_refine_counters(s);
  download_rows(s);
  report_refine_counters(s);
}

}  // namespace ladder
