// Asks for half the shared memory that it uses.
//
// says: past the 3840 bytes of dynamic shared memory of the launch
// says: kernel assign_kernel<float>, block (0, 0, 0), thread (
// says (default): run `ladder check e14_shared_overrun` to see the line
// says (default): in a trial run on the first 32 of 2000 points
// says (asan): @here
#include "../../variants/parts/phases.cuh"

namespace {
using namespace ladder;

template <class T>
__global__ void assign_kernel(const T* x, const T* c, int32_t* label, int n, int k, int d) {
  T* centroids = dynamic_shared<T>();  // k x d
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  for (int e = threadIdx.x; e < k * d; e += blockDim.x) centroids[e] = c[e];  // here
  __syncthreads();
  if (i >= n) return;
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
  launch(assign_kernel<T>, blocks(s.n, 256), 256, s.k * s.d * sizeof(T) / 2, s.stream, s.x, s.c, s.label, s.n, s.k,
         s.d);
}

template <class T>
constexpr Phases<T> phases{.prepare = prepare_device<T>,
                           .upload = upload_rows<T>,
                           .restart = restart_rows<T>,
                           .assign = assign<T>,
                           .update = update_on_host<T>,
                           .download = download_rows<T>};
}  // namespace

LADDER_VARIANT(.id = "e14_shared_overrun", .base = "v01_global", .idea = "half the shared memory", .f32 = phases<float>,
               .f64 = phases<double>)
