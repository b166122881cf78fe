// Threads without a point return before the barrier that the others wait at.
//
// says: a barrier that not all threads come to: of 256 threads 224 have ended (the first: thread (32, 0, 0))
// says: 32 wait at __syncthreads() at @here (the first: thread (0, 0, 0)); in kernel assign_kernel<float>
// says: threads without work must come to every barrier too: no return before it
// says: this was in a trial run on the first 32 of 2000 points
#include "../../variants/parts/phases.cuh"

namespace {
using namespace ladder;

template <class T>
__global__ void assign_kernel(const T* x, const T* c, int32_t* label, int n, int k, int d) {
  T* centroids = dynamic_shared<T>();  // k x d
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  for (int e = threadIdx.x; e < k * d; e += blockDim.x) centroids[e] = c[e];
  __syncthreads();  // here
  T nearest = std::numeric_limits<T>::infinity();
  int best = 0;
  for (int j = 0; j < k; ++j) {
    T distance = 0;
    for (int f = 0; f < d; ++f) {
      const T diff = x[size_t(i) * d + f] - centroids[j * d + f];
      distance += diff * diff;
    }
    if (distance < nearest) nearest = distance, best = j;
  }
  label[i] = best;
}

template <class T>
void assign(State<T>& s) {
  launch(assign_kernel<T>, blocks(s.n, 256), 256, s.k * s.d * sizeof(T), s.stream, s.x, s.c, s.label, s.n, s.k, s.d);
}

template <class T>
constexpr Phases<T> phases{.prepare = prepare_device<T>,
                           .upload = upload_rows<T>,
                           .restart = restart_rows<T>,
                           .assign = assign<T>,
                           .update = update_on_host<T>,
                           .download = download_rows<T>};
}  // namespace

LADDER_VARIANT(.id = "e12_return_before_a_barrier", .base = "v01_global", .idea = "a return before a barrier",
               .f32 = phases<float>, .f64 = phases<double>)
