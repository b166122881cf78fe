// c1b: vector instructions (SIMD). c1's inner loop is a chain of dependent additions that no compiler may reorder. Here
// the centroids are stored feature by feature, so that one vector instruction advances the distances to several
// centroids at once; each distance still adds its features in the same order, so the rounding is c1's.
//
// link: openmp
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
  host::Sums sums;
  std::vector<T> transposed;
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
  auto& sums = s.ws.sums;
  sums.clear(s.k, s.d);
  for (int i = 0; i < s.n; ++i) {
    const T* x = s.points + size_t(i) * s.d;
    s.label[i] = nearest(x, features.data(), s.k, padded, s.d);
    sums.add(x, s.label[i], s.d);
  }
  host::divide(s, sums);
}

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = host::prepare_directions<T>,
                                         .upload = host::upload_directions<T>,
                                         .restart = host::restart<T>,
                                         .iterate = iterate<T>,
                                         .download = host::download<T>};
}  // namespace

LADDER_VARIANT(.id = "c1b_vectors", .base = "c1_fused", .idea = "several centroids per vector instruction",
               .expect =
                   "vector width (8 floats, 4 doubles with AVX2) where distances rule; a loss where K is below 64",
               .shows = "iteration", .source = "000", .devices = {DeviceKind::cpu},
               .metrics = {Metric::euclidean, Metric::cosine}, .f32 = phases<float>, .f64 = phases<double>)
