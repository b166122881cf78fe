// Kernel k-means: its arrays and its two matrix products, by cuBLAS and cuSPARSE. The CPU device has neither library:
// two plain kernels stand in there. Used by k1_kernel_kmeans.
#pragma once
#ifdef __CUDACC__
#include <cublas_v2.h>
#include <cusparse.h>
#endif

#include "../lloyd/phases.cuh"

namespace ladder {

/// Means without coordinates, represented by their scalar products.
template <class T>
struct KernelMeans {
  T* kernel = nullptr;                                    // n x n
  T* distance = nullptr;                                  // k x n: -2 times the scalar products of means and points
  T* norm = nullptr;                                      // k: of the means
  T *point_square = nullptr, *centroid_square = nullptr;  // n, k: |x|^2, |c|^2
  // V as compressed sparse rows: row j has the entries [first[j], first[j + 1]).
  int *first = nullptr, *member = nullptr;  // k + 1, n
  T* weight = nullptr;                      // n
  bool from_centroids = false;              // the means are the images of the initial centroids
};

#ifdef __CUDACC__
template <class T>
constexpr cudaDataType type = sizeof(T) == 4 ? CUDA_R_32F : CUDA_R_64F;

struct Libraries {
  cublasHandle_t blas = nullptr;
  cusparseHandle_t sparse = nullptr;
  cusparseSpMatDescr_t v = nullptr;
  cusparseDnMatDescr_t kernel = nullptr, distance = nullptr;
  char* buffer = nullptr;
  ~Libraries() {
    cusparseDestroyDnMat(distance);
    cusparseDestroyDnMat(kernel);
    cusparseDestroySpMat(v);
    cusparseDestroy(sparse);
    cublasDestroy(blas);
  }
};

inline void check_blas(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS) throw Error(std::string(what) + ": " + cublasGetStatusString(status));
}
inline void check_sparse(cusparseStatus_t status, const char* what) {
  if (status != CUSPARSE_STATUS_SUCCESS) throw Error(std::string(what) + ": " + cusparseGetErrorString(status));
}

// For row-major matrices; it keeps nothing of the pattern of V between calls.
constexpr cusparseSpMMAlg_t algorithm = CUSPARSE_SPMM_CSR_ALG2;
constexpr cusparseOperation_t not_transposed = CUSPARSE_OPERATION_NON_TRANSPOSE;

template <class T, class W>
void prepare_libraries(Run<T, W>& s) {
  const auto& means = s.ws.kernel;
  auto& libraries = s.ws.libraries;
  check_blas(cublasCreate(&libraries.blas), "creating a cuBLAS handle");
  check_blas(cublasSetStream(libraries.blas, s.stream), "setting the stream of cuBLAS");
  check_sparse(cusparseCreate(&libraries.sparse), "creating a cuSPARSE handle");
  check_sparse(cusparseSetStream(libraries.sparse, s.stream), "setting the stream of cuSPARSE");
  check_sparse(cusparseCreateCsr(&libraries.v, s.k, s.n, s.n, means.first, means.member, means.weight,
                                 CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO, type<T>),
               "describing V");
  check_sparse(cusparseCreateDnMat(&libraries.kernel, s.n, s.n, s.n, means.kernel, type<T>, CUSPARSE_ORDER_ROW),
               "describing the kernel matrix");
  check_sparse(cusparseCreateDnMat(&libraries.distance, s.k, s.n, s.n, means.distance, type<T>, CUSPARSE_ORDER_ROW),
               "describing the distances");
  const T factor = -2, zero = 0;
  size_t bytes = 0;
  check_sparse(cusparseSpMM_bufferSize(libraries.sparse, not_transposed, not_transposed, &factor, libraries.v,
                                       libraries.kernel, &zero, libraries.distance, type<T>, algorithm, &bytes),
               "querying the size of cuSPARSE's buffer");
  libraries.buffer = s.template device<char>(bytes);
}

/// out (m x n) = rows (m x d) times points. cuBLAS is column-major: there out is n x m, rows d x m,
/// points d x n.
template <class T, class W>
void multiply(Run<T, W>& s, const T* rows, int m, T* out) {
  const T one = 1, zero = 0;
  check_blas(cublasGemmEx(s.ws.libraries.blas, CUBLAS_OP_T, CUBLAS_OP_N, s.n, m, s.d, &one, s.x, type<T>, s.d, rows,
                          type<T>, s.d, &zero, out, type<T>, s.n,
                          sizeof(T) == 4 ? CUBLAS_COMPUTE_32F : CUBLAS_COMPUTE_64F, CUBLAS_GEMM_DEFAULT),
             "multiplying points");
}

/// distance (k x n) = -2 V kernel.
template <class T, class W>
void multiply_sparse(Run<T, W>& s) {
  const auto& libraries = s.ws.libraries;
  const T factor = -2, zero = 0;
  check_sparse(cusparseSpMM(libraries.sparse, not_transposed, not_transposed, &factor, libraries.v, libraries.kernel,
                            &zero, libraries.distance, type<T>, algorithm, libraries.buffer),
               "multiplying V and the kernel matrix");
}
#else
template <class T, class W>
void prepare_libraries(Run<T, W>&) {}

/// One thread per entry of out.
template <class T>
__global__ void multiply_kernel(const T* rows, const T* x, T* out, int m, int n, int d) {
  const int64_t e = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (e >= int64_t(m) * n) return;
  T sum = 0;
  for (int f = 0; f < d; ++f) sum += rows[e / n * d + f] * x[e % n * d + f];
  out[e] = sum;
}
template <class T, class W>
void multiply(Run<T, W>& s, const T* rows, int m, T* out) {
  launch(multiply_kernel<T>, blocks(int64_t(m) * s.n, 256), 256, 0, s.stream, rows, s.x, out, m, s.n, s.d);
}

/// One thread per cluster and point.
template <class T>
__global__ void multiply_sparse_kernel(const T* kernel, const int* first, const int* member, const T* weight,
                                       T* distance, int n, int k) {
  const int64_t e = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (e >= int64_t(k) * n) return;
  T sum = 0;
  for (int i = first[e / n]; i < first[e / n + 1]; ++i) sum += weight[i] * kernel[int64_t(member[i]) * n + e % n];
  distance[e] = -2 * sum;
}
template <class T, class W>
void multiply_sparse(Run<T, W>& s) {
  const auto& means = s.ws.kernel;
  launch(multiply_sparse_kernel<T>, blocks(int64_t(s.k) * s.n, 256), 256, 0, s.stream, means.kernel, means.first,
         means.member, means.weight, means.distance, s.n, s.k);
}
#endif

}  // namespace ladder
