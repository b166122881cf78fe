// c2: all cores. c1b uses one. Threads split the points, each with sums of its own, which are added up at the end.
//
// link: openmp
#include <omp.h>

#include "../common/cpu/cosine.hpp"

namespace {
using namespace ladder;

constexpr int width = 64;  // centroids per pass: their distances stay in registers and L1

template <class T>
int nearest(const T* x, const T* features, int k, int padded, int d) {
  T nearest = std::numeric_limits<T>::infinity();
  int best = 0;
  for (int first = 0; first < k; first += width) {
    T distance[width] = {};
    for (int f = 0; f < d; ++f) {
      const T* c = features + size_t(f) * padded + first;
#pragma omp simd
      for (int j = 0; j < width; ++j) distance[j] += (x[f] - c[j]) * (x[f] - c[j]);
    }
    for (int j = 0; j < std::min(width, k - first); ++j) {
      if (distance[j] < nearest) nearest = distance[j], best = first + j;
    }
  }
  return best;
}

template <class T>
struct Workspace {
  host::Directions<T> directions;
  std::vector<T> transposed;
  std::vector<host::Sums> thread_sums;
};

template <class T>
void iterate(Run<T, Workspace<T>>& s) {
  const T* c = host::compared_centroids(s);
  auto& features = s.ws.transposed;  // d x k rounded up to width: the centroids transposed
  const int padded = blocks(s.k, width) * width;
  features.resize(size_t(padded) * s.d);
  for (int j = 0; j < s.k; ++j) {
    for (int f = 0; f < s.d; ++f) features[size_t(f) * padded + j] = c[size_t(j) * s.d + f];
  }
  auto& thread = s.ws.thread_sums;
  thread.resize(omp_get_max_threads());
  for (auto& sums : thread) sums.clear(s.k, s.d);
#pragma omp parallel
  {
    auto& sums = thread[omp_get_thread_num()];
#pragma omp for schedule(static)
    for (int i = 0; i < s.n; ++i) {
      const T* x = s.points + size_t(i) * s.d;
      s.label[i] = nearest(x, features.data(), s.k, padded, s.d);
      sums.add(x, s.label[i], s.d);
    }
  }
  host::divide(s, host::total(thread));
}

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = host::prepare_directions<T>,
                                         .upload = host::upload_directions<T>,
                                         .restart = host::restart<T>,
                                         .iterate = iterate<T>,
                                         .download = host::download<T>};
}  // namespace

LADDER_VARIANT(.id = "c2_threads", .base = "c1b_vectors", .idea = "all cores",
               .expect =
                   "as many times faster as there are cores, where distances rule; sums per thread cost K x D each",
               .shows = "iteration", .source = "000", .devices = {DeviceKind::cpu},
               .metrics = {Metric::euclidean, Metric::cosine}, .f32 = phases<float>, .f64 = phases<double>)
