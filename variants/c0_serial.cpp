// c0: textbook Lloyd, as anybody would first write it: label every point, then average the points of every label.
// The readable reference, and the root of the CPU's ladder: one thread, two passes over the points per iteration.
// With metric cosine (spherical k-means) the same two passes over directions: points and centroids made unit length.
#include <cmath>

#include "parts/host.hpp"

namespace {
using namespace ladder;

/// The direction of x (d), to `out`; false where it has none. The length is a double, so that it costs no digits.
template <class E, class T>
bool direction(const E* x, int d, T* out) {
  double square = 0;
  for (int f = 0; f < d; ++f) square += double(x[f]) * double(x[f]);
  if (square == 0) return false;
  for (int f = 0; f < d; ++f) out[f] = T(double(x[f]) / std::sqrt(square));
  return true;
}

template <class T>
void prepare(State<T>& s) {
  host::prepare(s);
  if (s.problem.metric == Metric::cosine) s.points = s.x = s.template host<T>(size_t(s.n) * s.d);
}

template <class T>
void upload(State<T>& s) {
  if (s.problem.metric != Metric::cosine) return;
  for (int i = 0; i < s.n; ++i) direction(s.problem.points + size_t(i) * s.d, s.d, s.x + size_t(i) * s.d);
}

template <class T>
void assign(State<T>& s) {
  // The squared distance of two directions is 2 (1 - cos): the nearest is the nearest.
  std::vector<T> directions(s.c, s.c + size_t(s.k) * s.d);
  for (int j = 0; j < s.k && s.problem.metric == Metric::cosine; ++j) {
    direction(s.c + size_t(j) * s.d, s.d, directions.data() + size_t(j) * s.d);
  }
  for (int i = 0; i < s.n; ++i) {
    s.label[i] = host::nearest_centroid(s.points + size_t(i) * s.d, directions.data(), s.k, s.d);
  }
}

template <class T>
void update(State<T>& s) {
  auto& sums = s.template own<host::Sums>();
  sums.clear(s.k, s.d);
  for (int i = 0; i < s.n; ++i) sums.add(s.points + size_t(i) * s.d, s.label[i], s.d);
  if (s.problem.metric != Metric::cosine) return sums.divide(s.c, s.d);
  // A centroid without points stays, and so does one whose points' directions cancel.
  for (int j = 0; j < s.k; ++j) direction(sums.sum.data() + size_t(j) * s.d, s.d, s.c + size_t(j) * s.d);
}

template <class T>
constexpr Phases<T> phases{.prepare = prepare<T>,
                           .upload = upload<T>,
                           .restart = host::restart<T>,
                           .assign = assign<T>,
                           .update = update<T>,
                           .download = host::download<T>};
}  // namespace

LADDER_VARIANT(.id = "c0_serial", .base = "", .idea = "textbook Lloyd, one thread",
               .expect = "the yardstick: N x K x D multiply-adds per iteration on one core", .shows = "iteration",
               .source = "002, 003", .devices = {DeviceKind::cpu}, .metrics = {Metric::euclidean, Metric::cosine},
               .f32 = phases<float>, .f64 = phases<double>)
