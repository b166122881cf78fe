// v05: points stored feature by feature (structure of arrays), so that the 32 threads of a warp load 32 neighbouring
// words: coalesced. v04 keeps them point by point: neighbouring threads read D words apart, and one load of a warp
// touches up to 32 sectors of 32 bytes where 4 would do. The transposition, once per upload, is paid in end_to_end.
#include "../../harness/contract/lesson.hpp"
#include "../common/lloyd/feature_major.cuh"
#include "../common/update/block_private.cuh"

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
      const T diff = x[size_t(f) * n + i] - c[size_t(j) * d + f];
      distance += diff * diff;
    }
    if (distance < nearest) nearest = distance, best = j;  // <, not <=: on a tie the lowest index stays
  }
  label[i] = best;
}

template <class T>
struct Workspace {
  Rows<T> rows;
  Sums sums;
};

template <class T>
void assign(State<T>& s) {
  launch(assign_kernel<T>, blocks(s.n, 256), 256, 0, s.stream, s.x, s.c, s.label, s.n, s.k, s.d);
}

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare_features<T>,
                                         .upload = upload_features<T>,
                                         .restart = restart_rows<T>,
                                         .assign = assign<T>,
                                         .update = update_shared<T, Layout::features>,
                                         .download = download_rows<T>};
}  // namespace

LADDER_VARIANT(.id = "v05_soa", .base = "v04_shared_update", .idea = "points stored feature by feature",
               .expect = "sectors per request 32 -> 4; assign bound by arithmetic, not by L1", .shows = "assign",
               .counter = "sectors_per_load", .source = "001 iii, 002 r1.3", .refuse = refuse_update_shared,
               .f32 = phases<float>, .f64 = phases<double>)

LADDER_LESSON(.predict = {{"load_requests", "2 * N * K * D / 32"},
                          {"sectors_per_load", "(B + 1) / 2"},
                          {"dram_bytes", "from_dram(N * D * B, K)"},
                          {"multiply_adds", "N * K * D"},
                          {"additions", "multiply_adds"},
                          {"occupancy_theoretical_percent", "occupancy(256, registers, reserved)"}},
              .ask = "Why 2.5 sectors per load and not 16.5, although there are as many loads as before?",
              .answer =
                  "32 lanes now read 32 neighbouring floats: 128 bytes, 4 sectors. The centroid's word is still "
                  "one sector, and the mean of 4 and 1 is 2.5. The number of loads is that of the "
                  "multiply-adds; the layout cannot change it.")
