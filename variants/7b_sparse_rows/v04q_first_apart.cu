// v04q: the first iteration has a kernel of its own, and adds rows from registers. In v04p it runs the code for changed
// rows, although all rows are new and no lane waits for another: each entry is loaded a second time and costs 37
// instructions, with branches for the cluster that the row leaves and for what two parts of a value do not hold. Here a
// lane adds the pairs that it holds, 15 instructions an entry. Values with a third part are rare: a row that has any is
// passed once more. The counts of a block are summed by warps: one addition in global memory for a cluster, not 32.
#include "../common/sparse/new_rows.cuh"

namespace {
using namespace ladder;

template <class T>
using Workspace = WholeSums<T>;

constexpr int threads = 768;

/// Of a block, in shared memory.
struct alignas(16) BlockState {
  int largest[2];          // the bits of floats that copy_centroids() finds
  int undecided;           // rows whose labels are not proven
  int next[warp_lanes];    // slices that warps took, in each lane's own counter
  uint8_t lanes[threads];  // for move_rows()
};

using Sizes = RowSizes<BlockState>;

/// Adds x to sum number `to` and subtracts it from sum number `from`, if that is not negative; `high` and `mid` are the
/// block's own.
template <class T>
__device__ void move_fixed(int* high, int* mid, const FixedSums& sums, const Units<T>& units, int to, int from, T x) {
  const Parts<T> part(units, x);
  atomicAdd(&high[to], part.high), atomicAdd(&mid[to], part.mid);
  if (from >= 0) atomicAdd(&high[from], -part.high), atomicAdd(&mid[from], -part.mid);
  if (part.lost != 0) move_lost(sums, units, to, from, part.lost);
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

/// `anew`: the sums hold no rows. `known`: one tile, with a copy of the centroids for each group of banks. `line`:
/// bytes from one feature to the next; nvcc takes more instructions for an address if it knows them.
template <class T, class Column, int tile, int tail, bool known, bool anew>
__global__ void __launch_bounds__(threads, 1)
    fused_kernel(Slices<T, Column, pair> rows, const T* __restrict__ c, int32_t* __restrict__ label, FixedSums sums,
                 Units<T> units, int32_t* open, int n, int k, int d, int slices, int any_row, int any_copies,
                 int line) {
  using RowEntries = Row<T, Column, held<T, (tile - 1) * Vec16<T>::size + tail>>;
  const int copies = known ? bank_groups : any_copies, row = known ? tile : any_row;
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
  copy_centroids<threads>(c, table, norm->feature, state.largest, k, d, row, tail, copies);
  __syncthreads();
  const T above = T(__int_as_float(state.largest[0])), most = T(__int_as_float(state.largest[1]));
  const int lane = threadIdx.x % warp_lanes;
  const SliceRange range(slices);
  // The next slice, for this warp alone: that of lane 0. Were there one counter, nvcc would add up the lanes' additions
  // before, in some 20 instructions.
  const auto take = [&] { return __shfl_sync(all_lanes, range.first + atomicAdd(&state.next[lane], 1), 0); };
  int32_t* const own_open = open + range.first * int64_t(warp_lanes);  // slots of rows that are not proven
  const auto label_of = [&](unsigned slot) { return anew || slot >= unsigned(n) ? -1 : label[slot]; };
  const auto count_row = [&](unsigned slot, int j, int from) {
    label[slot] = j;
    atomicAdd(&count[j * warp_lanes + lane], 1);
    if (from >= 0) atomicAdd(&count[from * warp_lanes + lane], -1);
  };
  const auto assign_row = [&](const Place& place, bool chosen, int j, int from) {  // of a lane, if it is chosen
    const unsigned slot = unsigned(place.slice) * warp_lanes + lane;
    const bool moved = chosen && j != from;
    move_rows(rows, place, moved, j, from, lanes, [&](int to, int from, int column, T x) {
      move_fixed(high, mid, sums, units, to * d + column, from < 0 ? -1 : from * d + column, x);
    });
    if (moved) count_row(slot, j, from);
  };
  for (Place place(rows.begin, take(), range.last); place.slice < range.last;) {
    const Place next_place(rows.begin, take(), range.last);
    const unsigned slot = unsigned(place.slice) * warp_lanes + lane;
    const int from = label_of(slot);  // the cluster whose sums hold the row
    const RowEntries entries(rows, place);
    T weight = 0;
    const auto two = nearest_centroids<T, tile, tail, known>(entries, table, norm, row, copies, line, weight);
    const int roundings = place.width() * pair + other_roundings<T>(d);
    const bool decided = two.second - two.nearest > rounding_error(roundings, most + weight * above);
    if (slot < unsigned(n) && !decided) own_open[atomicAdd(&state.undecided, 1)] = int32_t(slot);
    const bool chosen = slot < unsigned(n) && decided;
    if constexpr (anew) {
      if (chosen) add_row(entries, high, mid, sums, units, two.best * d), count_row(slot, two.best, -1);
    } else {
      assign_row(place, chosen, two.best, from);
    }
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
  for (int j = threadIdx.x / warp_lanes; j < k; j += threads / warp_lanes) {
    const int rows_of_cluster = warp_sum(count[j * warp_lanes + lane]);
    count[j * warp_lanes + lane] = lane == 0 ? rows_of_cluster : 0;
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
        const auto pass = [&]<bool first>() {
          launch(size.known ? fused_kernel<T, Column, tile, tail, true, first>
                            : fused_kernel<T, Column, tile, Vec16<T>::size, false, first>,
                 s.device_info.multiprocessors, threads, size.bytes, s.stream, sparse.template view<Column, pair>(),
                 s.c, s.label, sums, s.ws.units, sparse.length, s.n, s.k, s.d, sparse.slices, size.row, size.copies,
                 16 * size.row * size.copies);
        };
        anew ? pass.template operator()<true>() : pass.template operator()<false>();
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

LADDER_VARIANT(.id = "v04q_first_apart", .base = "v04p_known_sizes",
               .idea = "the first iteration has a kernel of its own: rows are added from registers",
               .expect =
                   "counted in the machine code for K = 10: 32 instructions for a pair of a new row in place of 74 and "
                   "two more loads: 560 for a slice in place of 810. Shared memory and L1 take 96 cycles of table, 36 "
                   "of loads, 100 of atomics (ncu on v04o: 4.7 each) and 10 more for a slice, without the 36 of the "
                   "second loads: 242, 0.29 ms on 132 multiprocessors at 1.98 GHz, 0.30 to 0.33 ms for the first "
                   "iteration of blobs30_01 at 90 %. The counts' additions of all blocks to 10 numbers become 1,320 of "
                   "42,240, which three 32-byte sectors of L2 take one by one: at one a cycle 8 us of each iteration. "
                   "0.32 ms in a run of ten. A larger step: a second way to add rows",
               .shows = "iteration", .counter = "dram_percent", .source = "this project",
               .arithmetic = {.form = Arithmetic::Form::exact, .operands = "own"},
               .axes = {{"percent", {10, 20, 30, 40, 50, 60, 80, 100}, 40}}, .reads_labels = true,
               .refuse = refuse_whole_sums<Sizes>, .f32 = phases<float>, .f64 = phases<double>)
