// Wrong on purpose: draws the same rows whatever the seed.
// rejected: the drawn centroids are wrong in a second draw
#include "../../harness/base/philox.hpp"
#include "../../variants/parts/host.hpp"

namespace {
using namespace ladder;

template <class T>
void prepare(State<T>& s) {
  host::prepare(s);
  s.chosen = s.template host<int32_t>(s.k);
}

double number(uint64_t, int row) {
  const Words words = draw(1, Stream::kmeanspp, uint64_t(row), 0);
  return uniform_double(bits64(words[0], words[1]));
}

template <class T>
void initialise(State<T>& s) {
  std::vector<double> nearest(s.n, std::numeric_limits<double>::infinity());
  int row = int(number(s.problem.seed, 0) * double(s.n));
  for (int drawn = 0; drawn < s.k; ++drawn) {
    double total = 0;
    for (const double distance : nearest) total += distance;
    if (drawn > 0) {
      const double aim = number(s.problem.seed, drawn) * total;
      double sum = 0;
      for (row = 0; row < s.n - 1 && (sum += nearest[row]) <= aim;) ++row;
    }
    s.chosen[drawn] = row;
    const T* centroid = s.points + size_t(row) * s.d;
    std::copy_n(centroid, s.d, s.c + size_t(drawn) * s.d);
    for (int i = 0; i < s.n; ++i) {
      double distance = 0;
      for (int f = 0; f < s.d; ++f) {
        const double difference = double(s.points[size_t(i) * s.d + f]) - double(centroid[f]);
        distance += difference * difference;
      }
      nearest[i] = std::min(nearest[i], distance);
    }
  }
}

template <class T>
constexpr Phases<T> phases{
    .prepare = prepare<T>, .restart = host::restart<T>, .initialise = initialise<T>, .download = host::download<T>};
}  // namespace

LADDER_VARIANT(.id = "w20_unseeded_draw", .base = "c0_serial", .idea = "draws without looking at the seed",
               .shows = "initialise", .devices = {DeviceKind::cpu}, .draws = Draws::kmeanspp, .f32 = phases<float>,
               .f64 = phases<double>)
