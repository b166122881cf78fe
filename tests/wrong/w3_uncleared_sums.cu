// Wrong on purpose: the sums of an iteration begin where those of the last one ended.
// rejected: a centroid is wrong
#include "../../variants/parts/assign_rows.cuh"

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

struct Own {
  Sums sums;
};

template <class T>
void prepare(Run<T, Own>& s) {
  prepare_sums(s);
  clear_sums(s);
}

template <class T>
void update(Run<T, Own>& s) {  // the fault: clear_sums only once, in prepare
  const Sums& sums = s.own.sums;
  launch(sum_kernel<T>, blocks(s.n, 256), 256, 0, s.stream, s.x, s.label, sums.sum, sums.count, s.n, s.d);
  divide(s);
}

template <class T>
constexpr Phases<T, Own> phases{.prepare = prepare<T>,
                                .upload = upload_rows<T>,
                                .restart = restart_rows<T>,
                                .assign = assign_points<T>,
                                .update = update<T>,
                                .download = download_rows<T>};
}  // namespace

LADDER_VARIANT(.id = "w3_uncleared_sums", .base = "v04_device_update", .idea = "wrong: sums are never cleared",
               .f32 = phases<float>, .f64 = phases<double>)
