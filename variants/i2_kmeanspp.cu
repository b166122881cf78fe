// i2: k-means++. A point is drawn with a chance in proportion to its squared distance to the nearest one drawn before,
// so that the first centroids lie far apart: the expected inertia is within O(log K) of the best. i1 draws blindly and
// often puts two centroids into one cluster. The price: K passes over all points, one after the other. No pass waits
// for the host: the drawn row stays on the device.
#include "parts/weights.cuh"

namespace {
using namespace ladder;

/// One block finds row t: the lowest whose sum of weights, its own included, exceeds u times that of all.
template <class T>
__global__ void pick_kernel(const T* distance, const double* part, int32_t* chosen, double u, int t, int parts, int n) {
  __shared__ double share[weight_threads];  // of the parts, each thread's
  const int per_thread = (parts + weight_threads - 1) / weight_threads;
  double sum = 0;
  for (int b = threadIdx.x * per_thread; b < min(parts, int(threadIdx.x + 1) * per_thread); ++b) sum += part[b];
  share[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x > 0) return;
  double total = 0, before = 0;
  for (int e = 0; e < weight_threads; ++e) total += share[e];
  if (!(total > 0)) {  // all points repeat one of those drawn
    chosen[t] = lowest_not_chosen(chosen, t);
    return;
  }
  const int64_t s = walk(share, 0, weight_threads, u * total, before);
  const int64_t b = walk(part, s * per_thread, min(int64_t(parts), (s + 1) * per_thread), u * total, before);
  chosen[t] = int32_t(walk(distance, b * piece, min(int64_t(n), (b + 1) * piece), u * total, before));
}

template <class T>
struct Own {
  Rows<T> rows;
  Sums sums;
  Weights<T> weights;
};

template <class T>
void initialise(Run<T, Own<T>>& s) {
  const auto& own = s.own.weights;
  draw_first(s, Stream::kmeanspp);
  for (int t = 1; t < s.k; ++t) {
    distances_to(s, t - 1);
    launch(pick_kernel<T>, 1, weight_threads, 0, s.stream, own.distance, own.part, s.chosen,
           drawn_pair(s.problem.seed, Stream::kmeanspp, t, 0).u, t, own.parts, s.n);
    gather(s, t, 1);
  }
}

template <class T>
constexpr Phases<T, Own<T>> phases{.prepare = prepare_weights<T>,
                                   .upload = upload_features<T>,
                                   .initialise = initialise<T>,
                                   .download = download_drawn<T>};
}  // namespace

LADDER_VARIANT(.id = "i2_kmeanspp", .base = "i1_random", .idea = "k-means++: far points are drawn more often",
               .expect =
                   "K passes over the points, each bound by memory: what an assignment with one centroid costs, K "
                   "times; fewer iterations afterwards, and a lower inertia. A new algorithm: distances, their sums "
                   "and a draw by weight are all new",
               .shows = "initialise", .counter = "dram_bytes", .source = "000; Arthur and Vassilvitskii, SODA 2007",
               .draws = Draws::kmeanspp, .f32 = phases<float>, .f64 = phases<double>)
