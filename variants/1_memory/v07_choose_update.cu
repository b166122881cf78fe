// v07: the update is chosen by the problem's shape. v06 refuses a K for which not even one feature's sums fit shared
// memory (some 19,000), and for a few thousand points its blocks are too few to fill the device. In both cases v03's
// atomics in global memory come back, for points stored feature by feature (update/choose_update.cuh). Later rungs keep
// this choice.
#include "../../harness/contract/lesson.hpp"
#include "../common/lloyd/feature_major.cuh"
#include "../common/update/choose_update.cuh"

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
                                         .update = update_any<T, Layout::features>,
                                         .download = download_rows<T>};
}  // namespace

LADDER_VARIANT(.id = "v07_choose_update", .base = "v06_lane_sums",
               .idea = "the update that suits the shape: sums per lane, per block, or atomics in global memory",
               .expect =
                   "nothing changes on kmcuda, whose 300,000 points and 5,000 clusters keep sums per block. Where K is "
                   "above 64 and the points fill fewer blocks than the device has multiprocessors (wine at K = 900: 2 "
                   "blocks of 3,600 points each), the update gets several times faster; and any K is accepted",
               .shows = "update", .counter = "occupancy_achieved_percent", .source = "this project",
               .f32 = phases<float>, .f64 = phases<double>)

LADDER_LESSON(.predict = {{"global_atomics", "N * (D + 1) / 32", "wine_k900"},
                          {"load_requests", "N * (2 * D + 1) / 32", "wine_k900"}},
              .ask = "With 6,497 points and K = 900 the slower kind of atomics wins. Why?",
              .answer =
                  "Sums per block pay from many times K points per block on: 4 K = 3,600, so two blocks of rows "
                  "for 132 multiprocessors. Atomics in global memory have N x D threads at once, and with K x D "
                  "= 9,900 addresses few of them meet.")
