// v01b: centroids pass through constant memory chunk by chunk, so that its 64 KB do not limit K: v01a refuses centroids
// that do not fit at once. A launch per chunk keeps each point's lowest distance so far, and its label, in global
// memory; both are read and written once per chunk. One centroid must still fit.
#include "../../harness/contract/lesson.hpp"
#include "../common/lloyd/phases.cuh"

namespace {
using namespace ladder;

constexpr size_t constant_bytes = 64 << 10;
__constant__ __align__(16) unsigned char constant_centroids[constant_bytes];  // k x d of T, row-major

template <class T>
struct Nearest {
  T* distance = nullptr;  // n: the lowest over the chunks so far
};

template <class T>
struct Workspace {
  Nearest<T> nearest;
};

template <class T>
void prepare(Run<T, Workspace<T>>& s) {
  prepare_device(s);
  s.ws.nearest.distance = s.template device<T>(s.n);
}

/// Compares every point with the centroids first .. first + k - 1, which are in constant memory.
template <class T>
__global__ void assign_kernel(const T* x, T* lowest, int32_t* label, int first, int n, int k, int d) {
  const T* c = reinterpret_cast<const T*>(constant_centroids);
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  T nearest = first == 0 ? std::numeric_limits<T>::infinity() : lowest[i];
  int best = first == 0 ? 0 : label[i];
  for (int j = 0; j < k; ++j) {
    T distance = 0;
    for (int f = 0; f < d; ++f) {
      const T diff = x[size_t(i) * d + f] - c[j * d + f];
      distance += diff * diff;
    }
    if (distance < nearest) nearest = distance, best = first + j;
  }
  lowest[i] = nearest;
  label[i] = best;
}

template <class T>
void assign(Run<T, Workspace<T>>& s) {
  T* lowest = s.ws.nearest.distance;
  const int chunk = int(constant_bytes / (s.d * sizeof(T)));
  for (int64_t first = 0; first < s.k; first += chunk) {
    const int k = int(std::min<int64_t>(chunk, s.k - first));
    const size_t bytes = size_t(k) * s.d * sizeof(T);
    // The stream orders this copy behind the launch before it, which still reads the previous chunk.
    check(cudaMemcpyToSymbolAsync(constant_centroids, s.c + first * s.d, bytes, 0, cudaMemcpyDeviceToDevice, s.stream),
          "copying the centroids to constant memory");
    launch(assign_kernel<T>, blocks(s.n, 256), 256, 0, s.stream, s.x, lowest, s.label, first, s.n, k, s.d);
  }
}

std::string refuse(const Shape& p, const Device&, const Axes&) {
  const size_t bytes = size_t(p.d) * p.element_bytes;
  if (bytes <= constant_bytes) return "";
  return "a centroid needs " + std::to_string(bytes) + " bytes, constant memory has " + std::to_string(constant_bytes);
}

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare<T>,
                                         .upload = upload_rows<T>,
                                         .restart = restart_rows<T>,
                                         .assign = assign<T>,
                                         .update = update_on_host<T>,
                                         .download = download_rows<T>};
}  // namespace

LADDER_VARIANT(
        .id = "v01b_constant_chunks", .base = "v01a_constant",
        .idea = "centroids pass through constant memory chunk by chunk",
        .expect =
            "any K; as fast as v01a where one chunk is enough, otherwise 12 bytes more of global traffic per point and "
            "chunk: little beside D coordinates per centroid",
        .shows = "assign", .counter = "constant_hit_percent",
        .source = "001's open limit (80 KB of centroids at D = 2000 did not compile)", .refuse = refuse,
        .f32 = phases<float>, .f64 = phases<double>)

LADDER_LESSON(.predict = {{"chunk", "min(K, floor(65536 / (D * B)))"},
                          {"launches", "ceil(K / chunk)"},
                          {"load_requests", "ceil(N / 32) * (chunk * D + 2)"},
                          {"sectors_per_load", "min(32, D * B)"},
                          {"dram_bytes", "from_dram(N * D * B, chunk)"},
                          {"multiply_adds", "N * D * chunk"},
                          {"additions", "multiply_adds"},
                          {"occupancy_theoretical_percent", "occupancy(256, registers, reserved)"}},
              .ask =
                  "How many launches does an assignment take at K = 5000 and D = 408 in floats, and what does a "
                  "launch read and write beside the points?",
              .answer =
                  "64 KB hold 65536 / (408 x 4) = 40 centroids, so 5000 / 40 = 125 launches. Each reads and "
                  "writes a distance and a label per point: two more loads for 40 x 408, which is why chunks "
                  "cost next to nothing.")
