// One barrier after a tile is written, none before it is written over.
//
// on: tiles_tiny
// says (default): checked labels are wrong
// says (asan): a race
// says (asan): of dynamic shared memory
// says (asan): @here
// says (asan): put a __syncthreads() between
#include "../../variants/parts/phases.cuh"

namespace {
using namespace ladder;

constexpr int tile = 16;  // centroids in shared memory at a time

template <class T>
__global__ void assign_kernel(const T* x, const T* c, int32_t* label, int n, int k, int d) {
  T* part = dynamic_shared<T>();  // tile x d
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  const int i = min(row, n - 1);
  T nearest = std::numeric_limits<T>::infinity();
  int best = 0;
  for (int first = 0; first < k; first += tile) {
    const int here = min(tile, k - first);
    for (int e = threadIdx.x; e < here * d; e += blockDim.x) part[e] = c[size_t(first) * d + e];  // here
    __syncthreads();
    for (int t = 0; t < here; ++t) {
      T distance = 0;
      for (int f = 0; f < d; ++f) {
        const T diff = x[size_t(i) * d + f] - part[t * d + f];
        distance += diff * diff;
      }
      if (first + t < k && distance < nearest) nearest = distance, best = first + t;
    }
  }
  if (row < n) label[row] = best;
}

template <class T>
void assign(State<T>& s) {
  launch(assign_kernel<T>, blocks(s.n, 256), 256, tile * s.d * sizeof(T), s.stream, s.x, s.c, s.label, s.n, s.k, s.d);
}

template <class T>
constexpr Phases<T> phases{.prepare = prepare_device<T>,
                           .upload = upload_rows<T>,
                           .restart = restart_rows<T>,
                           .assign = assign<T>,
                           .update = update_on_host<T>,
                           .download = download_rows<T>};
}  // namespace

LADDER_VARIANT(.id = "e9_missing_second_barrier", .base = "v01_global", .idea = "tiles with one barrier",
               .f32 = phases<float>, .f64 = phases<double>)
