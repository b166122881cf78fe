// Wrong on purpose: labels are computed once and handed out again ever after.
// rejected: labels are wrong in iteration
#include "../../variants/parts/assign_rows.cuh"

namespace {
using namespace ladder;

struct Kept {
  int32_t* label = nullptr;
};

template <class T>
void assign(Run<T, Kept>& s) {
  int32_t*& kept = s.own.label;
  if (!kept) {
    assign_points(s);
    kept = s.template device<int32_t>(s.n);
    check(cudaMemcpyAsync(kept, s.label, s.n * sizeof(int32_t), cudaMemcpyDeviceToDevice, s.stream), "keeping labels");
  }
  check(cudaMemcpyAsync(s.label, kept, s.n * sizeof(int32_t), cudaMemcpyDeviceToDevice, s.stream), "reusing labels");
}

template <class T>
constexpr Phases<T, Kept> phases{.prepare = prepare_device<T>,
                                 .upload = upload_rows<T>,
                                 .restart = restart_rows<T>,
                                 .assign = assign<T>,
                                 .update = update_on_host<T>,
                                 .download = download_rows<T>};
}  // namespace

LADDER_VARIANT(.id = "w2_stale_labels", .base = "v01_global", .idea = "wrong: yesterday's labels", .f32 = phases<float>,
               .f64 = phases<double>)
