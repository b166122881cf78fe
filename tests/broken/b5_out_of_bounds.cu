// Broken on purpose: the kernel reads the points where they lie on the host, and labels one point too many.
// sanitized: names the line
#include "../../variants/parts/phases.cuh"

namespace {
using namespace ladder;

template <class T>
__global__ void assign_kernel(const T* host_points, int32_t* label, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i <= n) label[i] = host_points[0] > 0;  // both faults
}

template <class T>
void assign(State<T>& s) {
  launch(assign_kernel<T>, blocks(s.n + 1, 256), 256, 0, s.stream, s.points, s.label, s.n);
}

template <class T>
constexpr Phases<T> phases{.prepare = prepare_device<T>,
                           .upload = upload_rows<T>,
                           .restart = restart_rows<T>,
                           .assign = assign<T>,
                           .update = update_on_host<T>,
                           .download = download_rows<T>};
}  // namespace

LADDER_VARIANT(.id = "b5_out_of_bounds", .base = "v01_global", .idea = "broken: host pointer in a kernel",
               .f32 = phases<float>, .f64 = phases<double>)
