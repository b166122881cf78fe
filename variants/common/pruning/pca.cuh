// The leading principal directions of the points, on the device and without a library: a subspace iteration on the
// covariance of some of them. A block of vectors is multiplied with the covariance and made orthonormal again (by the
// Cholesky factor of their products), a few times over; its first vectors then span, nearly, the directions in which
// points differ most. "Nearly" is good enough for who uses them (projected.cuh): nothing that is proven needs the
// directions to be principal, and by how much they fail to be orthonormal is measured. No atomic, no order that
// depends on the device: the same directions in every run. v29_rank_selection introduces them.
// Source: H. Rutishauser, "Simultaneous iteration method for symmetric matrices", 1970; N. Halko, P. G. Martinsson and
// J. A. Tropp, "Finding structure with randomness", 2011.
#pragma once
#include "../certified/frame.cuh"

namespace ladder {

constexpr int max_directions = 128;         // vectors of the iteration
constexpr int sample_rows = 4096;           // points whose covariance it is
constexpr int rounds = 4;                   // of the iteration
constexpr int most_projected = 4096;        // features of which the defect is known well enough
constexpr double rank_tolerance = 0x1p-40;  // a vector of which the earlier ones leave less (of its square) is none

struct Directions {
  double* at = nullptr;      // d x sought: feature f of direction k is at[f * sought + k]; all 0 where there is none
  double* defect = nullptr;  // 1: not less than |P P^T - I|, of the directions that are not 0
};

/// What finding them takes, besides.
struct Subspace {
  float *sample = nullptr, *covariance = nullptr;  // count x d, d x d
  double *vectors = nullptr, *products = nullptr;  // d x sought, sought x sought
  int count = 0;
};

template <class T>
__global__ void sample_kernel(const T* rows, Frame<T> view, float* sample, int64_t values, int64_t apart, int d) {
  const int64_t e = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (e < values) sample[e] = float(view(rows, e / d * apart, int(e % d), d));
}

/// Vectors to begin with: signs that look random.
template <class T>
__global__ void signs_kernel(T* vectors, int64_t values) {
  const int64_t e = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (e >= values) return;
  uint32_t h = uint32_t(e) * 0x9e3779b9u + 0x7f4a7c15u;
  for (int round = 0; round < 2; ++round) h ^= h >> 16, h *= 0x7feb352du, h ^= h >> 15, h *= 0x846ca68bu;
  vectors[e] = h >> 31 ? -1 : 1;
}

constexpr int product_tile = 32;  // rows and columns of a product, of a block of 256 threads
constexpr int product_step = 16;

/// product = a^T b, with a: inner x rows, b: inner x columns, product: rows x columns.
template <class A, class B, class P>
__global__ void product_kernel(const A* a, const B* b, P* product, int rows, int columns, int inner) {
  __shared__ P left[product_step][product_tile], right[product_step][product_tile];
  const int row = blockIdx.y * product_tile, column = blockIdx.x * product_tile;
  const int r = threadIdx.x / 16 * 2, c = threadIdx.x % 16 * 2;  // of the tile: a thread has 2 x 2 of it
  P sum[2][2] = {};
  for (int begin = 0; begin < inner; begin += product_step) {
    __syncthreads();  // nobody reads the step before any more
    for (int e = threadIdx.x; e < product_step * product_tile; e += blockDim.x) {
      const int i = begin + e / product_tile, at = e % product_tile;
      left[e / product_tile][at] = i < inner && row + at < rows ? P(a[int64_t(i) * rows + row + at]) : P(0);
      right[e / product_tile][at] =
          i < inner && column + at < columns ? P(b[int64_t(i) * columns + column + at]) : P(0);
    }
    __syncthreads();
    for (int i = 0; i < product_step; ++i)
      for (int e = 0; e < 4; ++e) sum[e / 2][e % 2] += left[i][r + e / 2] * right[i][c + e % 2];
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

/// Where row i of a lower triangle has its column k.
__device__ inline int in_triangle(int i, int k) { return i * (i + 1) / 2 + k; }
constexpr int triangle = max_directions * (max_directions + 1) / 2;
constexpr size_t factor_bytes = sizeof(double) * (triangle + max_directions);

constexpr int factor_side = 32;  // its block is factor_side x factor_side threads

/// One block. The products of the vectors with each other become L^T, of the lower triangle L with L L^T = products; a
/// vector that depends on earlier ones gets a row and a column of zeros.
__global__ void __launch_bounds__(factor_side* factor_side) factor_kernel(double* products) {
  double* const lower = dynamic_shared<double>();
  double* const whole = lower + triangle;  // of each vector, its square before the earlier ones were taken away
  for (int e = threadIdx.x; e < max_directions * max_directions; e += blockDim.x) {
    const int i = e / max_directions, k = e % max_directions;
    if (k <= i) lower[in_triangle(i, k)] = products[e];
    if (k == i) whole[i] = products[e];
  }
  const int row = threadIdx.x / factor_side, column = threadIdx.x % factor_side;
  for (int j = 0; j < max_directions; ++j) {
    __syncthreads();
    const double pivot = lower[in_triangle(j, j)];
    const bool none = !(pivot > rank_tolerance * whole[j]);
    const double length = none ? 0 : sqrt(pivot);
    __syncthreads();  // all have read it
    for (int i = j + threadIdx.x; i < max_directions; i += blockDim.x) {
      double& here = lower[in_triangle(i, j)];
      here = none ? 0 : i == j ? length : here / length;
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

/// One warp per feature: orthonormal = vectors L^-T, `upper` is L^T. A vector that has no place in L becomes 0. Lanes
/// have the feature's values of vectors 32 apart; as soon as one is known, it is taken away from all later ones.
__global__ void solve_kernel(const double* vectors, const double* upper, double* orthonormal, int d) {
  constexpr int each = max_directions / 32;
  const int f = int((blockIdx.x * int64_t(blockDim.x) + threadIdx.x) / 32), lane = threadIdx.x % 32;
  if (f >= d) return;  // a whole warp at a time
  double value[each];
  for (int m = 0; m < each; ++m) value[m] = vectors[int64_t(f) * max_directions + m * 32 + lane];
#pragma unroll
  for (int own = 0; own < each; ++own) {
#pragma unroll 4  // so many rows are on their way together
    for (int j = own * 32; j < own * 32 + 32; ++j) {
      const double length = upper[j * max_directions + j];
      const double known = length > 0 ? __shfl_sync(0xffffffffu, value[own], j % 32) / length : 0;
      if (lane == j % 32) value[own] = known;
      for (int m = own; m < each; ++m) {
        if (m * 32 + lane > j) value[m] -= known * upper[j * max_directions + m * 32 + lane];
      }
    }
  }
  for (int m = 0; m < each; ++m) orthonormal[int64_t(f) * max_directions + m * 32 + lane] = value[m];
}

/// One block: the defect, from the products of the directions with each other.
__global__ void defect_kernel(const double* products, double* defect) {
  __shared__ double share[256];
  double sum = 0;
  for (int e = threadIdx.x; e < max_directions * max_directions; e += blockDim.x) {
    const double off = products[e] - (e / max_directions == e % max_directions && products[e] != 0 ? 1 : 0);
    sum += off * off;
  }
  share[threadIdx.x] = sum;
  for (int half = blockDim.x / 2; half > 0; half /= 2) {
    __syncthreads();
    if (int(threadIdx.x) < half) share[threadIdx.x] += share[threadIdx.x + half];
  }
  // A product of two unit vectors is off by less than 2^-40, and so is their norm by less than 2^-33, for any d <=
  // 4096.
  if (threadIdx.x == 0) *defect = sqrt(share[0]) * (1 + 0x1p-40) + 0x1p-33;
}

inline Directions allocate_directions(Resources& s, int d) {
  return {s.device<double>(size_t(d) * max_directions), s.device<double>(1)};
}

inline Subspace allocate_subspace(Resources& s, int n, int d) {
  const int count = std::min(n, sample_rows);
  return {s.device<float>(size_t(count) * d), s.device<float>(size_t(d) * d),
          s.device<double>(size_t(d) * max_directions), s.device<double>(max_directions * max_directions), count};
}

/// Finds the directions of n points, row-major on the device, as `view` sees them.
template <class T>
void find_directions(cudaStream_t stream, const T* rows, const Frame<T>& view, const Subspace& own,
                     const Directions& found, int n, int d) {
  const int64_t values = int64_t(own.count) * d;
  launch(sample_kernel<T>, blocks(values, 256), 256, 0, stream, rows, view, own.sample, values, n / own.count, d);
  multiply_transposed(stream, own.sample, own.sample, own.covariance, d, d, own.count);
  launch(signs_kernel<double>, blocks(int64_t(d) * max_directions, 256), 256, 0, stream, found.at,
         int64_t(d) * max_directions);
  for (int round = 0; round < rounds; ++round) {
    multiply_transposed(stream, own.covariance, found.at, own.vectors, d, max_directions, d);
    multiply_transposed(stream, own.vectors, own.vectors, own.products, max_directions, max_directions, d);
    launch(factor_kernel, 1, factor_side * factor_side, factor_bytes, stream, own.products);
    launch(solve_kernel, blocks(int64_t(d) * 32, 128), 128, 0, stream, own.vectors, own.products, found.at, d);
  }
  multiply_transposed(stream, found.at, found.at, own.products, max_directions, max_directions, d);
  launch(defect_kernel, 1, 256, 0, stream, own.products, found.defect);
}

}  // namespace ladder
