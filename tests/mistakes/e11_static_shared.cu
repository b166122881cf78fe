// More static shared memory than a block can have: ptxas refuses it, so the CPU device does.
//
// says: declares 65536 bytes of static __shared__ memory, a block has 49152
// says: use dynamic_shared<T>() and pass the bytes to launch(...)
// says: kernel assign_kernel<float>
#include "../../variants/parts/phases.cuh"

namespace {
using namespace ladder;

template <class T>
__global__ void assign_kernel(const T* x, const T* c, int32_t* label, int n, int k, int d) {
  __shared__ T tile[(64 << 10) / sizeof(T)];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  for (int e = threadIdx.x; e < min(k * d, int((64 << 10) / sizeof(T))); e += blockDim.x) tile[e] = c[e];
  __syncthreads();
  if (i >= n) return;
  T nearest = std::numeric_limits<T>::infinity();
  int best = 0;
  for (int j = 0; j < k; ++j) {
    T distance = 0;
    for (int f = 0; f < d; ++f) {
      const T diff = x[size_t(i) * d + f] - tile[j * d + f];
      distance += diff * diff;
    }
    if (distance < nearest) nearest = distance, best = j;
  }
  label[i] = best;
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

LADDER_VARIANT(.id = "e11_static_shared", .base = "v01_global", .idea = "64 KiB of static shared memory",
               .f32 = phases<float>, .f64 = phases<double>)
