// The phases of v28_overlapped_upload, for it and the rungs above it.
#pragma once
#include "neighbour_sums.cuh"
#include "row_bounds.cuh"
#include "upload_in_pieces.cuh"

namespace ladder {

template <class T>
void prepare_overlapped(State<T>& s) {
  prepare_bounded(s);
  s.template own<MovedSums>().share = s.axis("share");
  prepare_pieces(s, wants_few(s));
}

template <class T>
void upload_overlapped(State<T>& s) {
  const bool directed = s.template own<Few>().directions.at;
  upload_in_pieces(
      s, view_of(s), s.axis("pieces"),
      [&](const T* sample, int count) {
        if (directed) find_few(s, sample, count, view_of(s), s.axis("width"));
      },
      [&](const RowRange& range) {
        upload_all_features(s, range);
        project_rows(s, view_of(s), range);
      });
}

template <class T>
void restart_overlapped(State<T>& s) {
  restart_ahead(s);
  finish_upload(s, [&] {
    upload_all_features(s);
    if (s.template own<Few>().directions.at) project_points(s, view_of(s), s.axis("width"));
  });
  forget_bounded(s);
}

template <class T>
void update_overlapped(State<T>& s) {
  const auto& few = s.template own<Few>();
  const bool in_order = few.width > 0 && s.template own<Recheck>().done > 0;  // a contest has put them there
  move_neighbours(s, s.x, in_order ? few.order.row : nullptr, list_moved(s));
  step_to_means(s);
}

template <class T>
void download_overlapped(State<T>& s) {
  download_contested(s);
  tell_upload(s);
}

}  // namespace ladder
