// v02b: centroids pass through constant memory chunk by chunk, so that K is not limited by its 64 KB: v02 refuses what
// does not fit at once. A launch per chunk keeps each point's least distance so far, and its label, in global memory;
// they are read and written once per chunk. One centroid must still fit whole.
#include "parts/phases.cuh"

namespace {
using namespace ladder;

constexpr size_t constant_bytes = 64 << 10;
__constant__ __align__(16) unsigned char constant_centroids[constant_bytes];  // k x d of T, row-major

template <class T>
struct Least {
  T* distance = nullptr;  // n, over the chunks so far
};

template <class T>
struct Own {
  Least<T> least;
};

template <class T>
void prepare(Run<T, Own<T>>& s) {
  prepare_device(s);
  s.own.least.distance = s.template device<T>(s.n);
}

/// The centroids first .. first + k - 1 are in constant memory.
template <class T>
__global__ void assign_kernel(const T* x, T* least, int32_t* label, int first, int n, int k, int d) {
  const T* c = reinterpret_cast<const T*>(constant_centroids);
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  T nearest = first == 0 ? std::numeric_limits<T>::infinity() : least[i];
  int best = first == 0 ? 0 : label[i];
  for (int j = 0; j < k; ++j) {
    T distance = 0;
    for (int f = 0; f < d; ++f) {
      const T diff = x[size_t(i) * d + f] - c[j * d + f];
      distance += diff * diff;
    }
    if (distance < nearest) nearest = distance, best = first + j;
  }
  least[i] = nearest;
  label[i] = best;
}

template <class T>
void assign(Run<T, Own<T>>& s) {
  T* least = s.own.least.distance;
  const int chunk = int(constant_bytes / (s.d * sizeof(T)));
  for (int64_t first = 0; first < s.k; first += chunk) {
    const int k = int(std::min<int64_t>(chunk, s.k - first));
    const size_t bytes = size_t(k) * s.d * sizeof(T);
    // In the stream's order: the copy waits for the launch before it, which still reads the chunk before.
    check(cudaMemcpyToSymbolAsync(constant_centroids, s.c + first * s.d, bytes, 0, cudaMemcpyDeviceToDevice, s.stream),
          "copying the centroids to constant memory");
    launch(assign_kernel<T>, blocks(s.n, 256), 256, 0, s.stream, s.x, least, s.label, first, s.n, k, s.d);
  }
}

std::string refuse(const Shape& p, const Device&, const Axes&) {
  const size_t bytes = size_t(p.d) * p.element_bytes;
  if (bytes <= constant_bytes) return "";
  return "a centroid needs " + std::to_string(bytes) + " bytes, constant memory has " + std::to_string(constant_bytes);
}

template <class T>
constexpr Phases<T, Own<T>> phases{.prepare = prepare<T>,
                                   .upload = upload_rows<T>,
                                   .restart = restart_rows<T>,
                                   .assign = assign<T>,
                                   .update = update_on_host<T>,
                                   .download = download_rows<T>};
}  // namespace

LADDER_VARIANT(.id = "v02b_constant_chunks", .base = "v02_constant",
               .idea = "centroids pass through constant memory chunk by chunk",
               .expect =
                   "any K; as fast as v02 where one chunk is enough, and 12 bytes of global traffic per point and "
                   "chunk more where not: little beside D coordinates per centroid",
               .shows = "assign", .counter = "constant_hit_percent",
               .source = "001's open limit (80 KB of centroids at D = 2000 did not compile)", .refuse = refuse,
               .f32 = phases<float>, .f64 = phases<double>)
