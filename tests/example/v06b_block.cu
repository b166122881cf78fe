// v06b: the block size is a choice, not a constant: 128 threads unless --axis block=N says otherwise.
// v06 fixes it at 256: where N is small, that leaves multiprocessors without a block.
#include "../../variants/parts/update_shared.cuh"

namespace {
using namespace ladder;

template <class T>
struct Rows {
  T* points = nullptr;  // n x d, as they arrive
};

template <class T>
void prepare(State<T>& s) {
  prepare_sums(s);
  s.template own<Rows<T>>().points = s.template device<T>(size_t(s.n) * s.d);
}

template <class T>
__global__ void transpose_kernel(const T* rows, T* features, int n, int d) {
  const int64_t e = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (e < int64_t(n) * d) features[e] = rows[e % n * d + e / n];
}

template <class T>
void upload_features(State<T>& s) {
  T* rows = s.template own<Rows<T>>().points;
  to_device(s, rows, s.points, size_t(s.n) * s.d, "uploading the points");
  launch(transpose_kernel<T>, blocks(int64_t(s.n) * s.d, 256), 256, 0, s.stream, rows, s.x, s.n, s.d);
}

template <class T>
__global__ void assign_kernel(const T* x, const T* c, int32_t* label, int n, int k, int d) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  T nearest = std::numeric_limits<T>::infinity();
  int best = 0;
  for (int j = 0; j < k; ++j) {
    T distance = 0;
    for (int f = 0; f < d; ++f) {
      const T diff = x[size_t(f) * n + i] - c[size_t(j) * d + f];
      distance += diff * diff;
    }
    if (distance < nearest) nearest = distance, best = j;
  }
  label[i] = best;
}

template <class T>
void assign(State<T>& s) {
  const int block = s.axis("block");
  launch(assign_kernel<T>, blocks(s.n, block), block, 0, s.stream, s.x, s.c, s.label, s.n, s.k, s.d);
}

template <class T>
constexpr Phases<T> phases{.prepare = prepare<T>,
                           .upload = upload_features<T>,
                           .restart = restart_rows<T>,
                           .assign = assign<T>,
                           .update = update_shared<T, Layout::features>,
                           .download = download_rows<T>};
}  // namespace

LADDER_VARIANT(.id = "v06b_block", .base = "v06_soa", .idea = "the block size is a tuning axis",
               .expect = "more blocks in flight where N is small; no change where N is large", .shows = "assign",
               .source = "000", .axes = {{"block", range(32, 1024, 32), 128}}, .refuse = refuse_update_shared,
               .f32 = phases<float>, .f64 = phases<double>)
