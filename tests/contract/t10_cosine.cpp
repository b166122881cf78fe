// Spherical k-means: the metric cosine, on points as they are. A centroid whose points' directions cancel stays.
#include <cmath>

#include "../../variants/parts/host.hpp"

namespace {
using namespace ladder;

template <class T>
double length(const T* row, int d) {
  double sum = 0;
  for (int f = 0; f < d; ++f) sum += double(row[f]) * double(row[f]);
  return std::sqrt(sum);
}

template <class T>
void assign(State<T>& s) {
  for (int i = 0; i < s.n; ++i) {
    const T* x = s.points + size_t(i) * s.d;
    const double x_length = length(x, s.d);
    double least = std::numeric_limits<double>::infinity();
    for (int j = 0; j < s.k; ++j) {
      const T* c = s.c + size_t(j) * s.d;
      const double c_length = length(c, s.d);
      double distance = 0;
      for (int f = 0; f < s.d; ++f) {
        const double difference = double(x[f]) / x_length - double(c[f]) / c_length;
        distance += difference * difference;
      }
      if (distance < least) least = distance, s.label[i] = j;
    }
  }
}

template <class T>
void update(State<T>& s) {
  std::vector<double> sum(size_t(s.k) * s.d);
  for (int i = 0; i < s.n; ++i) {
    const T* x = s.points + size_t(i) * s.d;
    const double x_length = length(x, s.d);
    for (int f = 0; f < s.d; ++f) sum[size_t(s.label[i]) * s.d + f] += double(x[f]) / x_length;
  }
  for (int j = 0; j < s.k; ++j) {
    const double sum_length = length(&sum[size_t(j) * s.d], s.d);
    if (sum_length == 0) continue;
    for (int f = 0; f < s.d; ++f) s.c[size_t(j) * s.d + f] = T(sum[size_t(j) * s.d + f] / sum_length);
  }
}

template <class T>
constexpr Phases<T> phases{.prepare = host::prepare<T>,
                           .restart = host::restart<T>,
                           .assign = assign<T>,
                           .update = update<T>,
                           .download = host::download<T>};
}  // namespace

LADDER_VARIANT(.id = "t10_cosine", .base = "c0_serial", .idea = "directions instead of places", .shows = "iteration",
               .arithmetic = {.distance_roundoff = 0x1p-53}, .devices = {DeviceKind::cpu}, .metrics = {Metric::cosine},
               .f32 = phases<float>, .f64 = phases<double>)
