// Wrong on purpose: sums in float, while the card says nothing of it: the means have lost digits.
// rejected: a centroid is wrong
#include "../../variants/parts/assign_rows.cuh"

namespace {
using namespace ladder;

template <class T>
void update(State<T>& s) {
  download_rows(s);
  std::vector<float> sum(size_t(s.k) * s.d, 0);  // the fault
  std::vector<int> count(s.k, 0);
  for (int i = 0; i < s.n; ++i) {
    ++count[s.result.label[i]];
    for (int f = 0; f < s.d; ++f) sum[size_t(s.result.label[i]) * s.d + f] += float(s.points[size_t(i) * s.d + f]);
  }
  for (int e = 0; e < s.k * s.d; ++e) {
    if (count[e / s.d] > 0) s.result.centroids[e] = T(sum[e] / float(count[e / s.d]));
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

LADDER_VARIANT(.id = "w5_float_sums", .base = "v01_global", .idea = "wrong: undeclared float sums",
               .f32 = phases<float>, .f64 = phases<double>)
