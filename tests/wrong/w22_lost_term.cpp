// Wrong on purpose: kernel k-means without the term of the pairs within a cluster.
// rejected: checked labels are wrong
// kernel: linear
#include "../../variants/parts/host.hpp"

namespace {
using namespace ladder;

struct Labels {
  std::vector<int32_t> before;  // empty before the first iteration
};

template <class A, class B>
double product(const A* x, const B* y, int d) {
  double sum = 0;
  for (int f = 0; f < d; ++f) sum += double(x[f]) * double(y[f]);
  return sum;
}

template <class T>
void restart(Run<T, Labels>& s) {
  host::restart(s);
  s.own.before.clear();
}

template <class T>
void assign(Run<T, Labels>& s) {
  const std::vector<int32_t>& before = s.own.before;
  const auto at = [&](int i) { return s.points + size_t(i) * s.d; };
  std::vector<double> size(s.k, before.empty() ? 1 : 0);
  for (const int32_t j : before) ++size[j];
  for (int i = 0; i < s.n; ++i) {
    std::vector<double> sum(s.k);
    for (int j = 0; j < s.k && before.empty(); ++j) sum[j] = product(at(i), s.c + size_t(j) * s.d, s.d);
    for (int l = 0; l < int(before.size()); ++l) sum[before[l]] += product(at(i), at(l), s.d);
    double least = std::numeric_limits<double>::infinity();
    for (int j = 0; j < s.k; ++j) {
      if (size[j] == 0) continue;
      const double distance = product(at(i), at(i), s.d) - 2 * sum[j] / size[j];
      if (distance < least) least = distance, s.label[i] = j;
    }
  }
}

template <class T>
void update(Run<T, Labels>& s) {
  s.own.before.assign(s.label, s.label + s.n);
}

template <class T>
constexpr Phases<T, Labels> phases{.prepare = host::prepare<T>,
                                   .restart = restart<T>,
                                   .assign = assign<T>,
                                   .update = update<T>,
                                   .download = host::download<T>};
}  // namespace

LADDER_VARIANT(.id = "w22_lost_term", .base = "c0_serial", .idea = "leaves out the distances within clusters",
               .shows = "iteration", .arithmetic = {.form = Arithmetic::Form::expanded, .distance_roundoff = 0x1p-53},
               .devices = {DeviceKind::cpu}, .implicit = true, .f32 = phases<float>, .f64 = phases<double>)
