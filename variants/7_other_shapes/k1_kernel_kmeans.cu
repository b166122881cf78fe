// k1: kernel k-means as linear algebra. A kernel k(x, y) stands for the scalar product of the images of x and y in a
// space that is never computed; the means of these images have no coordinates, and a solution is its labels. With the
// kernel matrix (N x N, once, by cuBLAS) and the sparse matrix V (K x N: row j holds 1 / |C_j| at the points of cluster
// j), the distances of all points to all means, without the common term k(x, x), are
//     -2 V kernel + norms,    norm of mean j = row j of V times row j of V kernel.
// cuSPARSE multiplies: each entry of the kernel matrix is read once and added once, whatever K is. In the first
// iteration the means are the images of the initial centroids. A cluster without points has no mean and gets none.
//
// link on cuda: cublas
//
// link on cuda: cusparse
#include "../common/device/warp.cuh"
#include "../common/kernel_kmeans/kernel_means.cuh"
#include "../common/lloyd/norms.cuh"

namespace {
using namespace ladder;

// ---- the kernel matrix

template <class T>
struct Workspace {
  KernelMeans<T> kernel;
#ifdef __CUDACC__
  Libraries libraries;
#endif
};

template <class T>
void prepare(Run<T, Workspace<T>>& s) {
  prepare_pinned(s);
  auto& means = s.ws.kernel;
  means.kernel = s.template device<T>(size_t(s.n) * s.n);
  means.distance = s.template device<T>(size_t(s.k) * s.n);
  means.norm = s.template device<T>(s.k);
  means.point_square = s.template device<T>(s.n);
  means.centroid_square = s.template device<T>(s.k);
  means.first = s.template device<int>(size_t(s.k) + 1);
  means.member = s.template device<int>(s.n);
  means.weight = s.template device<T>(s.n);
  prepare_libraries(s);
}

/// k(a, x) from a.x, |a|^2 and |x|^2.
template <class T>
__device__ T kernel_value(const Kernel& kernel, T product, T a_square, T x_square) {
  if (kernel.form == Kernel::Form::gaussian) {
    const T square = a_square + x_square - 2 * product;  // rounding may make it negative
    return std::exp(-T(kernel.gamma) * max(square, T(0)));
  }
  if (kernel.form == Kernel::Form::linear) return product;
  const T base = T(kernel.gamma) * product + T(kernel.offset);
  T power = 1;
  for (int i = 0; i < kernel.degree; ++i) power *= base;
  return power;
}

/// One thread per entry: from scalar products (m x n) to `factor` times their kernel values.
template <class T>
__global__ void apply_kernel(Kernel kernel, T* matrix, const T* a_square, const T* x_square, T factor, int m, int n) {
  const int64_t e = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (e < int64_t(m) * n) matrix[e] = factor * kernel_value(kernel, matrix[e], a_square[e / n], x_square[e % n]);
}

/// out (m x n) = factor times the kernel values of rows (m x d) and all points. Writes |row|^2 to `square` (m).
template <class T>
void kernel_values(Run<T, Workspace<T>>& s, const T* rows, int m, T* square, T factor, T* out) {
  launch(norms_kernel<T>, blocks(int64_t(m) * 32, 256), 256, 0, s.stream, rows, square, m, s.d);
  multiply(s, rows, m, out);
  launch(apply_kernel<T>, blocks(int64_t(m) * s.n, 256), 256, 0, s.stream, s.problem.kernel, out, square,
         s.ws.kernel.point_square, factor, m, s.n);
}

template <class T>
void upload(Run<T, Workspace<T>>& s) {
  upload_rows(s);
  const auto& means = s.ws.kernel;
  kernel_values(s, s.x, s.n, means.point_square, T(1), means.kernel);
}

template <class T>
void restart(Run<T, Workspace<T>>& s) {
  restart_rows(s);
  s.ws.kernel.from_centroids = true;
}

// ---- assign

/// One thread per initial centroid: the norm of its image.
template <class T>
__global__ void centroid_norm_kernel(Kernel kernel, const T* square, T* norm, int k) {
  const int j = blockIdx.x * blockDim.x + threadIdx.x;
  if (j < k) norm[j] = kernel_value(kernel, square[j], square[j], square[j]);
}

/// Argmin: one thread per point. `first` is null where every cluster has a mean.
template <class T>
__global__ void nearest_kernel(const T* distance, const T* norm, const int* first, int32_t* label, int n, int k) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  T nearest = std::numeric_limits<T>::infinity();
  int best = 0;
  for (int j = 0; j < k; ++j) {
    if (first && first[j] == first[j + 1]) continue;  // without points there is no mean
    const T value = norm[j] + distance[size_t(j) * n + i];
    if (value < nearest) nearest = value, best = j;
  }
  label[i] = best;
}

template <class T>
void assign(Run<T, Workspace<T>>& s) {
  const auto& means = s.ws.kernel;
  if (means.from_centroids) {
    kernel_values(s, s.c, s.k, means.centroid_square, T(-2), means.distance);
    launch(centroid_norm_kernel<T>, blocks(s.k, 256), 256, 0, s.stream, s.problem.kernel, means.centroid_square,
           means.norm, s.k);
  }
  launch(nearest_kernel<T>, blocks(s.n, 256), 256, 0, s.stream, means.distance, means.norm,
         means.from_centroids ? nullptr : means.first, s.label, s.n, s.k);
}

// ---- update

/// One thread per cluster writes its row of V, points in ascending order, so that sums have a fixed order. All threads
/// of a warp read the same label at a time, in two passes; sorting the labels would take several passes as well.
template <class T>
__global__ void members_kernel(const int32_t* __restrict__ label, int* __restrict__ first, int* __restrict__ member,
                               T* __restrict__ weight, int n, int k) {
  const int j = blockIdx.x * blockDim.x + threadIdx.x;
  if (j >= k) return;
  int position = 0, count = 0;
#pragma unroll 8
  for (int i = 0; i < n; ++i) position += label[i] < j, count += label[i] == j;
  first[j] = position;
  if (j == k - 1) first[k] = n;
#pragma unroll 8
  for (int i = 0; i < n; ++i) {
    if (label[i] == j) member[position] = i, weight[position++] = T(1) / count;
  }
}

/// One warp per cluster: the norm of its mean.
template <class T>
__global__ void mean_norm_kernel(const int* first, const int* member, const T* weight, const T* distance, T* norm,
                                 int n, int k) {
  const int j = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  if (j >= k) return;  // a whole warp at a time
  T sum = 0;
  for (int e = first[j] + lane; e < first[j + 1]; e += 32) sum += weight[e] * distance[size_t(j) * n + member[e]];
  sum = warp_sum(sum);
  if (lane == 0) norm[j] = -sum / 2;
}

template <class T>
void update(Run<T, Workspace<T>>& s) {
  auto& means = s.ws.kernel;
  means.from_centroids = false;
  launch(members_kernel<T>, blocks(s.k, 32), 32, 0, s.stream, s.label, means.first, means.member, means.weight, s.n,
         s.k);
  multiply_sparse(s);
  launch(mean_norm_kernel<T>, blocks(int64_t(s.k) * 32, 256), 256, 0, s.stream, means.first, means.member, means.weight,
         means.distance, means.norm, s.n, s.k);
}

std::string refuse(const Shape& p, const Device& device, const Axes&) {
  const double square = double(p.n) * p.n * p.element_bytes, rest = (double(p.n) + p.k) * p.d + double(p.k) * p.n;
  const double bytes = square + (rest + 2.0 * (p.n + p.k)) * p.element_bytes + 8.0 * p.n + 4.0 * p.k;
  if (bytes <= double(device.memory_bytes)) return "";
  char text[160];
  std::snprintf(text, sizeof text, "the N x N kernel matrix needs %.0f bytes, all arrays %.0f, the device has %zu",
                square, bytes, device.memory_bytes);
  return text;
}

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare<T>,
                                         .upload = upload<T>,
                                         .restart = restart<T>,
                                         .assign = assign<T>,
                                         .update = update<T>,
                                         .download = download_rows<T>};
}  // namespace

// The libraries add up in the element type.
LADDER_VARIANT(.id = "k1_kernel_kmeans", .base = "", .idea = "kernel k-means: cluster sums as a sparse matrix product",
               .expect =
                   "an update reads the kernel matrix once, whatever K is: 1.6 GB at N = 20000 in float, 0.4 ms; the "
                   "matrix itself, 2 N^2 D operations and as many writes, is upload's, and counts in end_to_end",
               .shows = "iteration", .source = "Bellavita et al., Popcorn, PPoPP 2025 (cited by 001)",
               .arithmetic = {.form = Arithmetic::Form::expanded, .sum_roundoff = 0}, .implicit = true,
               .refuse = refuse, .f32 = phases<float>, .f64 = phases<double>)
