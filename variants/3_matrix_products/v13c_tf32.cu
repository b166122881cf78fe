// v13c: the same products on the tensor cores. v13b's run on the fp32 units, at a tenth of the rate; tensor cores
// accept fp32 operands too, but cut each to 10 bits of mantissa (TF32) before they multiply. That is an error of the
// inputs, which no accumulation repairs: the share of labels that differ from the fp64 reference is this rung's lesson.
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
  check_blas(cublasSetMathMode(products.handle, CUBLAS_TF32_TENSOR_OP_MATH), "allowing TF32");
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

// Operands may be truncated instead of rounded: 2^-10. Tensor cores truncate sums as well: 2^-22 a step is an upper
// bound.
LADDER_VARIANT(.id = "v13c_tf32", .base = "v13b_cublas", .idea = "products on the tensor cores, in TF32",
               .expect =
                   "295 TFLOP/s instead of 49.5: products 5 times faster, the whole 3 times, as the products are still "
                   "written and read; labels wrong wherever two centroids are 0.1 % apart",
               .shows = "assign", .counter = "tensor_percent", .source = "what PyTorch does when allowed to",
               .arithmetic = {.form = Arithmetic::Form::expanded,
                              .distance_roundoff = 0x1p-22,
                              .input_roundoff = 0x1p-10,
                              .operands = "tf32"},
               .devices = {DeviceKind::cuda}, .f32 = phases<float>)

LADDER_LESSON(.predict = {{"chunk", "min(N, floor(268435456 / (K * B)))"},
                          {"launches", "ceil(N / chunk)"},
                          {"multiply_adds", "0"},
                          {"tensor_flop", "2 * chunk * K * D"}},
              .ask = "A relative error of 2^-11 per operand: is a label that changes by it a fault of the rung?",
              .answer =
                  "No: TF32 keeps 10 bits of mantissa, so two centroids whose distances differ by less than "
                  "that may change places. The rung's card says so, and it is judged by it; what it shows is "
                  "how many do.")
