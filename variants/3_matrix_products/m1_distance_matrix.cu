// m1: a K x N matrix of all distances in global memory, one thread per (point, centroid) pair, and four kernels per
// iteration: clear the sums, fill the matrix, argmin of each point's distances and add the point up, divide. A root of
// the ladder, of another family than v01: N x K threads instead of N, and no loop over centroids in the distance
// kernel. The price is K x N numbers written and read once per iteration, and memory for them.
#include "../../harness/contract/lesson.hpp"
#include "../common/lloyd/distance_matrix.cuh"

namespace {
using namespace ladder;

constexpr int side = 16;  // a block is side x side pairs

template <class T>
__global__ void distance_kernel(const T* x, const T* c, T* distance, int n, int k, int d) {
  const int i = blockIdx.x * side + threadIdx.x, j = blockIdx.y * side + threadIdx.y;
  if (i >= n || j >= k) return;
  T sum = 0;
  for (int f = 0; f < d; ++f) {
    const T diff = x[size_t(i) * d + f] - c[size_t(j) * d + f];
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
  launch(distance_kernel<T>, dim3(blocks(s.n, side), blocks(s.k, side)), dim3(side, side), 0, s.stream, s.x, s.c,
         distance, s.n, s.k, s.d);
  launch(sum_nearest_kernel<T>, blocks(s.n, 256), 256, 0, s.stream, s.x, distance, s.label, sums.sum, sums.count, s.n,
         s.k, s.d);
  launch(mean_kernel<T>, blocks(s.k, 256), 256, 0, s.stream, sums.sum, sums.count, s.c, s.k, s.d);
}

std::string refuse(const Shape& p, const Device& device, const Axes&) { return refuse_matrix(p, device); }

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare_matrix<T>,
                                         .upload = upload_rows<T>,
                                         .restart = restart_rows<T>,
                                         .iterate = iterate<T>,
                                         .download = download_rows<T>};
}  // namespace

LADDER_VARIANT(.id = "m1_distance_matrix", .base = "", .idea = "a K x N matrix of distances, one thread per pair",
               .expect =
                   "the paper: ten times an optimised serial code; here every pair reads 2 x D words of global "
                   "memory, so the caches are the limit, and v01 beats it where N alone fills the GPU",
               .shows = "iteration", .source = "003, kernels of section V.A", .refuse = refuse, .f32 = phases<float>,
               .f64 = phases<double>)

LADDER_LESSON(.predict = {{"load_requests", "2 * N * K * D / 32"},
                          {"sectors_per_load", "(16 + 2) / 2"},
                          {"dram_bytes", "from_dram(N * D * B, ceil(K / 16)) + N * K * B"},
                          {"multiply_adds", "N * K * D"},
                          {"additions", "multiply_adds"},
                          {"occupancy_theoretical_percent", "occupancy(256, registers, reserved)"}},
              .ask = "Why 9 sectors per load? A block is 16 points by 16 centroids.",
              .answer =
                  "A warp is two rows of the block: 16 points and 2 centroids. Rows lie D words apart, so a "
                  "load of points touches 16 sectors, one of centroids 2, and the mean is 9.")
