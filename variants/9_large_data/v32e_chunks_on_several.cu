// v32e: chunks on several GPUs. In the base one link brings all points; each GPU has a link of its own. Here each has a
// share of the rows (several/device_rows.cuh) and streams it in chunks as the base does, with two buffers and a budget
// of its own. One all-reduce after the last chunk adds up three things, as whole numbers: the sums, the points of each
// cluster, and the number of labels that changed. So labels, centroids and the number of iterations have the same bits
// on any number of GPUs. A thread submits the work of all GPUs, a chunk of each in turn, so that none waits for it.
//
// for cuda: 90a
#include "../common/chunks/double_buffer.cuh"
#include "../common/several/common_format.cuh"

namespace {
using namespace ladder;

constexpr int buffers = 2;

template <class T>
struct OfDevice : ChunkedState<T> {
  ChunkBuffer<T> buffer[buffers];
  ChunkCopies copies;
  int32_t* previous = nullptr;          // n: labels of the iteration before
  unsigned long long* words = nullptr;  // that all devices add up: labels that changed, counts, sums
};
template <class T>
using OneDevice = Run<T, OfDevice<T>>;

template <class T>
struct Workspace {
  DevicesOf<T, OfDevice<T>> devices;
};

/// Words before the sums: the labels that changed, and two counts to a word. A sum of counts is below 2^31.
size_t words_before(int k) { return 1 + size_t(blocks(k, 2)); }

/// Of a device with the rows of `p`, of `all` rows.
ChunkPlan plan_device(const Shape& p, const Device& device, const Axes& axes, int all) {
  const size_t run_bytes = p.n * sizeof(int32_t) + words_before(p.k) * sizeof(unsigned long long);
  return plan_chunks(p, device, axes, buffers, run_bytes, all);
}

template <class T>
void prepare(Run<T, Workspace<T>>& s) {
  prepare_devices(s, s.ws.devices, all_rows(s), [&](OneDevice<T>& run) {
    const ChunkPlan plan = plan_device(run.problem, run.device_info, run.axes, s.n);
    prepare_chunks(run, plan, words_before(run.k));
    page_lock_points(run);
    for (ChunkBuffer<T>& buffer : run.ws.buffer) buffer.rows = chunk_buffer(run);
    run.ws.previous = run.template device<int32_t>(run.n);
    ExactSums& sums = run.ws.sums;
    run.ws.words = sums.sum;
    sums.count = reinterpret_cast<int*>(run.ws.words + 1);
    sums.sum = run.ws.words + words_before(run.k);
    check_budget(run, plan);
  });
  s.changed = s.ws.devices[0]->run->ws.words;
}

/// One sweep of each device over its rows: work(run, chunk, rows).
template <class T, class Work>
void sweep(Run<T, Workspace<T>>& s, const Work& work) {
  int most = 0;
  on_each(s, s.ws.devices, [&](OneDevice<T>& run) {
    begin_copies(run);
    most = std::max(most, run.ws.chunks.count);
  });
  for (int p = 0; p < most; ++p) {
    on_each(s, s.ws.devices, [&](OneDevice<T>& run) {
      if (p >= run.ws.chunks.count) return;
      const Chunk chunk = chunk_of(run, p);
      stream_chunk(run, run.ws.buffer[p % buffers], run.points + size_t(chunk.first) * run.d, chunk,
                   [&](const Chunk& of, T* rows) { work(run, of, rows); });
    });
  }
}

template <class T>
void upload(Run<T, Workspace<T>>& s) {
  s.fork();
  on_each(s, s.ws.devices, [](OneDevice<T>& run) { begin_range_and_frame(run); });
  sweep(s, [](OneDevice<T>& run, const Chunk& chunk, T* rows) { add_to_range_and_frame(run, chunk, rows); });
  on_each(s, s.ws.devices, [](OneDevice<T>& run) { end_frame(run); });
  Extremes mine;
  widen_by_found(s, s.ws.devices, mine);
  const FixedPoint format = common_format(s, mine);
  for (auto& one : s.ws.devices) one->run->ws.sums.format = format;
  s.join();
}

template <class T>
void restart(Run<T, Workspace<T>>& s) {
  restart_devices(s, s.ws.devices, [](OneDevice<T>& run) {
    restart_chunks(run);
    check(cudaMemsetAsync(run.ws.previous, 0xff, run.n * sizeof(int32_t), run.stream), "clearing the labels");
  });
}

/// Adds the labels that changed to *changed; then previous = label.
__global__ void count_changed_kernel(const int32_t* label, int32_t* previous, unsigned long long* changed, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const bool differs = i < n && label[i] != previous[i];
  if (differs) previous[i] = label[i];
  const unsigned all = __ballot_sync(all_lanes, differs);
  if (threadIdx.x % warp_lanes == 0 && all != 0) atomicAdd(changed, static_cast<unsigned long long>(__popc(all)));
}

template <class T>
void iterate(Run<T, Workspace<T>>& s) {
  s.fork();
  const size_t words = words_before(s.k) + size_t(s.ws.devices[0]->run->ws.sums.format.words) * s.k * s.d;
  on_each(s, s.ws.devices, [&](OneDevice<T>& run) {
    run.ws.chunks.streamed = 0;
    check(cudaMemsetAsync(run.ws.words, 0, words * sizeof *run.ws.words, run.stream), "clearing the sums");
  });
  sweep(s, [](OneDevice<T>& run, const Chunk& chunk, T* rows) { assign_and_add(run, chunk, rows); });
  std::vector<Communicator::Part> parts;
  on_each(s, s.ws.devices, [&](OneDevice<T>& run) {
    launch(count_changed_kernel, blocks(run.n, 256), 256, 0, run.stream, run.label, run.ws.previous, run.ws.words,
           run.n);
    run.counters["bytes streamed"].push_back(run.ws.chunks.streamed);
    parts.push_back({run.ws.words, run.ws.words, run.stream});
  });
  if (s.device_info.communicator) s.device_info.communicator->sum(parts, words);  // one device has its own
  on_each(s, s.ws.devices, [](OneDevice<T>& run) { divide_exact(run); });
  s.join();
}

template <class T>
void download(Run<T, Workspace<T>>& s) {
  download_devices(s, s.ws.devices, all_rows(s), [](OneDevice<T>& run) { download_rows(run); });
}

std::string refuse(const Shape& p, const Device& device, const Axes& axes) {
  if (const std::string why = refuse_devices(p, device); !why.empty()) return why;
  if (const std::string why = refuse_page_locking(p); !why.empty()) return why;
  if (const std::string why = refuse_full_dimension(p, device); !why.empty()) return why;
  Shape share = p;
  share.n = blocks(p.n, device.devices());
  return refuse_plan(plan_device(share, device, axes, p.n), device, buffers);
}

template <class T>
constexpr Phases<T, Workspace<T>> phases{
    .prepare = prepare<T>, .upload = upload<T>, .restart = restart<T>, .iterate = iterate<T>, .download = download<T>};
}  // namespace

LADDER_VARIANT(.id = "v32e_chunks_on_several", .base = "v32b_double_buffer",
               .idea = "each of several GPUs streams its share of the rows over its own link; one all-reduce a sweep",
               .expect =
                   "with G GPUs an iteration copies 1 / G of the points over each of G links: 9 ms per GB of all "
                   "points at 2 GPUs, where the base takes 18. The all-reduce of 1,000 x 408 words of 8 bytes, 3.3 MB, "
                   "takes some 0.03 ms, next to nothing beside 545 ms for 60 GB. So efficiency 0.98 as long as host "
                   "memory gives what the links take: 55 GB/s each, and two links of one socket share its memory "
                   "channels. Measured on two H100s with 24 GB, 4 GiB on each: 222 ms after 438, efficiency 0.99; host "
                   "memory gives 54 GB/s to each link. A larger step: rows of several devices",
               .shows = "iteration", .source = "source 000; v33a_split_rows",
               .arithmetic = {.form = Arithmetic::Form::exact, .operands = "fp16"}, .axes = chunk_axes(), .gpus = 16,
               .refuse = refuse, .f32 = phases<float>, .f64 = phases<double>)
