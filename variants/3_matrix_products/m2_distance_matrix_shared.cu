// m2: a block first copies the coordinates of its 16 points and its 16 centroids to shared memory, and its 256 threads
// read them there. In m1, 16 threads of a block fetch each coordinate from global memory. A block needs 32 x D numbers
// of shared memory; a problem where that is more than it can have is refused.
#include "../../harness/contract/lesson.hpp"
#include "../common/lloyd/distance_matrix.cuh"

namespace {
using namespace ladder;

constexpr int side = 16;  // a block is side x side pairs
size_t shared_bytes(int d, size_t element_bytes) { return 2 * side * size_t(d) * element_bytes; }

template <class T>
__global__ void distance_kernel(const T* x, const T* c, T* distance, int n, int k, int d) {
  T* points = dynamic_shared<T>();   // d x side: the 16 points of a feature lie in 16 banks
  T* centroids = points + side * d;  // d x side
  const int first_i = blockIdx.x * side, first_j = blockIdx.y * side;
  for (int e = threadIdx.y * side + threadIdx.x; e < side * d; e += side * side) {
    const int t = e / d, f = e % d;
    if (first_i + t < n) points[f * side + t] = x[size_t(first_i + t) * d + f];
    if (first_j + t < k) centroids[f * side + t] = c[size_t(first_j + t) * d + f];
  }
  __syncthreads();  // other threads have copied the coordinates that a thread needs
  const int i = first_i + threadIdx.x, j = first_j + threadIdx.y;
  if (i >= n || j >= k) return;
  T sum = 0;
  for (int f = 0; f < d; ++f) {
    const T diff = points[f * side + threadIdx.x] - centroids[f * side + threadIdx.y];
    sum += diff * diff;
  }
  distance[size_t(j) * n + i] = sum;
}

template <class T>
struct Workspace {
  Matrix<T> matrix;
  Sums sums;
};

template <class T>
void iterate(Run<T, Workspace<T>>& s) {
  const Sums& sums = s.ws.sums;
  T* distance = s.ws.matrix.distance;
  launch(clear_clusters_kernel, blocks(s.k, 256), 256, 0, s.stream, sums.sum, sums.count, s.k, s.d);
  launch(distance_kernel<T>, dim3(blocks(s.n, side), blocks(s.k, side)), dim3(side, side), shared_bytes(s.d, sizeof(T)),
         s.stream, s.x, s.c, distance, s.n, s.k, s.d);
  launch(sum_nearest_kernel<T>, blocks(s.n, 256), 256, 0, s.stream, s.x, distance, s.label, sums.sum, sums.count, s.n,
         s.k, s.d);
  launch(mean_kernel<T>, blocks(s.k, 256), 256, 0, s.stream, sums.sum, sums.count, s.c, s.k, s.d);
}

std::string refuse(const Shape& p, const Device& device, const Axes&) {
  const size_t bytes = shared_bytes(p.d, p.element_bytes);
  if (bytes <= device.shared_bytes_optin) return refuse_matrix(p, device);
  return "16 points and 16 centroids of D = " + std::to_string(p.d) + " need " + std::to_string(bytes) +
         " bytes of shared memory, a block has " + std::to_string(device.shared_bytes_optin);
}

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare_matrix<T>,
                                         .upload = upload_rows<T>,
                                         .restart = restart_rows<T>,
                                         .iterate = iterate<T>,
                                         .download = download_rows<T>};
}  // namespace

LADDER_VARIANT(.id = "m2_distance_matrix_shared", .base = "m1_distance_matrix",
               .idea = "a block's points and centroids staged in shared memory",
               .expect =
                   "the paper: 30 % faster than m1; since then L1 caches global loads too, so less, and at D = 408 "
                   "52 KB a block leave few blocks per multiprocessor",
               .shows = "iteration", .counter = "load_requests", .source = "003, algorithm 3", .refuse = refuse,
               .f32 = phases<float>, .f64 = phases<double>)

LADDER_LESSON(.predict = {{"load_requests", "ceil(N / 16) * ceil(K / 16) * 32 * D / 32"},
                          {"sectors_per_load", "B"},
                          {"dram_bytes", "from_dram(N * D * B, ceil(K / 16)) + N * K * B"},
                          {"multiply_adds", "N * K * D"},
                          {"additions", "multiply_adds"},
                          {"shared_bytes", "reserved + 32 * D * B"},
                          {"occupancy_theoretical_percent", "occupancy(256, registers, shared_bytes)"}},
              .ask =
                  "Loads fall from 2 to 1/8 per multiply-add, but device memory moves as many bytes as before. "
                  "Why?",
              .answer =
                  "The matrix decides: each row of blocks needs all points again, K / 16 = 313 times 490 MB, "
                  "and L1 never held them. Shared memory saves the loads of a block's 256 threads from each "
                  "other, not those of other blocks.")
