// v04: the new centroids are computed on the device, so nothing crosses the bus during an iteration; v03 moved all
// labels down and all centroids up, and left the device idle while one host thread added up N x D numbers. The price:
// every thread adds its point with D atomics to the sums of its cluster in global memory, and where K is small,
// thousands of threads queue for the same few addresses.
#include "parts/assign_rows.cuh"

namespace {
using namespace ladder;

template <class T>
__global__ void sum_kernel(const T* x, const int32_t* label, double* sum, int* count, int n, int d) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const int j = label[i];
  for (int f = 0; f < d; ++f) atomicAdd(&sum[size_t(j) * d + f], double(x[size_t(i) * d + f]));
  atomicAdd(&count[j], 1);
}

template <class T>
struct Own {
  Sums sums;
};

template <class T>
void update(Run<T, Own<T>>& s) {
  const Sums& sums = s.own.sums;
  clear_sums(s);
  launch(sum_kernel<T>, blocks(s.n, 256), 256, 0, s.stream, s.x, s.label, sums.sum, sums.count, s.n, s.d);
  divide(s);
}

template <class T>
constexpr Phases<T, Own<T>> phases{.prepare = prepare_sums<T>,
                                   .upload = upload_rows<T>,
                                   .restart = restart_rows<T>,
                                   .assign = assign_points<T>,
                                   .update = update<T>,
                                   .download = download_rows<T>};
}  // namespace

LADDER_VARIANT(.id = "v04_device_update", .base = "v03_pinned", .idea = "new centroids on the device, global atomics",
               .expect = "no copies during an iteration; update bound by atomics on K x D addresses",
               .shows = "iteration", .source = "001 naive, 002's feedback", .f32 = phases<float>, .f64 = phases<double>)
