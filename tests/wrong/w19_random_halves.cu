// Wrong on purpose: labels drawn at random by one that says it rounds its operands to half. A bound that is taken from
// the operands alone accepts them.
//
// rejected: checked labels are wrong in iteration 1
#include "../../variants/parts/assign_rows.cuh"
#include "../../variants/parts/update_shared.cuh"

namespace {
using namespace ladder;

template <class T>
__global__ void assign_kernel(int32_t* label, int n, int k) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) label[i] = int(unsigned(i) * 2654435761u >> 8) % k;
}

template <class T>
void assign(State<T>& s) {
  launch(assign_kernel<T>, blocks(s.n, 256), 256, 0, s.stream, s.label, s.n, s.k);
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

LADDER_VARIANT(.id = "w19_random_halves", .base = "v05_shared_update",
               .idea = "random labels, excused by half precision", .shows = "assign",
               .arithmetic = {.form = Arithmetic::Form::expanded, .input_roundoff = 0x1p-11},
               .refuse = refuse_update_shared, .f32 = phases<float>, .f64 = phases<double>)
