// Kernels of pca.cuh.
//
// for cuda: 90a
#include "../device/hash.cuh"
#include "../device/warp.cuh"
#include "pca.cuh"

namespace ladder {
namespace {

constexpr int rounds = 4;                   // of the iteration
constexpr double rank_tolerance = 0x1p-40;  // a vector whose residual (squared) is below this share of it is dropped

template <class T>
__global__ void sample_kernel(const T* rows, Frame<T> frame, float* sample, int64_t values, int64_t apart, int d) {
  const int64_t e = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (e >= values) return;
  const double value = frame(rows, e / d * apart, int(e % d), d);
  sample[e] = fabs(value) < 1 ? float(value) : 0;  // of an outlier row, which would have a direction to itself
}

/// First vectors: pseudo-random signs.
__global__ void signs_kernel(double* vectors, int64_t values) {
  const int64_t e = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (e >= values) return;
  vectors[e] = hash32(uint32_t(e) * 0x9e3779b9u + 0x7f4a7c15u) >> 31 ? -1 : 1;
}

constexpr int product_tile = 32;  // rows and columns of a block of 256 threads
constexpr int product_step = 16;

/// product = a^T b, with a: inner x rows, b: inner x columns, product: rows x columns.
template <class A, class B, class P>
__global__ void product_kernel(const A* a, const B* b, P* product, int rows, int columns, int inner) {
  __shared__ P lhs[product_step][product_tile], rhs[product_step][product_tile];
  const int row = blockIdx.y * product_tile, column = blockIdx.x * product_tile;
  const int r = threadIdx.x / 16 * 2, c = threadIdx.x % 16 * 2;  // a thread has 2 x 2 of the tile
  P sum[2][2] = {};
  for (int begin = 0; begin < inner; begin += product_step) {
    __syncthreads();  // the step before is no longer read
    for (int e = threadIdx.x; e < product_step * product_tile; e += blockDim.x) {
      const int i = begin + e / product_tile, index = e % product_tile;
      lhs[e / product_tile][index] = i < inner && row + index < rows ? P(a[int64_t(i) * rows + row + index]) : P(0);
      rhs[e / product_tile][index] =
          i < inner && column + index < columns ? P(b[int64_t(i) * columns + column + index]) : P(0);
    }
    __syncthreads();
    for (int i = 0; i < product_step; ++i)
      for (int e = 0; e < 4; ++e) sum[e / 2][e % 2] += lhs[i][r + e / 2] * rhs[i][c + e % 2];
  }
  for (int e = 0; e < 4; ++e) {
    const int i = row + r + e / 2, j = column + c + e % 2;
    if (i < rows && j < columns) product[int64_t(i) * columns + j] = sum[e / 2][e % 2];
  }
}

template <class A, class B, class P>
void multiply_transposed(cudaStream_t stream, const A* a, const B* b, P* product, int rows, int columns, int inner) {
  launch(product_kernel<A, B, P>, dim3(blocks(columns, product_tile), blocks(rows, product_tile)), 256, 0, stream, a, b,
         product, rows, columns, inner);
}

/// The index of row i, column k in a packed lower triangle.
__device__ inline int in_triangle(int i, int k) { return i * (i + 1) / 2 + k; }
constexpr int triangle = max_directions * (max_directions + 1) / 2;
constexpr size_t factor_bytes = sizeof(double) * (triangle + max_directions);

constexpr int factor_side = 32;  // a block has factor_side x factor_side threads

/// One block: Cholesky. The products of the vectors with each other become L^T, L L^T = products; a vector that depends
/// on earlier ones gets a row and a column of zeros.
__global__ void __launch_bounds__(factor_side* factor_side) factor_kernel(double* products) {
  double* const lower = dynamic_shared<double>();
  double* const whole = lower + triangle;  // of each vector, its square before elimination
  for (int e = threadIdx.x; e < max_directions * max_directions; e += blockDim.x) {
    const int i = e / max_directions, k = e % max_directions;
    if (k <= i) lower[in_triangle(i, k)] = products[e];
    if (k == i) whole[i] = products[e];
  }
  const int row = threadIdx.x / factor_side, column = threadIdx.x % factor_side;
  for (int j = 0; j < max_directions; ++j) {
    __syncthreads();
    const double pivot = lower[in_triangle(j, j)];
    const bool dependent = !(pivot > rank_tolerance * whole[j]);
    const double length = dependent ? 0 : sqrt(pivot);
    __syncthreads();  // all have read it
    for (int i = j + threadIdx.x; i < max_directions; i += blockDim.x) {
      double& entry = lower[in_triangle(i, j)];
      entry = dependent ? 0 : i == j ? length : entry / length;
    }
    __syncthreads();
    for (int i = j + 1 + row; i < max_directions; i += factor_side) {
      for (int k = j + 1 + column; k <= i; k += factor_side)
        lower[in_triangle(i, k)] -= lower[in_triangle(i, j)] * lower[in_triangle(k, j)];
    }
  }
  __syncthreads();
  for (int e = threadIdx.x; e < max_directions * max_directions; e += blockDim.x) {
    const int i = e % max_directions, k = e / max_directions;
    products[e] = k <= i ? lower[in_triangle(i, k)] : 0;
  }
}

/// One warp per feature: orthonormal = vectors L^-T by forward substitution, `upper` is L^T. A dependent vector becomes
/// 0. Lanes have the feature's values of vectors 32 apart.
__global__ void solve_kernel(const double* vectors, const double* upper, double* orthonormal, int d) {
  constexpr int each = max_directions / 32;
  const int f = int((blockIdx.x * int64_t(blockDim.x) + threadIdx.x) / 32), lane = threadIdx.x % 32;
  if (f >= d) return;  // a whole warp at a time
  double value[each];
  for (int m = 0; m < each; ++m) value[m] = vectors[int64_t(f) * max_directions + m * 32 + lane];
#pragma unroll
  for (int e = 0; e < each; ++e) {
#pragma unroll 4  // loads in flight
    for (int j = e * 32; j < e * 32 + 32; ++j) {
      const double length = upper[j * max_directions + j];
      const double solved = length > 0 ? __shfl_sync(0xffffffffu, value[e], j % 32) / length : 0;
      if (lane == j % 32) value[e] = solved;
      for (int m = e; m < each; ++m) {
        if (m * 32 + lane > j) value[m] -= solved * upper[j * max_directions + m * 32 + lane];
      }
    }
  }
  for (int m = 0; m < each; ++m) orthonormal[int64_t(f) * max_directions + m * 32 + lane] = value[m];
}

/// One warp: the defect, from the products of the directions with each other.
__global__ void defect_kernel(const double* products, double* defect) {
  double sum = 0;
  for (int e = threadIdx.x; e < max_directions * max_directions; e += warp_lanes) {
    const double off = products[e] - (e / max_directions == e % max_directions && products[e] != 0 ? 1 : 0);
    sum += off * off;
  }
  sum = warp_sum(sum);
  // A product of two unit vectors is off by less than 2^-40, and so is their norm by less than 2^-33, for any d <=
  // 4096.
  if (threadIdx.x == 0) *defect = sqrt(sum) * (1 + 0x1p-40) + 0x1p-33;
}

}  // namespace

void measure_defect(cudaStream_t stream, const double* products, double* defect) {
  launch(defect_kernel, 1, warp_lanes, 0, stream, products, defect);
}

template <class T>
void find_directions(cudaStream_t stream, const T* rows, const Frame<T>& frame, const Subspace& subspace,
                     const Directions& found, int n, int d) {
  const auto& [sample, covariance, vectors, products, count] = subspace;
  const int64_t values = int64_t(count) * d;
  launch(sample_kernel<T>, blocks(values, 256), 256, 0, stream, rows, frame, sample, values, n / count, d);
  multiply_transposed(stream, sample, sample, covariance, d, d, count);
  launch(signs_kernel, blocks(int64_t(d) * max_directions, 256), 256, 0, stream, found.value,
         int64_t(d) * max_directions);
  for (int round = 0; round < rounds; ++round) {
    multiply_transposed(stream, covariance, found.value, vectors, d, max_directions, d);
    multiply_transposed(stream, vectors, vectors, products, max_directions, max_directions, d);
    launch(factor_kernel, 1, factor_side * factor_side, factor_bytes, stream, products);
    launch(solve_kernel, blocks(int64_t(d) * 32, 128), 128, 0, stream, vectors, products, found.value, d);
  }
  multiply_transposed(stream, found.value, found.value, products, max_directions, max_directions, d);
  measure_defect(stream, products, found.defect);
}
template void find_directions<float>(cudaStream_t, const float*, const Frame<float>&, const Subspace&,
                                     const Directions&, int, int);
template void find_directions<double>(cudaStream_t, const double*, const Frame<double>&, const Subspace&,
                                      const Directions&, int, int);

}  // namespace ladder
