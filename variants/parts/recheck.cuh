// The rows that bounds did not prove, decided exactly: a list that the assignment fills, and the kernel that goes
// through it. v23_certified introduces it; v24_wgmma keeps it.
#pragma once
#include "certificate.cuh"
#include "features.cuh"
#include "scan.cuh"

namespace ladder {

/// A row whose label is not proven, and its two candidates.
struct Doubtful {
  int row, first, second;
};

/// Of one iteration.
struct Doubts {
  int pairs;  ///< rows with two candidates: doubtful[0 .. pairs)
  int scans;  ///< rows with more: the last ones of the list
  int few;    ///< rows with a few, which are not in this list (two_greatest.cuh)
};
constexpr int counted = 1024;        ///< iterations of a solve whose counts are kept
constexpr int recheck_resident = 4;  ///< blocks of a multiprocessor that recheck

struct Recheck {
  Doubtful* doubtful = nullptr;   // n: pairs from the front, scans from the back
  Doubts* doubts = nullptr;       // counted: those of iteration i since the restart are at i
  Doubts* doubts_host = nullptr;  // page-locked
  int blocks = 0;                 // that recheck
  ScanParts parts;
  int done = 0;  // iterations since the restart
  int told = 0;  // how many of them State::counters has
};

/// Gives row i its label where `leaders`, which have heard of all centroids, prove it; else puts it on the list.
__device__ inline void decide(int i, const Leaders& leaders, int32_t* label, Doubtful* doubtful, Doubts* doubts,
                              int n) {
  if (leaders.proven()) {
    label[i] = leaders.first_at;
  } else if (leaders.pair()) {
    doubtful[atomicAdd(&doubts->pairs, 1)] = {i, leaders.first_at, leaders.second_at};
  } else {
    doubtful[n - 1 - atomicAdd(&doubts->scans, 1)] = {i, 0, 0};
  }
}

/// The exact labels of the rows in the list: a warp compares the two candidates of a row; of who has more
/// all centroids are gone through.
template <class T>
__global__ void __launch_bounds__(scan_block, recheck_resident)
    recheck_kernel(const T* __restrict__ x, const T* __restrict__ c, int32_t* __restrict__ label,
                   const Doubtful* doubtful, const Doubts* doubts, ScanParts parts, int n, int k, int d) {
  const int lane = threadIdx.x % 32, warps = blockDim.x / 32;
  for (int at = blockIdx.x * warps + threadIdx.x / 32; at < doubts->pairs; at += gridDim.x * warps) {
    const Doubtful it = doubtful[at];
    const auto exact = [&](int j) {
      return Exact{exact_sum_of_warp(exact_distance(x + size_t(it.row) * d, c + size_t(j) * d, d, lane, 32)), j};
    };
    const Exact first = exact(it.first), second = exact(it.second);
    if (lane == 0) label[it.row] = nearer(first, second) ? it.first : it.second;
  }
  const auto row_at = [&](int at) { return doubtful[n - 1 - at].row; };
  nearest_of_all(x, c, label, doubts->scans, row_at, parts, k, d);
}

// ---- the host's side: what each phase does for it

template <class T, class Own>
void prepare_recheck(Run<T, Own>& s) {
  auto& own = s.own.refinement;
  own.doubtful = s.template device<Doubtful>(s.n);
  own.doubts = s.template device<Doubts>(counted);
  own.doubts_host = s.template pinned<Doubts>(counted);
  own.blocks = recheck_resident * s.device_info.multiprocessors;
  own.parts = take_scan_parts(s, own.blocks);
}

template <class T, class Own>
void forget_recheck(Run<T, Own>& s) {
  auto& own = s.own.refinement;
  own.done = own.told = 0;
  clear_scan_parts(s, own.parts, own.blocks);
  check(cudaMemsetAsync(own.doubts, 0, counted * sizeof(Doubts), s.stream), "clearing the counts");
}
template <class T, class Own>
void restart_recheck(Run<T, Own>& s) {
  restart_rows(s);
  forget_recheck(s);
}

/// Where the assignment that begins now counts, from 0.
template <class T, class Own>
Doubts* next_doubts(Run<T, Own>& s) {
  auto& own = s.own.refinement;
  Doubts* const doubts = own.doubts + std::min(own.done, counted - 1);
  if (const int before = own.done++; before >= counted - 1 && before < beyond_all)
    check(cudaMemsetAsync(doubts, 0, sizeof *doubts, s.stream), "clearing the counts");
  return doubts;
}

template <class T, class Own>
void recheck(Run<T, Own>& s, const Doubts* doubts) {
  const auto& own = s.own.refinement;
  launch(recheck_kernel<T>, own.blocks, scan_block, 0, s.stream, s.own.rows.points, s.c, s.label, own.doubtful, doubts,
         own.parts, s.n, s.k, s.d);
}

/// What the iterations since the last download counted comes down with their result: no iteration waits for it. First
/// it is fetched; it is there to be told once the labels are.
template <class T, class Own>
void fetch_doubts(Run<T, Own>& s) {
  auto& own = s.own.refinement;
  check(cudaMemcpyAsync(own.doubts_host, own.doubts, std::min(own.done, counted) * sizeof(Doubts),
                        cudaMemcpyDeviceToHost, s.stream),
        "downloading the counts");
}
template <class T, class Own>
void tell_doubts(Run<T, Own>& s) {
  auto& own = s.own.refinement;
  for (; own.told < std::min(own.done, counted); ++own.told) {
    const Doubts& doubts = own.doubts_host[own.told];
    s.counters["rows rechecked"].push_back(doubts.pairs + doubts.few + doubts.scans);
    s.counters["rows rechecked against all"].push_back(doubts.scans);
  }
}

template <class T, class Own>
void download_recheck(Run<T, Own>& s) {
  fetch_doubts(s);
  download_rows(s);
  tell_doubts(s);
}

}  // namespace ladder
