// v04o: all loads of a slice at once, and 24 warps. In v04n a warp loads four pairs of entries, uses them, and loads
// each of the rest alone: up to four waits for memory, behind one for the place of the slice, and 16 warps have too
// little other work meanwhile. Here a lane loads up to six pairs before it uses the first, and its label with them;
// where the next slice lies is read one slice ahead. 24 warps share a multiprocessor, with 80 registers a thread.
#include "../common/lloyd/vector_load.cuh"
#include "../common/sparse/exact_label.cuh"
#include "../common/sparse/moved_value.cuh"
#include "../common/sparse/slice_places.cuh"

namespace {
using namespace ladder;

template <class T>
using Workspace = WholeSums<T>;

constexpr int vectors = 4;  // of 16 bytes, at most: the distances that a thread keeps in registers

/// Pairs of a row that are loaded before the first is used: what 80 registers leave beside `values` distances.
template <class T, int values>
constexpr int held = sizeof(T) == 8 ? 1
                     : values <= 9  ? 6
                     : values <= 12 ? 4
                                    : 2;
constexpr int threads = 768;
constexpr int bank_groups = 8;  // of 16 bytes

/// Of a block, in shared memory.
struct alignas(16) BlockState {
  int largest[2];          // the bits of floats that copy_centroids() finds
  int undecided;           // rows whose labels are not proven
  int next[warp_lanes];    // slices that warps took, in each lane's own counter
  uint8_t lanes[threads];  // for move_rows()
};

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
    do copies /= 2, bytes = sizeof(BlockState) + 16 * size_t(row) * (size_t(p.d) * copies + 1) + sums_bytes(p);
    while (copies > 0 && bytes > device.shared_bytes_optin);
    const bool short_tail = tiles == 1 && copies == bank_groups;
    tail = short_tail ? int(std::bit_ceil(unsigned(columns - (row - 1) * size))) : size;
  }
  static size_t sums_bytes(const Shape& p) { return sizeof(int) * (2 * size_t(p.k) * p.d + size_t(p.k) * warp_lanes); }
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

/// A lane per row of a slice. A lane reads the copy of its own banks; `line` bytes lie between two features. `weight`
/// becomes the sum of all |x|.
template <class T, class Column, int tile, int tail>
__device__ TwoNearest<T> nearest_centroids(const Slices<T, Column, pair>& rows, const Place& place,
                                           const Vec16<T>* table, const Vec16<T>* norm, int row, int copies, int line,
                                           T& weight) {
  constexpr int size = Vec16<T>::size, whole = tail == size ? tile : tile - 1;  // vectors
  constexpr int early = held<T, (tile - 1) * size + tail>;                      // pairs
  const int lane = threadIdx.x % warp_lanes;
  const auto* const values = reinterpret_cast<const Group<T, pair>*>(rows.value + place.begin) + lane;
  const auto* const columns = reinterpret_cast<const Columns<Column>*>(rows.column + place.begin) + lane;
  const int width = place.width(), last = max(width - 1, 0);
  const auto* const tails =
      reinterpret_cast<const unsigned char*>(table[(row - 1) * copies].feature + lane % (copies * size / tail) * tail);
  TwoNearest<T> two;
  two.insert(0, 0);
  for (int first = 0; first < row; first += tile) {
    Group<T, pair> x[early];
    Columns<Column> f[early];
#pragma unroll
    for (int e = 0; e < early; ++e) {  // of a shorter row the last pair again, which is in L1
      const int at = min(e, last) * warp_lanes;
      x[e] = values[at], f[e] = columns[at];
    }
    T distance[tile][size];
#pragma unroll
    for (int q = 0; q < tile; ++q) {
      const Vec16<T> start = norm[first + q];
      for (int v = 0; v < size; ++v) distance[q][v] = start.feature[v];
    }
    const auto* const lines = reinterpret_cast<const unsigned char*>(table + first * copies + lane % copies);
    weight = 0;
    const auto add_pair = [&](const Group<T, pair>& value, const Columns<Column>& column) {
#pragma unroll
      for (int p = 0; p < pair; ++p) {
        weight += fabs(value.of[p]);
        const auto* const c = reinterpret_cast<const Vec16<T>*>(lines + column.of(p) * line);
#pragma unroll
        for (int q = 0; q < whole; ++q) {
          const Vec16<T> vector = c[q * copies];
          for (int v = 0; v < size; ++v) distance[q][v] += value.of[p] * vector.feature[v];
        }
        if (whole == tile) continue;
        const auto values_of_tail = *reinterpret_cast<const Group<T, tail>*>(tails + column.of(p) * line);
        for (int v = 0; v < tail; ++v) distance[tile - 1][v] += value.of[p] * values_of_tail.of[v];
      }
    };
#pragma unroll
    for (int e = 0; e < early; ++e) {
      if (e >= width) break;
      add_pair(x[e], f[e]);
    }
#pragma unroll 1
    for (int e = early; e < width; ++e) add_pair(values[e * warp_lanes], columns[e * warp_lanes]);
#pragma unroll
    for (int e = 0; e < (tile - 1) * size + tail; ++e) two.insert(distance[e / size][e % size], first * size + e + 1);
  }
  return two;
}

/// Calls add(to, from, column, value) for all entries of the rows of a slice that `moved` from one cluster to another.
/// By the whole warp; `lanes`: 32 bytes of shared memory of its own.
template <class T, class Column, class Add>
__device__ void move_rows(const Slices<T, Column, pair>& rows, const Place& place, bool moved, int to, int from,
                          uint8_t* lanes, Add add) {
  const unsigned ballot = __ballot_sync(all_lanes, moved);
  if (ballot == 0) return;
  const int lane = threadIdx.x % warp_lanes, count = __popc(ballot);
  const int log = __clz(count - 1) - 27, number = lane >> log;  // 2^log lanes for each row
  if (moved) lanes[lanes_below(ballot)] = uint8_t(lane);
  __syncwarp();
  const int row = number < count ? lanes[number] : 0;  // of the slice
  to = __shfl_sync(all_lanes, to, row), from = __shfl_sync(all_lanes, from, row);
  if (number >= count) return;
  const T* const values = rows.value + place.begin + row * pair;
  const Column* const columns = rows.column + place.begin + row * pair;
  const unsigned step = 1u << log, width = place.width() * pair;
#pragma unroll 1
  for (unsigned e = lane & (step - 1); e < width; e += step) {
    const unsigned at = e / pair * (pair * warp_lanes) + e % pair;
    add(to, from, columns[at], values[at]);
  }
}

/// `all_copies`: one for each group of banks; else there are `fewer`. `line`: bytes from one feature to the next.
template <class T, class Column, int tile, int tail, bool all_copies>
__global__ void __launch_bounds__(threads, 1)
    fused_kernel(Slices<T, Column, pair> rows, const T* __restrict__ c, int32_t* __restrict__ label, FixedSums sums,
                 Units<T> units, int32_t* open, int n, int k, int d, int slices, int row, int fewer, int line,
                 bool anew) {
  const int copies = all_copies ? bank_groups : fewer;
  BlockState& state = *dynamic_shared<BlockState>();
  Vec16<T>* const norm = reinterpret_cast<Vec16<T>*>(&state + 1);                                // row
  Vec16<T>* const table = norm + row;                                                            // d x row x copies
  int* const high = reinterpret_cast<int*>(reinterpret_cast<unsigned char*>(table) + d * line);  // k x d
  int *const mid = high + k * d, *const count = mid + k * d;                                     // k x d, k x 32
  uint8_t* const lanes = state.lanes + threadIdx.x / warp_lanes * warp_lanes;
  for (int e = threadIdx.x; e < 2 * k * d + k * warp_lanes; e += threads) high[e] = 0;
  if (threadIdx.x < warp_lanes) state.next[threadIdx.x] = 0;
  if (threadIdx.x < 2) state.largest[threadIdx.x] = 0;
  if (threadIdx.x == 0) state.undecided = 0;
  __syncthreads();
  copy_centroids(c, table, norm->feature, state.largest, k, d, row, tail, copies);
  __syncthreads();
  const T above = T(__int_as_float(state.largest[0])), most = T(__int_as_float(state.largest[1]));
  const int lane = threadIdx.x % warp_lanes;
  const SliceRange range(slices);
  // The next slice, for this warp alone: that of lane 0. Were there one counter, nvcc would add up the lanes' additions
  // before, in some 20 instructions.
  const auto take = [&] { return __shfl_sync(all_lanes, range.first + atomicAdd(&state.next[lane], 1), 0); };
  int32_t* const own_open = open + range.first * int64_t(warp_lanes);  // slots of rows that are not proven
  const auto label_of = [&](unsigned slot) { return anew || slot >= unsigned(n) ? -1 : label[slot]; };
  const auto assign_row = [&](const Place& place, bool chosen, int j, int from) {  // of a lane, if it is chosen
    const unsigned slot = unsigned(place.slice) * warp_lanes + lane;
    const bool moved = chosen && j != from;
    move_rows(rows, place, moved, j, from, lanes, [&](int to, int from, int column, T x) {
      move_fixed(high, mid, sums, units, to * d + column, from < 0 ? -1 : from * d + column, x);
    });
    if (!moved) return;
    label[slot] = j;
    atomicAdd(&count[j * warp_lanes + lane], 1);
    if (from >= 0) atomicAdd(&count[from * warp_lanes + lane], -1);
  };
  for (Place place(rows.begin, take(), range.last); place.slice < range.last;) {
    const Place next_place(rows.begin, take(), range.last);
    const unsigned slot = unsigned(place.slice) * warp_lanes + lane;
    const int from = label_of(slot);  // the cluster whose sums hold the row
    T weight = 0;
    const auto two = nearest_centroids<T, Column, tile, tail>(rows, place, table, norm, row, copies, line, weight);
    const int roundings = place.width() * pair + other_roundings<T>(d);
    const bool decided = two.second - two.nearest > rounding_error(roundings, most + weight * above);
    if (slot < unsigned(n) && !decided) own_open[atomicAdd(&state.undecided, 1)] = int32_t(slot);
    assign_row(place, slot < unsigned(n) && decided, two.best, from);
    place = next_place;
  }
  __syncthreads();
#pragma unroll 1
  for (int i = threadIdx.x / warp_lanes; i < state.undecided; i += threads / warp_lanes) {
    const int slot = own_open[i], open_lane = slot % warp_lanes;
    const Place place(rows.begin, slot / warp_lanes, range.last);
    const int j = exact_nearest(
        [&](auto use) {
#pragma unroll 1
          for (int64_t e = place.begin + open_lane * pair; e < place.end; e += pair * warp_lanes)
#pragma unroll 1
            for (int q = 0; q < pair; ++q) use(rows.column[e + q], rows.value[e + q]);
        },
        c, k, d);
    assign_row(place, lane == open_lane, j, label_of(slot));
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

LADDER_VARIANT(.id = "v04o_whole_slice", .base = "v04n_short_loop",
               .idea = "all loads of a slice at once, and 24 warps",
               .expect =
                   "counted in the machine code for K = 10: 370 instructions for a slice of 10.7 entries, 500 where "
                   "some rows change, "
                   "870 where all are new. 312,500 slices on 132 multiprocessors that issue 4 instructions a cycle at "
                   "1.98 GHz: 0.15 ms, "
                   "0.26 ms for the first iteration. Shared memory takes 130 cycles a slice, 0.155 ms, and memory "
                   "0.135 ms. No kernel of "
                   "this kind has issued more than 70 % of what it could: 0.22 to 0.28 ms an iteration in a run of "
                   "ten. A larger step: "
                   "a slice's place and its columns get forms of their own, to be loaded early",
               .shows = "iteration", .counter = "dram_percent", .source = "this project",
               .arithmetic = {.form = Arithmetic::Form::exact, .operands = "own"},
               .axes = {{"percent", {10, 20, 30, 40, 50, 60, 80, 100}, 40}}, .reads_labels = true,
               .refuse = refuse_whole_sums<Sizes>, .f32 = phases<float>, .f64 = phases<double>)
