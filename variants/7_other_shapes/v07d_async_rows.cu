// v07d: asynchronous copies. v07c's lanes load 32 points to registers and store them to shared memory, a few loads at a
// time, and wait for each group. cp.async copies to shared memory past the registers: a warp starts the copies of all
// 32 points of its next tile as soon as it is done with this one, and while it waits the other warps compute.
#include <cuda_pipeline.h>

#include "../common/lloyd/vector_load.cuh"

namespace {
using namespace ladder;

constexpr int group = 8;  // centroids whose distances a lane sums at a time

/// Rows of `vectors` times 16 bytes, zeros behind the last feature.
template <class T>
__device__ int nearest_centroid(const Vec16<T>* point, const Vec16<T>* centroids, int k, int vectors) {
  T nearest = std::numeric_limits<T>::infinity();
  int best = 0;
  for (int first = 0; first < k; first += group) {
    T distance[group] = {};
    for (int v = 0; v < vectors; ++v) {
      const Vec16<T> coordinates = point[v];
#pragma unroll
      for (int j = 0; j < group; ++j)
        if (first + j < k) add_squares(distance[j], coordinates, centroids[(first + j) * vectors + v]);
    }
#pragma unroll
    for (int j = 0; j < group; ++j)
      if (first + j < k && distance[j] < nearest) nearest = distance[j], best = first + j;
  }
  return best;
}

/// Starts the copies of the rows first .. first + 31 of x, as far as there are n, and commits them.
template <class T>
__device__ void start_copy(T* tile, const T* x, int64_t first, int n, int d, int pitch) {
  const int width = d % Vec16<T>::size == 0 ? Vec16<T>::size : 1;  // 16 bytes where all rows begin at a multiple of 16
  for (int64_t i = first; i < min(int64_t(n), first + 32); ++i, tile += pitch) {
    for (int f = threadIdx.x % 32 * width; f < d; f += 32 * width) {
      if (width == 1)
        __pipeline_memcpy_async(tile + f, x + i * d + f, sizeof(T));
      else
        __pipeline_memcpy_async(tile + f, x + i * d + f, 16);
    }
  }
  __pipeline_commit();
}

template <class T>
__device__ void add_features(double (&part)[Vec16<T>::size], const Vec16<T>& point) {
  for (int e = 0; e < Vec16<T>::size; ++e) part[e] += point.feature[e];
}

/// Behind the features of a cluster's sums stands its count.
template <class T>
__global__ void fused_kernel(const T* x, const T* c, int32_t* label, double* sum, int* count, int n, int k, int d) {
  constexpr int size = Vec16<T>::size;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  const int vectors = (d + size - 1) / size, width = vectors * size, values = k * (width + 1);
  const int pitch = (vectors | 1) * size;    // an odd number of vectors: 8 lanes read theirs from 32 banks
  T* const centroids = dynamic_shared<T>();  // k x width
  T* const tile = centroids + k * width + warp * 32 * pitch;  // 32 x pitch, the warp's own
  T* const tiles_end = centroids + k * width + warps * 32 * pitch;
  double* const sums = reinterpret_cast<double*>(tiles_end) + warp * values;  // k x (width + 1), the warp's own
  for (T* e = centroids + threadIdx.x; e < tiles_end; e += blockDim.x) *e = 0;
  __syncthreads();
  for (int e = threadIdx.x; e < k * d; e += blockDim.x) centroids[e / d * width + e % d] = c[e];
  for (int e = lane; e < values; e += 32) sums[e] = 0;
  __syncthreads();
  const int64_t step = int64_t(gridDim.x) * warps * 32;
  int64_t first = (int64_t(blockIdx.x) * warps + warp) * 32;
  start_copy(tile, x, first, n, d, pitch);
  for (; first < n; first += step) {
    const int points = min(32, int(n - first));
    __pipeline_wait_prior(0);
    __syncwarp();
    int best = -1;
    const auto* const point = reinterpret_cast<const Vec16<T>*>(tile + lane * pitch);
    if (lane < points)
      label[first + lane] = best = nearest_centroid(point, reinterpret_cast<Vec16<T>*>(centroids), k, vectors);
    for (int j = 0; j < k; ++j) {
      const unsigned members = __ballot_sync(0xffffffffu, best == j);
      if (members == 0) continue;
      if (lane == 0) sums[j * (width + 1) + width] += __popc(members);
      for (int v = lane; v < vectors; v += 32) {
        double part[size] = {};
        for (unsigned m = members; m != 0; m &= m - 1)
          add_features(part, reinterpret_cast<const Vec16<T>*>(tile + (__ffs(m) - 1) * pitch)[v]);
        for (int e = 0; e < size; ++e) sums[j * (width + 1) + v * size + e] += part[e];
      }
    }
    __syncwarp();  // the tile is free for the next points
    start_copy(tile, x, first + step, n, d, pitch);
  }
  for (int e = lane; e < values; e += 32) {
    const int j = e / (width + 1), f = e % (width + 1);
    if (f < d)
      atomicAdd(&sum[j * d + f], sums[e]);
    else if (f == width)
      atomicAdd(&count[j], int(sums[e]));
  }
}

template <class T>
struct Workspace {
  Sums sums;
};

/// Shared memory of a block.
size_t bytes(const Shape& p, int warps) {
  const size_t vectors = blocks(int64_t(p.d) * p.element_bytes, 16);
  return 16 * vectors * p.k +
         warps * (sizeof(double) * p.k * (vectors * (16 / p.element_bytes) + 1) + 16 * 32 * (vectors | 1));
}

template <class T>
void iterate(Run<T, Workspace<T>>& s) {
  int warps = 16;
  while (bytes(s.problem, warps) > s.device_info.shared_bytes_optin) --warps;
  const int grid = std::min(s.device_info.multiprocessors, blocks(s.n, 32 * warps));
  clear_sums(s);
  launch(fused_kernel<T>, grid, 32 * warps, bytes(s.problem, warps), s.stream, s.x, s.c, s.label, s.ws.sums.sum,
         s.ws.sums.count, s.n, s.k, s.d);
  divide(s);
}

std::string refuse(const Shape& p, const Device& device, const Axes&) {
  if (bytes(p, 1) <= device.shared_bytes_optin) return "";
  return "32 points and the sums of all clusters take " + std::to_string(bytes(p, 1)) +
         " bytes of shared memory, a block has " + std::to_string(device.shared_bytes_optin) + ": take fewer clusters";
}

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare_sums<T>,
                                         .upload = upload_rows<T>,
                                         .restart = restart_rows<T>,
                                         .iterate = iterate<T>,
                                         .download = download_rows<T>};
}  // namespace

LADDER_VARIANT(.id = "v07d_async_rows", .base = "v07c_wide_sums",
               .idea = "points copied to shared memory by cp.async: no registers, and a whole tile under way at once",
               .expect =
                   "4.8 TB/s at a latency near 800 ns need 29 KB under way on each multiprocessor. v07c's 10 warps "
                   "have eight loads of a lane each, 10 KB; a tile's 12.8 KB for each warp that waits are enough with "
                   "three of 10 waiting. On blobs30 the loads hide behind the 850 cycles of arithmetic a tile: 1.05 "
                   "ms an iteration on an H200",
               .shows = "iteration", .counter = "dram_percent", .source = "this project", .refuse = refuse,
               .f32 = phases<float>, .f64 = phases<double>)
