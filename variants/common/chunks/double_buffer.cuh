// Two buffers on the device that chunks take in turn: the copy engine fills one while the session's stream computes on
// the other. An event says that a buffer is filled, another that it may be filled again. v32b_double_buffer introduces
// it.
#pragma once
#include "../device/events.cuh"
#include "chunk_run.cuh"

namespace ladder {

template <class T>
struct ChunkBuffer {
  T* rows = nullptr;
  Event filled, used;
};

struct ChunkCopies : Copies {
  Event begun;
};

/// Before a sweep: its copies wait for what s.stream has now, so that none is done ahead of its phase.
template <class T, class W>
void begin_copies(Run<T, W>& s) {
  s.ws.copies.begun.record(s.stream);
  s.ws.copies.begun.await(s.ws.copies.stream);
}

/// Work in s.stream on a chunk that the copy engine brings to `buffer`, from host memory at `rows`.
template <class T, class W, class Work>
void stream_chunk(Run<T, W>& s, ChunkBuffer<T>& buffer, const T* rows, const Chunk& chunk, const Work& work) {
  const cudaStream_t copies = s.ws.copies.stream;
  buffer.used.await(copies);
  copy_chunk(s, buffer.rows, rows, chunk, copies);
  buffer.filled.record(copies);
  buffer.filled.await(s.stream);
  work(chunk, buffer.rows);
  buffer.used.record(s.stream);
}

}  // namespace ladder
