// The full-dimension labels of a list of rows, for rungs that decide most rows by other means. v35_short_rows
// introduces it.
#pragma once
#include "full_dimension.cuh"
#include "gathered_rows.cuh"

namespace ladder {

template <class T>
struct ListedDimension : FullDimension<T> {
  WarpgroupData gathered;  // on a GPU: rows of a list, side by side
};

/// `listed`: assign_listed_rows() will be called.
template <class T, class W>
void prepare_listed_rows(Run<T, W>& s, [[maybe_unused]] bool listed) {
  prepare_full_dimension(s);
#ifdef __CUDACC__
  prepare_gathered(s, listed);
#endif
}

/// The labels of the rows list[0 .. *length), and of those that refine_counters already counts.
template <class T, class W>
void assign_listed_rows(Run<T, W>& s, const int* list, const int* length, RefineCounters* refine_counters) {
#ifdef __CUDACC__
  assign_gathered(s, list, length, refine_counters);
#else
  assign_listed(s, list, length, refine_counters);
#endif
}

}  // namespace ladder
