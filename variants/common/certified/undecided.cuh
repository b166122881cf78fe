// Rows whose label the bounds do not prove: a list that the epilogue of the products fills, for an exact kernel.
// v24_certified introduces it.
#pragma once
#include "../lloyd/feature_major.cuh"
#include "error_bound.cuh"

namespace ladder {

/// A row whose label is not proven, and its two candidates.
struct UndecidedPair {
  int row, first, second;
};

/// Counts of one iteration.
struct RefineCounters {
  int pairs;           ///< rows with two candidates: undecided_pairs[0 .. pairs)
  int brute_force;     ///< rows with more: the last ones of undecided_pairs
  int candidate_rows;  ///< rows with up to eight candidates, in a list of their own (gemm/argmax_sm90.cuh)
};
constexpr int counted = 1024;  ///< iterations of a solve whose counts are kept; later ones share the last place

struct UndecidedRows {
  UndecidedPair* undecided_pairs = nullptr;        // n: pairs from the front, rows for all centroids from the back
  RefineCounters* refine_counters = nullptr;       // counted: those of iteration i since the restart are at i
  RefineCounters* refine_counters_host = nullptr;  // page-locked
  int done = 0;                                    // iterations since the restart
  int reported = 0;                                // of these, those that State::counters has
};

/// Stores the label of row i where `top3`, merged over all centroids, proves it; otherwise appends the row to the list.
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

// ---- host side. W::refinement is an UndecidedRows, or derived from it.

template <class T, class W>
void prepare_undecided(Run<T, W>& s) {
  UndecidedRows& rows = s.ws.refinement;
  rows.undecided_pairs = s.template device<UndecidedPair>(s.n);
  rows.refine_counters = s.template device<RefineCounters>(counted);
  rows.refine_counters_host = s.template pinned<RefineCounters>(counted);
}

template <class T, class W>
void reset_undecided(Run<T, W>& s) {
  UndecidedRows& rows = s.ws.refinement;
  rows.done = rows.reported = 0;
  check(cudaMemsetAsync(rows.refine_counters, 0, counted * sizeof(RefineCounters), s.stream), "clearing the counts");
}

/// The counters of the assignment that begins now: zeros.
template <class T, class W>
RefineCounters* next_refine_counters(Run<T, W>& s) {
  UndecidedRows& rows = s.ws.refinement;
  RefineCounters* const refine_counters = rows.refine_counters + std::min(rows.done, counted - 1);
  if (const int before = rows.done++; before >= counted - 1 && before < loop_on_device)
    check(cudaMemsetAsync(refine_counters, 0, sizeof *refine_counters, s.stream), "clearing the counts");
  return refine_counters;
}

/// Copies the counts of the iterations since the last download, with their result: no iteration waits for them.
template <class T, class W>
void fetch_refine_counters(Run<T, W>& s) {
  UndecidedRows& rows = s.ws.refinement;
  check(cudaMemcpyAsync(rows.refine_counters_host, rows.refine_counters,
                        std::min(rows.done, counted) * sizeof(RefineCounters), cudaMemcpyDeviceToHost, s.stream),
        "downloading the counts");
}
/// After the stream has been synchronised.
template <class T, class W>
void report_refine_counters(Run<T, W>& s) {
  UndecidedRows& rows = s.ws.refinement;
  for (; rows.reported < std::min(rows.done, counted); ++rows.reported) {
    const RefineCounters& c = rows.refine_counters_host[rows.reported];
    s.counters["rows rechecked"].push_back(c.pairs + c.candidate_rows + c.brute_force);
    s.counters["rows rechecked against all"].push_back(c.brute_force);
  }
}

template <class T, class W>
void download_refined(Run<T, W>& s) {
  fetch_refine_counters(s);
  download_rows(s);
  report_refine_counters(s);
}

}  // namespace ladder
