// i2: k-means++. A point is drawn with a probability proportional to its squared distance to the nearest point drawn
// before, so that the first centroids lie far apart: the expected inertia is within O(log K) of the optimum. i1 draws
// uniformly and often puts two centroids into one cluster. The price: K passes over all points, one after the other. No
// pass waits for the host: the drawn row stays on the device.
#include "../common/seeding/weights.cuh"

namespace {
using namespace ladder;

/// One block draws row t: the lowest whose inclusive prefix sum of weights exceeds u times the total.
/// Library: cub::DeviceScan gives the prefix sums; own because the CPU device has no CUB, and a fixed order of
/// additions draws the same rows on both.
template <class T>
__global__ void pick_kernel(const T* distance, const double* chunk_sum, int32_t* chosen, double u, int t, int chunks,
                            int n) {
  __shared__ double share[weight_threads];  // each thread's sum of chunk sums
  const int per_thread = (chunks + weight_threads - 1) / weight_threads;
  double sum = 0;
  for (int b = threadIdx.x * per_thread; b < min(chunks, int(threadIdx.x + 1) * per_thread); ++b) sum += chunk_sum[b];
  share[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x > 0) return;
  double total = 0, before = 0;
  for (int e = 0; e < weight_threads; ++e) total += share[e];
  if (!(total > 0)) {  // every point equals one drawn before
    chosen[t] = lowest_not_chosen(chosen, t);
    return;
  }
  const int64_t s = walk(share, 0, weight_threads, u * total, before);
  const int64_t b = walk(chunk_sum, s * per_thread, min(int64_t(chunks), (s + 1) * per_thread), u * total, before);
  chosen[t] = int32_t(walk(distance, b * weight_chunk, min(int64_t(n), (b + 1) * weight_chunk), u * total, before));
}

template <class T>
struct Workspace {
  Rows<T> rows;
  Sums sums;
  Weights<T> weights;
};

template <class T>
void initialise(Run<T, Workspace<T>>& s) {
  const auto& weights = s.ws.weights;
  draw_first(s, Stream::kmeanspp);
  for (int t = 1; t < s.k; ++t) {
    distances_to(s, t - 1);
    launch(pick_kernel<T>, 1, weight_threads, 0, s.stream, weights.distance, weights.chunk_sum, s.chosen,
           drawn_pair(s.problem.seed, Stream::kmeanspp, t, 0).u, t, weights.chunks, s.n);
    gather(s, t, 1);
  }
}

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare_weights<T>,
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
