// Adds to sums that nothing has set to zero: fresh device memory holds anything, on the CPU device NaNs.
//
// says: a centroid is wrong in iteration 1: centroid 0 has nan in feature 0
// says: memory read before it was written, or a division by zero?
#include "../../variants/parts/assign_rows.cuh"
#include "../../variants/parts/update_shared.cuh"

namespace {
using namespace ladder;

template <class T>
__global__ void sum_kernel(const T* x, const int32_t* label, double* sum, int* count, int n, int d) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  for (int f = 0; f < d; ++f) atomicAdd(&sum[label[i] * d + f], double(x[size_t(i) * d + f]));
  atomicAdd(&count[label[i]], 1);
}

struct Own {
  Sums sums;
};

template <class T>
void update(Run<T, Own>& s) {
  const Sums& sums = s.own.sums;
  launch(sum_kernel<T>, blocks(s.n, 256), 256, 0, s.stream, s.x, s.label, sums.sum, sums.count, s.n, s.d);
  divide(s);
}

template <class T>
constexpr Phases<T, Own> phases{.prepare = prepare_sums<T>,
                                .upload = upload_rows<T>,
                                .restart = restart_rows<T>,
                                .assign = assign_points<T>,
                                .update = update<T>,
                                .download = download_rows<T>};
}  // namespace

LADDER_VARIANT(.id = "e16_sums_not_cleared", .base = "v04_device_update", .idea = "sums that are not cleared",
               .f32 = phases<float>, .f64 = phases<double>)
