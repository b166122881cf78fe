// The points as bytes (integers/byte_filter.cuh), written chunk by chunk under the upload, in the frame of the sample.
// The first assignment is made ahead in halves, as before; bytes multiply in later ones, and in the first where no
// labels were found ahead. v46c_bytes_ahead introduces it.
#pragma once
#include "../integers/byte_filter.cuh"
#include "full_ahead.cuh"

namespace ladder {

constexpr int where_useless = -1;  // axis "bytes": where the pilot finds no width of short rows; 0: never, 1: always

struct BytesAhead : ByteRows {
  bool on = false;  // the last upload is assigned by bytes
};

template <class T, class W>
void prepare_bytes_ahead(Run<T, W>& s) {
  static_assert(256 % ByteMainloop::cluster_rows == 0, "no chunk's padding reaches the next chunk");
  if (wants_filter(s) && s.axis("bytes") != 0) prepare_bytes(s);
}

/// Once the width of short rows is chosen.
template <class T, class W>
void choose_bytes(Run<T, W>& s) {
  const int wanted = s.axis("bytes");
  s.ws.bytes.on = wants_filter(s) && (wanted == 1 || (wanted == where_useless && s.ws.filter.width == 0));
}

/// Bytes of these rows, which are on the device; their frame is chosen.
template <class T, class W>
void write_bytes_ahead(Run<T, W>& s, const RowRange& range) {
  if (!s.ws.bytes.on) return;
  ByteRows to = s.ws.bytes;
  to.x += size_t(range.first) * to.steps * step_words / 4;
  to.point += range.first, to.square += range.first;
  write_byte_points<T>(s.stream, s.x + size_t(range.first) * s.d, frame_of(s), to, range.count, s.d);
}

/// At a restart, before the rest of it: the bytes anew where `prepared_again` says that the frame is another one.
template <class T, class W>
void keep_bytes(Run<T, W>& s, bool prepared_again) {
  if (prepared_again) choose_bytes(s), write_bytes_ahead(s, all_rows(s));
  if (s.ws.bytes.on) count_by_bytes(s);
}

template <class T, class W>
void assign_by_bytes_or_reuse(Run<T, W>& s) {
  if (!s.ws.bytes.on || s.ws.eager.reuse) return assign_or_reuse(s);
  assign_by_bytes(s, StoreLabel{s.label});
}

}  // namespace ladder
