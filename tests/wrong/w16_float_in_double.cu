// Wrong on purpose: the double form computes its distances in float.
// type: f64
// rejected: checked labels are wrong in iteration 1
#include "../../variants/parts/assign_rows.cuh"
#include "../../variants/parts/update_shared.cuh"

namespace {
using namespace ladder;

template <class T>
__global__ void assign_kernel(const T* x, const T* c, int32_t* label, int n, int k, int d) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float nearest = std::numeric_limits<float>::infinity();
  int best = 0;
  for (int j = 0; j < k; ++j) {
    float distance = 0;
    for (int f = 0; f < d; ++f) {
      const float diff = float(x[size_t(i) * d + f]) - float(c[size_t(j) * d + f]);
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

LADDER_VARIANT(.id = "w16_float_in_double", .base = "v05_shared_update", .idea = "float distances between doubles",
               .shows = "assign", .refuse = refuse_update_shared, .f32 = phases<float>, .f64 = phases<double>)
