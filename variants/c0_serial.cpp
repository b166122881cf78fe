// c0: textbook Lloyd, as anybody would first write it: label every point, then average the points of every label.
// The readable reference, and the root of the CPU's ladder: one thread, two passes over the points per iteration.
#include "parts/host.hpp"

namespace {
using namespace ladder;

template <class T>
void assign(State<T>& s) {
  for (int i = 0; i < s.n; ++i) s.label[i] = host::nearest_centroid(s.points + size_t(i) * s.d, s.c, s.k, s.d);
}

template <class T>
void update(State<T>& s) {
  auto& sums = s.template own<host::Sums>();
  sums.clear(s.k, s.d);
  for (int i = 0; i < s.n; ++i) sums.add(s.points + size_t(i) * s.d, s.label[i], s.d);
  sums.divide(s.c, s.d);
}

template <class T>
constexpr Phases<T> phases{.prepare = host::prepare<T>,
                           .restart = host::restart<T>,
                           .assign = assign<T>,
                           .update = update<T>,
                           .download = host::download<T>};
}  // namespace

LADDER_VARIANT(.id = "c0_serial", .base = "", .idea = "textbook Lloyd, one thread",
               .expect = "the yardstick: N x K x D multiply-adds per iteration on one core", .shows = "iteration",
               .source = "002, 003", .devices = {DeviceKind::cpu}, .f32 = phases<float>, .f64 = phases<double>)
