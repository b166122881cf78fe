// c4: Yinyang k-means skips most distances. c2 computes all N x K of them in every iteration, though after a few
// iterations few points change their centroid. For each point Yinyang keeps an upper bound of the distance to its
// assigned centroid, and for each group of ten centroids a lower bound of the distance to any other one of the group.
// When centroids move, the bounds are widened by how far, and three filters skip what cannot be nearest: all groups at
// once, one group, one centroid of a group.
//
// Exact: distances are sums of (x - c)^2, and one is skipped only if no rounding could make it the minimum
// (pruning/yinyang_margin.hpp): labels are those of Lloyd, ties included.
//
// link: openmp
#include <omp.h>
#include <unistd.h>

#include <cstdio>

#include "../common/cpu/lloyd.hpp"
#include "../common/pruning/yinyang_margin.hpp"

namespace {
using namespace ladder;

template <class T>
struct Workspace {
  int groups = 0;
  std::vector<int32_t> group;                // k: the group of each centroid
  std::vector<std::vector<int32_t>> member;  // the centroids of each group, in ascending order
  std::vector<T> previous;                   // k x d: the centroids before the last update
  std::vector<T> drift, group_drift;         // k, groups: upper bounds of how far each moved; maximum of each group
  std::vector<T> upper;                      // n: upper bound of the distance to the assigned centroid
  std::vector<T> lower;                      // n x groups: lower bound for all other centroids of the group
  std::vector<host::Sums> thread;            // one per thread
};

/// Bytes of the bounds, in addition to what c2 needs.
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

/// Groups the centroids by five iterations of k-means over them, as in the paper. Any grouping gives the same labels.
template <class T>
void group_centroids(Run<T, Workspace<T>>& s) {
  auto& ws = s.ws;
  ws.groups = yinyang_groups(s.k);
  ws.group.assign(s.k, 0);
  std::vector<T> centre(size_t(ws.groups) * s.d);
  for (int g = 0; g < ws.groups; ++g) {
    std::copy_n(s.c + size_t(g) * (s.k / ws.groups) * s.d, s.d, centre.begin() + size_t(g) * s.d);
  }
  host::Sums sums;
  for (int done = 0; done < 5; ++done) {
#pragma omp parallel for
    for (int j = 0; j < s.k; ++j) {
      T nearest = std::numeric_limits<T>::infinity();
      for (int g = 0; g < ws.groups; ++g) {
        const T distance = squared_distance(s.c + size_t(j) * s.d, centre.data() + size_t(g) * s.d, s.d);
        if (distance < nearest) nearest = distance, ws.group[j] = g;
      }
    }
    sums.clear(ws.groups, s.d);
    for (int j = 0; j < s.k; ++j) sums.add(s.c + size_t(j) * s.d, ws.group[j], s.d);
    sums.divide(centre.data(), s.d);
  }
  ws.member.assign(ws.groups, {});
  for (int j = 0; j < s.k; ++j) ws.member[ws.group[j]].push_back(j);
}

template <class T>
void restart(Run<T, Workspace<T>>& s) {
  auto& ws = s.ws;
  host::restart(s);
  group_centroids(s);
  ws.drift.assign(s.k, 0);
  ws.group_drift.assign(ws.groups, 0);
  ws.upper.assign(s.n, std::numeric_limits<T>::infinity());  // no bound: nothing is skipped
  ws.lower.assign(size_t(s.n) * ws.groups, 0);
}

/// The label of point i. Widens its bounds by the last update and tightens them by the distances computed, whose number
/// is added to `computed`.
template <class T>
int32_t label_point(const State<T>& s, Workspace<T>& ws, int i, const Margin<T>& margin, int64_t& computed) {
  constexpr T infinity = std::numeric_limits<T>::infinity();
  const T* x = s.points + size_t(i) * s.d;
  T *lower = ws.lower.data() + size_t(i) * ws.groups, &upper = ws.upper[i];
  const auto distance = [&](int j) { return ++computed, squared_distance(x, s.c + size_t(j) * s.d, s.d); };
  const auto moved = [&](int g) { return margin.lowered(lower[g], ws.group_drift[g]); };

  const int32_t old = std::max(s.label[i], 0);  // -1 before the first iteration
  upper = margin.raised(upper, ws.drift[old]);
  T lowest = infinity;  // over all groups
  for (int g = 0; g < ws.groups; ++g) lowest = std::min(lowest, moved(g));
  bool apart = margin.farther(lowest, upper);
  const T old_square = apart ? 0 : distance(old);
  if (!apart) {
    upper = margin.above(old_square);
    apart = margin.farther(lowest, upper);
  }
  if (apart) {
    for (int g = 0; g < ws.groups; ++g) lower[g] = moved(g);
    return old;
  }

  int32_t best = old;
  T square = old_square;  // to `best`; upper belongs to it
  for (int g = 0; g < ws.groups; ++g) {
    if (margin.farther(moved(g), upper)) {
      lower[g] = moved(g);
      continue;
    }
    int32_t candidate = -1;
    T nearest = infinity, rest = infinity;  // squared distance of the candidate, lower bound of the rest
    for (const int32_t j : ws.member[g]) {
      if (j == old) continue;
      const T bound = margin.lowered(lower[g], ws.drift[j]);
      if (margin.farther(bound, upper)) {
        rest = std::min(rest, bound);
        continue;
      }
      const T squared = distance(j);
      rest = std::min(rest, margin.below(std::max(squared, nearest)));
      if (squared < nearest || candidate < 0) nearest = squared, candidate = j;
    }
    const bool wins = candidate >= 0 && (nearest < square || (nearest == square && candidate < best));
    lower[g] = wins ? rest : std::min(rest, margin.below(nearest));
    if (!wins) continue;
    // The centroid that it replaces belongs to an earlier group, whose lower bound must include it from now on.
    if (best != old) lower[ws.group[best]] = std::min(lower[ws.group[best]], margin.below(square));
    best = candidate, square = nearest, upper = margin.above(square);
  }
  if (best != old) lower[ws.group[old]] = std::min(lower[ws.group[old]], margin.below(old_square));
  return best;
}

template <class T>
void iterate(Run<T, Workspace<T>>& s) {
  auto& ws = s.ws;
  const Margin<T> margin(s.d);
  ws.thread.resize(omp_get_max_threads());
  for (auto& sums : ws.thread) sums.clear(s.k, s.d);
  int64_t computed = 0;
#pragma omp parallel reduction(+ : computed)
  {
    auto& sums = ws.thread[omp_get_thread_num()];
#pragma omp for schedule(dynamic, 256)
    for (int i = 0; i < s.n; ++i) {
      s.label[i] = label_point(s, ws, i, margin, computed);
      sums.add(s.points + size_t(i) * s.d, s.label[i], s.d);
    }
  }
  s.counters["distances"].push_back(computed);
  s.counters["distances skipped"].push_back(int64_t(s.n) * s.k - computed);
  ws.previous.assign(s.c, s.c + size_t(s.k) * s.d);
  host::total(ws.thread).divide(s.c, s.d);
  std::fill(ws.group_drift.begin(), ws.group_drift.end(), T(0));
  for (int j = 0; j < s.k; ++j) {
    const size_t row = size_t(j) * s.d;
    ws.drift[j] = margin.above(squared_distance(s.c + row, ws.previous.data() + row, s.d));
    ws.group_drift[ws.group[j]] = std::max(ws.group_drift[ws.group[j]], ws.drift[j]);
  }
}

template <class T>
constexpr Phases<T, Workspace<T>> phases{
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
