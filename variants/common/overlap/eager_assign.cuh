// The first assignment under the upload: each chunk is assigned to the initial centroids, which are copied behind the
// first chunks, while later chunks are still on their way. A chunk is a smaller problem: it gets a Run of its own whose
// parts are slices of the whole problem's. The result is kept apart and reused once, by the first iteration of a solve
// with the same initial centroids and a scale that held. v45_overlapped_upload introduces it.
#pragma once
#include "chunk_state.cuh"
#include "chunked_upload.cuh"

namespace ladder {

struct EagerAssignment {
  int32_t* label = nullptr;                   // n
  DistanceBounds bounds;                      // n, k: no centroid has moved yet
  RefineCounters* refine_counters = nullptr;  // max_chunks: of each chunk
  FilterCounters* counters = nullptr;         // likewise
  int chunks = 0;                             // that were assigned
  bool fresh = false;                         // no restart since the upload: s.c holds ChunkedUpload::initial
  bool reuse = false;                         // the next assignment takes the result
  bool reused = false;                        // the first assignment since the restart has taken it
};

template <class T>
struct OverlappedState : ActiveState<T> {
  ChunkedUpload<T> chunks;
  EagerAssignment eager;
};

/// Copies the result, and adds up the chunks' counters; *refine_counters and *counters are 0. `counters`: null where
/// the filter is off.
[[maybe_unused]] static __global__ void reuse_eager_kernel(EagerAssignment eager, int32_t* label, DistanceBound* bound,
                                                           RefineCounters* refine_counters, FilterCounters* counters,
                                                           int n) {
  const int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (i < n) label[i] = eager.label[i], bound[i] = eager.bounds.cached[i];
  if (i >= eager.chunks) return;
  const RefineCounters& r = eager.refine_counters[i];
  atomicAdd(&refine_counters->pairs, r.pairs), atomicAdd(&refine_counters->brute_force, r.brute_force);
  atomicAdd(&refine_counters->candidate_rows, r.candidate_rows);
  if (!counters) return;
  const FilterCounters& f = eager.counters[i];
  atomicAdd(&counters->candidate_rows, f.candidate_rows), atomicAdd(&counters->candidates, f.candidates);
  atomicAdd(&counters->overflow, f.overflow), atomicAdd(&counters->listed, f.listed);
  atomicAdd(&counters->exact_distances, f.exact_distances);
}

// ---- phases

template <class T, class W>
void prepare_eager(Run<T, W>& s) {
  auto& eager = s.ws.eager;
  eager.label = s.template device<int32_t>(s.n);
  eager.bounds = {s.template device<DistanceBound>(s.n), s.template device<double>(s.k)};
  eager.refine_counters = s.template device<RefineCounters>(max_chunks);
  eager.counters = s.template device<FilterCounters>(max_chunks);
}
template <class T, class W>
void prepare_overlapped(Run<T, W>& s) {
  prepare_active_set(s);
  prepare_chunks(s, wants_filter(s));
  s.ws.chunks.alignment = int(padded_short_rows(1));  // whole tiles: none reads rows of the next chunk
  if (wants_filter(s)) prepare_eager(s);
}

/// Before the first chunk.
template <class T, class W>
void begin_eager(Run<T, W>& s) {
  const auto& eager = s.ws.eager;
  const auto clear = [&](auto* what, size_t count) {
    check(cudaMemsetAsync(what, 0, count * sizeof *what, s.stream), "clearing the counters of the chunks");
  };
  clear_bounds(s, eager.bounds);
  clear(eager.refine_counters, max_chunks), clear(eager.counters, max_chunks);
  begin_assignments(s);
}

/// Labels of these rows for the centroids s.c, by assign(chunk). Their operands are ready; slice(chunk) shares them.
template <class T, class Slice, class Assign, class W>
void assign_chunk(Run<T, W>& s, const RowRange& range, const Slice& slice, const Assign& assign) {
  auto& eager = s.ws.eager;
  if (eager.chunks == 0) begin_eager(s);
  Problem<T> problem = s.problem;
  problem.n = range.count;
  Run<T, W> chunk(problem, s.device_info);
  chunk.stream = s.stream, chunk.axes = s.axes;
  chunk.x = s.x + size_t(range.first) * s.d, chunk.c = s.c, chunk.label = eager.label + range.first;
  slice(chunk);
  count_at(chunk, eager.refine_counters, eager.counters, eager.chunks);
  assign(chunk);
  ++eager.chunks;
}

/// The same by the filter, where it is on.
template <class T, class W>
void assign_eager(Run<T, W>& s, const RowRange& range) {
  auto& eager = s.ws.eager;
  if (s.ws.filter.width == 0) return;
  const auto slice = [&](Run<T, W>& chunk) {
    slice_projection(s, range, chunk, eager.chunks > 0);
    slice_bounds(eager.bounds, range, chunk);
  };
  assign_chunk(s, range, slice, [](Run<T, W>& chunk) { assign_with_bounds(chunk); });
}

/// find(sample, count) finds what must be known of the points before the first of them; ahead(range) does what can be
/// done with each chunk's rows, which are prepared, and the centroids.
template <class T, class Find, class Ahead, class W>
void upload_overlapped(Run<T, W>& s, const Find& find, const Ahead& ahead) {
  auto& eager = s.ws.eager;
  eager.chunks = 0, eager.fresh = true, eager.reuse = false;
  // With fewer rows than two warpgroups' per multiprocessor a chunk would take as long as with them.
  const int chunks = std::clamp(s.n / (2 * 64 * s.device_info.multiprocessors), 1, s.axis("upload_chunks"));
  upload_chunks(
      s, frame_of(s), chunks, [&](const RowRange& range) { quantize_full_dimension(s, range); }, find,
      [&](const RowRange& range) {
        project_rows(s, range);
        if (range.first == 0) await_centroids(s);
        ahead(range);
      },
      [&] { send_initial(s, s.ws.chunks.copies.stream); });
}
template <class T, class W>
void upload_overlapped(Run<T, W>& s) {
  upload_overlapped(
      s, [&](const T* sample, int count) { find_projection(s, sample, count); },
      [&](const RowRange& range) { assign_eager(s, range); });
}

/// choose(range) chooses the format of the sums; reset() forgets what earlier iterations computed.
template <class T, class Choose, class Reset, class W>
void restart_overlapped(Run<T, W>& s, const Choose& choose, const Reset& reset) {
  auto& eager = s.ws.eager;
  const bool same = std::exchange(eager.fresh, false) && sent_centroids_are(s, s.problem.centroids);
  if (!same) send_initial(s, s.stream);
  finish_upload(s, choose, [&] { prepare_points(s); });
  eager.reuse = same && eager.chunks > 0 && !s.ws.chunks.again;
  eager.reused = false;
  reset();
}
template <class T, class W>
void restart_overlapped(Run<T, W>& s) {
  restart_overlapped(
      s, [&](const Extremes& range) { choose_format(s, range); }, [&] { reset_active_set(s); });
}

template <class T, class W>
void assign_or_reuse(Run<T, W>& s) {
  auto& eager = s.ws.eager;
  if (!std::exchange(eager.reuse, false)) return assign_active_set(s);
  eager.reused = true;
  RefineCounters* const refine_counters = next_refine_counters(s);
  launch(reuse_eager_kernel, blocks(std::max(s.n, max_chunks), 256), 256, 0, s.stream, eager, s.label,
         s.ws.bounds.cached, refine_counters, s.ws.filter.width > 0 ? filter_counters(s) : nullptr, s.n);
}

template <class T, class W>
void download_overlapped(Run<T, W>& s) {
  download_active_set(s);
  report_upload(s);
  auto& reported = s.counters["points assigned ahead"];
  const size_t iterations = s.counters["rows rechecked"].size();
  if (reported.empty() && iterations > 0) reported.push_back(s.ws.eager.reused ? s.n : 0);
  reported.resize(iterations, 0);
}

}  // namespace ladder
