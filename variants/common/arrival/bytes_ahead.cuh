// The points as bytes (integers/byte_filter.cuh), written chunk by chunk under the upload, in the frame of the sample.
// The first assignment is made in halves, as before, and ahead if it can be; bytes multiply in later ones.
// v46c_bytes_ahead introduces it.
#pragma once
#include "../integers/byte_filter.cuh"
#include "full_ahead.cuh"

namespace ladder {

struct BytesAhead : ByteRows {
  bool on = false;  // the last upload is assigned by bytes
};

template <class T, class W>
void prepare_bytes_ahead(Run<T, W>& s) {
  static_assert(256 % ByteMainloop::cluster_rows == 0, "no chunk's padding reaches the next chunk");
  if (wants_filter(s) && s.axis("bytes") != 0) prepare_bytes(s);
}

/// Once the width of short rows is chosen; where bytes take their place it becomes 0.
template <class T, class W>
void choose_bytes(Run<T, W>& s) {
  const bool on = wants_filter(s) && prefers_bytes(s);
  s.ws.bytes.on = on;
  if (on) s.ws.filter.width = 0;
  s.ws.order.sort.resort_share = on ? 0 : s.axis("resort_share");
}

/// Bytes of these rows, which are on the device; their frame is chosen.
template <class T, class W>
void write_bytes_ahead(Run<T, W>& s, const RowRange& range) {
  if (!s.ws.bytes.on) return;
  ByteRows to = s.ws.bytes;
  to.x += size_t(range.first) * to.steps * step_words / 4;
  to.point += range.first, to.square += range.first;
  quantize(s.x + size_t(range.first) * s.d, frame_of(s), PutBytePoint{to}, nullptr, range.count,
           ByteMainloop::padded_rows(range.count), s.d, s.stream);
}

/// At a restart, before the rest of it: the bytes anew where `prepared_again` says that the frame is another one.
template <class T, class W>
void keep_bytes(Run<T, W>& s, bool prepared_again) {
  if (prepared_again) choose_bytes(s), write_bytes_ahead(s, all_rows(s));
  if (s.ws.bytes.on) s.ws.filter.width = s.ws.bytes.width;
}

template <class T, class W>
void assign_by_bytes_or_reuse(Run<T, W>& s) {
  const bool reuses = s.ws.sums.done == 0 && s.ws.eager.reuse;
  if (s.ws.bytes.on && !reuses) return assign_by_bytes(s);
  assign_or_reuse(s);
  if (s.ws.bytes.on) count_all_overflow(s);
}

}  // namespace ladder
