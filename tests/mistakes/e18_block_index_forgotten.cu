// Takes threadIdx for the point's number: each block labels the first 256 points.
//
// says (default): row 256 has label -1, but labels are 0 to 39 (-1 stands in each beforehand: did a thread write this
// says (asan): a race
// says (asan): both touch 4 bytes of a device allocation of 8000 bytes (from its byte
// says (asan): blocks of a launch have no order
// says (asan): @here
#include "../../variants/parts/phases.cuh"

namespace {
using namespace ladder;

template <class T>
__global__ void assign_kernel(const T* x, const T* c, int32_t* label, int n, int k, int d) {
  const int i = threadIdx.x;
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
  label[i] = best;  // here
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

LADDER_VARIANT(.id = "e18_block_index_forgotten", .base = "v01_global", .idea = "threadIdx alone", .f32 = phases<float>,
               .f64 = phases<double>)
