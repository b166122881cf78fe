// Wrong on purpose: |x|^2 + |c|^2 - 2 x.c in float far from the origin: what is left of the distance is rounding,
// and the card does not say that distances are formed this way.
// rejected: labels are wrong in iteration 1
#include "../../variants/parts/phases.cuh"

namespace {
using namespace ladder;

template <class T>
__global__ void assign_kernel(const T* x, const T* c, int32_t* label, int n, int k, int d) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  T nearest = std::numeric_limits<T>::infinity();
  int best = 0;
  for (int j = 0; j < k; ++j) {
    float xx = 0, cc = 0, xc = 0;  // the fault, for double too
    for (int f = 0; f < d; ++f) {
      const float a = float(x[size_t(i) * d + f]), b = float(c[size_t(j) * d + f]);
      xx += a * a, cc += b * b, xc += a * b;
    }
    const T distance = xx + cc - 2 * xc;
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

LADDER_VARIANT(.id = "w8_cancellation", .base = "v01_global", .idea = "wrong: undeclared norm decomposition",
               .f32 = phases<float>, .f64 = phases<double>)
