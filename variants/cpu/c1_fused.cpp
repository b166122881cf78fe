// c1: a point is added to its cluster's sum as soon as it is labelled, while it is still in the cache; c0 reads all
// points a second time for the update. Memory: one vector of labels, one of sums, one of counts.
#include "../common/cpu/cosine.hpp"

namespace {
using namespace ladder;

template <class T>
struct Workspace {
  host::Directions<T> directions;
  host::Sums sums;
};

template <class T>
void iterate(Run<T, Workspace<T>>& s) {
  const T* c = host::compared_centroids(s);
  auto& sums = s.ws.sums;
  sums.clear(s.k, s.d);
  for (int i = 0; i < s.n; ++i) {
    const T* x = s.points + size_t(i) * s.d;
    s.label[i] = host::nearest_centroid(x, c, s.k, s.d);
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

LADDER_VARIANT(.id = "c1_fused", .base = "c0_serial", .idea = "assign and accumulate in one loop",
               .expect = "one pass over the points instead of two: a gain where K is small, none where distances rule",
               .shows = "iteration", .source = "003", .devices = {DeviceKind::cpu},
               .metrics = {Metric::euclidean, Metric::cosine}, .f32 = phases<float>, .f64 = phases<double>)
