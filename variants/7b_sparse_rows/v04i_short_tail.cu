// v04i: a short last vector. K = 10 floats are three vectors of 16 bytes in v04h, the last one half empty, and it takes
// as long to read as the others. Here the last vector has the 1, 2 or 4 values that are left, in as many more copies:
// 32 lanes read 8 bytes each in two cycles in place of four, or 4 bytes in one, again without bank conflicts.
#include "../common/lloyd/vector_load.cuh"
#include "../common/sparse/exact_label.cuh"
#include "../common/sparse/whole_sums.cuh"

namespace {
using namespace ladder;

template <class T>
using Workspace = WholeSums<T>;

constexpr int vectors = 4;  // of 16 bytes, at most: the distances that a thread keeps in registers
constexpr int threads = 512;
constexpr int bank_groups = 8;  // of 16 bytes

/// Centroids and sums in shared memory.
struct Sizes {
  int tile;    // vectors of centroids in registers at a time
  int row;     // vectors of one feature of all centroids: whole tiles
  int tail;    // values in the last of them: 1, 2 or 4
  int copies;  // of the centroids; 0: they do not fit
  size_t bytes;
  Sizes(const Shape& p, const Device& device) {
    const int size = 16 / int(p.element_bytes), tiles = blocks(p.k, vectors * size);
    tile = blocks(p.k, tiles * size);
    row = tiles * tile;
    tail = tiles > 1 ? size : int(std::bit_ceil(unsigned(p.k - (row - 1) * size)));
    copies = 2 * bank_groups;
    do copies /= 2, bytes = 16 * size_t(row) * (size_t(p.d) * copies + 1) + sums_bytes(p);
    while (copies > 0 && bytes > device.shared_bytes_optin);
  }
  static size_t sums_bytes(const Shape& p) {
    return sizeof(int) * (2 * size_t(p.k) * p.d + size_t(p.k) * warp_lanes + 2);
  }
};

/// Roundings of a distance beside those of its products: |c|^2 is summed in double.
template <class T>
__device__ int norm_roundings(int d) {
  return sizeof(T) == 4 ? 8 : 8 + d / warp_lanes;
}

/// The centroids, feature by feature, each vector `copies` times, the last one, of `tail` values, in the same room,
/// |c|^2, and the bits of a float above all |c_f|; these are 0 before. By a block.
template <class T>
__device__ void copy_centroids(const T* c, Vec16<T>* table, T* norm, int* largest, int k, int d, int row, int tail,
                               int copies) {
  constexpr int size = Vec16<T>::size;
  const int lane = threadIdx.x % warp_lanes;
  float above = std::numeric_limits<float>::min();
  for (int e = threadIdx.x; e < d * row * size; e += threads) {
    const int j = e % (row * size);
    const T coordinate = j < k ? c[size_t(j) * d + e / (row * size)] : T(0);
    above = max(above, float(fabs(coordinate)) * (1 + 0x1p-20f));
    const int width = j / size == row - 1 ? tail : size;
    if (e % size >= width) continue;
    T* const line = table[e / size * copies].feature;
    for (int copy = 0; copy < copies * size / width; ++copy) line[copy * width + e % size] = coordinate;
  }
  above = warp_max(above + std::numeric_limits<float>::min());  // more, too, than what a small double is as a float
  if (lane == 0) atomicMax(largest, __float_as_int(above));
  for (int j = threadIdx.x / warp_lanes; j < k; j += threads / warp_lanes) {
    double sum = 0;
    for (int f = lane; f < d; f += warp_lanes) sum += double(c[size_t(j) * d + f]) * double(c[size_t(j) * d + f]);
    sum = warp_sum(sum);
    if (lane == 0) norm[j] = T(sum);
  }
}

/// A lane per slot. A lane reads the copy of its own banks. `weight` becomes the sum of all |x|.
template <class T, class Column, int tile, int tail>
__device__ TwoNearest<T> nearest_centroids(const Slices<T, Column, pair>& rows, int64_t slot, const Vec16<T>* table,
                                           const T* norm, int k, int row, int copies, T& weight) {
  constexpr int size = Vec16<T>::size, whole = tail == size ? tile : tile - 1;  // vectors
  const int lane = threadIdx.x % warp_lanes;
  const T* const tails = table[(row - 1) * copies].feature + lane % (copies * size / tail) * tail;
  TwoNearest<T> two;
  for (int first = 0; first < row; first += tile) {
    T product[tile][size] = {};
    weight = 0;
    rows.entries(slot, [&](int column, T x) {
      weight += fabs(x);
      const Vec16<T>* const c = table + (column * row + first) * copies + lane % copies;
#pragma unroll
      for (int q = 0; q < whole; ++q) {
        const Vec16<T> vector = c[q * copies];
        for (int v = 0; v < size; ++v) product[q][v] += x * vector.feature[v];
      }
      if (whole == tile) return;
      const auto last = *reinterpret_cast<const Group<T, tail>*>(tails + column * row * copies * size);
      for (int v = 0; v < tail; ++v) product[tile - 1][v] += x * last.of[v];
    });
#pragma unroll
    for (int e = 0; e < (tile - 1) * size + tail; ++e) {
      const int j = first * size + e;
      if (j >= k) break;
      two.insert(norm[j] - 2 * product[e / size][e % size], j);  // without |x|^2: may be negative
    }
  }
  return two;
}

template <class T, class Column, int tile, int tail>
__global__ void __launch_bounds__(threads, 1)
    fused_kernel(Slices<T, Column, pair> rows, const T* __restrict__ c, int32_t* __restrict__ label, FixedSums sums,
                 Units<T> units, int n, int k, int d, int slices, int row, int copies, bool anew) {
  Vec16<T>* const table = dynamic_shared<Vec16<T>>();                        // d x row x copies
  T* const norm = reinterpret_cast<T*>(table + d * row * copies);            // row vectors
  int* const high = reinterpret_cast<int*>(table + (d * copies + 1) * row);  // k x d
  int *const mid = high + k * d, *const count = mid + k * d;                 // k x d, k x 32
  int *const largest = count + k * warp_lanes, *const next = largest + 1;
  for (int e = threadIdx.x; e < 2 * k * d + k * warp_lanes + 2; e += threads) high[e] = 0;
  __syncthreads();
  copy_centroids(c, table, norm, largest, k, d, row, tail, copies);
  __syncthreads();
  T most = 0;  // |c|^2
  for (int j = 0; j < k; ++j) most = max(most, norm[j]);
  const T above = T(__int_as_float(*largest));  // of |c_f|
  const int lane = threadIdx.x % warp_lanes;
  const SliceRange range(slices);
  const auto take = [&] {  // the next slice, for this warp alone
    int taken = 0;
    if (lane == 0) taken = range.first + atomicAdd(next, 1);
    return __shfl_sync(all_lanes, taken, 0);
  };
  for (int slice = take(); slice < range.last; slice = take()) {
    const int64_t first = int64_t(slice) * warp_lanes, slot = first + lane;
    T weight = 0;
    const auto two = nearest_centroids<T, Column, tile, tail>(rows, slot, table, norm, k, row, copies, weight);
    const int roundings = int((rows.begin[slice + 1] - rows.begin[slice]) / warp_lanes) + norm_roundings<T>(d);
    const bool proven = two.second - two.nearest > rounding_error(roundings, most + 2 * weight * above);
    const int j = settle(slot >= n || proven || k == 1, two.best, [&](int open) {
      return exact_nearest([&](auto use) { rows.entries(first + open, use); }, c, k, d);
    });
    if (slot >= n) continue;
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
void iterate(Run<T, Workspace<T>>& s) {
  const auto& sparse = s.ws.sparse;
  if (!sparse.used) {
    launch(exact_points_kernel<T>, blocks(s.n, 256), 256, 0, s.stream, s.x, s.c, s.label, s.n, s.k, s.d);
    return update_shared<T, Layout::rows>(s);
  }
  const FixedSums& sums = s.ws.fixed;
  const Sizes size(s.problem, s.device_info);
  const bool anew = s.ws.restarted || !s.ws.whole;
  if (anew) clear_fixed_sums(s, sums, s.k, s.d);
  s.ws.restarted = false;
  with_column(s.d, [&]<class Column>() {
    dispatch<1, 2, 3, 4>(size.tile, [&]<int tile>() {
      dispatch<1, 2, Vec16<T>::size>(size.tail, [&]<int tail>() {
        launch(fused_kernel<T, Column, tile, tail>, s.device_info.multiprocessors, threads, size.bytes, s.stream,
               sparse.template view<Column, pair>(), s.c, s.label, sums, s.ws.units, s.n, s.k, s.d, sparse.slices,
               size.row, size.copies, anew);
      });
    });
  });
  launch(means_kernel<T>, blocks(int64_t(s.k) * s.d, 256), 256, 0, s.stream, sums, s.ws.units, s.c, s.k, s.d);
}

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare_whole_sums<T, Workspace<T>>,
                                         .upload = upload_whole_sums<threads, T, Workspace<T>>,
                                         .restart = restart_whole_sums<T, Workspace<T>>,
                                         .iterate = iterate<T>,
                                         .download = download_sliced_rows<T>};
}  // namespace

LADDER_VARIANT(.id = "v04i_short_tail", .base = "v04h_shared_counter",
               .idea = "the last vector of centroids has 1, 2 or 4 values, in as many more copies",
               .expect =
                   "K = 10: 4 + 4 + 2 cycles of shared memory for 32 entries in place of 12, and 10 multiply-adds in "
                   "place of 12. 3.35 million times over 132 multiprocessors: 0.25 million cycles, 0.145 ms on an H200 "
                   "in place of 0.17 for the distances of blobs30_01, so 0.17 to 0.19 ms for an iteration in which few "
                   "rows change. Nothing where K is a multiple of 4, or above 16",
               .shows = "iteration", .counter = "l1_percent", .source = "this project",
               .arithmetic = {.form = Arithmetic::Form::exact, .operands = "own"},
               .axes = {{"percent", {10, 20, 30, 40, 50, 60, 80, 100}, 40}}, .reads_labels = true,
               .refuse = refuse_whole_sums<Sizes>, .f32 = phases<float>, .f64 = phases<double>)
