// c0: textbook Lloyd: label every point, then average the points of every label. The readable reference and the root of
// the CPU's ladder: one thread, two passes over the points per iteration. With metric cosine (spherical k-means) the
// same two passes over directions (cpu/cosine.hpp).
#include "../common/cpu/cosine.hpp"

namespace {
using namespace ladder;

template <class T>
struct Workspace {
  host::Directions<T> directions;
  host::Sums sums;
};

template <class T>
void assign(Run<T, Workspace<T>>& s) {
  const T* c = host::compared_centroids(s);
  for (int i = 0; i < s.n; ++i) {
    const T* x = s.points + size_t(i) * s.d;
    s.label[i] = host::nearest_centroid(x, c, s.k, s.d);
  }
}

template <class T>
void update(Run<T, Workspace<T>>& s) {
  auto& sums = s.ws.sums;
  sums.clear(s.k, s.d);
  for (int i = 0; i < s.n; ++i) {
    const T* x = s.points + size_t(i) * s.d;
    sums.add(x, s.label[i], s.d);
  }
  host::divide(s, sums);
}

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = host::prepare_directions<T>,
                                         .upload = host::upload_directions<T>,
                                         .restart = host::restart<T>,
                                         .assign = assign<T>,
                                         .update = update<T>,
                                         .download = host::download<T>};
}  // namespace

LADDER_VARIANT(.id = "c0_serial", .base = "", .idea = "textbook Lloyd, one thread",
               .expect = "the yardstick: N x K x D multiply-adds per iteration on one core", .shows = "iteration",
               .source = "002, 003", .devices = {DeviceKind::cpu}, .metrics = {Metric::euclidean, Metric::cosine},
               .f32 = phases<float>, .f64 = phases<double>)
