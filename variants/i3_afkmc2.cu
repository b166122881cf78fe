// i3: k-means++ draws each centroid from a distribution that takes a pass over all points to compute. A Markov chain
// comes near that distribution without it: 200 candidates, drawn by their distance to the first centroid (which is
// computed once) and by chance, and each takes the place of the one before with a chance in proportion to their
// distances from the centroids so far. So row t costs 200 t distances instead of N. The candidates do not depend on one
// another, so a block each finds the distances of one; then one thread walks the chain.
#include "parts/weights.cuh"

namespace {
using namespace ladder;

constexpr int chain = 200;  // candidates per row, the first included: the paper's

template <class T>
struct Chain {
  double* until = nullptr;       // n: sums of the candidates' weights, q(0) + ... + q(i)
  double* share = nullptr;       // 1: the mean distance to row 0, which every candidate gets
  int32_t* candidate = nullptr;  // chain
  T* distance = nullptr;         // chain: squared, to the nearest row drawn so far
  int32_t* lowest = nullptr;     // 1: the lowest row that repeats none, where it is asked for
};

template <class T>
struct Own {
  Chain<T> chain;
  Rows<T> rows;
  Sums sums;
  Weights<T> weights;
};

template <class T>
void prepare(Run<T, Own<T>>& s) {
  prepare_weights(s);
  s.own.chain = {s.template device<double>(s.n), s.template device<double>(1), s.template device<int32_t>(chain),
                 s.template device<T>(chain), s.template device<int32_t>(1)};
}

/// One block: the mean of the distances, and from sums of pieces to where each piece begins.
__global__ void share_kernel(double* part, double* share, int parts, int n) {
  double total = 0;
  for (int b = 0; b < parts; ++b) total += part[b];
  *share = total / n;
  double before = 0;
  for (int b = 0; b < parts; ++b) {
    const double here = part[b] + *share * min(piece, n - b * piece);
    part[b] = before;
    before += here;
  }
}

/// One thread per piece.
template <class T>
__global__ void until_kernel(const T* distance, const double* part, const double* share, double* until, int parts,
                             int n) {
  const int b = blockIdx.x * blockDim.x + threadIdx.x;
  if (b >= parts) return;
  double sum = part[b];
  for (int64_t i = int64_t(b) * piece; i < min(int64_t(n), int64_t(b + 1) * piece); ++i) {
    sum += double(distance[i]) + *share;
    until[i] = sum;
  }
}

/// Block m finds candidate m of row t, and its distance to the nearest of the t rows before.
template <class T>
__global__ void candidate_kernel(const T* x, const T* c, const double* until, const double* share, int32_t* candidate,
                                 T* distance, uint64_t seed, int t, int n, int d) {
  __shared__ int32_t row;
  __shared__ T least[128];
  if (threadIdx.x == 0) {
    const double u = drawn_pair(seed, Stream::afkmc2, t, blockIdx.x).u;
    int low = 0, high = n - 1;  // the lowest row whose sum exceeds the target
    while (low<high&& * share> 0) {
      const int middle = low + (high - low) / 2;
      if (until[middle] > u * until[n - 1])
        high = middle;
      else
        low = middle + 1;
    }
    row = *share > 0 ? low : min(int32_t(u * double(n)), n - 1);
    candidate[blockIdx.x] = row;
  }
  __syncthreads();
  T own = std::numeric_limits<T>::infinity();
  for (int j = threadIdx.x; j < t; j += blockDim.x) {
    T here = 0;
    for (int f = 0; f < d; ++f) {
      const T diff = x[size_t(f) * n + row] - c[size_t(j) * d + f];
      here += diff * diff;
    }
    own = min(own, here);
  }
  least[threadIdx.x] = own;
  __syncthreads();
  if (threadIdx.x > 0) return;
  for (unsigned e = 1; e < blockDim.x; ++e) own = min(own, least[e]);
  distance[blockIdx.x] = own;
}

/// One thread walks the chain of row t; -1 where it ends on a point that was drawn before.
template <class T>
__global__ void chain_kernel(const T* first_distance, const double* share, const int32_t* candidate, const T* distance,
                             int32_t* chosen, int32_t* lowest, uint64_t seed, int t, int n) {
  const auto q = [&](int m) { return double(first_distance[candidate[m]]) + *share; };
  int at = 0;
  for (int m = 1; m < chain; ++m) {
    const double a = drawn_pair(seed, Stream::afkmc2, t, m).a;
    if (double(distance[m]) * q(at) > a * double(distance[at]) * q(m)) at = m;
  }
  chosen[t] = distance[at] > 0 ? candidate[at] : -1;
  *lowest = n;
}

/// Where the chain found nothing: is point i none of those drawn? One thread each.
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
__global__ void stand_in_kernel(int32_t* chosen, const int32_t* lowest, int t, int n) {
  if (chosen[t] < 0) chosen[t] = *lowest < n ? *lowest : lowest_not_chosen(chosen, t);
}

template <class T>
void initialise(Run<T, Own<T>>& s) {
  const auto& own = s.own.weights;
  const auto& mine = s.own.chain;
  const uint64_t seed = s.problem.seed;
  draw_first(s, Stream::afkmc2);
  distances_to(s, 0);
  launch(share_kernel, 1, 1, 0, s.stream, own.part, mine.share, own.parts, s.n);
  launch(until_kernel<T>, blocks(own.parts, 32), 32, 0, s.stream, own.distance, own.part, mine.share, mine.until,
         own.parts, s.n);
  int64_t computed = s.n;
  for (int t = 1; t < s.k; ++t, computed += int64_t(chain) * t) {
    const int block = t <= 32 ? 32 : 128;
    launch(candidate_kernel<T>, chain, block, 0, s.stream, s.x, s.c, mine.until, mine.share, mine.candidate,
           mine.distance, seed, t, s.n, s.d);
    launch(chain_kernel<T>, 1, 1, 0, s.stream, own.distance, mine.share, mine.candidate, mine.distance, s.chosen,
           mine.lowest, seed, t, s.n);
    launch(lowest_kernel<T>, blocks(s.n, 256), 256, 0, s.stream, s.x, s.c, s.chosen, mine.lowest, t, s.n, s.d);
    launch(stand_in_kernel, 1, 1, 0, s.stream, s.chosen, mine.lowest, t, s.n);
    gather(s, t, 1);
  }
  s.counters["distances"] = {computed};
  s.counters["distances saved"] = {int64_t(s.n) * (s.k - 1) - computed};  // k-means++ computes N for each row but one
}

template <class T>
constexpr Phases<T, Own<T>> phases{
    .prepare = prepare<T>, .upload = upload_features<T>, .initialise = initialise<T>, .download = download_drawn<T>};
}  // namespace

LADDER_VARIANT(.id = "i3_afkmc2", .base = "i2_kmeanspp",
               .idea = "a Markov chain in the place of passes over all points",
               .expect =
                   "200 t distances for row t instead of N: at N = 100 000 and K = 5000 5 times more of them, so a "
                   "loss there, a gain where K is well below N / 100; five launches per row set the least time. "
                   "A new algorithm: nearly every line is new",
               .shows = "initialise", .counter = "load_requests",
               .source = "000; Bachem, Lucic, Hassani and Krause, NIPS 2016", .draws = Draws::afkmc2,
               .f32 = phases<float>, .f64 = phases<double>)
