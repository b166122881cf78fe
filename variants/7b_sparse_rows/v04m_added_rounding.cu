// v04m: values become whole numbers by an addition. v04l rounds and converts each value twice, for `high` and for
// `mid`: four instructions that a multiprocessor does for 16 lanes per cycle, an eighth of what it adds. Here 1.5 x
// 2^23 is added to a float: its last place then counts ones, so the addition rounds, and the sum's bits are the whole
// number behind a constant. 1.5 x 2^52 does this for a double.
#include "../common/lloyd/vector_load.cuh"
#include "../common/sparse/exact_label.cuh"
#include "../common/sparse/gathered_rows.cuh"
#include "../common/sparse/moved_value.cuh"

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
    const int columns = std::max(1, p.k - 1);  // centroids without the first
    const int size = 16 / int(p.element_bytes), tiles = blocks(columns, vectors * size);
    tile = blocks(columns, tiles * size);
    row = tiles * tile;
    tail = tiles > 1 ? size : int(std::bit_ceil(unsigned(columns - (row - 1) * size)));
    copies = 2 * bank_groups;
    do copies /= 2, bytes = 16 * size_t(row) * (size_t(p.d) * copies + 1) + sums_bytes(p);
    while (copies > 0 && bytes > device.shared_bytes_optin);
  }
  static size_t sums_bytes(const Shape& p) {
    return sizeof(int) * (2 * size_t(p.k) * p.d + size_t(p.k) * warp_lanes + 4) + threads;
  }
};

/// Roundings of a distance beside those of its products: c_j - c_0, and |c_j|^2 - |c_0|^2, which is summed in double.
template <class T>
__device__ int other_roundings(int d) {
  return sizeof(T) == 4 ? 9 : 17 + 2 * d / warp_lanes;
}

/// Column j: centroid j + 1 less the first. All columns, feature by feature, each vector `copies` times, the last one,
/// of `tail` values, in the same room; `norm`: |c_(j + 1)|^2 - |c_0|^2. largest: the bits of two floats, above all
/// values of columns and above the sum of two |c|^2; these are 0 before. By a block.
template <class T>
__device__ void copy_centroids(const T* c, Vec16<T>* table, T* norm, int* largest, int k, int d, int row, int tail,
                               int copies) {
  constexpr int size = Vec16<T>::size;
  const int lane = threadIdx.x % warp_lanes;
  float above = std::numeric_limits<float>::min();
  for (int e = threadIdx.x; e < d * row * size; e += threads) {
    const int j = e % (row * size), f = e / (row * size);
    const T coordinate = j + 1 < k ? c[size_t(j + 1) * d + f] - c[f] : T(0);
    above = max(above, float(fabs(coordinate)) * (1 + 0x1p-20f));
    const int width = j / size == row - 1 ? tail : size;
    if (e % size >= width) continue;
    T* const line = table[e / size * copies].feature;
    for (int copy = 0; copy < copies * size / width; ++copy) line[copy * width + e % size] = coordinate;
  }
  above = warp_max(above + std::numeric_limits<float>::min());  // more, too, than what a small double is as a float
  if (lane == 0) atomicMax(largest, __float_as_int(above));
  for (int j = threadIdx.x / warp_lanes; j + 1 < k; j += threads / warp_lanes) {
    double difference = 0, both = 0;
    for (int f = lane; f < d; f += warp_lanes) {
      const double other = c[size_t(j + 1) * d + f], first = c[f];
      difference += other * other - first * first, both += other * other + first * first;
    }
    difference = warp_sum(difference), both = warp_sum(both);
    if (lane > 0) continue;
    norm[j] = T(difference);
    atomicMax(largest + 1, __float_as_int(float(both) * (1 + 0x1p-20f) + std::numeric_limits<float>::min()));
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
  two.insert(0, 0);
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
      if (j + 1 >= k) break;
      two.insert(norm[j] - 2 * product[e / size][e % size], j + 1);
    }
  }
  return two;
}

template <class T, class Column, int tile, int tail>
__global__ void __launch_bounds__(threads, 1)
    fused_kernel(Slices<T, Column, pair> rows, const T* __restrict__ c, int32_t* __restrict__ label, FixedSums sums,
                 Units<T> units, int32_t* open, int n, int k, int d, int slices, int row, int copies, bool anew) {
  Vec16<T>* const table = dynamic_shared<Vec16<T>>();                        // d x row x copies
  T* const norm = reinterpret_cast<T*>(table + d * row * copies);            // row vectors
  int* const high = reinterpret_cast<int*>(table + (d * copies + 1) * row);  // k x d
  int *const mid = high + k * d, *const count = mid + k * d;                 // k x d, k x 32
  int *const largest = count + k * warp_lanes, *const next = largest + 2, *const undecided = next + 1;
  uint8_t* const lanes = reinterpret_cast<uint8_t*>(undecided + 1) + threadIdx.x / warp_lanes * warp_lanes;
  for (int e = threadIdx.x; e < 2 * k * d + k * warp_lanes + 4; e += threads) high[e] = 0;
  __syncthreads();
  copy_centroids(c, table, norm, largest, k, d, row, tail, copies);
  __syncthreads();
  const T above = T(__int_as_float(largest[0])), most = T(__int_as_float(largest[1]));
  const int lane = threadIdx.x % warp_lanes;
  const SliceRange range(slices);
  const auto take = [&] {  // the next slice, for this warp alone
    int taken = 0;
    if (lane == 0) taken = range.first + atomicAdd(next, 1);
    return __shfl_sync(all_lanes, taken, 0);
  };
  int32_t* const own_open = open + range.first * int64_t(warp_lanes);  // slots of rows that are not proven
  const auto assign_row = [&](int slice, bool chosen, int j) {         // of a lane, if it is chosen; by the whole warp
    const int64_t slot = slice * int64_t(warp_lanes) + lane;
    const int from = anew || !chosen ? -1 : label[slot];  // the cluster whose sums hold the row
    const bool moved = chosen && j != from;
    move_rows(rows, slice, moved, j, from, lanes, [&](int to, int from, int column, T x) {
      move_fixed(high, mid, sums, units, to * d + column, from < 0 ? -1 : from * d + column, x);
    });
    if (!moved) return;
    label[slot] = j;
    atomicAdd(&count[j * warp_lanes + lane], 1);
    if (from >= 0) atomicAdd(&count[from * warp_lanes + lane], -1);
  };
  for (int slice = take(); slice < range.last; slice = take()) {
    const int64_t slot = int64_t(slice) * warp_lanes + lane;
    T weight = 0;
    const auto two = nearest_centroids<T, Column, tile, tail>(rows, slot, table, norm, k, row, copies, weight);
    const int roundings = int((rows.begin[slice + 1] - rows.begin[slice]) / warp_lanes) + other_roundings<T>(d);
    const bool proven = two.second - two.nearest > rounding_error(roundings, most + 2 * weight * above);
    const bool decided = proven || k == 1;
    if (slot < n && !decided) own_open[atomicAdd(undecided, 1)] = int32_t(slot);
    assign_row(slice, slot < n && decided, two.best);
  }
  __syncthreads();
#pragma unroll 1
  for (int i = threadIdx.x / warp_lanes; i < *undecided; i += threads / warp_lanes) {
    const int slice = own_open[i] / warp_lanes, open_lane = own_open[i] % warp_lanes;
    const int j = exact_nearest(
        [&](auto use) {
#pragma unroll 1
          for (int64_t e = rows.begin[slice] + open_lane * pair; e < rows.begin[slice + 1]; e += pair * warp_lanes)
#pragma unroll 1
            for (int q = 0; q < pair; ++q) use(rows.column[e + q], rows.value[e + q]);
        },
        c, k, d);
    assign_row(slice, lane == open_lane, j);
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
               sparse.template view<Column, pair>(), s.c, s.label, sums, s.ws.units, sparse.length, s.n, s.k, s.d,
               sparse.slices, size.row, size.copies, anew);
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

LADDER_VARIANT(.id = "v04m_added_rounding", .base = "v04l_rare_apart",
               .idea = "values become whole numbers by an addition, without a conversion",
               .expect =
                   "four conversions for an entry that is added, 8 cycles each on a quarter of a multiprocessor: 11 "
                   "entries and 2,370 "
                   "slices per multiprocessor are 0.2 million cycles, 0.1 ms, in the first iteration, beside other "
                   "work. Where one row "
                   "in ten changes there is a step or two of a slice left: 0.01 to 0.02 ms. So 0.05 to 0.1 ms less for "
                   "the first "
                   "iteration, hardly any less for the others",
               .shows = "iteration", .counter = "instructions_per_cycle", .source = "this project",
               .arithmetic = {.form = Arithmetic::Form::exact, .operands = "own"},
               .axes = {{"percent", {10, 20, 30, 40, 50, 60, 80, 100}, 40}}, .reads_labels = true,
               .refuse = refuse_whole_sums<Sizes>, .f32 = phases<float>, .f64 = phases<double>)
