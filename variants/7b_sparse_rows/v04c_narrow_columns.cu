// v04c: narrow columns. v04b reads 8 bytes for each entry, half of them the number of a column. With up to 256 features
// one byte holds it, with up to 65,536 two. Two entries of a row lie side by side, so that a lane still loads 8 bytes
// of values and 2 or 4 of columns at a time.
#include "../common/lloyd/assign_naive.cuh"
#include "../common/lloyd/vector_load.cuh"
#include "../common/sparse/sliced_rows.cuh"
#include "../common/update/block_private.cuh"

namespace {
using namespace ladder;

constexpr int pair = 2;     // entries of a row that are loaded at once
constexpr int vectors = 4;  // of 16 bytes: the distances that a thread keeps in registers

template <class T>
struct Workspace {
  SlicedRows<T> sparse;
  int pitch = 0;          // k, rounded up to whole 16-byte vectors
  T* features = nullptr;  // d x pitch: the centroids, feature by feature
  T* norm = nullptr;      // k: |c|^2
  Sums sums;
};

template <class T>
void prepare(Run<T, Workspace<T>>& s) {
  prepare_sums(s);
  prepare_sliced_rows(s, int64_t(s.n) * s.d * s.axis("percent") / 100, s.d <= 1 << 8 ? 1 : 2);
  s.ws.pitch = blocks(s.k, Vec16<T>::size) * Vec16<T>::size;
  s.ws.features = s.template device<T>(size_t(s.ws.pitch) * s.d);
  s.ws.norm = s.template device<T>(s.k);
}

template <class T>
void upload(Run<T, Workspace<T>>& s) {
  with_column(s.d, [&]<class Column>() { upload_sliced_rows<Column, pair>(s); });
}

// ---- assign

/// One thread per centroid: transposes it, so that the centroids' entries of one column are neighbours, and |c|^2.
template <class T>
__global__ void centroids_kernel(const T* c, T* features, T* norm, int k, int pitch, int d) {
  const int j = blockIdx.x * blockDim.x + threadIdx.x;
  if (j >= pitch) return;
  T sum = 0;
  for (int f = 0; f < d; ++f) {
    const T coordinate = j < k ? c[size_t(j) * d + f] : T(0);
    features[size_t(f) * pitch + j] = coordinate;
    sum += coordinate * coordinate;
  }
  if (j < k) norm[j] = sum;
}

/// One thread per slot. The lanes of a warp have different columns, so each load gathers 32 vectors from scattered
/// addresses: 16-byte loads need a quarter as many requests as 4-byte ones.
template <class T, class Column>
__global__ void assign_kernel(Slices<T, Column, pair> rows, const T* __restrict__ features, const T* __restrict__ norm,
                              int32_t* __restrict__ label, int n, int k, int pitch) {
  constexpr int size = Vec16<T>::size;
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  T nearest = std::numeric_limits<T>::infinity();
  int best = 0;
  for (int first = 0; first < k; first += vectors * size) {
    const int remaining = (pitch - first) / size;
    T product[vectors][size] = {};
    rows.entries(i, [&](int column, T x) {
      const auto* c = reinterpret_cast<const Vec16<T>*>(features + size_t(column) * pitch + first);
      for (int q = 0; q < vectors && q < remaining; ++q) {
        const Vec16<T> vector = c[q];
        for (int v = 0; v < size; ++v) product[q][v] += x * vector.feature[v];
      }
    });
    for (int q = 0; q < vectors; ++q) {
      for (int v = 0; v < size; ++v) {
        const int j = first + q * size + v;
        if (j >= k) break;
        const T distance = norm[j] - 2 * product[q][v];  // without |x|^2: may be negative
        if (distance < nearest) nearest = distance, best = j;
      }
    }
  }
  label[i] = best;
}

template <class T>
void assign(Run<T, Workspace<T>>& s) {
  const auto& sparse = s.ws.sparse;
  if (!sparse.used) return assign_points(s);
  launch(centroids_kernel<T>, blocks(s.ws.pitch, 32), 32, 0, s.stream, s.c, s.ws.features, s.ws.norm, s.k, s.ws.pitch,
         s.d);
  with_column(s.d, [&]<class Column>() {
    launch(assign_kernel<T, Column>, blocks(s.n, 256), 256, 0, s.stream, sparse.template view<Column, pair>(),
           s.ws.features, s.ws.norm, s.label, s.n, s.k, s.ws.pitch);
  });
}

// ---- update: sums and counts per block in shared memory where all of them fit, else atomics in global memory

template <class T, class Column, bool shared>
__global__ void sum_kernel(Slices<T, Column, pair> rows, const int32_t* label, double* sum, int* count, int n, int k,
                           int d, int points) {
  double* block_sum = shared ? dynamic_shared<double>() : sum;                            // k x d
  int* block_count = shared ? reinterpret_cast<int*>(block_sum + size_t(k) * d) : count;  // k
  if (shared) {
    for (int e = threadIdx.x; e < k * d; e += blockDim.x) block_sum[e] = 0;
    for (int j = threadIdx.x; j < k; j += blockDim.x) block_count[j] = 0;
    __syncthreads();
  }
  const int64_t end = min(int64_t(n), (int64_t(blockIdx.x) + 1) * points);
  for (int64_t i = int64_t(blockIdx.x) * points + threadIdx.x; i < end; i += blockDim.x) {
    const int j = label[i];
    rows.entries(i, [&](int column, T x) {
      if (x != 0) atomicAdd(&block_sum[size_t(j) * d + column], double(x));
    });
    atomicAdd(&block_count[j], 1);
  }
  if (!shared) return;
  __syncthreads();
  for (int e = threadIdx.x; e < k * d; e += blockDim.x) {
    if (block_sum[e] != 0) atomicAdd(&sum[e], block_sum[e]);
  }
  for (int j = threadIdx.x; j < k; j += blockDim.x) {
    if (block_count[j] != 0) atomicAdd(&count[j], block_count[j]);
  }
}

template <class T>
void update(Run<T, Workspace<T>>& s) {
  const auto& sparse = s.ws.sparse;
  if (!sparse.used) return update_shared<T, Layout::rows>(s);
  const Sums& sums = s.ws.sums;
  clear_sums(s);
  const size_t bytes = s.k * shared_bytes_per_cluster(s.d);
  const bool shared = bytes <= s.device_info.shared_bytes_optin;
  // The K x D global atomics of a block pay only if it has many more points than that.
  const int points = shared ? std::max(4096, 4 * s.k) : 256;
  with_column(s.d, [&]<class Column>() {
    launch(shared ? sum_kernel<T, Column, true> : sum_kernel<T, Column, false>, blocks(s.n, points), 256,
           shared ? bytes : 0, s.stream, sparse.template view<Column, pair>(), s.label, sums.sum, sums.count, s.n, s.k,
           s.d, points);
  });
  divide(s);
}

std::string refuse(const Shape& p, const Device& device, const Axes& axes) {
  if (p.d <= 1 << 16) return refuse_update_shared(p, device, axes);
  return "two bytes hold the number of one of 65,536 columns, D is " + std::to_string(p.d) +
         ": v04b_sliced_rows takes any number";
}

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare<T>,
                                         .upload = upload<T>,
                                         .restart = restart_rows<T>,
                                         .assign = assign<T>,
                                         .update = update<T>,
                                         .download = download_sliced_rows<T>};
}  // namespace

LADDER_VARIANT(.id = "v04c_narrow_columns", .base = "v04b_sliced_rows",
               .idea = "columns of one byte, or two, beside pairs of values",
               .expect =
                   "blobs30_01: 5 bytes for each of 107 million entries in place of 8, 0.54 GB in place of 0.86. Each "
                   "of the two passes loses 0.07 ms on an H200 as far as it waits for memory; the assignment waits "
                   "for gathered centroids and hardly gains",
               .shows = "iteration", .counter = "dram_bytes", .source = "this project",
               .arithmetic = {.form = Arithmetic::Form::expanded},
               .axes = {{"percent", {10, 20, 30, 40, 50, 60, 80, 100}, 40}}, .refuse = refuse, .f32 = phases<float>,
               .f64 = phases<double>)
