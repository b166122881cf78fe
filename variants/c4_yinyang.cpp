// c4: most distances need not be known. c2 computes all N x K of them in every iteration, though after a few iterations
// hardly a point changes its centroid. Yinyang keeps for each point an upper bound of the distance to its own centroid,
// and for each group of ten centroids a lower bound of the distance to any other of them. When centroids move, the
// bounds are widened by how far, and three filters leave out what cannot be nearest: all groups at once, one group, one
// centroid of a group.
//
// Exact: distances are sums of (x - c)^2, and one is left out only where no rounding could make it the least
// (parts/margin.hpp): labels are those of Lloyd, ties included.
// link: openmp
#include <omp.h>
#include <unistd.h>

#include <cstdio>

#include "parts/host.hpp"
#include "parts/margin.hpp"

namespace {
using namespace ladder;

template <class T>
struct Own {
  int groups = 0;
  std::vector<int32_t> group;                // k: the group of each centroid
  std::vector<std::vector<int32_t>> member;  // the centroids of each group, in ascending order
  std::vector<T> before;                     // k x d: the centroids before the last update
  std::vector<T> drift, group_drift;         // k, groups: not less than how far each moved; the most of each group
  std::vector<T> upper;                      // n: not less than the distance to the own centroid
  std::vector<T> lower;                      // n x groups: not more than that to any centroid of the group but the own
  std::vector<host::Sums> thread;            // one per thread
};

/// Bytes of the bounds, beside what c2 needs.
double bound_bytes(const Shape& p) { return (yinyang_groups(p.k) + 1.0) * p.n * double(p.element_bytes); }

std::string refuse(const Shape& p, const Device&, const Axes&) {
  const double memory = double(sysconf(_SC_PHYS_PAGES)) * double(sysconf(_SC_PAGESIZE));
  const double all = bound_bytes(p) + (double(p.n) + 2.0 * p.k) * p.d * double(p.element_bytes);
  if (all <= memory) return "";
  char text[160];
  std::snprintf(text, sizeof text,
                "bounds of %d groups need %.0f bytes, all arrays together %.0f, the machine has %.0f",
                yinyang_groups(p.k), bound_bytes(p), all, memory);
  return text;
}

template <class T>
T squared_distance(const T* x, const T* c, int d) {
  T sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int f = 0; f < d; ++f) sum += (x[f] - c[f]) * (x[f] - c[f]);
  return sum;
}

/// A few iterations of k-means over the centroids, the paper's five. Any grouping gives the same labels.
template <class T>
void group_centroids(Run<T, Own<T>>& s) {
  auto& own = s.own;
  own.groups = yinyang_groups(s.k);
  own.group.assign(s.k, 0);
  std::vector<T> centre(size_t(own.groups) * s.d);
  for (int g = 0; g < own.groups; ++g) {
    std::copy_n(s.c + size_t(g) * (s.k / own.groups) * s.d, s.d, centre.begin() + size_t(g) * s.d);
  }
  host::Sums sums;
  for (int done = 0; done < 5; ++done) {
#pragma omp parallel for
    for (int j = 0; j < s.k; ++j) {
      T nearest = std::numeric_limits<T>::infinity();
      for (int g = 0; g < own.groups; ++g) {
        const T distance = squared_distance(s.c + size_t(j) * s.d, centre.data() + size_t(g) * s.d, s.d);
        if (distance < nearest) nearest = distance, own.group[j] = g;
      }
    }
    sums.clear(own.groups, s.d);
    for (int j = 0; j < s.k; ++j) sums.add(s.c + size_t(j) * s.d, own.group[j], s.d);
    sums.divide(centre.data(), s.d);
  }
  own.member.assign(own.groups, {});
  for (int j = 0; j < s.k; ++j) own.member[own.group[j]].push_back(j);
}

template <class T>
void restart(Run<T, Own<T>>& s) {
  auto& own = s.own;
  host::restart(s);
  group_centroids(s);
  own.drift.assign(s.k, 0);
  own.group_drift.assign(own.groups, 0);
  own.upper.assign(s.n, std::numeric_limits<T>::infinity());  // nothing is known: nothing is left out
  own.lower.assign(size_t(s.n) * own.groups, 0);
}

/// The label of point i, its bounds widened by the last update and tightened by what is computed; how many distances
/// that took is added to `computed`.
template <class T>
int32_t label_point(const State<T>& s, Own<T>& own, int i, const Margin<T>& margin, int64_t& computed) {
  constexpr T infinity = std::numeric_limits<T>::infinity();
  const T* x = s.points + size_t(i) * s.d;
  T *lower = own.lower.data() + size_t(i) * own.groups, &upper = own.upper[i];
  const auto distance = [&](int j) { return ++computed, squared_distance(x, s.c + size_t(j) * s.d, s.d); };
  const auto moved = [&](int g) { return margin.lowered(lower[g], own.group_drift[g]); };

  const int32_t old = std::max(s.label[i], 0);  // -1 before the first iteration
  upper = margin.raised(upper, own.drift[old]);
  T least = infinity;
  for (int g = 0; g < own.groups; ++g) least = std::min(least, moved(g));
  bool apart = margin.farther(least, upper);
  const T old_square = apart ? 0 : distance(old);
  if (!apart) {
    upper = margin.above(old_square);
    apart = margin.farther(least, upper);
  }
  if (apart) {
    for (int g = 0; g < own.groups; ++g) lower[g] = moved(g);
    return old;
  }

  int32_t best = old;
  T square = old_square;  // to `best`; upper belongs to it
  for (int g = 0; g < own.groups; ++g) {
    if (margin.farther(moved(g), upper)) {
      lower[g] = moved(g);
      continue;
    }
    int32_t candidate = -1;
    T nearest = infinity, rest = infinity;  // the candidate's squared distance, a bound of the others'
    for (const int32_t j : own.member[g]) {
      if (j == old) continue;
      const T bound = margin.lowered(lower[g], own.drift[j]);
      if (margin.farther(bound, upper)) {
        rest = std::min(rest, bound);
        continue;
      }
      const T here = distance(j);
      rest = std::min(rest, margin.below(std::max(here, nearest)));
      if (here < nearest || candidate < 0) nearest = here, candidate = j;
    }
    const bool wins = candidate >= 0 && (nearest < square || (nearest == square && candidate < best));
    lower[g] = wins ? rest : std::min(rest, margin.below(nearest));
    if (!wins) continue;
    // The one that it beats was found in a group before: it is an other there from now on.
    if (best != old) lower[own.group[best]] = std::min(lower[own.group[best]], margin.below(square));
    best = candidate, square = nearest, upper = margin.above(square);
  }
  if (best != old) lower[own.group[old]] = std::min(lower[own.group[old]], margin.below(old_square));
  return best;
}

template <class T>
void iterate(Run<T, Own<T>>& s) {
  auto& own = s.own;
  const Margin<T> margin(s.d);
  own.thread.resize(omp_get_max_threads());
  for (auto& sums : own.thread) sums.clear(s.k, s.d);
  int64_t computed = 0;
#pragma omp parallel reduction(+ : computed)
  {
    auto& sums = own.thread[omp_get_thread_num()];
#pragma omp for schedule(dynamic, 256)
    for (int i = 0; i < s.n; ++i) {
      s.label[i] = label_point(s, own, i, margin, computed);
      sums.add(s.points + size_t(i) * s.d, s.label[i], s.d);
    }
  }
  s.counters["distances"].push_back(computed);
  s.counters["distances skipped"].push_back(int64_t(s.n) * s.k - computed);
  own.before.assign(s.c, s.c + size_t(s.k) * s.d);
  host::total(own.thread).divide(s.c, s.d);
  std::fill(own.group_drift.begin(), own.group_drift.end(), T(0));
  for (int j = 0; j < s.k; ++j) {
    const size_t row = size_t(j) * s.d;
    own.drift[j] = margin.above(squared_distance(s.c + row, own.before.data() + row, s.d));
    own.group_drift[own.group[j]] = std::max(own.group_drift[own.group[j]], own.drift[j]);
  }
}

template <class T>
constexpr Phases<T, Own<T>> phases{
    .prepare = host::prepare<T>, .restart = restart<T>, .iterate = iterate<T>, .download = host::download<T>};
}  // namespace

LADDER_VARIANT(.id = "c4_yinyang", .base = "c2_threads",
               .idea = "bounds per group of centroids decide which distances are computed",
               .expect =
                   "the first iteration like a slow c2, the later ones a few percent of the distances: several times "
                   "faster than c2 where K, D and the number of iterations are large, slower where they are not. A "
                   "new algorithm: nearly every line is new",
               .shows = "solve", .source = "000; Ding and others, Yinyang K-Means, ICML 2015",
               .devices = {DeviceKind::cpu}, .reads_labels = true, .prunes = true, .refuse = refuse,
               .f32 = phases<float>, .f64 = phases<double>)
