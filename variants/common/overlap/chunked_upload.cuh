// Points that are worked on while they arrive. The copy engine brings them piece by piece, in a stream of its own; an
// event behind each piece lets the session's stream go on with it while the next one is on its way. What must be known
// of the points before the first of them is worked on is found from a sample that comes first. Centre, directions and
// width are right whatever they are. The unit is right if no point leaves it: the sample's is taken with room to spare,
// and when all points are there, what was found of them says whether it holds. If not, they are worked on again.
// The host waits for that as late as it can. v34_overlapped_upload introduces it.
#pragma once
#include <array>

#include "../certified/frame.cuh"
#include "../pruning/pca.cuh"
#include "../update/incremental.cuh"

namespace ladder {

constexpr int max_chunks = 32;
/// The unit is so many powers of two larger than the sample needs. Each makes short rows half as long, and the constant
/// in their thresholds four times what it was beside their scores; too few cost the time of working on all points
/// again.
constexpr int headroom_exponents = 1;

class Event {
 public:
  Event() { check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "making an event"); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record(cudaStream_t stream) { check(cudaEventRecord(event_, stream), "recording an event"); }
  /// What the stream gets from now on waits for what was before the record; nothing was before the first one.
  void await(cudaStream_t stream) { check(cudaStreamWaitEvent(stream, event_, 0), "waiting for another stream"); }
  void await() { check(cudaEventSynchronize(event_), "waiting for the device"); }

 private:
  cudaEvent_t event_ = nullptr;
};

/// The copy engine's own stream.
struct Copies {
  cudaStream_t stream = nullptr;
  Copies() { check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "making a stream"); }
  ~Copies() { cudaStreamDestroy(stream); }
  Copies(const Copies&) = delete;
  Copies& operator=(const Copies&) = delete;
};

/// Of one upload, on the host when `known` is reached.
struct UploadResult {
  Extremes range;
  int top, taken;  ///< the exponent of the largest coordinate, and the one that the unit was taken for
};

template <class T>
struct ChunkedUpload {
  Copies copies;
  Event begun;  // all that came before the upload: nobody looks at the points of before any more
  Event sample_rows;
  std::array<Event, max_chunks> there;
  Event known, left;    // `arrived` is on the host; the initial centroids have left `initial`
  T* sample = nullptr;  // sampled rows x d
  int sampled_rows = 0;
  int* top = nullptr;               // 1, on the device
  UploadResult* arrived = nullptr;  // 1, page-locked
  T* initial = nullptr;             // k x d, page-locked
  bool pending = false;             // is there an upload of which `arrived` was not looked at?
  bool again = false;               // were its points worked on twice?
  /// Of the first row of a piece.
  int alignment = RowRange::alignment;
};

/// `directed`: directions will be found from the sample, too.
template <class T, class W>
void prepare_chunks(Run<T, W>& s, bool directed) {
  auto& own = s.ws.chunks;
  own.sampled_rows = std::min(s.n, directed ? sample_rows : exact_distances);
  own.sample = s.template device<T>(size_t(own.sampled_rows) * s.d);
  own.top = s.template device<int>(1);
  own.arrived = s.template pinned<UploadResult>(1);
  own.initial = s.template pinned<T>(size_t(s.k) * s.d);
}

/// Piece `p` of `pieces`; of few points some are empty, the last one never.
inline RowRange piece(int n, int pieces, int p, int alignment = RowRange::alignment) {
  const int64_t units = blocks(n, alignment);
  const auto begin = [&](int at) { return int(std::min<int64_t>(units * at / pieces * alignment, n)); };
  return {begin(p), begin(p + 1) - begin(p)};
}

/// One thread. What is no exponent, of points at the centre or of infinite ones, stays far from an int's ends.
__global__ void add_headroom_kernel(int* top, int exponents) { *top = min(max(*top, -1000), 2000) + exponents; }

/// What else is to be sent, where nothing is.
struct Nothing {
  void operator()() const {}
};
/// Pieces are on their way while the host sees to what else is.
constexpr int chunks_before_centroids = 3;

/// Uploads the points to s.x. As soon as the sample is there, and the view is chosen, calls prepare(rows, count), which
/// may wait for the device; then, for each piece, work(range), as soon as the points of the range are there. What
/// send() sends by the copy engine's stream comes behind the first pieces.
template <class T, class Prepare, class Work, class Send = Nothing, class W>
void upload_chunks(Run<T, W>& s, const Frame<T>& view, int pieces, const Prepare& prepare, const Work& work,
                   const Send& send = {}) {
  auto& own = s.ws.chunks;
  const size_t row = s.d * sizeof(T), apart = s.n / own.sampled_rows * row;
  own.begun.record(s.stream);
  own.begun.await(own.copies.stream);
  check(cudaMemcpy2DAsync(own.sample, row, s.points, apart, row, own.sampled_rows, cudaMemcpyHostToDevice,
                          own.copies.stream),
        "uploading a sample of the points");
  own.sample_rows.record(own.copies.stream);
  const auto range_of = [&](int p) { return piece(s.n, pieces, p, own.alignment); };
  for (int p = 0; p < pieces; ++p) {
    const RowRange range = range_of(p);
    const size_t first = size_t(range.first) * s.d;
    check(cudaMemcpyAsync(s.x + first, s.points + first, range.count * row, cudaMemcpyHostToDevice, own.copies.stream),
          "uploading the points");
    own.there[p].record(own.copies.stream);
    if (p == std::min(chunks_before_centroids, pieces) - 1) send();
  }

  clear_max_exponent(s, own.top);
  clear_range(s);
  own.sample_rows.await(s.stream);
  look(s, own.sample, view, own.sampled_rows, s.d);
  launch(add_headroom_kernel, 1, 1, 0, s.stream, view.top, headroom_exponents);
  const auto fetch_top = [&](int* to, const int* top) {
    check(cudaMemcpyAsync(to, top, sizeof *to, cudaMemcpyDeviceToHost, s.stream), "downloading an exponent");
  };
  fetch_top(&own.arrived->taken, view.top);
  prepare(own.sample, own.sampled_rows);
  for (int p = 0; p < pieces; ++p) {
    const RowRange range = range_of(p);
    own.there[p].await(s.stream);
    if (range.count == 0) continue;
    update_max_exponent(s, s.x + size_t(range.first) * s.d, Frame<T>{view.centre, own.top}, range.count, s.d);
    widen_range(s, s.x, range);
    if (p == pieces - 1) {  // the host hears of them while the device works on the last piece
      fetch_top(&own.arrived->top, own.top);
      fetch_range(s, &own.arrived->range);
      own.known.record(s.stream);
    }
    work(range);
  }
  own.pending = true;
}

/// Waits until all points are there, and chooses the format of their sums. Where they leave the unit, calls again(),
/// which finds all anew.
template <class T, class Again, class W>
void finish_upload(Run<T, W>& s, const Again& again) {
  auto& own = s.ws.chunks;
  if (!own.pending) return;
  own.known.await();
  s.ws.incremental.format = fixed_point(own.arrived->range, s.points, s.n, s.d);
  own.again = own.arrived->top > own.arrived->taken;
  if (own.again) again();
  own.pending = false;
}

/// The initial centroids, by way of page-locked memory: the driver would put them into such memory itself, but only
/// when the points are there. This way the host does it while they are still on their way.
template <class T, class W>
void send_initial(Run<T, W>& s, cudaStream_t stream) {
  auto& own = s.ws.chunks;
  const size_t bytes = size_t(s.k) * s.d * sizeof(T);
  own.left.await();
  std::memcpy(own.initial, s.problem.centroids, bytes);
  check(cudaMemcpyAsync(s.c, own.initial, bytes, cudaMemcpyHostToDevice, stream), "uploading the initial centroids");
  own.left.record(stream);
}
template <class T, class W>
void send_initial_centroids(Run<T, W>& s) {
  send_initial(s, s.stream);
}

/// For each iteration that was told: whether its points went the long way.
template <class T, class W>
void report_upload(Run<T, W>& s) {
  const bool again = s.ws.chunks.again;
  s.counters["points prepared twice"].resize(s.counters["rows rechecked"].size(), again ? s.n : 0);
}

}  // namespace ladder
