// A barrier that only threads with a point come to; the others go on to the next one.
//
// says: the threads of a block wait at different barriers: of 256 threads 224 wait at __syncthreads() at
// says: 32 wait at __syncthreads() at @here (the first: thread (0, 0, 0)); in kernel assign_kernel<float>
// says: all threads of a block must come to the same __syncthreads()
#include "../../variants/parts/phases.cuh"

namespace {
using namespace ladder;

template <class T>
__global__ void assign_kernel(const T* x, const T* c, int32_t* label, int n, int k, int d) {
  __shared__ int labelled;
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (threadIdx.x == 0) labelled = 0;
  if (i < n) {
    __syncthreads();  // here
    T nearest = std::numeric_limits<T>::infinity();
    int best = 0;
    for (int j = 0; j < k; ++j) {
      T distance = 0;
      for (int f = 0; f < d; ++f) {
        const T diff = x[size_t(i) * d + f] - c[size_t(j) * d + f];
        distance += diff * diff;
      }
      if (distance < nearest) nearest = distance, best = j;
    }
    label[i] = best;
    atomicAdd(&labelled, 1);
  }
  __syncthreads();
  if (threadIdx.x == 0 && labelled == 0) label[0] = -1;
}

template <class T>
void assign(State<T>& s) {
  launch(assign_kernel<T>, blocks(s.n, 256), 256, 0, s.stream, s.x, s.c, s.label, s.n, s.k, s.d);
}

template <class T>
constexpr Phases<T> phases{.prepare = prepare_device<T>,
                           .upload = upload_rows<T>,
                           .restart = restart_rows<T>,
                           .assign = assign<T>,
                           .update = update_on_host<T>,
                           .download = download_rows<T>};
}  // namespace

LADDER_VARIANT(.id = "e13_divergent_barrier", .base = "v01_global", .idea = "a barrier in a branch",
               .f32 = phases<float>, .f64 = phases<double>)
