// v03: the device computes the new centroids, so nothing crosses the bus during an iteration; v02 moved all labels down
// and all centroids up, and left the device idle while one host thread added up N x D numbers. The price: every thread
// adds its point with D atomics to the sums of its cluster in global memory, and where K is small, thousands of threads
// queue for the same few addresses.
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
struct Workspace {
  Sums sums;
};

template <class T>
void assign(State<T>& s) {
  launch(assign_kernel<T>, blocks(s.n, 256), 256, 0, s.stream, s.x, s.c, s.label, s.n, s.k, s.d);
}

template <class T>
__global__ void sum_kernel(const T* x, const int32_t* label, double* sum, int* count, int n, int d) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const int j = label[i];
  for (int f = 0; f < d; ++f) atomicAdd(&sum[size_t(j) * d + f], double(x[size_t(i) * d + f]));
  atomicAdd(&count[j], 1);
}

template <class T>
void update(Run<T, Workspace<T>>& s) {
  const Sums& sums = s.ws.sums;
  clear_sums(s);
  launch(sum_kernel<T>, blocks(s.n, 256), 256, 0, s.stream, s.x, s.label, sums.sum, sums.count, s.n, s.d);
  divide(s);
}

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare_sums<T>,
                                         .upload = upload_rows<T>,
                                         .restart = restart_rows<T>,
                                         .assign = assign<T>,
                                         .update = update<T>,
                                         .download = download_rows<T>};
}  // namespace

LADDER_VARIANT(.id = "v03_device_update", .base = "v02_pinned", .idea = "new centroids on the device, global atomics",
               .expect = "no copies during an iteration; update bound by atomics on K x D addresses",
               .shows = "iteration", .source = "001 naive, 002's feedback", .f32 = phases<float>, .f64 = phases<double>)

LADDER_LESSON(.predict = {{"load_requests", "2 * N * K * D / 32"},
                          {"sectors_per_load", "(min(32, D * B) + 1) / 2"},
                          {"dram_bytes", "from_dram(N * D * B, K)", "kmcuda"},
                          {"multiply_adds", "N * K * D"},
                          {"additions", "multiply_adds"},
                          {"update.global_atomics", "ceil(N / 32) * (D + 1)"},
                          {"update.load_requests", "ceil(N / 32) * (D + 1)"},
                          {"occupancy_theoretical_percent", "occupancy(256, registers, reserved)"}},
              .ask =
                  "K = 5000 or K = 10: the number of atomics per point is the same. Why is the second so much "
                  "slower per atomic?",
              .answer =
                  "D + 1 atomics per point either way, but on K x (D + 1) addresses. With K = 10 ten clusters "
                  "share all of them, and atomics on one address take turns in L2.")
