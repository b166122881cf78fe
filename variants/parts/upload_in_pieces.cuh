// Points that are worked on while they arrive. The copy engine brings them piece by piece, in a stream of its own; an
// event behind each piece lets the session's stream go on with it while the next one is on its way. What must be known
// of the points before the first of them is worked on is found from a sample that comes first. Centre, directions and
// width are right whatever they are. The unit is right if no point leaves it: the sample's is taken with room to spare,
// and when all points are there, what was found of them says whether it holds. If not, they are worked on again.
// The host waits for that as late as it can. v28_overlapped_upload introduces it.
#pragma once
#include <array>

#include "centre.cuh"
#include "principal.cuh"
#include "update_moved.cuh"

namespace ladder {

constexpr int most_pieces = 32;
/// The unit is so many powers of two larger than the sample needs. Each makes short rows half as long, and the constant
/// in their thresholds four times what it was beside their scores; too few cost the time of working on all points
/// again.
constexpr int spare_exponents = 1;

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
struct Arrived {
  Extremes range;
  int top, taken;  ///< the exponent of the largest coordinate, and the one that the unit was taken for
};

template <class T>
struct Pieces {
  Copies copies;
  Event begun;  // all that came before the upload: nobody looks at the points of before any more
  Event sampled;
  std::array<Event, most_pieces> there;
  Event known, left;    // `arrived` is on the host; the initial centroids have left `initial`
  T* sample = nullptr;  // sampled rows x d
  int sampled_rows = 0;
  int* top = nullptr;          // 1, on the device
  Arrived* arrived = nullptr;  // 1, page-locked
  T* initial = nullptr;        // k x d, page-locked
  bool pending = false;        // is there an upload of which `arrived` was not looked at?
  bool again = false;          // were its points worked on twice?
  /// Of the first row of a piece.
  int alignment = RowRange::alignment;
};

/// `directed`: directions will be found from the sample, too.
template <class T, class Own>
void prepare_pieces(Run<T, Own>& s, bool directed) {
  auto& own = s.own.chunks;
  own.sampled_rows = std::min(s.n, directed ? sampled : looked_at);
  own.sample = s.template device<T>(size_t(own.sampled_rows) * s.d);
  own.top = s.template device<int>(1);
  own.arrived = s.template pinned<Arrived>(1);
  own.initial = s.template pinned<T>(size_t(s.k) * s.d);
}

/// Piece `p` of `pieces`; of few points some are empty, the last one never.
inline RowRange piece(int n, int pieces, int p, int alignment = RowRange::alignment) {
  const int64_t units = blocks(n, alignment);
  const auto begin = [&](int at) { return int(std::min<int64_t>(units * at / pieces * alignment, n)); };
  return {begin(p), begin(p + 1) - begin(p)};
}

/// One thread. What is no exponent, of points at the centre or of infinite ones, stays far from an int's ends.
__global__ void make_room_kernel(int* top, int exponents) { *top = min(max(*top, -1000), 2000) + exponents; }

/// What else is to be sent, where nothing is.
struct Nothing {
  void operator()() const {}
};
/// Pieces are on their way while the host sees to what else is.
constexpr int first_pieces = 3;

/// Uploads the points to s.x. As soon as the sample is there, and the view is chosen, calls prepare(rows, count), which
/// may wait for the device; then, for each piece, work(range), as soon as the points of the range are there. What
/// send() sends by the copy engine's stream comes behind the first pieces.
template <class T, class Prepare, class Work, class Send = Nothing, class Own>
void upload_in_pieces(Run<T, Own>& s, const View<T>& view, int pieces, const Prepare& prepare, const Work& work,
                      const Send& send = {}) {
  auto& own = s.own.chunks;
  const size_t row = s.d * sizeof(T), apart = s.n / own.sampled_rows * row;
  own.begun.record(s.stream);
  own.begun.await(own.copies.stream);
  check(cudaMemcpy2DAsync(own.sample, row, s.points, apart, row, own.sampled_rows, cudaMemcpyHostToDevice,
                          own.copies.stream),
        "uploading a sample of the points");
  own.sampled.record(own.copies.stream);
  const auto range_of = [&](int p) { return piece(s.n, pieces, p, own.alignment); };
  for (int p = 0; p < pieces; ++p) {
    const RowRange range = range_of(p);
    const size_t first = size_t(range.first) * s.d;
    check(cudaMemcpyAsync(s.x + first, s.points + first, range.count * row, cudaMemcpyHostToDevice, own.copies.stream),
          "uploading the points");
    own.there[p].record(own.copies.stream);
    if (p == std::min(first_pieces, pieces) - 1) send();
  }

  clear_top(s, own.top);
  clear_range(s);
  own.sampled.await(s.stream);
  look(s, own.sample, view, own.sampled_rows, s.d);
  launch(make_room_kernel, 1, 1, 0, s.stream, view.top, spare_exponents);
  const auto fetch_top = [&](int* to, const int* top) {
    check(cudaMemcpyAsync(to, top, sizeof *to, cudaMemcpyDeviceToHost, s.stream), "downloading an exponent");
  };
  fetch_top(&own.arrived->taken, view.top);
  prepare(own.sample, own.sampled_rows);
  for (int p = 0; p < pieces; ++p) {
    const RowRange range = range_of(p);
    own.there[p].await(s.stream);
    if (range.count == 0) continue;
    raise_top(s, s.x + size_t(range.first) * s.d, View<T>{view.centre, own.top}, range.count, s.d);
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
template <class T, class Again, class Own>
void finish_upload(Run<T, Own>& s, const Again& again) {
  auto& own = s.own.chunks;
  if (!own.pending) return;
  own.known.await();
  s.own.incremental.format = fixed_point(own.arrived->range, s.points, s.n, s.d);
  own.again = own.arrived->top > own.arrived->taken;
  if (own.again) again();
  own.pending = false;
}

/// The initial centroids, by way of page-locked memory: the driver would put them into such memory itself, but only
/// when the points are there. This way the host does it while they are still on their way.
template <class T, class Own>
void send_initial(Run<T, Own>& s, cudaStream_t stream) {
  auto& own = s.own.chunks;
  const size_t bytes = size_t(s.k) * s.d * sizeof(T);
  own.left.await();
  std::memcpy(own.initial, s.problem.centroids, bytes);
  check(cudaMemcpyAsync(s.c, own.initial, bytes, cudaMemcpyHostToDevice, stream), "uploading the initial centroids");
  own.left.record(stream);
}
template <class T, class Own>
void restart_ahead(Run<T, Own>& s) {
  send_initial(s, s.stream);
}

/// For each iteration that was told: whether its points went the long way.
template <class T, class Own>
void tell_upload(Run<T, Own>& s) {
  const bool again = s.own.chunks.again;
  s.counters["points prepared twice"].resize(s.counters["rows rechecked"].size(), again ? s.n : 0);
}

}  // namespace ladder
