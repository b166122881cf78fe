// What the filter counted, for the record: rows compared, candidates, and rows that took all features, in every
// iteration. v36_narrow_mainloop introduces it.
#pragma once
#include "filter.cuh"

namespace ladder {

/// After an assignment without the filter: all rows took the full-dimension kernel.
template <class T, class W>
void count_all_overflow(Run<T, W>& s) {
  to_device(s, &filter_counters(s)->overflow, &s.n, 1, "counting the rows");
}

template <class T, class W>
void report_filter_counters(Run<T, W>& s) {
  auto& f = s.ws.filter;
  FilterCounters all_overflow = {};
  all_overflow.overflow = s.n;
  for (; f.reported < std::min(s.ws.refinement.done, counted); ++f.reported) {
    const FilterCounters counters = f.width > 0 ? f.counters_host[f.reported] : all_overflow;
    s.counters["halves of a short row"].push_back(f.width);
    s.counters["rows looked at"].push_back(f.width > 0 && f.centroid_square ? counters.exact_distances : s.n);
    s.counters["rows compared"].push_back(counters.candidate_rows);
    s.counters["candidates compared"].push_back(counters.candidates);
    s.counters["rows of all features"].push_back(counters.overflow);
  }
}
template <class T, class W>
void download_filter(Run<T, W>& s) {
  const auto& f = s.ws.filter;
  fetch_move_counters(s);
  if (f.width > 0)
    check(cudaMemcpyAsync(f.counters_host, f.counters, std::min(s.ws.refinement.done, counted) * sizeof *f.counters,
                          cudaMemcpyDeviceToHost, s.stream),
          "downloading the counts");
  download_refined(s);
  report_moves(s);
  report_filter_counters(s);
}

}  // namespace ladder
