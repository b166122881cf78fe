// Points kept as half-precision numbers of the variant's own making: rounded once, in `upload`. Distances are added up
// in the element type; the card says what was rounded, and how.
#include "../../variants/parts/assign_rows.cuh"
#include "../../variants/parts/update_shared.cuh"

namespace {
using namespace ladder;

/// The nearest number with 11 bits of mantissa, ties to even: half's precision without its range.
template <class T>
__device__ T rounded(T value) {
  const T shifted = value * T(sizeof(T) == 4 ? 8193 : 4398046511105);  // 2^13 + 1, 2^42 + 1: Veltkamp's splitting
  return shifted - (shifted - value);
}

template <class T>
__global__ void round_kernel(const T* from, T* to, int64_t count) {
  const int64_t e = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (e < count) to[e] = rounded(from[e]);
}

template <class T>
struct Own {
  Sums sums;
  T *points = nullptr, *centroids = nullptr;  // rounded
};

template <class T>
void prepare(Run<T, Own<T>>& s) {
  prepare_sums(s);
  s.own = {s.template device<T>(size_t(s.n) * s.d), s.template device<T>(size_t(s.k) * s.d)};
}

template <class T>
void round_all(State<T>& s, const T* from, T* to, int64_t count) {
  launch(round_kernel<T>, blocks(count, 256), 256, 0, s.stream, from, to, count);
}

template <class T>
void upload(Run<T, Own<T>>& s) {
  upload_rows(s);
  round_all(s, s.x, s.own.points, int64_t(s.n) * s.d);
}

template <class T>
void assign(Run<T, Own<T>>& s) {
  const auto& own = s.own;
  round_all(s, s.c, own.centroids, int64_t(s.k) * s.d);
  launch(assign_points_kernel<T>, blocks(s.n, 256), 256, 0, s.stream, own.points, own.centroids, s.label, s.n, s.k,
         s.d);
}

template <class T>
constexpr Phases<T, Own<T>> phases{.prepare = prepare<T>,
                                   .upload = upload<T>,
                                   .restart = restart_rows<T>,
                                   .assign = assign<T>,
                                   .update = update_shared<T, Layout::rows>,
                                   .download = download_rows<T>};
}  // namespace

LADDER_VARIANT(.id = "t4_halves", .base = "v05_shared_update", .idea = "points rounded to half", .shows = "assign",
               .arithmetic = {.input_roundoff = 0x1p-11}, .refuse = refuse_update_shared, .f32 = phases<float>,
               .f64 = phases<double>)
