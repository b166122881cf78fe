// v04: sums per block in shared memory, then one double atomic per block, cluster and feature (block_private.cuh). In
// v03 every point costs D atomics in global memory, all on the same K x D addresses; an atomic in shared memory stays
// inside the multiprocessor. Where K x D is larger than shared memory, a block takes a slice of the features.
#include "../../harness/contract/lesson.hpp"
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

LADDER_LESSON(.predict = {{"global_atomics", "ceil(N / 256) * (ceil(K * D / 32) + ceil(K / 32))", "blobs30_00"},
                          {"load_requests", "ceil(N / 32) * (D + 1)", "blobs30_00"},
                          {"shared_bytes", "reserved + K * (8 * D + 4)", "blobs30_00"},
                          {"occupancy_theoretical_percent", "occupancy(256, registers, shared_bytes)", "blobs30_00"},
                          {"global_atomics", "ceil(N / (4 * K)) * (ceil(D / 5) * ceil(5 * K / 32) + ceil(K / 32))",
                           "kmcuda"}},
              .ask = "At K = 10 atomics in global memory fall by a factor of 24. What takes their place?",
              .answer =
                  "Atomics in shared memory: D + 1 per point, as before, but inside the multiprocessor. A block "
                  "of 256 points then adds its K x (D + 1) sums once: 33 requests instead of 8 x 101. Shared "
                  "memory has no addition of doubles, though: each is a loop of compare-and-swap, which is the "
                  "next flaw.")
