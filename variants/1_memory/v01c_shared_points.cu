// v01c: a block first copies its points to shared memory; the centroids stay in constant memory. This is source 002's
// revision 1.2, on a Fermi card. In v01a each thread reads its point's D coordinates from global memory once per
// centroid, D words away from its neighbour's. The copy is coalesced, each coordinate is fetched once, and the K x D
// reads that follow stay inside the multiprocessor. 256 points must fit shared memory, so D is small. Axis: the split
// of a multiprocessor's 256 KB between L1 and shared memory (16:48 or 48:16 KB on Fermi).
#include "../../harness/contract/lesson.hpp"
#include "../common/lloyd/phases.cuh"

namespace {
using namespace ladder;

constexpr size_t constant_bytes = 64 << 10;
__constant__ __align__(16) unsigned char constant_centroids[constant_bytes];  // k x d of T, row-major

constexpr int block = 256;

template <class T>
__global__ void assign_kernel(const T* x, int32_t* label, int n, int k, int d) {
  const T* c = reinterpret_cast<const T*>(constant_centroids);
  T* points = dynamic_shared<T>();  // block x d
  const int first = blockIdx.x * block, i = first + threadIdx.x;
  for (int e = threadIdx.x; e < min(block, n - first) * d; e += block) points[e] = x[size_t(first) * d + e];
  __syncthreads();  // other threads have copied this thread's coordinates
  if (i >= n) return;
  T nearest = std::numeric_limits<T>::infinity();
  int best = 0;
  for (int j = 0; j < k; ++j) {
    T distance = 0;
    for (int f = 0; f < d; ++f) {
      const T diff = points[threadIdx.x * d + f] - c[j * d + f];
      distance += diff * diff;
    }
    if (distance < nearest) nearest = distance, best = j;
  }
  label[i] = best;
}

template <class T>
void assign(State<T>& s) {
  const size_t bytes = size_t(s.k) * s.d * sizeof(T);
  check(cudaMemcpyToSymbolAsync(constant_centroids, s.c, bytes, 0, cudaMemcpyDeviceToDevice, s.stream),
        "copying the centroids to constant memory");
  set_carveout(assign_kernel<T>, s.axis("carveout"));
  launch(assign_kernel<T>, blocks(s.n, block), block, block * s.d * sizeof(T), s.stream, s.x, s.label, s.n, s.k, s.d);
}

std::string refuse(const Shape& p, const Device& device, const Axes&) {
  const size_t bytes = size_t(p.k) * p.d * p.element_bytes, shared = size_t(block) * p.d * p.element_bytes;
  if (bytes > constant_bytes) {
    return "centroids need " + std::to_string(bytes) + " bytes, constant memory holds " +
           std::to_string(constant_bytes);
  }
  if (shared <= device.shared_bytes_optin) return "";
  return "256 points of D = " + std::to_string(p.d) + " need " + std::to_string(shared) +
         " bytes of shared memory, a block has " + std::to_string(device.shared_bytes_optin);
}

template <class T>
constexpr Phases<T> phases{.prepare = prepare_device<T>,
                           .upload = upload_rows<T>,
                           .restart = restart_rows<T>,
                           .assign = assign<T>,
                           .update = update_on_host<T>,
                           .download = download_rows<T>};
}  // namespace

LADDER_VARIANT(.id = "v01c_shared_points", .base = "v01a_constant",
               .idea = "points staged in shared memory by the block",
               .expect =
                   "C2075: +27.5 %, memory use -20 %; at D = 2 today's L1 holds a block's points anyway, so a few "
                   "per cent; at D = 100 a block takes 100 KB and occupancy falls to two blocks",
               .shows = "assign", .counter = "load_requests", .source = "002 r1.2",
               .axes = {{"carveout", {-1, 0, 25, 50, 75, 100}, -1}}, .refuse = refuse, .f32 = phases<float>,
               .f64 = phases<double>)

LADDER_LESSON(.predict = {{"load_requests", "N * D / 32"},
                          {"sectors_per_load", "B"},
                          {"dram_bytes", "N * D * B"},
                          {"multiply_adds", "N * K * D"},
                          {"additions", "multiply_adds"},
                          {"shared_bytes", "reserved + 256 * D * B"},
                          {"bank_conflicts_load", "2 * N * K * D / 32", "points2d*"},
                          {"occupancy_theoretical_percent", "occupancy(256, registers, shared_bytes)"}},
              .ask =
                  "Loads from global memory fall by a factor of K = 100. Why does the assignment gain so "
                  "little?",
              .answer =
                  "At D = 2 the points of a block are 4 KB, which L1 held anyway: v01a's loads were hits. The K "
                  "x D reads per thread are still there, now from shared memory, with two extra turns each, as "
                  "neighbouring lanes lie two doubles apart.")
