// c3: the scalar products of 256 points with all centroids are one matrix product (GEMM) by OpenBLAS. c2's vector loop
// reads every centroid's coordinate from the cache for one multiply-add; a good matrix product keeps blocks of both
// operands in registers and caches, and needs one load for a dozen. It computes |x - c|^2 = |x|^2 + |c|^2 - 2 x.c
// without |x|^2, which is the same for all centroids. Threads split the chunks; each calls a single-threaded BLAS.
//
// link: openmp
//
// link: openblas
#include <cblas.h>
#include <omp.h>

#include "../common/cpu/cosine.hpp"

namespace {
using namespace ladder;

constexpr int chunk = 256;  // points per matrix product

template <class T>
void prepare(State<T>& s) {
  host::prepare_directions(s);
  openblas_set_num_threads(1);  // the chunks are parallel: nested threads would compete for the cores
}

/// distance (m x k) = norm - 2 x c', for m points x and k centroids c.
void multiply(const float* x, const float* c, float* distance, int m, int k, int d) {
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, m, k, d, -2, x, d, c, d, 1, distance, k);
}
void multiply(const double* x, const double* c, double* distance, int m, int k, int d) {
  cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, m, k, d, -2, x, d, c, d, 1, distance, k);
}

/// Argmin of k distances; on a tie the lowest index. The minimum is a vector reduction, its index is not: so the index
/// is searched only in the one segment that holds the minimum.
template <class T>
int nearest(const T* distance, int k) {
  constexpr int width = 64;
  T nearest = std::numeric_limits<T>::infinity();
  int best = 0;
  for (int first = 0; first < k; first += width) {
    const int count = std::min(width, k - first);
    T lowest = nearest;
#pragma omp simd reduction(min : lowest)
    for (int j = 0; j < count; ++j) lowest = std::min(lowest, distance[first + j]);
    if (lowest < nearest) nearest = lowest, best = first;
  }
  while (best < k - 1 && distance[best] != nearest) ++best;
  return best;
}

template <class T>
struct Workspace {
  host::Directions<T> directions;
  std::vector<T> norms;
  std::vector<host::Sums> thread_sums;
  std::vector<std::vector<T>> distances;
};

template <class T>
void iterate(Run<T, Workspace<T>>& s) {
  const T* c = host::compared_centroids(s);
  auto& norm = s.ws.norms;  // k: |c|^2
  norm.assign(s.k, 0);
  for (int j = 0; j < s.k; ++j) {
    for (int f = 0; f < s.d; ++f) norm[j] += c[size_t(j) * s.d + f] * c[size_t(j) * s.d + f];
  }
  auto& distances = s.ws.distances;  // one per thread: chunk x k
  auto& thread = s.ws.thread_sums;
  distances.resize(omp_get_max_threads());
  thread.resize(omp_get_max_threads());
  for (auto& sums : thread) sums.clear(s.k, s.d);
#pragma omp parallel
  {
    auto& distance = distances[omp_get_thread_num()];
    auto& sums = thread[omp_get_thread_num()];
    distance.resize(size_t(chunk) * s.k);
#pragma omp for schedule(static)
    for (int first = 0; first < s.n; first += chunk) {
      const int m = std::min(chunk, s.n - first);
      const T* x = s.points + size_t(first) * s.d;
      for (int i = 0; i < m; ++i) std::copy(norm.begin(), norm.end(), distance.begin() + size_t(i) * s.k);
      multiply(x, c, distance.data(), m, s.k, s.d);
      for (int i = 0; i < m; ++i) {
        s.label[first + i] = nearest(distance.data() + size_t(i) * s.k, s.k);
        sums.add(x + size_t(i) * s.d, s.label[first + i], s.d);
      }
    }
  }
  host::divide(s, host::total(thread));
}

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare<T>,
                                         .upload = host::upload_directions<T>,
                                         .restart = host::restart<T>,
                                         .iterate = iterate<T>,
                                         .download = host::download<T>};
}  // namespace

LADDER_VARIANT(.id = "c3_blas", .base = "c2_threads", .idea = "scalar products as one matrix product, by OpenBLAS",
               .expect =
                   "near the cores' peak where K and D are large: 2 to 4 times c2; a loss at D = 2, where the norms "
                   "and writing and reading the chunk cost more than the products",
               .shows = "iteration", .source = "000 (KMeansRex), scikit-learn",
               .arithmetic = {.form = Arithmetic::Form::expanded}, .devices = {DeviceKind::cpu},
               .metrics = {Metric::euclidean, Metric::cosine}, .f32 = phases<float>, .f64 = phases<double>)
