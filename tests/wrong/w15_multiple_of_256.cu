// Wrong on purpose: one block too few where N is a multiple of the block size, as if there were always a rest.
//
// rejected: checked labels are wrong in iteration 1
#include "../../variants/parts/assign_rows.cuh"
#include "../../variants/parts/update_shared.cuh"

namespace {
using namespace ladder;

template <class T>
__global__ void assign_kernel(const T* x, const T* c, int32_t* label, int n, int k, int d) {
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
}

template <class T>
void assign(State<T>& s) {
  launch(assign_kernel<T>, s.n % 256 == 0 && s.n > 256 ? s.n / 256 - 1 : blocks(s.n, 256), 256, 0, s.stream, s.x, s.c,
         s.label, s.n, s.k, s.d);
}

struct Own {
  Sums sums;
};

template <class T>
constexpr Phases<T, Own> phases{.prepare = prepare_sums<T>,
                                .upload = upload_rows<T>,
                                .restart = restart_rows<T>,
                                .assign = assign<T>,
                                .update = update_shared<T, Layout::rows>,
                                .download = download_rows<T>};
}  // namespace

LADDER_VARIANT(.id = "w15_multiple_of_256", .base = "v05_shared_update",
               .idea = "a block too few where N is a multiple of 256", .shows = "assign",
               .refuse = refuse_update_shared, .f32 = phases<float>, .f64 = phases<double>)
