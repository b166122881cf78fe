// v07c: four features per lane in the sums. v07b's update of a tile takes 1,100 instructions, a fourth of all: for each
// point and each 32 of its features a lane finds the point's row, reads one number and adds it. Here it reads 16 bytes
// and adds four features for the same effort.
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
  for (int64_t first = (int64_t(blockIdx.x) * warps + warp) * 32; first < n; first += int64_t(gridDim.x) * warps * 32) {
    const int points = min(32, int(n - first));
#pragma unroll 8
    for (int r = 0; r < points; ++r)
      for (int f = lane; f < d; f += 32) tile[r * pitch + f] = x[(first + r) * d + f];
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

LADDER_VARIANT(.id = "v07c_wide_sums", .base = "v07b_register_block",
               .idea = "sums of four neighbouring features per lane: a row is found once for 128 of them",
               .expect =
                   "for 32 points of blobs30 500 instructions in place of 1,100, of 4,000 in all: 10 to 15 % of the "
                   "iteration on an H200. No gain where D is far below 128 floats: lanes without features wait",
               .shows = "iteration", .counter = "sm_percent", .source = "this project", .refuse = refuse,
               .f32 = phases<float>, .f64 = phases<double>)
