// Wrong on purpose: threads of a block add to shared sums that others have not cleared yet.
// rejected: a centroid is wrong
// rejected (checked): both touch 8 bytes of the __shared__ variable 'part'
#include "../../variants/parts/assign_rows.cuh"

namespace {
using namespace ladder;

constexpr int entries = 4096;  // of shared memory: K x D at most

template <class T>
__global__ void sum_kernel(const T* x, const int32_t* label, double* sum, int* count, int n, int k, int d) {
  __shared__ double part[entries];
  for (int e = threadIdx.x; e < k * d; e += blockDim.x) part[e] = 0;
  // the fault: no __syncthreads() here
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    for (int f = 0; f < d; ++f) atomicAdd(&part[label[i] * d + f], double(x[size_t(i) * d + f]));
    atomicAdd(&count[label[i]], 1);
  }
  // nor here
  for (int e = threadIdx.x; e < k * d; e += blockDim.x) atomicAdd(&sum[e], part[e]);
}

struct Own {
  Sums sums;
};

template <class T>
void update(Run<T, Own>& s) {
  const Sums& sums = s.own.sums;
  clear_sums(s);
  launch(sum_kernel<T>, blocks(s.n, 256), 256, 0, s.stream, s.x, s.label, sums.sum, sums.count, s.n, s.k, s.d);
  divide(s);
}

std::string refuse(const Shape& p, const Device&, const Axes&) {
  return p.k * p.d > entries ? "K x D is too large" : "";
}

template <class T>
constexpr Phases<T, Own> phases{.prepare = prepare_sums<T>,
                                .upload = upload_rows<T>,
                                .restart = restart_rows<T>,
                                .assign = assign_points<T>,
                                .update = update<T>,
                                .download = download_rows<T>};
}  // namespace

LADDER_VARIANT(.id = "w6_no_barrier", .base = "v05_shared_update", .idea = "wrong: barriers left out", .refuse = refuse,
               .f32 = phases<float>, .f64 = phases<double>)
