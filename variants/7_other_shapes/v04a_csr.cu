// v04a: zeros are left out. Where most coordinates are zero, the stored ones alone (compressed sparse rows: value and
// column) are less to read and less to multiply: |x - c|^2 = |x|^2 + |c|^2 - 2 x.c, and a zero adds nothing to x.c.
// v04 reads and subtracts every zero. Upload counts the zeros on the device, and builds the rows there only where that
// pays; otherwise everything goes v04's way. Points that come as sparse rows are taken as they are.
#include "../common/device/warp.cuh"
#include "../common/lloyd/assign_rows.cuh"
#include "../common/lloyd/vector_load.cuh"
#include "../common/update/block_private.cuh"

namespace {
using namespace ladder;

constexpr int pieces = 4;  // of 16 bytes: distances that a thread keeps in registers

template <class T>
struct Sparse {
  int64_t capacity = 0;          // entries up to which sparse rows pay
  bool used = false;             // do they?
  int64_t* row_begin = nullptr;  // n + 1
  int32_t* column = nullptr;     // one per entry, as `value`
  T* value = nullptr;
  int pitch = 0;          // k, made a multiple of what 16 bytes hold
  T* features = nullptr;  // d x pitch: the centroids, feature by feature
  T* norm = nullptr;      // k: |c|^2
};

template <class T>
struct Workspace {
  Sparse<T> sparse;
  Sums sums;
};

template <class T>
void prepare(Run<T, Workspace<T>>& s) {
  prepare_sums(s);
  auto& own = s.ws.sparse;
  own.capacity = int64_t(s.n) * s.d * s.axis("percent") / 100;
  own.row_begin = s.template device<int64_t>(size_t(s.n) + 1);
  own.column = s.template device<int32_t>(own.capacity);
  own.value = s.template device<T>(own.capacity);
  own.pitch = blocks(s.k, Vec16<T>::size) * Vec16<T>::size;
  own.features = s.template device<T>(size_t(own.pitch) * s.d);
  own.norm = s.template device<T>(s.k);
}

// ---- upload: from dense rows to sparse ones

/// One warp per row: how many entries are not zero, to row_begin[i + 1].
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

/// One block: from counts to where each row begins.
__global__ void __launch_bounds__(1024) begin_kernel(int64_t* row_begin, int n) {
  __shared__ int64_t before[1024];
  const int t = threadIdx.x, rows = (n + 1023) / 1024;
  const int64_t first = int64_t(t) * rows, last = min(int64_t(n), first + rows);
  int64_t sum = 0;
  for (int64_t i = first; i < last; ++i) sum += row_begin[i + 1];
  before[t] = sum;
  __syncthreads();
  if (t == 0) {
    int64_t total = 0;
    for (int e = 0; e < 1024; ++e) {
      const int64_t here = before[e];
      before[e] = total;
      total += here;
    }
    row_begin[0] = 0;
  }
  __syncthreads();
  sum = before[t];
  for (int64_t i = first; i < last; ++i) row_begin[i + 1] = sum += row_begin[i + 1];
}

/// One warp per row copies its entries, in the order of the features.
template <class T>
__global__ void fill_kernel(const T* x, const int64_t* row_begin, int32_t* column, T* value, int n, int d) {
  const int i = int((blockIdx.x * int64_t(blockDim.x) + threadIdx.x) / 32), lane = threadIdx.x % 32;
  if (i >= n) return;  // a whole warp at a time
  int64_t next = row_begin[i];
  for (int f = lane; f < d + lane; f += 32) {
    const T here = f < d ? x[size_t(i) * d + f] : T(0);
    const unsigned stored = __ballot_sync(all_lanes, here != 0);
    if (here != 0) {
      const int64_t e = next + lanes_below(stored);
      column[e] = f;
      value[e] = here;
    }
    next += __popc(stored);
  }
}

template <class T>
void upload(Run<T, Workspace<T>>& s) {
  auto& own = s.ws.sparse;
  if (s.problem.sparse()) {
    own.used = s.problem.nnz <= own.capacity;
    if (!own.used) return upload_rows(s);
    to_device(s, own.row_begin, s.csr.row_begin, size_t(s.n) + 1, "uploading the rows' begins");
    to_device(s, own.column, s.csr.column, size_t(s.problem.nnz), "uploading the columns");
    return to_device(s, own.value, s.csr.value, size_t(s.problem.nnz), "uploading the values");
  }
  upload_rows(s);
  const int warps = blocks(int64_t(s.n) * 32, 256);
  launch(count_kernel<T>, warps, 256, 0, s.stream, s.x, own.row_begin, s.n, s.d);
  launch(begin_kernel, 1, 1024, 0, s.stream, own.row_begin, s.n);
  int64_t entries = 0;
  check(cudaMemcpyAsync(&entries, own.row_begin + s.n, sizeof entries, cudaMemcpyDeviceToHost, s.stream),
        "downloading the count of entries");
  check(cudaStreamSynchronize(s.stream), "counting entries that are not zero");
  own.used = entries <= own.capacity;
  if (own.used) launch(fill_kernel<T>, warps, 256, 0, s.stream, s.x, own.row_begin, own.column, own.value, s.n, s.d);
}

// ---- assign

/// One thread per centroid: its coordinates feature by feature, so that a column's are neighbours, and |c|^2.
template <class T>
__global__ void centroids_kernel(const T* c, T* features, T* norm, int k, int pitch, int d) {
  const int j = blockIdx.x * blockDim.x + threadIdx.x;
  if (j >= pitch) return;
  T sum = 0;
  for (int f = 0; f < d; ++f) {
    const T here = j < k ? c[size_t(j) * d + f] : T(0);
    features[size_t(f) * pitch + j] = here;
    sum += here * here;
  }
  if (j < k) norm[j] = sum;
}

/// The lanes of a warp have columns of their own, so that each load brings 32 pieces from all over the centroids: few
/// loads of 16 bytes, not many of a word.
template <class T>
__global__ void assign_kernel(const int64_t* __restrict__ row_begin, const int32_t* __restrict__ column,
                              const T* __restrict__ value, const T* __restrict__ features, const T* __restrict__ norm,
                              int32_t* __restrict__ label, int n, int k, int pitch) {
  constexpr int size = Vec16<T>::size;
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  T nearest = std::numeric_limits<T>::infinity();
  int best = 0;
  for (int first = 0; first < k; first += pieces * size) {
    const int here = (pitch - first) / size;
    T product[pieces][size] = {};
    for (int64_t e = row_begin[i]; e < row_begin[i + 1]; ++e) {
      const T x = value[e];
      const auto* c = reinterpret_cast<const Vec16<T>*>(features + size_t(column[e]) * pitch + first);
      for (int q = 0; q < pieces && q < here; ++q) {
        const Vec16<T> piece = c[q];
        for (int v = 0; v < size; ++v) product[q][v] += x * piece.feature[v];
      }
    }
    for (int q = 0; q < pieces; ++q) {
      for (int v = 0; v < size; ++v) {
        const int j = first + q * size + v;
        if (j >= k) break;
        const T distance = norm[j] - 2 * product[q][v];  // less |x|^2: it may be below 0
        if (distance < nearest) nearest = distance, best = j;
      }
    }
  }
  label[i] = best;
}

template <class T>
void assign(Run<T, Workspace<T>>& s) {
  const auto& own = s.ws.sparse;
  if (!own.used) return assign_points(s);
  launch(centroids_kernel<T>, blocks(own.pitch, 32), 32, 0, s.stream, s.c, own.features, own.norm, s.k, own.pitch, s.d);
  launch(assign_kernel<T>, blocks(s.n, 256), 256, 0, s.stream, own.row_begin, own.column, own.value, own.features,
         own.norm, s.label, s.n, s.k, own.pitch);
}

// ---- update: a block's sums and counts in shared memory where all of them fit, else atomics in global memory

template <class T, bool shared>
__global__ void sum_kernel(const int64_t* row_begin, const int32_t* column, const T* value, const int32_t* label,
                           double* sum, int* count, int n, int k, int d, int points) {
  double* part = shared ? dynamic_shared<double>() : sum;                        // k x d
  int* members = shared ? reinterpret_cast<int*>(part + size_t(k) * d) : count;  // k
  if (shared) {
    for (int e = threadIdx.x; e < k * d; e += blockDim.x) part[e] = 0;
    for (int j = threadIdx.x; j < k; j += blockDim.x) members[j] = 0;
    __syncthreads();
  }
  const int64_t end = min(int64_t(n), (int64_t(blockIdx.x) + 1) * points);
  for (int64_t i = int64_t(blockIdx.x) * points + threadIdx.x; i < end; i += blockDim.x) {
    const int j = label[i];
    for (int64_t e = row_begin[i]; e < row_begin[i + 1]; ++e) {
      atomicAdd(&part[size_t(j) * d + column[e]], double(value[e]));
    }
    atomicAdd(&members[j], 1);
  }
  if (!shared) return;
  __syncthreads();
  for (int e = threadIdx.x; e < k * d; e += blockDim.x) {
    if (part[e] != 0) atomicAdd(&sum[e], part[e]);
  }
  for (int j = threadIdx.x; j < k; j += blockDim.x) {
    if (members[j] != 0) atomicAdd(&count[j], members[j]);
  }
}

template <class T>
void update(Run<T, Workspace<T>>& s) {
  const auto& own = s.ws.sparse;
  if (!own.used) return update_shared<T, Layout::rows>(s);
  const Sums& sums = s.ws.sums;
  clear_sums(s);
  const size_t bytes = s.k * shared_bytes_per_cluster(s.d);
  const bool shared = bytes <= s.device_info.shared_bytes_optin;
  // A block's K x D atomics in global memory are worth it only for many more points.
  const int points = shared ? std::max(4096, 4 * s.k) : 256;
  launch(shared ? sum_kernel<T, true> : sum_kernel<T, false>, blocks(s.n, points), 256, shared ? bytes : 0, s.stream,
         own.row_begin, own.column, own.value, s.label, sums.sum, sums.count, s.n, s.k, s.d, points);
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

LADDER_VARIANT(.id = "v04a_csr", .base = "v04_shared_update", .idea = "zeros are left out: sparse rows",
               .expect =
                   "at 90 % zeros a fifth of the bytes and a tenth of the multiplications; a loss below some 60 % "
                   "zeros, where the dense way is taken; counting and building cost one more pass each in "
                   "end_to_end. A larger step: another format has kernels of its own, to build it and to read it",
               .shows = "assign", .counter = "load_requests", .source = "001 iv",
               .arithmetic = {.form = Arithmetic::Form::expanded},
               .axes = {{"percent", {10, 20, 30, 40, 50, 60, 80, 100}, 40}}, .refuse = refuse_update_shared,
               .f32 = phases<float>, .f64 = phases<double>)
