// v04n: fewer instructions for an entry and for a centroid. In v04m every slice ends with nine subtractions of twice a
// product from a norm, each behind a test whether there is such a centroid. Here the copied centroids are already
// multiplied by -2 and sums start at the norm; a centroid that does not exist has an infinite one. The distance in
// bytes from one feature to the next is multiplied by the column, and the number of copies, where it is 8, is known to
// the compiler: two instructions for the addresses of an entry in place of five.
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
    copies = 2 * bank_groups;
    do copies /= 2, bytes = 16 * size_t(row) * (size_t(p.d) * copies + 1) + sums_bytes(p);
    while (copies > 0 && bytes > device.shared_bytes_optin);
    const bool short_tail = tiles == 1 && copies == bank_groups;
    tail = short_tail ? int(std::bit_ceil(unsigned(columns - (row - 1) * size))) : size;
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

/// Column j: -2 times centroid j + 1 less the first. All columns, feature by feature, each vector `copies` times, the
/// last one, of `tail` values, in the same room; `norm`: |c_(j + 1)|^2 - |c_0|^2, infinite behind the last centroid.
/// largest: the bits of two floats, above all values of columns and above the sum of two |c|^2; these are 0 before. By
/// a block.
template <class T>
__device__ void copy_centroids(const T* c, Vec16<T>* table, T* norm, int* largest, int k, int d, int row, int tail,
                               int copies) {
  constexpr int size = Vec16<T>::size;
  const int lane = threadIdx.x % warp_lanes;
  float above = std::numeric_limits<float>::min();
  for (int e = threadIdx.x; e < d * row * size; e += threads) {
    const int j = e % (row * size), f = e / (row * size);
    const T coordinate = j + 1 < k ? T(-2) * (c[size_t(j + 1) * d + f] - c[f]) : T(0);
    above = max(above, float(fabs(coordinate)) * (1 + 0x1p-20f));
    const int width = j / size == row - 1 ? tail : size;
    if (e % size >= width) continue;
    T* const line = table[e / size * copies].feature;
    for (int copy = 0; copy < copies * size / width; ++copy) line[copy * width + e % size] = coordinate;
  }
  above = warp_max(above + std::numeric_limits<float>::min());  // more, too, than what a small double is as a float
  if (lane == 0) atomicMax(largest, __float_as_int(above));
  for (int j = threadIdx.x; j < row * size; j += threads)
    if (j + 1 >= k) norm[j] = std::numeric_limits<T>::infinity();
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

/// A lane per row of a slice, whose entries begin at `begin` and have `width` pairs in each row. A lane reads the copy
/// of its own banks; `line` bytes lie between two features. `weight` becomes the sum of all |x|.
template <class T, class Column, int tile, int tail>
__device__ TwoNearest<T> nearest_centroids(const Slices<T, Column, pair>& rows, int64_t begin, int width,
                                           const Vec16<T>* table, const Vec16<T>* norm, int row, int copies, int line,
                                           T& weight) {
  constexpr int size = Vec16<T>::size, whole = tail == size ? tile : tile - 1;  // vectors
  const int lane = threadIdx.x % warp_lanes;
  const auto* const values = reinterpret_cast<const Group<T, pair>*>(rows.value + begin) + lane;
  const auto* const columns = reinterpret_cast<const Group<Column, pair>*>(rows.column + begin) + lane;
  const auto* const tails =
      reinterpret_cast<const unsigned char*>(table[(row - 1) * copies].feature + lane % (copies * size / tail) * tail);
  TwoNearest<T> two;
  two.insert(0, 0);
  for (int first = 0; first < row; first += tile) {
    T distance[tile][size];
#pragma unroll
    for (int q = 0; q < tile; ++q) {
      const Vec16<T> start = norm[first + q];
      for (int v = 0; v < size; ++v) distance[q][v] = start.feature[v];
    }
    const auto* const lines = reinterpret_cast<const unsigned char*>(table + first * copies + lane % copies);
    weight = 0;
#pragma unroll 4
    for (int e = 0; e < width; ++e) {
      const auto x = values[e * warp_lanes];
      const auto f = columns[e * warp_lanes];
#pragma unroll
      for (int p = 0; p < pair; ++p) {
        weight += fabs(x.of[p]);
        const auto* const c = reinterpret_cast<const Vec16<T>*>(lines + f.of[p] * line);
#pragma unroll
        for (int q = 0; q < whole; ++q) {
          const Vec16<T> vector = c[q * copies];
          for (int v = 0; v < size; ++v) distance[q][v] += x.of[p] * vector.feature[v];
        }
        if (whole == tile) continue;
        const auto last = *reinterpret_cast<const Group<T, tail>*>(tails + f.of[p] * line);
        for (int v = 0; v < tail; ++v) distance[tile - 1][v] += x.of[p] * last.of[v];
      }
    }
#pragma unroll
    for (int e = 0; e < (tile - 1) * size + tail; ++e) two.insert(distance[e / size][e % size], first * size + e + 1);
  }
  return two;
}

/// `all_copies`: one for each group of banks; else there are `fewer`. `line`: bytes from one feature to the next.
template <class T, class Column, int tile, int tail, bool all_copies>
__global__ void __launch_bounds__(threads, 1)
    fused_kernel(Slices<T, Column, pair> rows, const T* __restrict__ c, int32_t* __restrict__ label, FixedSums sums,
                 Units<T> units, int32_t* open, int n, int k, int d, int slices, int row, int fewer, int line,
                 bool anew) {
  const int copies = all_copies ? bank_groups : fewer;
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
    const int64_t slot = int64_t(slice) * warp_lanes + lane, begin = rows.begin[slice];
    const int width = int(rows.begin[slice + 1] - begin) / (pair * warp_lanes);  // in pairs
    T weight = 0;
    const auto two = nearest_centroids<T, Column, tile, tail>(
        rows, begin, width, table, reinterpret_cast<const Vec16<T>*>(norm), row, copies, line, weight);
    const int roundings = width * pair + other_roundings<T>(d);
    const bool decided = two.second - two.nearest > rounding_error(roundings, most + weight * above);
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
        launch(size.copies == bank_groups ? fused_kernel<T, Column, tile, tail, true>
                                          : fused_kernel<T, Column, tile, Vec16<T>::size, false>,
               s.device_info.multiprocessors, threads, size.bytes, s.stream, sparse.template view<Column, pair>(), s.c,
               s.label, sums, s.ws.units, sparse.length, s.n, s.k, s.d, sparse.slices, size.row, size.copies,
               16 * size.row * size.copies, anew);
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

LADDER_VARIANT(.id = "v04n_short_loop", .base = "v04m_added_rounding",
               .idea = "distances start at the norm, copied centroids are multiplied by -2: fewer instructions",
               .expect =
                   "counted in the machine code for K = 10: 18 instructions for an entry in place of 23.5, and some 60 "
                   "in place of 100 "
                   "to find the nearest of a slice's rows. A slice of 10.7 entries takes 350 in place of 450 where no "
                   "row changes: a "
                   "fifth less, 0.4 ms an iteration of blobs30_01 on an H200",
               .shows = "iteration", .counter = "instructions_per_cycle", .source = "this project",
               .arithmetic = {.form = Arithmetic::Form::exact, .operands = "own"},
               .axes = {{"percent", {10, 20, 30, 40, 50, 60, 80, 100}, 40}}, .reads_labels = true,
               .refuse = refuse_whole_sums<Sizes>, .f32 = phases<float>, .f64 = phases<double>)
