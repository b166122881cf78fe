// The phases of v28_overlapped_upload, for it and the rungs above it.
#pragma once
#include "ordered.cuh"
#include "upload_in_pieces.cuh"

namespace ladder {

template <class T, class Own>
void prepare_overlapped(Run<T, Own>& s) {
  prepare_ordered(s);
  prepare_pieces(s, wants_few(s));
}

/// `work`, `send`: as upload_in_pieces; what is done with a piece beside what the contest needs.
template <class T, class Work, class Send, class Own>
void upload_overlapped(Run<T, Own>& s, int pieces, const Work& work, const Send& send) {
  const bool directed = s.own.filter.directions.at;
  upload_in_pieces(
      s, view_of(s), pieces,
      [&](const T* sample, int count) {
        if (directed) find_few(s, sample, count, view_of(s), s.axis("width"));
      },
      [&](const RowRange& range) {
        upload_all_features(s, range);
        project_rows(s, view_of(s), range);
        work(range);
      },
      send);
}
template <class T, class Own>
void upload_overlapped(Run<T, Own>& s) {
  upload_overlapped(
      s, s.axis("pieces"), [](const RowRange&) {}, Nothing());
}

/// A restart, but for the initial centroids.
template <class T, class Own>
void finish_overlapped(Run<T, Own>& s) {
  finish_upload(s, [&] {
    upload_all_features(s);
    if (s.own.filter.directions.at) project_points(s, view_of(s), s.axis("width"));
  });
  forget_ordered(s);
}
template <class T, class Own>
void restart_overlapped(Run<T, Own>& s) {
  restart_ahead(s);
  finish_overlapped(s);
}

template <class T, class Own>
void download_overlapped(Run<T, Own>& s) {
  download_contested(s);
  tell_upload(s);
}

}  // namespace ladder
