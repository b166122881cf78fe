// v02: page-locked host buffers. The copy engine cannot read pageable memory: v01's driver first copies each block into
// a page-locked buffer and sends it on from there. Here points, labels and centroids live in page-locked memory
// (prepare_pinned), and every copy is one transfer at the speed of the bus.
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
constexpr Phases<T> phases{.prepare = prepare_pinned<T>,
                           .upload = upload_rows<T>,
                           .restart = restart_rows<T>,
                           .assign = assign<T>,
                           .update = update_on_host<T>,
                           .download = download_rows<T>};
}  // namespace

LADDER_VARIANT(.id = "v02_pinned", .base = "v01_global", .idea = "page-locked host buffers",
               .expect = "copies 2 to 8 times faster; assign unchanged", .shows = "end_to_end", .source = "002 r1.1",
               .f32 = phases<float>, .f64 = phases<double>)

LADDER_LESSON(.predict = {{"load_requests", "2 * N * K * D / 32"},
                          {"sectors_per_load", "(min(32, D * B) + 1) / 2"},
                          {"dram_bytes", "from_dram(N * D * B, K)"},
                          {"multiply_adds", "N * K * D"},
                          {"additions", "multiply_adds"},
                          {"occupancy_theoretical_percent", "occupancy(256, registers, reserved)"}},
              .ask =
                  "No counter of the kernel moves. In which scope does the rung show, and what is the most that "
                  "it can gain there?",
              .answer =
                  "In whole runs: upload, download, and the labels and centroids that cross the bus in each "
                  "iteration. Only the copies get faster, so the gain ends where the kernel's time begins: "
                  "large at small K x D, nothing at K = 5000.")
