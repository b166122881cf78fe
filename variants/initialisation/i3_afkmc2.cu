// i3: AFK-MC2, k-means++ by a Markov chain. k-means++ takes a pass over all points to compute the distribution of each
// draw; the chain approximates that distribution without it. For each row it draws 200 candidates, by their distance to
// the first centroid (computed once) mixed with the uniform distribution, and each replaces the current one with a
// probability given by the ratio of their distances to the centroids so far. So row t costs 200 t distances instead of
// N. Candidates are independent: one block computes the distances of one; then one thread walks the chain.
#include "../common/seeding/weights.cuh"

namespace {
using namespace ladder;

constexpr int chain = 200;  // candidates per row including the first, as in the paper

template <class T>
struct Chain {
  double* prefix_sum = nullptr;  // n: inclusive, of the candidates' weights: q(0) + ... + q(i)
  double* share = nullptr;       // 1: the mean distance to row 0, added to every candidate's weight
  int32_t* candidate = nullptr;  // chain
  T* distance = nullptr;         // chain: squared, to the nearest row drawn so far
  int32_t* lowest = nullptr;     // 1: the lowest row that equals none drawn before, if the chain found none
};

template <class T>
struct Workspace {
  Chain<T> chain;
  Rows<T> rows;
  Sums sums;
  Weights<T> weights;
};

template <class T>
void prepare(Run<T, Workspace<T>>& s) {
  prepare_weights(s);
  s.ws.chain = {s.template device<double>(s.n), s.template device<double>(1), s.template device<int32_t>(chain),
                s.template device<T>(chain), s.template device<int32_t>(1)};
}

/// One thread: the mean of the distances, and an exclusive prefix sum of the chunk sums, in place.
__global__ void share_kernel(double* chunk_sum, double* share, int chunks, int n) {
  double total = 0;
  for (int b = 0; b < chunks; ++b) total += chunk_sum[b];
  *share = total / n;
  double before = 0;
  for (int b = 0; b < chunks; ++b) {
    const double sum = chunk_sum[b] + *share * min(weight_chunk, n - b * weight_chunk);
    chunk_sum[b] = before;
    before += sum;
  }
}

/// One thread per chunk: the inclusive prefix sum of its weights.
template <class T>
__global__ void prefix_sum_kernel(const T* distance, const double* chunk_sum, const double* share, double* prefix_sum,
                                  int chunks, int n) {
  const int b = blockIdx.x * blockDim.x + threadIdx.x;
  if (b >= chunks) return;
  double sum = chunk_sum[b];
  for (int64_t i = int64_t(b) * weight_chunk; i < min(int64_t(n), int64_t(b + 1) * weight_chunk); ++i) {
    sum += double(distance[i]) + *share;
    prefix_sum[i] = sum;
  }
}

/// Block m draws candidate m of row t and computes its distance to the nearest of the t rows before.
template <class T>
__global__ void candidate_kernel(const T* x, const T* c, const double* prefix_sum, const double* share,
                                 int32_t* candidate, T* distance, uint64_t seed, int t, int n, int d) {
  __shared__ int32_t row;
  __shared__ T lowest[128];
  if (threadIdx.x == 0) {
    const double u = drawn_pair(seed, Stream::afkmc2, t, blockIdx.x).u;
    int low = 0, high = n - 1;  // binary search: the lowest row whose prefix sum exceeds the target
    while (*share > 0 && low < high) {
      const int middle = low + (high - low) / 2;
      if (prefix_sum[middle] > u * prefix_sum[n - 1])
        high = middle;
      else
        low = middle + 1;
    }
    row = *share > 0 ? low : min(int32_t(u * double(n)), n - 1);
    candidate[blockIdx.x] = row;
  }
  __syncthreads();
  T nearest = std::numeric_limits<T>::infinity();
  for (int j = threadIdx.x; j < t; j += blockDim.x) {
    T squared = 0;
    for (int f = 0; f < d; ++f) {
      const T diff = x[size_t(f) * n + row] - c[size_t(j) * d + f];
      squared += diff * diff;
    }
    nearest = min(nearest, squared);
  }
  lowest[threadIdx.x] = nearest;
  __syncthreads();
  if (threadIdx.x > 0) return;
  for (unsigned e = 1; e < blockDim.x; ++e) nearest = min(nearest, lowest[e]);
  distance[blockIdx.x] = nearest;
}

/// One thread walks the chain of row t; chosen[t] = -1 if it ends on a point that was drawn before.
template <class T>
__global__ void chain_kernel(const T* first_distance, const double* share, const int32_t* candidate, const T* distance,
                             int32_t* chosen, int32_t* lowest, uint64_t seed, int t, int n) {
  const auto q = [&](int m) { return double(first_distance[candidate[m]]) + *share; };
  int current = 0;
  for (int m = 1; m < chain; ++m) {
    const double a = drawn_pair(seed, Stream::afkmc2, t, m).a;
    if (double(distance[m]) * q(current) > a * double(distance[current]) * q(m)) current = m;
  }
  chosen[t] = distance[current] > 0 ? candidate[current] : -1;
  *lowest = n;
}

/// If the chain found no row: the lowest point that differs from all drawn before. One thread per point.
template <class T>
__global__ void lowest_kernel(const T* x, const T* c, const int32_t* chosen, int32_t* lowest, int t, int n, int d) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n || chosen[t] >= 0) return;
  for (int j = 0; j < t; ++j) {
    int f = 0;
    while (f < d && x[size_t(f) * n + i] == c[size_t(j) * d + f]) ++f;
    if (f == d) return;
  }
  atomicMin(lowest, i);
}
__global__ void fallback_kernel(int32_t* chosen, const int32_t* lowest, int t, int n) {
  if (chosen[t] < 0) chosen[t] = *lowest < n ? *lowest : lowest_not_chosen(chosen, t);
}

template <class T>
void initialise(Run<T, Workspace<T>>& s) {
  const auto& weights = s.ws.weights;
  const auto& chains = s.ws.chain;
  const uint64_t seed = s.problem.seed;
  draw_first(s, Stream::afkmc2);
  distances_to(s, 0);
  launch(share_kernel, 1, 1, 0, s.stream, weights.chunk_sum, chains.share, weights.chunks, s.n);
  launch(prefix_sum_kernel<T>, blocks(weights.chunks, 32), 32, 0, s.stream, weights.distance, weights.chunk_sum,
         chains.share, chains.prefix_sum, weights.chunks, s.n);
  int64_t computed = s.n;
  for (int t = 1; t < s.k; ++t, computed += int64_t(chain) * t) {
    const int block = t <= 32 ? 32 : 128;
    launch(candidate_kernel<T>, chain, block, 0, s.stream, s.x, s.c, chains.prefix_sum, chains.share, chains.candidate,
           chains.distance, seed, t, s.n, s.d);
    launch(chain_kernel<T>, 1, 1, 0, s.stream, weights.distance, chains.share, chains.candidate, chains.distance,
           s.chosen, chains.lowest, seed, t, s.n);
    launch(lowest_kernel<T>, blocks(s.n, 256), 256, 0, s.stream, s.x, s.c, s.chosen, chains.lowest, t, s.n, s.d);
    launch(fallback_kernel, 1, 1, 0, s.stream, s.chosen, chains.lowest, t, s.n);
    gather(s, t, 1);
  }
  s.counters["distances"] = {computed};
  s.counters["distances saved"] = {int64_t(s.n) * (s.k - 1) - computed};  // k-means++ computes N for each row but one
}

template <class T>
constexpr Phases<T, Workspace<T>> phases{
    .prepare = prepare<T>, .upload = upload_features<T>, .initialise = initialise<T>, .download = download_drawn<T>};
}  // namespace

LADDER_VARIANT(.id = "i3_afkmc2", .base = "i2_kmeanspp", .idea = "a Markov chain instead of passes over all points",
               .expect =
                   "200 t distances for row t instead of N: at N = 100 000 and K = 5000 5 times more of them, so a "
                   "loss there, a gain where K is well below N / 100; five launches per row set the least time. "
                   "A new algorithm: nearly every line is new",
               .shows = "initialise", .counter = "load_requests",
               .source = "000; Bachem, Lucic, Hassani and Krause, NIPS 2016", .draws = Draws::afkmc2,
               .f32 = phases<float>, .f64 = phases<double>)
