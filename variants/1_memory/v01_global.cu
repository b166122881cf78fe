// v01: the first port to the GPU. One thread labels one point; points, centroids and labels lie in global memory. The
// host still computes the new centroids, so labels and centroids cross the bus in every iteration, from and to ordinary
// pageable memory. Neighbouring threads read D words apart, and every thread reads every centroid. The root of the
// ladder: each rung after it removes one of these costs.
#include "../../harness/contract/lesson.hpp"
#include "../common/lloyd/phases.cuh"

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
    if (distance < nearest) nearest = distance, best = j;  // <, not <=: on a tie the lowest index stays
  }
  label[i] = best;
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

LADDER_VARIANT(.id = "v01_global", .base = "", .idea = "one thread per point, everything in global memory",
               .expect = "assign parallel over points; update and copies on the host dominate where K is small",
               .shows = "iteration", .source = "000, 001, 002 r1.0", .f32 = phases<float>, .f64 = phases<double>)

LADDER_LESSON(.predict = {{"load_requests", "2 * N * K * D / 32"},
                          {"sectors_per_load", "(min(32, D * B) + 1) / 2"},
                          {"dram_bytes", "from_dram(N * D * B, K)"},
                          {"multiply_adds", "N * K * D"},
                          {"additions", "N * K * D"},
                          {"occupancy_theoretical_percent", "occupancy(256, registers, reserved)"}},
              .ask = "Why 16.5 sectors per load at D = 408, and not 32?",
              .answer =
                  "Each multiply-add takes two loads. The point's coordinate lies D words away from the "
                  "neighbour's, so 32 lanes touch 32 sectors. The centroid's is the same word for all lanes: "
                  "one sector. The mean of 32 and 1 is 16.5.")
