// v24: one product of halves as before, and labels that are right all the same. The error of a product of halves is
// bounded pair by pair, by |y - yh| |z| + |yh| |z - zh| and the tensor core's truncations
// (certified/error_bound.cuh; proofs in docs/certificate.md), so each product gives an upper and a lower bound of the
// centroid's score. Where only one centroid's upper bound reaches the largest lower bound, the label is proven. The
// other rows, one in a hundred, go to a list, and a second kernel computes their distances to all centroids in double.
#include "../common/certified/assign_sm80.cuh"
#include "../common/update/choose_update.cuh"

namespace {
using namespace ladder;

/// The nearest centroid of each row in the list, in double: one warp per row, lanes over the features. Ties go to the
/// lower centroid.
template <class T>
__global__ void brute_force_kernel(const T* __restrict__ x, const T* __restrict__ c, int32_t* __restrict__ label,
                                   const UndecidedPair* undecided_pairs, const RefineCounters* counters, int n, int k,
                                   int d) {
  const int warps = gridDim.x * blockDim.x / 32, lane = threadIdx.x % 32;
  const int pairs = counters->pairs, count = pairs + counters->brute_force;
  for (int index = (blockIdx.x * blockDim.x + threadIdx.x) / 32; index < count; index += warps) {
    const int row = undecided_pairs[index < pairs ? index : n - 1 - (index - pairs)].row;
    double nearest = std::numeric_limits<double>::infinity();
    int best = 0;
    for (int j = 0; j < k; ++j) {
      double distance = 0;
      for (int f = lane; f < d; f += 32) {
        const double diff = double(x[int64_t(row) * d + f]) - double(c[int64_t(j) * d + f]);
        distance += diff * diff;
      }
      distance = warp_sum(distance);
      if (distance < nearest) nearest = distance, best = j;
    }
    if (lane == 0) label[row] = best;
  }
}

template <class T>
struct Workspace {
  Rows<T> rows;
  Sums sums;
  certified::Certified<T> certified;
  UndecidedRows refinement;
};

template <class T>
void prepare(Run<T, Workspace<T>>& s) {
  prepare_features(s);
  prepare_undecided(s);
  prepare_certified_operands(s);
}

template <class T>
void upload(Run<T, Workspace<T>>& s) {
  upload_features(s);
  quantize_points(s);
}

template <class T>
void restart(Run<T, Workspace<T>>& s) {
  restart_rows(s);
  reset_undecided(s);
}

template <class T>
void assign(Run<T, Workspace<T>>& s) {
  const RefineCounters* const counters = assign_proven(s);
  launch(brute_force_kernel<T>, 8 * s.device_info.multiprocessors, 256, 0, s.stream, s.ws.rows.points, s.c, s.label,
         s.ws.refinement.undecided_pairs, counters, s.n, s.k, s.d);
}

std::string refuse(const Shape& p, const Device& device, const Axes&) { return refuse_certified(p, device); }

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare<T>,
                                         .upload = upload<T>,
                                         .restart = restart<T>,
                                         .assign = assign<T>,
                                         .update = update_any<T, Layout::features>,
                                         .download = download_refined<T>};
}  // namespace

// A proven label is exact; the others are those of sums of (x - c)^2 in double. `prunes`: bounds decide most pairs
// without a distance in the points' type, so that type's peak rate is no limit.
LADDER_VARIANT(
        .id = "v24_certified", .base = "v23_half_product",
        .idea = "one product of halves; an error bound proves the label, or double decides",
        .expect =
            "a third of v22's products, but each undecided row reads all centroids: at kmcuda 3,000 rows (1 in "
            "100) x 8.2 MB = 25 GB, mostly from the L2 cache, some 5 ms beside 7 ms of products. So 1.5 times as "
            "fast as v22 there, and slower where clusters overlap in few dimensions. A new algorithm: bounds and "
            "list have no counterpart in v22",
        .shows = "assign", .counter = "tensor_percent", .source = "this project: docs/certificate.md",
        .arithmetic = {.form = Arithmetic::Form::difference, .distance_roundoff = 0x1p-53}, .prunes = true,
        .refuse = refuse, .f32 = phases<float>, .f64 = phases<double>)
