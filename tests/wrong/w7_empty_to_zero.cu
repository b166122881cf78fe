// Wrong on purpose: a centroid without points goes to the origin instead of staying.
// rejected: it has no points
#include "../../variants/parts/assign_rows.cuh"

namespace {
using namespace ladder;

template <class T>
void update(State<T>& s) {
  update_on_host(s);
  std::vector<int> count(s.k, 0);
  for (int i = 0; i < s.n; ++i) ++count[s.result.label[i]];
  for (int e = 0; e < s.k * s.d; ++e) {
    if (count[e / s.d] == 0) s.result.centroids[e] = 0;  // the fault
  }
  to_device(s, s.c, s.result.centroids, size_t(s.k) * s.d, "uploading the new centroids");
}

template <class T>
constexpr Phases<T> phases{.prepare = prepare_device<T>,
                           .upload = upload_rows<T>,
                           .restart = restart_rows<T>,
                           .assign = assign_points<T>,
                           .update = update<T>,
                           .download = download_rows<T>};
}  // namespace

LADDER_VARIANT(.id = "w7_empty_to_zero", .base = "v01_global", .idea = "wrong: empty clusters move",
               .f32 = phases<float>, .f64 = phases<double>)
