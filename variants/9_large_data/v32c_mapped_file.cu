// v32c: more points than host memory. The base page-locks a copy of all points, so they must fit the host's memory
// twice while it is made. Here they stay in the mapped .npy file. Host threads copy each chunk into one of two
// page-locked buffers, from which the copy engine takes it; file, link and kernels work on three chunks at once. The
// system reads the next chunk ahead, and may drop pages of the file whenever it needs the memory.
//
// for cuda: 90a
#include "../common/chunks/double_buffer.cuh"
#include "../common/chunks/mapped_rows.cuh"

namespace {
using namespace ladder;

constexpr int buffers = 2;

template <class T>
struct Workspace : ChunkedState<T> {
  ChunkBuffer<T> buffer[buffers];
  T* staged[buffers] = {};  // page-locked, the rows of a chunk each
  ChunkCopies copies;
};

template <class T>
void prepare(Run<T, Workspace<T>>& s) {
  const ChunkPlan plan = plan_chunks(s.problem, s.device_info, s.axes, buffers);
  prepare_chunks(s, plan);
  for (T*& staged : s.ws.staged) staged = s.template pinned<T>(size_t(plan.rows) * s.d);
  for (ChunkBuffer<T>& buffer : s.ws.buffer) buffer.rows = chunk_buffer(s);
  check_budget(s, plan);
}

constexpr auto sweep = []<class T, class Work>(Run<T, Workspace<T>>& s, const Work& work) {
  begin_copies(s);
  const auto mapped = [&](int p) { return s.points + size_t(chunk_of(s, p).first) * s.d; };
  for (int p = 0; p < s.ws.chunks.count; ++p) {
    const Chunk chunk = chunk_of(s, p);
    const size_t bytes = size_t(chunk.count) * s.d * sizeof(T);
    if (p + 1 < s.ws.chunks.count) read_ahead(mapped(p + 1), bytes);
    s.ws.buffer[p % buffers].filled.await();  // the link has read what was staged here
    copy_by_threads(s.ws.staged[p % buffers], mapped(p), bytes, s.axis("reader_threads"));
    stream_chunk(s, s.ws.buffer[p % buffers], s.ws.staged[p % buffers], chunk, work);
  }
};

template <class T>
void upload(Run<T, Workspace<T>>& s) {
  upload_chunks(s, sweep);
}

template <class T>
void iterate(Run<T, Workspace<T>>& s) {
  iterate_chunks(s, sweep);
}

std::string refuse(const Shape& p, const Device& device, const Axes& axes) {
  return refuse_chunks(p, device, axes, buffers);
}

std::vector<Axis> axes() {
  std::vector<Axis> all = chunk_axes();
  all.push_back({"reader_threads", {1, 2, 4, 8, 16}, 8});
  return all;
}

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare<T>,
                                         .upload = upload<T>,
                                         .restart = restart_chunks<T>,
                                         .iterate = iterate<T>,
                                         .download = download_rows<T>};
}  // namespace

LADDER_VARIANT(
        .id = "v32c_mapped_file", .base = "v32b_double_buffer",
        .idea = "points stay in a mapped file; host threads bring each chunk into page-locked buffers",
        .expect =
            "host memory takes three passes per byte (the file's pages are read, the buffer is written and read by the "
            "link), 165 GB/s for the link's 55; eight threads of 8 to 10 GB/s each fill buffers faster than the link "
            "empties them. So the base's time while the file is in the page cache, and the disk's rate where it is "
            "not. `prepare` no longer page-locks the points (0.6 s per GB). Measured on an H100: 115 ms for 4.1 GB and "
            "780 for 24, where the base takes 76 and 443. The threads fill the buffers at 35 and 31 GB/s, 4 GB/s each, "
            "half of what was counted; page faults of the mapping, threads started anew for each chunk, or the disk: "
            "not profiled. `prepare` takes 0.17 s for 4.1 GB, before 1.80",
        .shows = "iteration", .source = "this project",
        .arithmetic = {.form = Arithmetic::Form::exact, .operands = "fp16"}, .axes = axes(), .refuse = refuse,
        .f32 = phases<float>, .f64 = phases<double>)
