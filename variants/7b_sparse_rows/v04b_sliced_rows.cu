// v04b: a lane is a row. In v04a a lane walks a row whose entries lie one behind the other, so the 32 lanes of a warp
// read 32 places of memory at a time, and wait for the longest of their rows. Here 32 rows of about equal length form a
// slice that holds their first entries side by side, then their second ones: loads are coalesced, and little is padded.
// Slices are built on the device from dense points or from CSR rows. Labels are in the order of the slices until the
// download.
#include "../common/lloyd/assign_naive.cuh"
#include "../common/lloyd/vector_load.cuh"
#include "../common/sparse/sliced_rows.cuh"
#include "../common/update/block_private.cuh"

namespace {
using namespace ladder;

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
  prepare_sliced_rows(s, int64_t(s.n) * s.d * s.axis("percent") / 100, sizeof(int32_t));
  s.ws.pitch = blocks(s.k, Vec16<T>::size) * Vec16<T>::size;
  s.ws.features = s.template device<T>(size_t(s.ws.pitch) * s.d);
  s.ws.norm = s.template device<T>(s.k);
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
template <class T>
__global__ void assign_kernel(Slices<T, int32_t, 1> rows, const T* __restrict__ features, const T* __restrict__ norm,
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
  launch(assign_kernel<T>, blocks(s.n, 256), 256, 0, s.stream, sparse.template view<int32_t, 1>(), s.ws.features,
         s.ws.norm, s.label, s.n, s.k, s.ws.pitch);
}

// ---- update: sums and counts per block in shared memory where all of them fit, else atomics in global memory

template <class T, bool shared>
__global__ void sum_kernel(Slices<T, int32_t, 1> rows, const int32_t* label, double* sum, int* count, int n, int k,
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
  launch(shared ? sum_kernel<T, true> : sum_kernel<T, false>, blocks(s.n, points), 256, shared ? bytes : 0, s.stream,
         sparse.template view<int32_t, 1>(), s.label, sums.sum, sums.count, s.n, s.k, s.d, points);
  divide(s);
}

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare<T>,
                                         .upload = upload_sliced_rows<int32_t, 1, T>,
                                         .restart = restart_rows<T>,
                                         .assign = assign<T>,
                                         .update = update<T>,
                                         .download = download_sliced_rows<T>};
}  // namespace

LADDER_VARIANT(.id = "v04b_sliced_rows", .base = "v04a_csr",
               .idea = "a lane is a row: slices of 32 rows of equal length, entries side by side",
               .expect =
                   "blobs30_01 has 100 million entries in 107 million places, 8 bytes each: 0.86 GB once for the "
                   "distances and once for the sums, 0.4 ms on an H200 where all loads are coalesced. Reading "
                   "centroids then sets the time of the assignment: for 32 entries 3 loads of 16 bytes a lane that hit "
                   "L1, 32 cycles each where lanes differ, 3.3 million times over 132 multiprocessors: 1.4 ms. "
                   "Counting, sorting and copying are two more reads of the dense points, 2 ms in end_to_end. A new "
                   "algorithm: another format needs kernels to build it",
               .shows = "assign", .counter = "sectors_per_load",
               .source = "Kreutzer et al., SELL-C-sigma, SIAM J. Sci. Comput. 36, 2014",
               .arithmetic = {.form = Arithmetic::Form::expanded},
               .axes = {{"percent", {10, 20, 30, 40, 50, 60, 80, 100}, 40}}, .refuse = refuse_update_shared,
               .f32 = phases<float>, .f64 = phases<double>)
