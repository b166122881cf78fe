// v04: sums per block in shared memory, then one double atomic per block, cluster and feature (block_private.cuh). In
// v03 every point costs D atomics in global memory, all on the same K x D addresses; an atomic in shared memory stays
// inside the multiprocessor. Where K x D is larger than shared memory, a block takes a slice of the features.
#include "../common/update/block_private.cuh"

namespace {
using namespace ladder;

template <class T>
__global__ void assign_kernel(const T* x, const T* c, int32_t* label, int n, int k, int d) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  T nearest = std::numeric_limits<T>::infinity();
  int best = 0;
  for (int j = 0; j < k; ++j) {
    T distance = 0;
    for (int f = 0; f < d; ++f) {
      const T diff = x[size_t(i) * d + f] - c[size_t(j) * d + f];
      distance += diff * diff;
    }
    if (distance < nearest) nearest = distance, best = j;  // <, not <=: on a tie the lowest index stays
  }
  label[i] = best;
}

template <class T>
struct Workspace {
  Sums sums;
};

template <class T>
void assign(State<T>& s) {
  launch(assign_kernel<T>, blocks(s.n, 256), 256, 0, s.stream, s.x, s.c, s.label, s.n, s.k, s.d);
}

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare_sums<T>,
                                         .upload = upload_rows<T>,
                                         .restart = restart_rows<T>,
                                         .assign = assign<T>,
                                         .update = update_shared<T, Layout::rows>,
                                         .download = download_rows<T>};
}  // namespace

LADDER_VARIANT(.id = "v04_shared_update", .base = "v03_device_update", .idea = "per-block sums in shared memory",
               .expect = "global atomics fall by points per block / K; a gain where K is small, none where it is large",
               .shows = "update", .counter = "global_atomics", .source = "001 ii", .refuse = refuse_update_shared,
               .f32 = phases<float>, .f64 = phases<double>)
