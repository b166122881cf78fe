// v03k: a cluster without barriers. v03j's blocks meet in the L2 cache: of 11,000 cycles per iteration at K = 16 two
// thirds are the barrier and the round trips to counts and sums; and its loops over features, whose number is known at
// run time only, read points from shared memory again for each centroid. Here one cluster of up to 16 blocks is the
// whole grid, and no block waits for more than the numbers that it needs.
//
// A thread keeps 1, 2 or 4 points in registers; how many vectors of 16 bytes a row has is a template argument.
//
// Block r owns clusters r, r + blocks, ...: it alone keeps their sums. Points whose label changed go into a list, from
// which all threads of a block add up its change of each sum; the block sends each owner its part. The owner adds,
// divides and sends the new centroid to all. An mbarrier in each block counts the bytes (device/cluster_messages.cuh).
//
// Two copies of the incoming changes take turns: a block may be an iteration ahead of the owner's slowest warp, not
// two, as it needs a centroid of each block, which a block sends behind a barrier of its threads. So each block owns a
// cluster: there are at most K blocks. New centroids need no second copy: they come when all blocks have sent their
// changes, and read the old ones before they did.
//
// for cuda: 90a
#include "../common/device/cluster_messages.cuh"
#include "../common/lloyd/one_launch.cuh"
#include "../common/tiny/cluster.cuh"
#include "../common/tiny/point_group.cuh"
#include "../common/tiny/proven_nearest.cuh"
#include "../common/tiny/resident_points.cuh"
#include "../common/tiny/whole_sums.cuh"
#include "../common/update/exact_sums.cuh"

namespace {
using namespace ladder;

constexpr int threads = 256;
constexpr int most_blocks = 16;
constexpr int wide = 6;  // a row of so many vectors takes the registers of two points

using Number = unsigned long long;

/// Where a block has what, in bytes of its shared memory. Other blocks write to what comes before `total`.
struct Layout {
  int row;      // numbers: d features and a count
  int rows;     // of a cluster's sums: one for each word
  int owned;    // clusters of a block, at most
  int vectors;  // of a centroid
  size_t slots, moved, tile, total, change, points, kept, moves, move_count, end;

  Layout(const Shape& p, int blocks, int words, int vectors)
      : row(p.d + 1), rows(words), owned(ladder::blocks(p.k, blocks)), vectors(vectors) {
    const auto whole = [](size_t bytes) { return (bytes + 15) / 16 * 16; };
    const size_t sums = size_t(owned) * rows * row * sizeof(Number);
    slots = 2 * sizeof(uint64_t);                         // behind two barriers; 2 x most_blocks x owned x rows x row
    moved = slots + 2 * most_blocks * sums;               // 2 x most_blocks
    tile = whole(moved + 2 * most_blocks * sizeof(int));  // k x vectors
    total = tile + size_t(p.k) * vectors * 16;            // 2 x owned x rows x row
    change = total + 2 * sums;                            // k x rows x row
    points = whole(change + size_t(p.k) * rows * row * sizeof(Number));
    kept = points + size_t(ladder::blocks(p.n, blocks)) * vectors * 16;
    moves = kept + 2 * size_t(owned) * vectors * 16;
    move_count = moves + ladder::blocks(p.n, blocks) * sizeof(Move);
    end = move_count + 2 * sizeof(int);
  }
};

/// Adds to a number in shared memory by its halves: for 32 bits there are atomics there, for 64 there is a loop.
__device__ void add_halves(Number* number, long long value) {
  auto* const half = reinterpret_cast<unsigned*>(number);
  const auto low = unsigned(value), before = atomicAdd(&half[0], low);
  const unsigned high = unsigned(Number(value) >> 32) + (before + low < low ? 1 : 0);
  if (high != 0) atomicAdd(&half[1], high);
}

/// `totals`: the sums of all clusters between two launches, k x rows x row. 2^lane_bits lanes, more than d, share a
/// row of numbers; there are 2^block_bits blocks.
template <class T, int vectors, int group>
__global__ void __launch_bounds__(threads, 1)
    solve_kernel(const T* x, T* c, int32_t* label, Number* totals, FixedPoint format, Iterations run, Layout layout,
                 int lane_bits, int block_bits, int n, int k, int d) {
  constexpr int width = Vec16<T>::size, pitch = vectors * width;
  const int blocks = 1 << block_bits, rank = blockIdx.x, thread = threadIdx.x;
  const int first = share_begin(n, rank, blocks), count = share_begin(n, rank + 1, blocks) - first;
  const int per_thread = (count + group - 1) / group;  // threads that have points
  const int row = layout.row, rows = layout.rows, owned = (k - rank + blocks - 1) >> block_bits;
  char* const shared = dynamic_shared<char>();
  uint64_t* const changes_arrived = reinterpret_cast<uint64_t*>(shared);
  uint64_t* const tile_arrived = changes_arrived + 1;
  auto* const slots = reinterpret_cast<Number*>(shared + layout.slots);
  auto* const moved = reinterpret_cast<int*>(shared + layout.moved);
  auto* const tile = reinterpret_cast<Vec16<T>*>(shared + layout.tile);
  auto* const total = reinterpret_cast<Number*>(shared + layout.total);
  auto* const change = reinterpret_cast<Number*>(shared + layout.change);
  auto* const copy = reinterpret_cast<Vec16<T>*>(shared + layout.points);
  auto* const kept = reinterpret_cast<T*>(shared + layout.kept);  // 2 x owned x pitch: the block's own centroids
  auto* const moves = reinterpret_cast<Move*>(shared + layout.moves);
  auto* const move_count = reinterpret_cast<int*>(shared + layout.move_count);  // 2, taking turns
  const ResidentPoints<T> points{copy, d, vectors};
  const Centroids<T> centroids{reinterpret_cast<const T*>(tile), pitch};
  const auto slot = [&](int turn, int from, int at, int w, int f) {
    return slots + (((turn * most_blocks + from) * layout.owned + at) * rows + w) * row + f;
  };
  const auto total_of = [&](int turn, int at, int w, int f) {
    return total + ((turn * layout.owned + at) * rows + w) * row + f;
  };

  // What other blocks write to is ready before the barrier below.
  for (int e = thread; e < count * vectors; e += threads) copy[e] = {};
  for (int e = thread; e < k * vectors; e += threads) tile[e] = {};
  for (int e = thread; e < k * rows * row; e += threads) {
    change[e] = 0;
    const int j = e / (rows * row);
    if (j % blocks == rank) total[(j >> block_bits) * rows * row + e % (rows * row)] = totals[e];
  }
  for (int e = thread; e < 2 * most_blocks; e += threads) moved[e] = 0;
  for (int e = thread; e < 2 * most_blocks * layout.owned * rows * row; e += threads) slots[e] = 0;
  if (thread == 0) {
    move_count[0] = move_count[1] = 0;
    init_arrivals(changes_arrived), init_arrivals(tile_arrived);
  }
  __syncthreads();
  copy_rows<threads>(copy, x + size_t(first) * d, count, d, row_vectors(d, sizeof(T)), vectors);
  copy_rows<threads>(tile, c, k, d, row_vectors(d, sizeof(T)), vectors);
  for (int e = thread; e < owned * d; e += threads)
    kept[e / d * pitch + e % d] = c[(e / d * blocks + rank) * d + e % d];
  cooperative_groups::this_cluster().sync();
  Vec16<T> point[group][vectors];
  int held[group];  // the labels
  const auto index = [&](int r) { return thread + r * per_thread; };
  const auto valid = [&](int r) { return thread < per_thread && index(r) < count; };
#pragma unroll
  for (int r = 0; r < group; ++r) {
    held[r] = !valid(r) ? 0 : run.done > 0 ? label[first + index(r)] : -1;  // -1: in no sums
#pragma unroll
    for (int v = 0; v < vectors; ++v) point[r][v] = valid(r) ? copy[index(r) * vectors + v] : Vec16<T>{};
  }
  const int lanes = 1 << lane_bits, f = thread & (lanes - 1);  // f: a feature, or d for the count
  const int my_row = thread >> lane_bits, rows_at_once = threads >> lane_bits;
  const double scale = 1 / format.unit;

  int turn = 0;
  for (int it = 0; it < run.most; ++it) {
    if (thread == 0) {
      expect(changes_arrived, blocks * (owned * rows * row * int(sizeof(Number)) + int(sizeof(int))));
      expect(tile_arrived, k * d * int(sizeof(T)));
    }
    if (thread / warp_lanes * warp_lanes < per_thread) {
      NearestAndSecond<T> nearest[group];
#pragma unroll 8
      for (int j = 0; j < k; ++j) {
        Vec16<T> centroid[vectors];
#pragma unroll
        for (int v = 0; v < vectors; ++v) centroid[v] = tile[j * vectors + v];
#pragma unroll
        for (int r = 0; r < group; ++r) {
          T distance = 0;
#pragma unroll
          for (int v = 0; v < vectors; ++v) add_squares(distance, point[r][v], centroid[v]);
          nearest[r].insert(distance, j);
        }
      }
#pragma unroll
      for (int r = 0; r < group; ++r) {
        if (!valid(r)) nearest[r] = {T(0), held[r]};  // nothing to settle
        const int j = settle(nearest[r], points, index(r), 1, centroids, k);
        if (j == held[r]) continue;
        moves[atomicAdd(&move_count[turn], 1)] = {index(r), held[r], j};
        held[r] = j;
      }
    }
    __syncthreads();
    const int moved_here = move_count[turn];
    for (int i = my_row; i < moved_here && f <= d; i += rows_at_once) {
      const Move move = moves[i];
      const auto add = [&](int w, long long value) {
        add_halves(change + (move.to * rows + w) * row + f, value);
        if (move.from >= 0) add_halves(change + (move.from * rows + w) * row + f, -value);
      };
      if (f < d)
        for_words(points.row(move.point)[f], format, scale, add);
      else
        add(0, 1);
    }
    if (thread == 0) move_count[1 - turn] = 0;  // read before the barrier above, in use again behind the next one
    __syncthreads();
    if (thread < blocks) send(thread, &moved[turn * most_blocks + rank], moved_here, changes_arrived);
    for (int j = my_row; j < k && f <= d; j += rows_at_once) {
      for (int w = 0; w < rows; ++w) {
        Number& number = change[(j * rows + w) * row + f];
        send(j & (blocks - 1), slot(turn, rank, j >> block_bits, w, f), number, changes_arrived);
        number = 0;
      }
    }
    wait_for_messages(changes_arrived, it);
    for (int begin = 0; begin < owned * blocks; begin += rows_at_once) {  // pairs of a cluster and a block that is told
      const int pair = begin + my_row, at = pair >> block_bits, to = pair & (blocks - 1), j = at * blocks + rank;
      SumWords sum;
#pragma unroll
      for (int w = 0; w < FixedPoint::most_words; ++w) {
        if (w >= rows || at >= owned || f > d) continue;
        sum.of[w] = *total_of(turn, at, w, f);
#pragma unroll
        for (int from = 0; from < most_blocks; ++from) sum.of[w] += *slot(turn, from, at, w, f);
        if (to == 0) *total_of(1 - turn, at, w, f) = sum.of[w];
      }
      const int of_cluster = __shfl_sync(all_lanes, int(sum.of[0]), d, lanes);
      if (at >= owned || f >= d) continue;
      // A centroid without points stays.
      const T before = kept[(turn * layout.owned + at) * pitch + f];
      const T feature = of_cluster > 0 ? short_mean<T>(sum, of_cluster, format) : before;
      send(to, reinterpret_cast<T*>(tile + j * vectors) + f, feature, tile_arrived);
      if (to == 0) kept[((1 - turn) * layout.owned + at) * pitch + f] = feature;
    }
    const int lane = thread % warp_lanes;
    const int changed = __reduce_add_sync(all_lanes, lane < most_blocks ? moved[turn * most_blocks + lane] : 0);
    const bool last = run.stop.reached(run.done + it + 1, changed, n);
    if (rank == 0 && thread == 0) run.changed[it] = changed;
    turn = 1 - turn;
    wait_for_messages(tile_arrived, it);
    if (last) break;
  }

#pragma unroll
  for (int r = 0; r < group; ++r)
    if (valid(r)) label[first + index(r)] = held[r];
  __syncthreads();
  for (int e = thread; e < owned * rows * row; e += threads) {
    const int at = e / (rows * row);
    totals[(at * blocks + rank) * rows * row + e % (rows * row)] = *total_of(turn, at, 0, e % (rows * row));
  }
  for (int e = thread; e < k * d && rank == 0; e += threads) c[e] = centroids[e / d][e % d];
  cooperative_groups::this_cluster().sync();  // no block ends while another may send it something
}

template <class T>
struct Workspace {
  OneLaunch launches;
  ExactSums sums;            // of which the format is used
  Number* totals = nullptr;  // k x most_words x (d + 1)
};

int cluster_blocks(const Shape& p, const Device& device) {
  return int(std::bit_floor(unsigned(std::min({most_blocks, p.k, device.multiprocessors}))));
}

/// Vectors of a row that there is a kernel for.
int kernel_vectors(const Shape& p) {
  const int vectors = row_vectors(p.d, p.element_bytes);
  return vectors <= 4 ? vectors : vectors <= wide ? wide : 8;
}
int most_group(int vectors) { return vectors >= wide ? 2 : 4; }

size_t total_bytes(const Shape& p) { return size_t(p.k) * FixedPoint::most_words * (p.d + 1) * sizeof(Number); }

template <class T>
void prepare(Run<T, Workspace<T>>& s) {
  prepare_pinned(s);
  prepare_one_launch(s);
  s.ws.sums.extremes = s.template device<Extremes>(1);
  s.ws.totals = s.template device<Number>(total_bytes(s.problem) / sizeof(Number));
}

template <class T>
void upload(Run<T, Workspace<T>>& s) {
  upload_rows(s);
  choose_format(s, s.x);
}

template <class T>
void restart(Run<T, Workspace<T>>& s) {
  restart_rows(s);
  s.ws.launches.done = 0;
  check(cudaMemsetAsync(s.ws.totals, 0, total_bytes(s.problem), s.stream), "clearing the sums");
}

template <class T>
void start(Run<T, Workspace<T>>& s, const Iterations& run) {
  const int blocks = cluster_blocks(s.problem, s.device_info), points = ladder::blocks(s.n, blocks);
  const int lane_bits = int(std::bit_width(unsigned(s.d))), block_bits = int(std::bit_width(unsigned(blocks))) - 1;
  int group = 1;
  while (group * threads < points) group *= 2;
  dispatch<1, 2, 3, 4, wide, 8>(kernel_vectors(s.problem), [&]<int vectors>() {
    dispatch<1, 2, 4>(group, [&]<int group>() {
      constexpr int most = vectors >= wide ? 2 : 4;
      const Layout layout(s.problem, blocks, s.ws.sums.format.words, vectors);
      launch_cluster(solve_kernel<T, vectors, std::min(group, most)>, blocks, threads, layout.end, s.stream, s.x, s.c,
                     s.label, s.ws.totals, s.ws.sums.format, run, layout, lane_bits, block_bits, s.n, s.k, s.d);
    });
  });
}

std::string refuse(const Shape& p, const Device& device, const Axes&) {
  if (device.kind == DeviceKind::cuda && device.compute_capability != 90)
    return "its messages between blocks need a GPU of compute capability 9.0, this one has " +
           std::to_string(device.compute_capability / 10) + "." + std::to_string(device.compute_capability % 10);
  const int most_features = p.element_bytes == 4 ? 31 : 16, blocks = cluster_blocks(p, device);
  if (p.d > most_features)
    return std::to_string(p.d) + " features are more than the " + std::to_string(most_features) +
           " that a thread keeps in registers: take v03j_short_division";
  const int vectors = kernel_vectors(p), most_points = threads * most_group(vectors);
  if (ladder::blocks(p.n, blocks) > most_points)
    return std::to_string(p.n) + " points are more than the " + std::to_string(int64_t(blocks) * most_points) +
           " that the registers of one cluster hold: take v03j_short_division";
  const Layout layout(p, blocks, FixedPoint::most_words, vectors);
  if (layout.end <= device.shared_bytes_optin) return "";
  return "a block needs " + std::to_string(layout.end) + " bytes of shared memory for its points and " +
         std::to_string(p.k) + " clusters and has " + std::to_string(device.shared_bytes_optin) +
         ": take v03j_short_division";
}

template <class T>
void iterate(Run<T, Workspace<T>>& s) {
  iterate_in_one_launch(s, [&](const Iterations& run) { start(s, run); });
}

template <class T>
void solve(Run<T, Workspace<T>>& s) {
  solve_in_one_launch(s, [&](const Iterations& run) { start(s, run); });
}

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare<T>,
                                         .upload = upload<T>,
                                         .restart = restart<T>,
                                         .iterate = iterate<T>,
                                         .solve = solve<T>,
                                         .download = download_rows<T>};
}  // namespace

LADDER_VARIANT(
        .id = "v03k_cluster_messages", .base = "v03j_short_division",
        .idea = "one cluster: points in registers, owners of clusters get changes and send centroids as messages",
        .expect =
            "A larger step: the cluster gets a kernel of its own, and messages. wine_k16 on an H200, in cycles of "
            "an iteration: the fullest scheduler has 2 warps of 2 x 32 points, 1,000 instructions each for 16 "
            "centroids: 2,100; labels, the list and the changes of sums 600; messages to the owners 450; sums of 16 "
            "blocks and a division 350; messages to all 280: 3,800, or 1.9 us. 20 us of launch and read-back and a "
            "first iteration that moves every point, over 44 iterations: 2.5 to 2.7 us in place of 5.9",
        .shows = "solve",
        .source = "PTX ISA: st.async; CUDA programming guide: distributed shared memory; this project",
        .arithmetic = {.form = Arithmetic::Form::exact, .operands = "own"}, .reads_labels = true, .refuse = refuse,
        .f32 = phases<float>, .f64 = phases<double>)
