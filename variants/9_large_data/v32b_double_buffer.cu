// v32b: the next chunk is copied while the last one is computed. In the base one stream does both in turn: the copy
// engine waits for the kernels and the kernels for the copy. Here copies have a stream of their own and chunks take two
// buffers in turn, so that an iteration takes as long as the slower of link and kernels, and one chunk more.
//
// for cuda: 90a
#include "../common/chunks/double_buffer.cuh"

namespace {
using namespace ladder;

constexpr int buffers = 2;

template <class T>
struct Workspace : ChunkedState<T> {
  ChunkBuffer<T> buffer[buffers];
  ChunkCopies copies;
};

template <class T>
void prepare(Run<T, Workspace<T>>& s) {
  const ChunkPlan plan = plan_chunks(s.problem, s.device_info, s.axes, buffers);
  prepare_chunks(s, plan);
  page_lock_points(s);
  for (ChunkBuffer<T>& buffer : s.ws.buffer) buffer.rows = chunk_buffer(s);
  check_budget(s, plan);
}

constexpr auto sweep = []<class T, class Work>(Run<T, Workspace<T>>& s, const Work& work) {
  begin_copies(s);
  for (int p = 0; p < s.ws.chunks.count; ++p) {
    const Chunk chunk = chunk_of(s, p);
    stream_chunk(s, s.ws.buffer[p % buffers], s.points + size_t(chunk.first) * s.d, chunk, work);
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
  const std::string why = refuse_page_locking(p);
  return why.empty() ? refuse_chunks(p, device, axes, buffers) : why;
}

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare<T>,
                                         .upload = upload<T>,
                                         .restart = restart_chunks<T>,
                                         .iterate = iterate<T>,
                                         .download = download_rows<T>};
}  // namespace

LADDER_VARIANT(.id = "v32b_double_buffer", .base = "v32a_chunks",
               .idea = "two buffers: the next chunk is copied while the last one is computed",
               .expect =
                   "the base's 18 ms of copy and 3.5 ms of kernels per GB (D = 408, K = 1000) overlap: 18 ms. What "
                   "does not overlap is the kernels of the last chunk: 0.5 ms for 128 MiB, 0.6 % of an iteration over "
                   "4 GB. So more than 97 % of the link's rate, where the goal is 90. From K = 15,000 on the kernels, "
                   "1 ms per GB and 1000 centroids, are the slower of the two. Measured on an H100: 75.6 ms for 4.1 GB "
                   "within 512 MiB and 443 ms for 24 GB within 4 GiB, 97 and 98 % of the link's rate of 55.4 GB/s",
               .shows = "iteration", .source = "CUDA C++ Best Practices Guide, staged concurrent copy and execute",
               .arithmetic = {.form = Arithmetic::Form::exact, .operands = "fp16"}, .axes = chunk_axes(),
               .refuse = refuse, .f32 = phases<float>, .f64 = phases<double>)
