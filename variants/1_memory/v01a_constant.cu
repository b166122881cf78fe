// v01a: centroids in constant memory. All threads of a warp read the same centroid entry at the same time, and the
// constant cache broadcasts one word to all 32 lanes; v01 sends each such read through the load/store unit and L1,
// where it competes with the points. Constant memory holds 64 KB: more centroids than that are refused.
#include "../../harness/contract/lesson.hpp"
#include "../common/lloyd/phases.cuh"

namespace {
using namespace ladder;

constexpr size_t constant_bytes = 64 << 10;
__constant__ __align__(16) unsigned char constant_centroids[constant_bytes];  // k x d of T, row-major

template <class T>
__global__ void assign_kernel(const T* x, int32_t* label, int n, int k, int d) {
  const T* c = reinterpret_cast<const T*>(constant_centroids);
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  T nearest = std::numeric_limits<T>::infinity();
  int best = 0;
  for (int j = 0; j < k; ++j) {
    T distance = 0;
    for (int f = 0; f < d; ++f) {
      const T diff = x[size_t(i) * d + f] - c[j * d + f];
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
  launch(assign_kernel<T>, blocks(s.n, 256), 256, 0, s.stream, s.x, s.label, s.n, s.k, s.d);
}

std::string refuse(const Shape& p, const Device&, const Axes&) {
  const size_t bytes = size_t(p.k) * p.d * p.element_bytes;
  if (bytes <= constant_bytes) return "";
  return "centroids need " + std::to_string(bytes) + " bytes, constant memory holds " + std::to_string(constant_bytes);
}

template <class T>
constexpr Phases<T> phases{.prepare = prepare_device<T>,
                           .upload = upload_rows<T>,
                           .restart = restart_rows<T>,
                           .assign = assign<T>,
                           .update = update_on_host<T>,
                           .download = download_rows<T>};
}  // namespace

LADDER_VARIANT(.id = "v01a_constant", .base = "v01_global", .idea = "centroids in constant memory",
               .expect = "centroid loads leave L1: assign faster where K x D fits 64 KB", .shows = "assign",
               .counter = "load_requests", .source = "001, 002 r1.1", .refuse = refuse, .f32 = phases<float>,
               .f64 = phases<double>)

LADDER_LESSON(.predict = {{"load_requests", "ceil(N / 32) * K * D"},
                          {"sectors_per_load", "min(32, D * B)"},
                          {"dram_bytes", "from_dram(N * D * B, K)"},
                          {"multiply_adds", "N * K * D"},
                          {"additions", "multiply_adds"},
                          {"occupancy_theoretical_percent", "occupancy(256, registers, reserved)"}},
              .ask = "Half of the loads are gone. Why do sectors per load rise at the same time?",
              .answer =
                  "The loads that went are those of centroids, and these were the cheap ones: one sector each. "
                  "What is left are the points' loads of D x B bytes between neighbours, 16 sectors for two "
                  "doubles. Fewer requests, a worse mean.")
