// Points that are on the device chunk by chunk. A chunk is assigned like a problem of its own, with operands and
// scratch memory for its rows alone, and its points are added to the sums of all. Labels are exact and sums are whole
// numbers, so neither depends on the chunks' size or order. All chunks have the same number of rows: the last one
// begins earlier than the one before ends, and the rows that it has in common with that one are added once.
//
// How chunks reach the device is the variant's own: its `sweep` calls work(chunk, rows) for each chunk, in any order,
// when work that is put into s.stream finds its rows at `rows`. A ChunkRun takes its memory on the current GPU, so a
// run on several GPUs has one for each. v32a_chunks introduces it.
#pragma once
#include <memory>

#include "chunk_plan.cuh"

namespace ladder {

/// Rows first .. first + count - 1 of the points; the first `shared` of them are in the chunk before, too.
struct Chunk {
  int number, first, count, shared;
};

template <class T>
struct ChunkProblem {
  Problem<T> part;
};
/// The run of one chunk after the other: its points and labels are wherever they are set to.
template <class T>
struct ChunkRun : ChunkProblem<T>, Run<T, FullDimension<T>> {
  ChunkRun(const Problem<T>& all, int rows, const Device& device)
      : ChunkProblem<T>{all}, Run<T, FullDimension<T>>((this->part.n = rows, this->part), device) {}
};

template <class T>
struct Chunks {
  std::unique_ptr<ChunkRun<T>> run;
  int count = 0;
  int64_t streamed = 0;  // bytes copied to the device in this sweep
  bool centred = false;  // this upload's frame has its centre
};

template <class T>
struct ChunkedState {
  Chunks<T> chunks;
  ExactSums sums;
};

template <class T, class W>
Chunk chunk_of(Run<T, W>& s, int number) {
  const int rows = s.ws.chunks.run->n;
  const int64_t begin = int64_t(number) * rows;
  const int first = int(std::min<int64_t>(begin, s.n - rows));
  return {number, first, rows, int(begin - first)};
}

/// Device memory for all but the rows themselves, and page-locked memory for the results. `behind`: words of the
/// caller's own behind those of the sums.
template <class T, class W>
void prepare_chunks(Run<T, W>& s, const ChunkPlan& plan, size_t behind = 0) {
  auto& chunks = s.ws.chunks;
  s.c = s.template device<T>(size_t(s.k) * s.d);
  s.label = s.template device<int32_t>(s.n);
  s.result = {s.template pinned<int32_t>(s.n), s.template pinned<T>(size_t(s.k) * s.d)};
  prepare_exact_sums(s, behind);
  chunks.count = blocks(s.n, plan.rows);
  chunks.run = std::make_unique<ChunkRun<T>>(s.problem, plan.rows, s.device_info);
  chunks.run->stream = s.stream;
  chunks.run->c = s.c;
  prepare_operands(*chunks.run);
}

/// Memory for the rows of a chunk on the device.
template <class T, class W>
T* chunk_buffer(Run<T, W>& s) {
  return s.template device<T>(size_t(s.ws.chunks.run->n) * s.d);
}
/// Throws where more memory was taken than was planned.
template <class T, class W>
void check_budget(Run<T, W>& s, const ChunkPlan& plan) {
  const size_t taken = s.device_bytes() + s.ws.chunks.run->device_bytes();
  if (taken == plan.bytes && taken + plan.others <= plan.budget) return;
  throw Error("the run takes " + std::to_string(taken) + " bytes of device memory, " + std::to_string(plan.bytes) +
              " were planned within a budget of " + std::to_string(plan.budget) + ": operand_bytes() is wrong");
}

/// All points in page-locked memory.
template <class T, class W>
void page_lock_points(Run<T, W>& s) {
  T* const points = s.template pinned<T>(size_t(s.n) * s.d);
  std::memcpy(points, s.problem.points, size_t(s.n) * s.d * sizeof(T));
  s.points = points;
}

template <class T, class W>
void copy_chunk(Run<T, W>& s, T* to, const T* rows, const Chunk& chunk, cudaStream_t stream) {
  const size_t bytes = size_t(chunk.count) * s.d * sizeof(T);
  check(cudaMemcpyAsync(to, rows, bytes, cudaMemcpyHostToDevice, stream), "copying a chunk of the points");
  s.ws.chunks.streamed += int64_t(bytes);
}

// One sweep over the points for what all iterations need: the range of the coordinates, which the sums' format comes
// from, and a frame of all points. Its centre is that of the first chunk to come; any centre is right.

template <class T, class W>
void begin_range_and_frame(Run<T, W>& s) {
  clear_range(s);
  clear_exponent_counts(s, frame_of(*s.ws.chunks.run));
  s.ws.chunks.centred = false;
}
template <class T, class W>
void add_to_range_and_frame(Run<T, W>& s, const Chunk& chunk, const T* rows) {
  auto& chunks = s.ws.chunks;
  const Frame<T>& frame = frame_of(*chunks.run);
  const int64_t begin = int64_t(chunk.first) * s.d, values = int64_t(chunk.count) * s.d;
  find_range(s.stream, rows - begin, begin, begin + values, s.ws.sums.extremes, s.device_info.multiprocessors);
  if (!chunks.centred) fit_centre(s, rows, frame, chunk.count, s.d);
  chunks.centred = true;
  count_exponents(s, rows + int64_t(chunk.shared) * s.d, frame, chunk.count - chunk.shared, s.d);
}
template <class T, class W>
void end_frame(Run<T, W>& s) {
  choose_exponent(s, frame_of(*s.ws.chunks.run), s.n);
}

template <class T, class W, class Sweep>
void upload_chunks(Run<T, W>& s, const Sweep& sweep) {
  begin_range_and_frame(s);
  sweep(s, [&](const Chunk& chunk, const T* rows) { add_to_range_and_frame(s, chunk, rows); });
  end_frame(s);
  Extremes range;
  fetch_range(s, &range);
  check(cudaStreamSynchronize(s.stream), "finding the range of the points");
  choose_format(s, range);
}

template <class T, class W>
void restart_chunks(Run<T, W>& s) {
  restart_rows(s);
  reset_refinement(*s.ws.chunks.run);
}

/// Labels of a chunk's points, which are added to the sums.
template <class T, class W>
void assign_and_add(Run<T, W>& s, const Chunk& chunk, T* rows) {
  ChunkRun<T>& run = *s.ws.chunks.run;
  run.ws.rows.points = rows;
  run.label = s.label + chunk.first;
  quantize_in_frame(run);
  assign_full_dimension(run);
  add_exact<T>(s.stream, rows + int64_t(chunk.shared) * s.d, run.label + chunk.shared, s.ws.sums,
               chunk.count - chunk.shared, s.k, s.d);
}

/// One sweep: labels of all points, their sums, and the new centroids.
template <class T, class W, class Sweep>
void iterate_chunks(Run<T, W>& s, const Sweep& sweep) {
  s.ws.chunks.streamed = 0;
  clear_exact_sums(s);
  sweep(s, [&](const Chunk& chunk, T* rows) { assign_and_add(s, chunk, rows); });
  divide_exact(s);
  s.counters["bytes streamed"].push_back(s.ws.chunks.streamed);
}

}  // namespace ladder
