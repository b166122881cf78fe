// v13b: the library's way. The products of a chunk of points with all centroids are one matrix product (GEMM) by
// cuBLAS; a second kernel adds the norms and takes the argmin of each row. v13 does both in one kernel and keeps its
// products in registers; here each is written to global memory and read again, 256 MB of them at a time.
//
// link: cublas
#include <cublas_v2.h>

#include "../../harness/contract/lesson.hpp"
#include "../common/device/warp_argmin.cuh"
#include "../common/lloyd/norms.cuh"
#include "../common/update/choose_update.cuh"

namespace {
using namespace ladder;

constexpr size_t chunk_bytes = 256 << 20;

template <class T>
struct Products {
  T* value = nullptr;  // rows x k
  int rows = 0;        // points per chunk
  cublasHandle_t handle = nullptr;
  ~Products() { cublasDestroy(handle); }
};

void check_blas(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS) throw Error(std::string(what) + ": " + cublasGetStatusString(status));
}

template <class T>
struct Workspace {
  Norms<T> norms;
  Products<T> products;
  Rows<T> rows;
  Sums sums;
};

template <class T>
void prepare(Run<T, Workspace<T>>& s) {
  prepare_norms(s);
  auto& products = s.ws.products;
  products.rows = int(std::clamp<size_t>(chunk_bytes / (s.k * sizeof(T)), 1, s.n));
  products.value = s.template device<T>(size_t(products.rows) * s.k);
  check_blas(cublasCreate(&products.handle), "creating a cuBLAS handle");
  check_blas(cublasSetStream(products.handle, s.stream), "setting the stream of cuBLAS");
}

/// product (m x k, row-major) = points [first, first + m) times all centroids. cuBLAS is
/// column-major: there product is k x m, the centroids are d x k, and the points, stored feature by feature, n x d.
void multiply(Run<float, Workspace<float>>& s, int first, int m) {
  const auto& products = s.ws.products;
  const float one = 1, zero = 0;
  check_blas(cublasSgemm(products.handle, CUBLAS_OP_T, CUBLAS_OP_T, s.k, m, s.d, &one, s.c, s.d, s.x + first, s.n,
                         &zero, products.value, s.k),
             "multiplying points and centroids");
}
void multiply(Run<double, Workspace<double>>& s, int first, int m) {
  const auto& products = s.ws.products;
  const double one = 1, zero = 0;
  check_blas(cublasDgemm(products.handle, CUBLAS_OP_T, CUBLAS_OP_T, s.k, m, s.d, &one, s.c, s.d, s.x + first, s.n,
                         &zero, products.value, s.k),
             "multiplying points and centroids");
}

/// Argmin of a row by one warp per point: the products of a point lie side by side.
template <class T>
__global__ void nearest_kernel(const T* __restrict__ product, const T* __restrict__ norm, int32_t* label, int m,
                               int k) {
  const int i = int((blockIdx.x * int64_t(blockDim.x) + threadIdx.x) / warp_lanes), lane = threadIdx.x % warp_lanes;
  if (i >= m) return;  // a whole warp at a time
  T nearest = std::numeric_limits<T>::infinity();
  int best = lane < k ? lane : 0;
  for (int j = lane; j < k; j += warp_lanes) {
    const T distance = norm[j] - 2 * product[size_t(i) * k + j];
    if (distance < nearest) nearest = distance, best = j;
  }
  warp_argmin(nearest, best);
  if (lane == 0) label[i] = best;
}

template <class T>
void assign(Run<T, Workspace<T>>& s) {
  const auto& products = s.ws.products;
  compute_norms(s);
  for (int first = 0; first < s.n; first += products.rows) {
    const int m = std::min(products.rows, s.n - first);
    multiply(s, first, m);
    launch(nearest_kernel<T>, blocks(int64_t(m) * 32, 256), 256, 0, s.stream, products.value, norms(s), s.label + first,
           m, s.k);
  }
}

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare<T>,
                                         .upload = upload_features<T>,
                                         .restart = restart_rows<T>,
                                         .assign = assign<T>,
                                         .update = update_any<T, Layout::features>,
                                         .download = download_rows<T>};
}  // namespace

LADDER_VARIANT(
        .id = "v13b_cublas", .base = "v13_norms", .idea = "products by cuBLAS, then an argmin of each row",
        .expect =
            "what a user of libraries writes: at K x D = 5000 x 408 near fp32's 49.5 TFLOP/s, 25 ms, and 3 ms to "
            "write and read the products; below K = 100 the products' traffic exceeds the points'. "
            "A larger step: most of the changed lines are v13's kernel and its tiles, which go",
        .shows = "assign", .counter = "instructions_per_cycle", .source = "what cuVS, FAISS and KMeansRex do",
        .arithmetic = {.form = Arithmetic::Form::expanded}, .devices = {DeviceKind::cuda}, .f32 = phases<float>,
        .f64 = phases<double>)

LADDER_LESSON(.predict = {{"chunk", "min(N, floor(268435456 / (K * B)))"},
                          {"launches", "ceil(N / chunk)"},
                          {"multiply_adds", "chunk * K * D", "kmcuda"}},
              .ask =
                  "The library's product runs near the peak. What does the rung pay beside it, in bytes per "
                  "product?",
              .answer =
                  "Each product is written once and read once: 8 bytes in float, 12 GB at N x K = 1.5 x 10^9. "
                  "At 4.8 TB/s that is 2.5 ms, beside some 25 ms of arithmetic at D = 408. At D = 8 it would be "
                  "the whole time.")
