// The phases of v31_overlapped_upload, for it and the rungs above it.
#pragma once
#include "../pruning/ordered_pipeline.cuh"
#include "chunked_upload.cuh"

namespace ladder {

template <class T, class W>
void prepare_overlapped(Run<T, W>& s) {
  prepare_ordered(s);
  prepare_chunks(s, wants_filter(s));
}

/// `work`, `send`: as upload_chunks; what is done with a piece beside what the contest needs.
template <class T, class Work, class Send, class W>
void upload_overlapped(Run<T, W>& s, int pieces, const Work& work, const Send& send) {
  const bool directed = s.ws.filter.directions.at;
  upload_chunks(
      s, view_of(s), pieces,
      [&](const T* sample, int count) {
        if (directed) find_projection(s, sample, count, view_of(s), s.axis("width"));
      },
      [&](const RowRange& range) {
        upload_all_features(s, range);
        project_rows(s, view_of(s), range);
        work(range);
      },
      send);
}
template <class T, class W>
void upload_overlapped(Run<T, W>& s) {
  upload_overlapped(
      s, s.axis("pieces"), [](const RowRange&) {}, Nothing());
}

/// A restart, but for the initial centroids.
template <class T, class W>
void finish_overlapped(Run<T, W>& s) {
  finish_upload(s, [&] {
    upload_all_features(s);
    if (s.ws.filter.directions.at) project_points(s, view_of(s), s.axis("width"));
  });
  reset_ordered(s);
}
template <class T, class W>
void restart_overlapped(Run<T, W>& s) {
  send_initial_centroids(s);
  finish_overlapped(s);
}

template <class T, class W>
void download_overlapped(Run<T, W>& s) {
  download_filtered(s);
  report_upload(s);
}

}  // namespace ladder
