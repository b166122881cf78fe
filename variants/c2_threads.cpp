// c2: all cores, and the vector unit of each. c1 uses one core, and its inner loop is a chain of dependent additions
// that no compiler may reorder. Here the points are shared out among threads, and the centroids are stored feature by
// feature, so that one vector instruction advances the distances to several centroids at once; each distance still
// adds its features in the old order, so the rounding is c1's.
// link: openmp
#include <omp.h>

#include "parts/host.hpp"

namespace {
using namespace ladder;

constexpr int width = 64;  // centroids per pass: their distances stay in registers and L1

template <class T>
struct Own {
  std::vector<T> features;         // d x k rounded up to width, the centroids transposed
  std::vector<host::Sums> thread;  // one per thread
};

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
void iterate(State<T>& s) {
  auto& own = s.template own<Own<T>>();
  const int padded = blocks(s.k, width) * width;
  own.features.resize(size_t(padded) * s.d);
  own.thread.resize(omp_get_max_threads());
  for (int j = 0; j < s.k; ++j) {
    for (int f = 0; f < s.d; ++f) own.features[size_t(f) * padded + j] = s.c[size_t(j) * s.d + f];
  }
  for (auto& sums : own.thread) sums.clear(s.k, s.d);
#pragma omp parallel
  {
    auto& sums = own.thread[omp_get_thread_num()];
#pragma omp for schedule(static)
    for (int i = 0; i < s.n; ++i) {
      const T* x = s.points + size_t(i) * s.d;
      s.label[i] = nearest(x, own.features.data(), s.k, padded, s.d);
      sums.add(x, s.label[i], s.d);
    }
  }
  host::total(own.thread).divide(s.c, s.d);
}

template <class T>
constexpr Phases<T> phases{
    .prepare = host::prepare<T>, .restart = host::restart<T>, .iterate = iterate<T>, .download = host::download<T>};
}  // namespace

LADDER_VARIANT(.id = "c2_threads", .base = "c1_fused", .idea = "all cores, and their vector units",
               .expect = "cores x vector width where distances rule", .shows = "iteration", .source = "000",
               .devices = {DeviceKind::cpu}, .f32 = phases<float>, .f64 = phases<double>)
