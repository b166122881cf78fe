// Wrong on purpose: the host reads labels in page-locked memory while their copy is still on its way.
//
// rejected: a centroid is wrong
// needs: late streams
#include "../../variants/parts/assign_rows.cuh"

namespace {
using namespace ladder;

template <class T>
void update(State<T>& s) {
  check(cudaMemcpyAsync(s.result.centroids, s.c, size_t(s.k) * s.d * sizeof(T), cudaMemcpyDeviceToHost, s.stream),
        "downloading the centroids");
  check(cudaStreamSynchronize(s.stream), "downloading the centroids");
  download_labels(s);  // the fault: nothing waits for it
  std::vector<double> sum(size_t(s.k) * s.d, 0);
  std::vector<int> count(s.k, 0);
  for (int i = 0; i < s.n; ++i) {
    const int j = s.result.label[i];
    if (j < 0 || j >= s.k) continue;
    ++count[j];
    for (int f = 0; f < s.d; ++f) sum[size_t(j) * s.d + f] += s.points[size_t(i) * s.d + f];
  }
  for (int e = 0; e < s.k * s.d; ++e) {
    if (count[e / s.d] > 0) s.result.centroids[e] = T(sum[e] / count[e / s.d]);
  }
  to_device(s, s.c, s.result.centroids, size_t(s.k) * s.d, "uploading the new centroids");
}

template <class T>
constexpr Phases<T> phases{.prepare = prepare_pinned<T>,
                           .upload = upload_rows<T>,
                           .restart = restart_rows<T>,
                           .assign = assign_points<T>,
                           .update = update<T>,
                           .download = download_rows<T>};
}  // namespace

LADDER_VARIANT(.id = "w23_early_read", .base = "v03_pinned", .idea = "wrong: labels are read before they have come",
               .f32 = phases<float>, .f64 = phases<double>)
