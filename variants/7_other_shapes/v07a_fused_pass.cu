// v07a: each point is read once per iteration. With few clusters there is little arithmetic and an iteration waits for
// memory, yet v07 reads all points twice: in the assignment and again in the update. Here one kernel does both. A warp
// copies 32 points to shared memory, finds their labels with a lane per point, and adds them to the sums of their
// clusters with a lane per feature. The sums are the warp's own, in shared memory: no atomic until the kernel ends.
#include "../common/lloyd/phases.cuh"

namespace {
using namespace ladder;

template <class T>
__device__ int nearest_centroid(const T* point, const T* c, int k, int d) {
  T nearest = std::numeric_limits<T>::infinity();
  int best = 0;
  for (int j = 0; j < k; ++j) {
    T distance = 0;
    for (int f = 0; f < d; ++f) {
      const T diff = point[f] - c[j * d + f];
      distance += diff * diff;
    }
    if (distance < nearest) nearest = distance, best = j;  // <, not <=: on a tie the lowest index stays
  }
  return best;
}

/// Feature d of every point is 1: its sums are the counts.
template <class T>
__global__ void fused_kernel(const T* x, const T* c, int32_t* label, double* sum, int* count, int n, int k, int d) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  const int pitch = d | 1, values = k * (d + 1);            // an odd pitch: 32 lanes read a feature from 32 banks
  T* const tile = dynamic_shared<T>() + warp * 32 * pitch;  // 32 x pitch, the warp's own, as are
  double* const sums =
      reinterpret_cast<double*>(dynamic_shared<T>() + warps * 32 * pitch) + warp * values;  // k x (d + 1)
  for (int e = lane; e < values; e += 32) sums[e] = 0;
  for (int64_t first = (int64_t(blockIdx.x) * warps + warp) * 32; first < n; first += int64_t(gridDim.x) * warps * 32) {
    const int points = min(32, int(n - first));
#pragma unroll 8
    for (int r = 0; r < points; ++r)
      for (int f = lane; f < d; f += 32) tile[r * pitch + f] = x[(first + r) * d + f];
    __syncwarp();
    int best = -1;
    if (lane < points) label[first + lane] = best = nearest_centroid(tile + lane * pitch, c, k, d);
    for (int j = 0; j < k; ++j) {
      const unsigned members = __ballot_sync(0xffffffffu, best == j);
      for (int f = lane; f <= d && members != 0; f += 32) {
        double part = 0;
        for (unsigned m = members; m != 0; m &= m - 1) part += f < d ? tile[(__ffs(m) - 1) * pitch + f] : T(1);
        sums[j * (d + 1) + f] += part;
      }
    }
    __syncwarp();  // the tile is free for the next points
  }
  for (int e = lane; e < values; e += 32) {
    const int j = e / (d + 1), f = e % (d + 1);
    if (f < d)
      atomicAdd(&sum[j * d + f], sums[e]);
    else
      atomicAdd(&count[j], int(sums[e]));
  }
}

template <class T>
struct Workspace {
  Sums sums;
};

/// Shared memory of a block.
size_t bytes(const Shape& p, int warps) {
  return warps * (sizeof(double) * p.k * (p.d + 1) + p.element_bytes * 32 * (p.d | 1));
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

LADDER_VARIANT(.id = "v07a_fused_pass", .base = "v07_choose_update",
               .idea = "few clusters: assignment and sums in one kernel that reads each point once",
               .expect =
                   "blobs30 is 4.0 GB of points: read once, 0.93 ms on an H200 in place of 1.86. Shared memory "
                   "and L1 set the time instead: for 32 points and K = 10 clusters a warp reads 2,000 times for the "
                   "distances and 128 for the sums, 2,130 cycles of its multiprocessor; 2,370 such tiles for each of "
                   "the 132 take 2.6 ms. The update of its own is gone. Many clusters or features leave room for few "
                   "warps, or for none",
               .shows = "iteration", .counter = "dram_bytes", .source = "this project", .refuse = refuse,
               .f32 = phases<float>, .f64 = phases<double>)
