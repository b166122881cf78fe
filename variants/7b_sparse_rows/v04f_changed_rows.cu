// v04f: only rows whose label changed. v04e adds every entry to the sums in every iteration, though after a few
// iterations few labels change. Here the sums stay in memory between iterations; a row that changes its label is
// subtracted from one cluster and added to another. The parts of the sums are whole numbers, so nothing is lost on the
// way. Data with values too far apart for these parts are summed anew each time.
#include "../common/lloyd/assign_naive.cuh"
#include "../common/lloyd/vector_load.cuh"
#include "../common/sparse/fixed_sums.cuh"
#include "../common/update/block_private.cuh"

namespace {
using namespace ladder;

constexpr int pair = 2;     // entries of a row that are loaded at once
constexpr int vectors = 4;  // of 16 bytes, at most: the distances that a thread keeps in registers
constexpr int threads = 512;
constexpr int bank_groups = 8;  // of 16 bytes

/// Centroids and sums in shared memory.
struct Sizes {
  int tile;    // vectors of centroids in registers at a time
  int row;     // vectors of one feature of all centroids: whole tiles
  int copies;  // of the centroids; 0: they do not fit
  size_t bytes;
  Sizes(const Shape& p, const Device& device) {
    const int size = 16 / int(p.element_bytes), tiles = blocks(p.k, vectors * size);
    tile = blocks(p.k, tiles * size);
    row = tiles * tile;
    copies = 2 * bank_groups;
    do copies /= 2, bytes = 16 * size_t(row) * (size_t(p.d) * copies + 1) + sums_bytes(p);
    while (copies > 0 && bytes > device.shared_bytes_optin);
  }
  static size_t sums_bytes(const Shape& p) { return sizeof(int) * (2 * size_t(p.k) * p.d + size_t(p.k) * warp_lanes); }
};

template <class T>
struct Workspace {
  SlicedRows<T> sparse;
  FixedSums fixed;
  Limits* limits = nullptr;  // 1
  Units<T> units;
  int* rests = nullptr;    // 1: entries whose rest is not 0
  bool whole = false;      // no value has a rest: the sums are whole numbers
  bool restarted = false;  // the sums hold no rows
  Sums sums;               // of dense points
};

template <class T>
void prepare(Run<T, Workspace<T>>& s) {
  prepare_sums(s);
  prepare_sliced_rows(s, int64_t(s.n) * s.d * s.axis("percent") / 100, s.d <= 1 << 8 ? 1 : 2);
  s.ws.fixed = allocate_fixed_sums(s, s.k, s.d);
  s.ws.limits = s.template device<Limits>(1);
  s.ws.rests = s.template device<int>(1);
}

/// Counts entries whose sums are no whole numbers.
template <class T, class Column>
__global__ void rests_kernel(Slices<T, Column, pair> rows, Units<T> units, int* rests, int slices) {
  int count = 0;
  const int64_t threads_of_grid = int64_t(gridDim.x) * blockDim.x;
  for (int64_t slot = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; slot < slices * int64_t(warp_lanes);
       slot += threads_of_grid)
    rows.entries(slot, [&](int, T x) {
      for (int q = 0; q < 3; ++q) x -= rint(x * units.scale[q]) * units.unit[q];
      count += x != 0;
    });
  if (count > 0) atomicAdd(rests, 1);
}

template <class T>
void upload(Run<T, Workspace<T>>& s) {
  const auto& sparse = s.ws.sparse;
  with_column(s.d, [&]<class Column>() {
    upload_sliced_rows<Column, pair>(s);
    if (!sparse.used) return;
    Limits limits;
    to_device(s, s.ws.limits, &limits, 1, "clearing the limits");
    launch(limits_kernel<T, Column, pair>, s.device_info.multiprocessors, threads, s.d * sizeof(int), s.stream,
           sparse.template view<Column, pair>(), s.ws.limits, sparse.slices, s.d);
    check(cudaMemcpyAsync(&limits, s.ws.limits, sizeof limits, cudaMemcpyDeviceToHost, s.stream),
          "downloading the limits");
    check(cudaStreamSynchronize(s.stream), "finding the limits of the sums");
    s.ws.units = units_for<T>(limits);
    int rests = 0;
    to_device(s, s.ws.rests, &rests, 1, "clearing a count");
    launch(rests_kernel<T, Column>, s.device_info.multiprocessors, threads, 0, s.stream,
           sparse.template view<Column, pair>(), s.ws.units, s.ws.rests, sparse.slices);
    check(cudaMemcpyAsync(&rests, s.ws.rests, sizeof rests, cudaMemcpyDeviceToHost, s.stream), "downloading a count");
    check(cudaStreamSynchronize(s.stream), "counting values that are no whole numbers of units");
    s.ws.whole = rests == 0;
  });
}

/// The centroids, feature by feature, each vector `copies` times, and |c|^2. By a block.
template <class T>
__device__ void copy_centroids(const T* c, Vec16<T>* table, T* norm, int k, int d, int row, int copies) {
  constexpr int size = Vec16<T>::size;
  const int lane = threadIdx.x % warp_lanes;
  for (int e = threadIdx.x; e < d * row * size; e += threads) {
    const int j = e % (row * size);
    const T coordinate = j < k ? c[size_t(j) * d + e / (row * size)] : T(0);
    for (int copy = 0; copy < copies; ++copy) table[e / size * copies + copy].feature[e % size] = coordinate;
  }
  for (int j = threadIdx.x / warp_lanes; j < k; j += threads / warp_lanes) {
    double sum = 0;
    for (int f = lane; f < d; f += warp_lanes) sum += double(c[size_t(j) * d + f]) * double(c[size_t(j) * d + f]);
    sum = warp_sum(sum);
    if (lane == 0) norm[j] = T(sum);
  }
}

/// A lane per slot. A lane reads the copy of its own banks.
template <class T, class Column, int tile>
__device__ int nearest_centroid(const Slices<T, Column, pair>& rows, int64_t slot, const Vec16<T>* table, const T* norm,
                                int k, int row, int copies) {
  constexpr int size = Vec16<T>::size;
  T nearest = std::numeric_limits<T>::infinity();
  int best = 0;
  for (int first = 0; first < row; first += tile) {
    T product[tile][size] = {};
    rows.entries(slot, [&](int column, T x) {
      const Vec16<T>* const c = table + (column * row + first) * copies;
#pragma unroll
      for (int q = 0; q < tile; ++q) {
        const Vec16<T> vector = c[q * copies];
        for (int v = 0; v < size; ++v) product[q][v] += x * vector.feature[v];
      }
    });
#pragma unroll
    for (int e = 0; e < tile * size; ++e) {
      const int j = first * size + e;
      if (j >= k) break;
      const T distance = norm[j] - 2 * product[e / size][e % size];  // without |x|^2: may be negative
      if (distance < nearest) nearest = distance, best = j;
    }
  }
  return best;
}

template <class T, class Column, int tile>
__global__ void __launch_bounds__(threads, 1)
    fused_kernel(Slices<T, Column, pair> rows, const T* __restrict__ c, int32_t* __restrict__ label, FixedSums sums,
                 Units<T> units, int n, int k, int d, int slices, int row, int copies, bool anew) {
  Vec16<T>* const table = dynamic_shared<Vec16<T>>();                        // d x row x copies
  T* const norm = reinterpret_cast<T*>(table + d * row * copies);            // row vectors
  int* const high = reinterpret_cast<int*>(table + (d * copies + 1) * row);  // k x d
  int *const mid = high + k * d, *const count = mid + k * d;                 // k x d, k x 32
  copy_centroids(c, table, norm, k, d, row, copies);
  for (int e = threadIdx.x; e < 2 * k * d + k * warp_lanes; e += threads) high[e] = 0;
  __syncthreads();
  const int lane = threadIdx.x % warp_lanes;
  const SliceRange range(slices);
  for (int slice = range.first + int(threadIdx.x) / warp_lanes; slice < range.last; slice += threads / warp_lanes) {
    const int64_t slot = int64_t(slice) * warp_lanes + lane;
    if (slot >= n) break;
    const int j = nearest_centroid<T, Column, tile>(rows, slot, table + lane % copies, norm, k, row, copies);
    const int from = anew ? -1 : label[slot];  // the cluster whose sums hold the row
    if (j == from) continue;
    label[slot] = j;
    rows.entries(slot, [&](int column, T x) {
      add_fixed(high, mid, sums, units, j * d + column, x);
      if (from >= 0) add_fixed(high, mid, sums, units, from * d + column, -x);
    });
    atomicAdd(&count[j * warp_lanes + lane], 1);
    if (from >= 0) atomicAdd(&count[from * warp_lanes + lane], -1);
  }
  __syncthreads();
  flush_fixed(sums, high, mid, count, k, d);
}

template <class T>
void restart(Run<T, Workspace<T>>& s) {
  restart_rows(s);
  s.ws.restarted = true;
}

template <class T>
void iterate(Run<T, Workspace<T>>& s) {
  const auto& sparse = s.ws.sparse;
  if (!sparse.used) return assign_points(s), update_shared<T, Layout::rows>(s);
  const FixedSums& sums = s.ws.fixed;
  const Sizes size(s.problem, s.device_info);
  const bool anew = s.ws.restarted || !s.ws.whole;
  if (anew) clear_fixed_sums(s, sums, s.k, s.d);
  s.ws.restarted = false;
  with_column(s.d, [&]<class Column>() {
    dispatch<1, 2, 3, 4>(size.tile, [&]<int tile>() {
      launch(fused_kernel<T, Column, tile>, s.device_info.multiprocessors, threads, size.bytes, s.stream,
             sparse.template view<Column, pair>(), s.c, s.label, sums, s.ws.units, s.n, s.k, s.d, sparse.slices,
             size.row, size.copies, anew);
    });
  });
  launch(means_kernel<T>, blocks(int64_t(s.k) * s.d, 256), 256, 0, s.stream, sums, s.ws.units, s.c, s.k, s.d);
}

std::string refuse(const Shape& p, const Device& device, const Axes& axes) {
  if (p.d > 1 << 16)
    return "two bytes hold the number of one of 65,536 columns, D is " + std::to_string(p.d) +
           ": v04b_sliced_rows takes any number";
  if (const Sizes size(p, device); size.copies == 0)
    return "a block keeps the centroids and the sums of all clusters in shared memory: K = " + std::to_string(p.k) +
           " and D = " + std::to_string(p.d) + " are too many; v04d_replicated_table takes more";
  return refuse_update_shared(p, device, axes);
}

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare<T>,
                                         .upload = upload<T>,
                                         .restart = restart<T>,
                                         .iterate = iterate<T>,
                                         .download = download_sliced_rows<T>};
}  // namespace

LADDER_VARIANT(.id = "v04f_changed_rows", .base = "v04e_fused_sums",
               .idea = "only rows whose label changed touch the sums",
               .expect =
                   "an iteration in which few rows of blobs30_01 change costs its distances alone: 12 cycles of shared "
                   "memory for 32 entries, 3.35 million times over 132 multiprocessors, 0.30 million cycles: 0.17 ms "
                   "on an H200 and 15 us for launches and copies of the centroids. The first iteration is that of "
                   "v04e; in one where more than half of the rows change a row costs two additions. The labels are "
                   "read, too: 0.04 GB. One more read of the entries at upload, 0.15 ms",
               .shows = "solve", .counter = "shared_atomics", .source = "this project",
               .arithmetic = {.form = Arithmetic::Form::expanded},
               .axes = {{"percent", {10, 20, 30, 40, 50, 60, 80, 100}, 40}}, .reads_labels = true, .refuse = refuse,
               .f32 = phases<float>, .f64 = phases<double>)
