// v04a: zeros are left out. Where most coordinates are zero, the stored ones alone (compressed sparse rows, CSR: value
// and column) are less to read and to multiply: |x - c|^2 = |x|^2 + |c|^2 - 2 x.c, and a zero adds nothing to x.c. v04
// reads and subtracts every zero. Upload counts the zeros on the device and builds the rows there only where that pays;
// otherwise everything takes v04's way. Points that come as sparse rows are used as they are.
#include "../common/device/warp_compact.cuh"
#include "../common/lloyd/assign_naive.cuh"
#include "../common/lloyd/vector_load.cuh"
#include "../common/update/block_private.cuh"

namespace {
using namespace ladder;

constexpr int vectors = 4;  // of 16 bytes: the distances that a thread keeps in registers

template <class T>
struct Sparse {
  int64_t capacity = 0;          // the most entries for which sparse rows pay
  bool used = false;             // whether the points are stored as sparse rows
  int64_t* row_begin = nullptr;  // n + 1
  int32_t* column = nullptr;     // capacity
  T* value = nullptr;            // capacity
  int pitch = 0;                 // k, rounded up to whole 16-byte vectors
  T* features = nullptr;         // d x pitch: the centroids, feature by feature
  T* norm = nullptr;             // k: |c|^2
};

template <class T>
struct Workspace {
  Sparse<T> sparse;
  Sums sums;
};

template <class T>
void prepare(Run<T, Workspace<T>>& s) {
  prepare_sums(s);
  auto& sparse = s.ws.sparse;
  sparse.capacity = int64_t(s.n) * s.d * s.axis("percent") / 100;
  sparse.row_begin = s.template device<int64_t>(size_t(s.n) + 1);
  sparse.column = s.template device<int32_t>(sparse.capacity);
  sparse.value = s.template device<T>(sparse.capacity);
  sparse.pitch = blocks(s.k, Vec16<T>::size) * Vec16<T>::size;
  sparse.features = s.template device<T>(size_t(sparse.pitch) * s.d);
  sparse.norm = s.template device<T>(s.k);
}

// ---- upload: from dense rows to sparse rows

/// One warp per row: the number of non-zero entries goes to row_begin[i + 1].
template <class T>
__global__ void count_kernel(const T* x, int64_t* row_begin, int n, int d) {
  const int i = int((blockIdx.x * int64_t(blockDim.x) + threadIdx.x) / 32), lane = threadIdx.x % 32;
  if (i >= n) return;  // a whole warp at a time
  int count = 0;
  for (int f = lane; f < d + lane; f += 32) {
    count += __popc(__ballot_sync(all_lanes, f < d && x[size_t(i) * d + f] != 0));
  }
  if (lane == 0) row_begin[i + 1] = count;
}

constexpr int scan_threads = 1024;

/// One block: the counts in row_begin[1 .. n] become an inclusive prefix sum; row_begin[0] becomes 0. Each thread sums
/// its share of the rows, the block scans these sums, and each thread writes its share. Library: cub::DeviceScan does
/// this, cusparseDenseToSparse the whole conversion; own because the CPU device has neither.
__global__ void __launch_bounds__(scan_threads) begin_kernel(int64_t* row_begin, int n) {
  __shared__ int64_t warp_total[scan_threads / warp_lanes];
  const int t = threadIdx.x, lane = t % warp_lanes, warp = t / warp_lanes;
  const int rows = (n + scan_threads - 1) / scan_threads;
  const int64_t first = int64_t(t) * rows, last = min(int64_t(n), first + rows);
  int64_t share = 0;
  for (int64_t i = first; i < last; ++i) share += row_begin[i + 1];
  const int64_t up_to_lane = warp_prefix_sum(share);
  if (lane == warp_lanes - 1) warp_total[warp] = up_to_lane;
  __syncthreads();
  const int64_t lower_warps = warp_sum(lane < warp ? warp_total[lane] : 0);
  int64_t sum = lower_warps + up_to_lane - share;
  if (t == 0) row_begin[0] = 0;
  for (int64_t i = first; i < last; ++i) row_begin[i + 1] = sum += row_begin[i + 1];
}

/// One warp per row copies its entries, in the order of the features.
template <class T>
__global__ void fill_kernel(const T* x, const int64_t* row_begin, int32_t* column, T* value, int n, int d) {
  const int i = int((blockIdx.x * int64_t(blockDim.x) + threadIdx.x) / 32), lane = threadIdx.x % 32;
  if (i >= n) return;  // a whole warp at a time
  int64_t next = row_begin[i];
  for (int f = lane; f < d + lane; f += 32) {
    const T coordinate = f < d ? x[size_t(i) * d + f] : T(0);
    const unsigned stored = __ballot_sync(all_lanes, coordinate != 0);
    if (coordinate != 0) {
      const int64_t e = next + lanes_below(stored);
      column[e] = f;
      value[e] = coordinate;
    }
    next += __popc(stored);
  }
}

template <class T>
void upload(Run<T, Workspace<T>>& s) {
  auto& sparse = s.ws.sparse;
  if (s.problem.sparse()) {
    sparse.used = s.problem.nnz <= sparse.capacity;
    if (!sparse.used) return upload_rows(s);
    to_device(s, sparse.row_begin, s.csr.row_begin, size_t(s.n) + 1, "uploading where the rows begin");
    to_device(s, sparse.column, s.csr.column, size_t(s.problem.nnz), "uploading the columns");
    return to_device(s, sparse.value, s.csr.value, size_t(s.problem.nnz), "uploading the values");
  }
  upload_rows(s);
  const int warps = blocks(int64_t(s.n) * 32, 256);
  launch(count_kernel<T>, warps, 256, 0, s.stream, s.x, sparse.row_begin, s.n, s.d);
  launch(begin_kernel, 1, scan_threads, 0, s.stream, sparse.row_begin, s.n);
  int64_t entries = 0;
  check(cudaMemcpyAsync(&entries, sparse.row_begin + s.n, sizeof entries, cudaMemcpyDeviceToHost, s.stream),
        "downloading the count of entries");
  check(cudaStreamSynchronize(s.stream), "counting the non-zero entries");
  sparse.used = entries <= sparse.capacity;
  if (sparse.used)
    launch(fill_kernel<T>, warps, 256, 0, s.stream, s.x, sparse.row_begin, sparse.column, sparse.value, s.n, s.d);
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

/// One thread per point. The lanes of a warp have different columns, so each load gathers 32 vectors from scattered
/// addresses: 16-byte loads need a quarter as many requests as 4-byte ones.
template <class T>
__global__ void assign_kernel(const int64_t* __restrict__ row_begin, const int32_t* __restrict__ column,
                              const T* __restrict__ value, const T* __restrict__ features, const T* __restrict__ norm,
                              int32_t* __restrict__ label, int n, int k, int pitch) {
  constexpr int size = Vec16<T>::size;
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  T nearest = std::numeric_limits<T>::infinity();
  int best = 0;
  for (int first = 0; first < k; first += vectors * size) {
    const int remaining = (pitch - first) / size;
    T product[vectors][size] = {};
    for (int64_t e = row_begin[i]; e < row_begin[i + 1]; ++e) {
      const T x = value[e];
      const auto* c = reinterpret_cast<const Vec16<T>*>(features + size_t(column[e]) * pitch + first);
      for (int q = 0; q < vectors && q < remaining; ++q) {
        const Vec16<T> vector = c[q];
        for (int v = 0; v < size; ++v) product[q][v] += x * vector.feature[v];
      }
    }
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
  launch(centroids_kernel<T>, blocks(sparse.pitch, 32), 32, 0, s.stream, s.c, sparse.features, sparse.norm, s.k,
         sparse.pitch, s.d);
  launch(assign_kernel<T>, blocks(s.n, 256), 256, 0, s.stream, sparse.row_begin, sparse.column, sparse.value,
         sparse.features, sparse.norm, s.label, s.n, s.k, sparse.pitch);
}

// ---- update: sums and counts per block in shared memory where all of them fit, else atomics in global memory

template <class T, bool shared>
__global__ void sum_kernel(const int64_t* row_begin, const int32_t* column, const T* value, const int32_t* label,
                           double* sum, int* count, int n, int k, int d, int points) {
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
    for (int64_t e = row_begin[i]; e < row_begin[i + 1]; ++e) {
      atomicAdd(&block_sum[size_t(j) * d + column[e]], double(value[e]));
    }
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
         sparse.row_begin, sparse.column, sparse.value, s.label, sums.sum, sums.count, s.n, s.k, s.d, points);
  divide(s);
}

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare<T>,
                                         .upload = upload<T>,
                                         .restart = restart_rows<T>,
                                         .assign = assign<T>,
                                         .update = update<T>,
                                         .download = download_rows<T>};
}  // namespace

LADDER_VARIANT(.id = "v04a_csr", .base = "v04_shared_update", .idea = "zeros are left out: sparse rows (CSR)",
               .expect =
                   "at 90 % zeros a fifth of the bytes and a tenth of the multiplications; a loss below some 60 % "
                   "zeros, where the dense path is taken; counting and building cost one more pass each in "
                   "end_to_end. A larger step: another format needs kernels to build it and to read it",
               .shows = "assign", .counter = "load_requests", .source = "001 iv",
               .arithmetic = {.form = Arithmetic::Form::expanded},
               .axes = {{"percent", {10, 20, 30, 40, 50, 60, 80, 100}, 40}}, .refuse = refuse_update_shared,
               .f32 = phases<float>, .f64 = phases<double>)
