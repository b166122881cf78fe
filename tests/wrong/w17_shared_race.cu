// Wrong on purpose: sums in shared memory without an atomic; two threads read the same sum, one point is lost.
//
// rejected: a race
// rejected (cuda): wrong
// needs: races
#include "../../variants/parts/assign_rows.cuh"
#include "../../variants/parts/update_shared.cuh"

namespace {
using namespace ladder;

template <class T>
__global__ void sum_kernel(const T* x, const int32_t* label, double* sum, int* count, int n, int k, int d) {
  double* part = dynamic_shared<double>();
  for (int e = threadIdx.x; e < k * (d + 1); e += blockDim.x) part[e] = 0;
  __syncthreads();
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    const int j = label[i];
    for (int f = 0; f < d; ++f) part[j * d + f] += double(x[size_t(i) * d + f]);
    atomicAdd(&part[k * d + j], 1.0);
  }
  __syncthreads();
  for (int e = threadIdx.x; e < k * d; e += blockDim.x) atomicAdd(&sum[e], part[e]);
  for (int j = threadIdx.x; j < k; j += blockDim.x) atomicAdd(&count[j], int(part[k * d + j]));
}

struct Own {
  Sums sums;
};

template <class T>
void update(Run<T, Own>& s) {
  const Sums& sums = s.own.sums;
  clear_sums(s);
  launch(sum_kernel<T>, blocks(s.n, 256), 256, s.k * (s.d + 1) * sizeof(double), s.stream, s.x, s.label, sums.sum,
         sums.count, s.n, s.k, s.d);
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

LADDER_VARIANT(.id = "w17_shared_race", .base = "v05_shared_update", .idea = "sums without atomics", .shows = "update",
               .f32 = phases<float>, .f64 = phases<double>)
