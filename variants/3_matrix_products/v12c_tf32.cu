// v12c: the same products on the tensor cores. v12b's run on the fp32 units, a tenth as fast; tensor cores take fp32
// operands too, but cut each to 10 bits behind the point (TF32) before they multiply. The error is one of the inputs,
// and no accumulation repairs it: the share of labels that differ from the fp64 reference is this rung's lesson.
// link: cublas
#include <cublas_v2.h>

#include "../common/lloyd/norms.cuh"
#include "../common/update/lane_private.cuh"

namespace {
using namespace ladder;

constexpr size_t chunk_bytes = 256 << 20;

template <class T>
struct Products {
  T* product = nullptr;  // rows x k
  int rows = 0;          // points per chunk
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
  auto& own = s.ws.products;
  own.rows = int(std::clamp<size_t>(chunk_bytes / (s.k * sizeof(T)), 1, s.n));
  own.product = s.template device<T>(size_t(own.rows) * s.k);
  check_blas(cublasCreate(&own.handle), "making a cuBLAS handle");
  check_blas(cublasSetStream(own.handle, s.stream), "giving cuBLAS the stream");
  check_blas(cublasSetMathMode(own.handle, CUBLAS_TF32_TENSOR_OP_MATH), "allowing TF32");
}

/// product (m x k, row-major) = points [first, first + m) times all centroids. cuBLAS counts by columns: to it product
/// is k x m, the centroids are d x k, and the points, which lie feature by feature, are n x d.
void multiply(Run<float, Workspace<float>>& s, int first, int m) {
  const auto& own = s.ws.products;
  const float one = 1, zero = 0;
  check_blas(cublasSgemm(own.handle, CUBLAS_OP_T, CUBLAS_OP_T, s.k, m, s.d, &one, s.c, s.d, s.x + first, s.n, &zero,
                         own.product, s.k),
             "multiplying points and centroids");
}

/// One warp per point: its products lie side by side.
template <class T>
__global__ void nearest_kernel(const T* __restrict__ product, const T* __restrict__ norm, int32_t* label, int m,
                               int k) {
  const int i = int((blockIdx.x * int64_t(blockDim.x) + threadIdx.x) / 32), lane = threadIdx.x % 32;
  if (i >= m) return;  // a whole warp at a time
  T nearest = std::numeric_limits<T>::infinity();
  int best = lane < k ? lane : 0;
  for (int j = lane; j < k; j += 32) {
    const T distance = norm[j] - 2 * product[size_t(i) * k + j];
    if (distance < nearest) nearest = distance, best = j;
  }
  warp_argmin(nearest, best);
  if (lane == 0) label[i] = best;
}

template <class T>
void assign(Run<T, Workspace<T>>& s) {
  const auto& own = s.ws.products;
  compute_norms(s);
  for (int first = 0; first < s.n; first += own.rows) {
    const int m = std::min(own.rows, s.n - first);
    multiply(s, first, m);
    launch(nearest_kernel<T>, blocks(int64_t(m) * 32, 256), 256, 0, s.stream, own.product, norms(s), s.label + first, m,
           s.k);
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

// Operands may be cut instead of rounded: 2^-10. Tensor cores cut sums as well: 2^-22 a step is on the safe side.
LADDER_VARIANT(.id = "v12c_tf32", .base = "v12b_cublas", .idea = "products on the tensor cores, in TF32",
               .expect =
                   "295 TFLOP/s instead of 49.5: products 5 times faster, the whole 3 times, for the way of the "
                   "products through memory stays; labels wrong wherever two centroids are 0.1 % apart",
               .shows = "assign", .counter = "tensor_percent", .source = "what PyTorch does when allowed to",
               .arithmetic = {.form = Arithmetic::Form::expanded,
                              .distance_roundoff = 0x1p-22,
                              .input_roundoff = 0x1p-10},
               .devices = {DeviceKind::cuda}, .f32 = phases<float>)
