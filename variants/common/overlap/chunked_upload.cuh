// An upload in chunks: the copy engine brings chunk after chunk in a stream of its own, an event behind each, and the
// session's stream prepares a chunk while the next one is copied. What must be known before the first chunk (centre,
// directions, width, scale) is found from a sample that is copied first. Centre, directions and width may be anything;
// the scale, too, as rows that exceed it are outlier rows (certified/common_unit.cuh); but these take long. So it is
// the sample's with headroom, and the rows that exceed it are counted. If there are too many, all points are prepared
// again. The host waits for that as late as possible. v45_overlapped_upload introduces it.
#pragma once
#include <array>

#include "../device/events.cuh"
#include "../projection/rank_selection.cuh"

namespace ladder {

constexpr int max_chunks = 32;
/// The scale allows for coordinates this many powers of two larger than the sample's. Each costs a bit of the short
/// rows' precision; too few cost a second preparation of all points.
constexpr int headroom_exponents = 1;

/// Of one upload, on the host when ChunkedUpload::fetched is reached.
struct UploadResult {
  Extremes range;
  int beyond;  ///< rows that exceed the scale
};

template <class T>
struct ChunkedUpload {
  Copies copies;
  Event begun;  // earlier work that reads the points of the upload before
  Event sample_copied;
  std::array<Event, max_chunks> copied;
  Event fetched, sent;  // `arrived` is on the host; `initial` may be overwritten
  T* sample = nullptr;  // sampled rows x d
  int sampled_rows = 0;
  int* beyond = nullptr;                // 1, on the device
  UploadResult* arrived = nullptr;      // 1, page-locked
  T* initial = nullptr;                 // k x d, page-locked
  bool pending = false;                 // `arrived` of the last upload has not been checked
  bool again = false;                   // its points were prepared twice
  int alignment = RowRange::alignment;  // of the first row of a chunk
  int taper = 1;                        // how many chunks at the end become smaller step by step, as chunk_range() says
  std::shared_ptr<Copies> survey;       // a stream for what needs the frame alone; null: the session's
  Event framed;
  std::array<Event, max_chunks> surveyed;
};

/// `directed`: the sample is for directions, too.
template <class T, class W>
void prepare_chunks(Run<T, W>& s, bool directed) {
  auto& upload = s.ws.chunks;
  upload.sampled_rows = std::min(s.n, directed ? sample_rows : frame_points);
  upload.sample = s.template device<T>(size_t(upload.sampled_rows) * s.d);
  upload.beyond = s.template device<int>(1);
  upload.arrived = s.template pinned<UploadResult>(1);
  upload.initial = s.template pinned<T>(size_t(s.k) * s.d);
}

/// Chunk `p` of `chunks`; with few points some are empty, never the last one. The last chunk has 1 / taper of the rows
/// of a whole one, the one before it 2 / taper, and so on.
inline RowRange chunk_range(int n, int chunks, int p, int alignment = RowRange::alignment, int taper = 1) {
  const int64_t units = blocks(n, alignment), whole = std::max(chunks - taper, 0), tail = chunks - whole;
  // Parts before a chunk; a whole one has `taper`, and the last `tail` ones have tail, .., 2, 1.
  const auto before = [&](int64_t chunk) {
    const int64_t behind = std::min<int64_t>(chunks - chunk, tail);  // tapered chunks from this one on
    return std::min(chunk, whole) * taper + tail * (tail + 1) / 2 - behind * (behind + 1) / 2;
  };
  const auto begin = [&](int chunk) {
    return int(std::min<int64_t>(units * before(chunk) / before(chunks) * alignment, n));
  };
  return {begin(p), begin(p + 1) - begin(p)};
}

/// One thread. Exponents of points at the centre or of infinite ones are clamped: no overflow.
template <class T>
__global__ void add_headroom_kernel(Frame<T> frame, int exponents) {
  *frame.max_exponent = min(max(*frame.max_exponent, -1000), 2000) + exponents;
}

/// Chunks that are copied before the initial centroids: the host prepares these meanwhile.
constexpr int chunks_before_centroids = 3;

/// Uploads the points to s.x in `chunks` chunks. When the sample is on the device and the frame is fitted, calls
/// prepare(rows, count), which may wait for the device; then survey(range) and work(range) for each chunk. survey()
/// needs nothing of prepare(): in a stream of its own it does not wait for it. send() is called behind the first chunks
/// and may copy by the copy engine's stream.
template <class T, class Survey, class Prepare, class Work, class Send, class W>
void upload_chunks(Run<T, W>& s, const Frame<T>& frame, int chunks, const Survey& survey, const Prepare& prepare,
                   const Work& work, const Send& send) {
  auto& upload = s.ws.chunks;
  const size_t row = s.d * sizeof(T), apart = s.n / upload.sampled_rows * row;
  upload.begun.record(s.stream);
  upload.begun.await(upload.copies.stream);
  check(cudaMemcpy2DAsync(upload.sample, row, s.points, apart, row, upload.sampled_rows, cudaMemcpyHostToDevice,
                          upload.copies.stream),
        "uploading a sample of the points");
  upload.sample_copied.record(upload.copies.stream);
  const auto range_of = [&](int p) { return chunk_range(s.n, chunks, p, upload.alignment, upload.taper); };
  for (int p = 0; p < chunks; ++p) {
    const RowRange range = range_of(p);
    const size_t first = size_t(range.first) * s.d;
    check(
        cudaMemcpyAsync(s.x + first, s.points + first, range.count * row, cudaMemcpyHostToDevice, upload.copies.stream),
        "uploading the points");
    upload.copied[p].record(upload.copies.stream);
    if (p == std::min(chunks_before_centroids, chunks) - 1) send();
  }

  check(cudaMemsetAsync(upload.beyond, 0, sizeof *upload.beyond, s.stream), "clearing the count of rows");
  clear_range(s);
  upload.sample_copied.await(s.stream);
  fit_common_frame<T>(s, upload.sample, frame, upload.sampled_rows, s.d);
  launch(add_headroom_kernel<T>, 1, 1, 0, s.stream, frame, headroom_exponents);
  const auto survey_chunk = [&](int p) {
    const RowRange range = range_of(p);
    upload.copied[p].await(s.stream);
    if (range.count == 0) return;
    count_beyond(s, s.x + size_t(range.first) * s.d, frame, upload.beyond, range.count, s.d);
    widen_range(s, s.x, range);
    if (p == chunks - 1) {  // reaches the host while the device prepares the last chunk
      check(cudaMemcpyAsync(&upload.arrived->beyond, upload.beyond, sizeof *upload.beyond, cudaMemcpyDeviceToHost,
                            s.stream),
            "downloading the count of rows");
      fetch_range(s, &upload.arrived->range);
      upload.fetched.record(s.stream);
    }
    survey(range);
    if (upload.survey) upload.surveyed[p].record(s.stream);
  };
  if (upload.survey) {
    upload.framed.record(s.stream);
    const cudaStream_t session = std::exchange(s.stream, upload.survey->stream);
    upload.framed.await(s.stream);
    for (int p = 0; p < chunks; ++p) survey_chunk(p);
    s.stream = session;
  }
  prepare(upload.sample, upload.sampled_rows);
  for (int p = 0; p < chunks; ++p) {
    if (!upload.survey) survey_chunk(p);
    if (range_of(p).count == 0) continue;
    if (upload.survey) upload.surveyed[p].await(s.stream);
    work(range_of(p));
  }
  upload.pending = true;
}

/// Waits for all points, and calls choose(range) with their range, for the format of the sums. Where too many exceed
/// the scale, calls again(), which prepares all points anew.
template <class T, class Choose, class Again, class W>
void finish_upload(Run<T, W>& s, const Choose& choose, const Again& again) {
  auto& upload = s.ws.chunks;
  if (!upload.pending) return;
  upload.fetched.await();
  choose(upload.arrived->range);
  upload.again = upload.arrived->beyond > 2 * most_outliers(s.n);
  if (upload.again) again();
  upload.pending = false;
}
template <class T, class Again, class W>
void finish_upload(Run<T, W>& s, const Again& again) {
  finish_upload(
      s, [&](const Extremes& range) { choose_format(s, range); }, again);
}

/// Sends the initial centroids by way of page-locked memory. The driver would stage them itself, but only after the
/// points; here the host stages them while the points are copied.
template <class T, class W>
void send_initial(Run<T, W>& s, cudaStream_t stream) {
  auto& upload = s.ws.chunks;
  const size_t bytes = size_t(s.k) * s.d * sizeof(T);
  upload.sent.await();
  std::memcpy(upload.initial, s.problem.centroids, bytes);
  check(cudaMemcpyAsync(s.c, upload.initial, bytes, cudaMemcpyHostToDevice, stream), "uploading the initial centroids");
  upload.sent.record(stream);
}
/// Later work of the session's stream waits for the initial centroids.
template <class T, class W>
void await_centroids(Run<T, W>& s) {
  s.ws.chunks.sent.await(s.stream);
}
/// Whether the centroids that were sent last are these.
template <class T, class W>
bool sent_centroids_are(Run<T, W>& s, const T* centroids) {
  return std::memcmp(s.ws.chunks.initial, centroids, size_t(s.k) * s.d * sizeof(T)) == 0;
}

/// For each reported iteration: the points that were prepared twice.
template <class T, class W>
void report_upload(Run<T, W>& s) {
  const bool again = s.ws.chunks.again;
  s.counters["points prepared twice"].resize(s.counters["rows rechecked"].size(), again ? s.n : 0);
}

}  // namespace ladder
