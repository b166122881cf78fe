// Points read from CSR rows: |x - c|^2 = |c|^2 + the sum over the stored entries of x^2 - 2 x c. The dense points stay
// with the harness.
#include "../../variants/parts/assign_rows.cuh"
#include "../../variants/parts/update_shared.cuh"

namespace {
using namespace ladder;

template <class T>
struct Own {
  Sums sums;
  int64_t* row_begin = nullptr;
  int32_t* column = nullptr;
  T *value = nullptr, *norm = nullptr;
};

template <class T>
void prepare(Run<T, Own<T>>& s) {
  prepare_sums(s);
  const size_t nnz = size_t(s.problem.nnz);
  s.own = {s.template device<int64_t>(size_t(s.n) + 1), s.template device<int32_t>(nnz), s.template device<T>(nnz),
           s.template device<T>(s.k)};
}

template <class T>
void upload(Run<T, Own<T>>& s) {
  const auto& own = s.own;
  upload_rows(s);  // the update of this example is a dense one
  to_device(s, own.row_begin, s.csr.row_begin, size_t(s.n) + 1, "uploading the rows");
  to_device(s, own.column, s.csr.column, size_t(s.problem.nnz), "uploading the columns");
  to_device(s, own.value, s.csr.value, size_t(s.problem.nnz), "uploading the values");
}

template <class T>
__global__ void norm_kernel(const T* c, T* norm, int k, int d) {
  const int j = blockIdx.x * blockDim.x + threadIdx.x;
  if (j >= k) return;
  T sum = 0;
  for (int f = 0; f < d; ++f) sum += c[size_t(j) * d + f] * c[size_t(j) * d + f];
  norm[j] = sum;
}

template <class T>
__global__ void assign_kernel(const int64_t* row_begin, const int32_t* column, const T* value, const T* c,
                              const T* norm, int32_t* label, int n, int k, int d) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  T nearest = std::numeric_limits<T>::infinity();
  int best = 0;
  for (int j = 0; j < k; ++j) {
    T product = 0;
    for (int64_t e = row_begin[i]; e < row_begin[i + 1]; ++e) product += value[e] * c[size_t(j) * d + column[e]];
    const T distance = norm[j] - 2 * product;
    if (distance < nearest) nearest = distance, best = j;
  }
  label[i] = best;
}

template <class T>
void assign(Run<T, Own<T>>& s) {
  const auto& own = s.own;
  launch(norm_kernel<T>, blocks(s.k, 256), 256, 0, s.stream, s.c, own.norm, s.k, s.d);
  launch(assign_kernel<T>, blocks(s.n, 256), 256, 0, s.stream, own.row_begin, own.column, own.value, s.c, own.norm,
         s.label, s.n, s.k, s.d);
}

std::string refuse(const Shape& p, const Device& device, const Axes& axes) {
  return p.sparse() ? refuse_update_shared(p, device, axes) : "the points are not given as CSR rows";
}

template <class T>
constexpr Phases<T, Own<T>> phases{.prepare = prepare<T>,
                                   .upload = upload<T>,
                                   .restart = restart_rows<T>,
                                   .assign = assign<T>,
                                   .update = update_shared<T, Layout::rows>,
                                   .download = download_rows<T>};
}  // namespace

LADDER_VARIANT(.id = "t6_csr", .base = "v05_shared_update", .idea = "points as compressed sparse rows",
               .shows = "assign", .arithmetic = {.form = Arithmetic::Form::expanded}, .refuse = refuse,
               .f32 = phases<float>, .f64 = phases<double>)
