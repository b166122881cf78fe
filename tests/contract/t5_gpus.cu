// Several GPUs: each labels a part of the points, on a stream of its own that waits for the session's and is joined to
// it; the first adds up.
#include "../../variants/parts/assign_rows.cuh"
#include "../../variants/parts/update_shared.cuh"

namespace {
using namespace ladder;

template <class T>
struct Part {
  T *x = nullptr, *c = nullptr;
  int32_t* label = nullptr;
  int begin = 0, end = 0;
};
template <class T>
struct Parts {
  Sums sums;
  std::vector<Part<T>> of;  // per GPU after the first
};

template <class T>
void prepare(Run<T, Parts<T>>& s) {
  prepare_sums(s);
  auto& parts = s.own.of;
  for (int gpu = 0; gpu < s.gpus(); ++gpu) {
    Part<T> part;
    part.begin = int(int64_t(s.n) * gpu / s.gpus());
    part.end = int(int64_t(s.n) * (gpu + 1) / s.gpus());
    if (gpu > 0) {
      const size_t points = size_t(part.end - part.begin);
      part.x = s.template device<T>(points * s.d, gpu);
      part.c = s.template device<T>(size_t(s.k) * s.d, gpu);
      part.label = s.template device<int32_t>(points, gpu);
    }
    parts.push_back(part);
  }
}

template <class E, class T>
void copy(State<T>& s, int gpu, E* to, const E* from, size_t count) {
  s.on_gpu(gpu, [&] {
    check(cudaMemcpyAsync(to, from, count * sizeof(E), cudaMemcpyDefault, s.stream_of(gpu)), "copying between GPUs");
  });
}

template <class T>
void upload(Run<T, Parts<T>>& s) {
  upload_rows(s);
  s.fork();
  for (int gpu = 1; gpu < s.gpus(); ++gpu) {
    const Part<T>& part = s.own.of[gpu];
    copy(s, gpu, part.x, s.x + size_t(part.begin) * s.d, size_t(part.end - part.begin) * s.d);
  }
  s.join();
}

template <class T>
void assign(Run<T, Parts<T>>& s) {
  const auto& parts = s.own.of;
  s.fork();  // the centroids are there
  for (int gpu = 0; gpu < s.gpus(); ++gpu) {
    const Part<T>& part = parts[gpu];
    const int points = part.end - part.begin;
    if (points == 0) continue;
    if (gpu > 0) copy(s, gpu, part.c, s.c, size_t(s.k) * s.d);
    s.on_gpu(gpu, [&] {
      launch(assign_points_kernel<T>, blocks(points, 256), 256, 0, s.stream_of(gpu), gpu ? part.x : s.x,
             gpu ? part.c : s.c, gpu ? part.label : s.label, points, s.k, s.d);
    });
    if (gpu > 0) copy(s, gpu, s.label + part.begin, part.label, size_t(points));
  }
  s.join();  // all labels are there
}

template <class T>
constexpr Phases<T, Parts<T>> phases{.prepare = prepare<T>,
                                     .upload = upload<T>,
                                     .restart = restart_rows<T>,
                                     .assign = assign<T>,
                                     .update = update_shared<T, Layout::rows>,
                                     .download = download_rows<T>};
}  // namespace

LADDER_VARIANT(.id = "t5_gpus", .base = "v05_shared_update", .idea = "points shared out among GPUs", .shows = "assign",
               .gpus = 4, .refuse = refuse_update_shared, .f32 = phases<float>, .f64 = phases<double>)
