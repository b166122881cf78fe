// v13a: a warp labels a point, its lanes share the features: they read 32 neighbouring coordinates of one point and one
// centroid, and reduce their partial products by shuffles. In v13 a thread does all features of its points alone, and
// needs points stored feature by feature for coalesced loads; here rows are coalesced too, D may be anything, and
// neighbouring points may branch differently at no cost. The price: 5 shuffles and additions per distance, and a
// centroid's coordinate serves one point only.
#include "../../harness/contract/lesson.hpp"
#include "../common/device/warp.cuh"
#include "../common/lloyd/norms.cuh"
#include "../common/update/choose_update.cuh"

namespace {
using namespace ladder;

template <class T>
__global__ void assign_kernel(const T* __restrict__ x, const T* __restrict__ c, const T* __restrict__ norm,
                              int32_t* __restrict__ label, int n, int k, int d) {
  const int i = int((blockIdx.x * int64_t(blockDim.x) + threadIdx.x) / 32), lane = threadIdx.x % 32;
  if (i >= n) return;  // a whole warp at a time
  T nearest = std::numeric_limits<T>::infinity();
  int best = 0;
  for (int j = 0; j < k; ++j) {
    T product = 0;
    for (int f = lane; f < d; f += 32) product += x[size_t(i) * d + f] * c[size_t(j) * d + f];
    const T distance = norm[j] - 2 * warp_sum(product);  // all lanes have the sum, bit by bit the same
    if (distance < nearest) nearest = distance, best = j;
  }
  if (lane == 0) label[i] = best;
}

template <class T>
struct Workspace {
  Norms<T> norms;
  Sums sums;
};

template <class T>
void prepare(Run<T, Workspace<T>>& s) {
  prepare_sums(s);
  s.ws.norms.c = s.template device<T>(s.k);
}

template <class T>
void assign(Run<T, Workspace<T>>& s) {
  compute_norms(s);
  launch(assign_kernel<T>, blocks(int64_t(s.n) * 32, 256), 256, 0, s.stream, s.x, s.c, norms(s), s.label, s.n, s.k,
         s.d);
}

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare<T>,
                                         .upload = upload_rows<T>,
                                         .restart = restart_rows<T>,
                                         .assign = assign<T>,
                                         .update = update_any<T, Layout::rows>,
                                         .download = download_rows<T>};
}  // namespace

LADDER_VARIANT(.id = "v13a_warp_centric", .base = "v13_norms", .idea = "a warp per point, lanes over features",
               .expect =
                   "two loads per multiply-add and 10 instructions to add up each distance: several times slower "
                   "than v13 on large K x D, useless below D = 32; it pays where the threads of a warp would diverge. "
                   "A larger step: v13's tiles go, and its several points per thread",
               .shows = "assign", .counter = "load_requests", .source = "Cordeiro and Zola, ICPADS 2024 (cited by 001)",
               .arithmetic = {.form = Arithmetic::Form::expanded}, .f32 = phases<float>, .f64 = phases<double>)

LADDER_LESSON(.predict = {{"load_requests", "N * K * (2 * ceil(D / 32) + 1)"},
                          {"sectors_per_load", "(2 * ceil(D * B / 32) + 1) / (2 * ceil(D / 32) + 1)"},
                          {"dram_bytes", "N * D * B"},
                          {"multiply_adds", "N * K * D"},
                          {"additions", "N * K * 7 * 32"},
                          {"occupancy_theoretical_percent", "occupancy(256, registers, reserved)"}},
              .ask =
                  "Device memory delivers the points once instead of 157 times, occupancy is 100 %, and it is "
                  "slower. Why?",
              .answer =
                  "A warp keeps its point in L1 while it goes through all centroids, so the points are read "
                  "once. But each lane loads a coordinate of the point and one of a centroid for each "
                  "multiply-add: two loads instead of 1/32 + 1/512, and then come the five steps of the "
                  "reduction. L1 is the limit.")
