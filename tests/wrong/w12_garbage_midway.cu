// Wrong on purpose: labels are right in the first iteration and after the sixth, and nonsense between.
// sanitized: validation reads labels that are no labels
// rejected: checked labels are wrong in iteration 2
#include "../../variants/parts/assign_rows.cuh"
#include "../../variants/parts/update_shared.cuh"

namespace {
using namespace ladder;

struct Own {
  int iteration = 0;
};

template <class T>
__global__ void spoil_kernel(int32_t* label, int n, int k) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) label[i] = (label[i] + i) % k;
}

template <class T>
void restart(State<T>& s) {
  s.template own<Own>().iteration = 0;
  restart_rows(s);
}

template <class T>
void assign(State<T>& s) {
  assign_points(s);
  const int iteration = ++s.template own<Own>().iteration;
  if (iteration >= 2 && iteration <= 6) launch(spoil_kernel<T>, blocks(s.n, 256), 256, 0, s.stream, s.label, s.n, s.k);
}

template <class T>
constexpr Phases<T> phases{.prepare = prepare_sums<T>,
                           .upload = upload_rows<T>,
                           .restart = restart<T>,
                           .assign = assign<T>,
                           .update = update_shared<T, Layout::rows>,
                           .download = download_rows<T>};
}  // namespace

LADDER_VARIANT(.id = "w12_garbage_midway", .base = "v05_shared_update", .idea = "labels that are nonsense midway",
               .shows = "solve", .refuse = refuse_update_shared, .f32 = phases<float>, .f64 = phases<double>)
