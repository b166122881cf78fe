// A variant on the device that fuses assign and update into one pass, with device state of its own.
#include "../../variants/parts/phases.cuh"

namespace {
using namespace ladder;

template <class T>
__global__ void iterate_kernel(const T* x, const T* c, int32_t* label, double* sum, int* count, int n, int k, int d) {
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
    if (distance < nearest) nearest = distance, best = j;
  }
  label[i] = best;
  for (int f = 0; f < d; ++f) atomicAdd(&sum[size_t(best) * d + f], double(x[size_t(i) * d + f]));
  atomicAdd(&count[best], 1);
}

struct Own {
  Sums sums;
};

template <class T>
void iterate(Run<T, Own>& s) {
  const Sums& sums = s.own.sums;
  clear_sums(s);
  launch(iterate_kernel<T>, blocks(s.n, 128), 128, 0, s.stream, s.x, s.c, s.label, sums.sum, sums.count, s.n, s.k, s.d);
  divide(s);
}

template <class T>
constexpr Phases<T, Own> phases{.prepare = prepare_sums<T>,
                                .upload = upload_rows<T>,
                                .restart = restart_rows<T>,
                                .iterate = iterate<T>,
                                .download = download_rows<T>};
}  // namespace

LADDER_VARIANT(.id = "t2_fused", .base = "v04_device_update", .idea = "one pass", .shows = "iteration",
               .f32 = phases<float>, .f64 = phases<double>)
