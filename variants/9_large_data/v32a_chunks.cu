// v32a: more points than device memory. The base has all points on the device, as floats and as halves. Here the points
// stay in page-locked host memory, and each iteration copies them chunk by chunk into one buffer: copy, assign, add to
// the sums, then the next chunk. A budget says how much device memory the run may take (chunks/chunk_plan.cuh). Labels
// are exact and sums are whole numbers, so the chunks change no bit of the result.
//
// for cuda: 90a
#include "../common/chunks/chunk_run.cuh"

namespace {
using namespace ladder;

constexpr int buffers = 1;

template <class T>
struct Workspace : ChunkedState<T> {
  T* rows = nullptr;  // of the chunk that is on the device
};

template <class T>
void prepare(Run<T, Workspace<T>>& s) {
  const ChunkPlan plan = plan_chunks(s.problem, s.device_info, s.axes, buffers);
  prepare_chunks(s, plan);
  page_lock_points(s);
  s.ws.rows = chunk_buffer(s);
  check_budget(s, plan);
}

constexpr auto sweep = []<class T, class Work>(Run<T, Workspace<T>>& s, const Work& work) {
  for (int p = 0; p < s.ws.chunks.count; ++p) {
    const Chunk chunk = chunk_of(s, p);
    copy_chunk(s, s.ws.rows, s.points + size_t(chunk.first) * s.d, chunk, s.stream);
    work(chunk, s.ws.rows);
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

LADDER_VARIANT(.id = "v32a_chunks", .base = "v32_reproducible_sums",
               .idea = "points stay in page-locked host memory; each iteration copies them chunk by chunk",
               .expect =
                   "an iteration copies all points: at the 55 GB/s that the upload of kmcuda reaches on an H200, 18 ms "
                   "per GB, 1,090 ms for 60 GB. The link waits while a chunk is computed: with D = 408 and K = 1000 a "
                   "GB is 0.61 million points, 1 ms of products, 2 ms of sums (the base's 1 ms for 0.49 GB) and 0.5 ms "
                   "to make halves, so 84 % of the link's rate. With K = 5000 the products take 4 ms, and 74 % are "
                   "left. Measured on an H100 with 4.1 GB within 512 MiB: 93.9 ms, 78 % of the link's 55.4 GB/s, as 5 "
                   "ms more are neither copies (73.7), the base's kernels (13.0) nor halves: 0.17 ms for each of 31 "
                   "chunks, not profiled. A new algorithm: a run within a budget",
               .shows = "iteration", .source = "this project",
               .arithmetic = {.form = Arithmetic::Form::exact, .operands = "fp16"}, .axes = chunk_axes(),
               .refuse = refuse, .f32 = phases<float>, .f64 = phases<double>)
