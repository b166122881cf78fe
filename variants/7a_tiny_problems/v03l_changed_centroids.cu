// v03l: many clusters, on all multiprocessors. v03k's cluster is for few: at K = 900 it has 16 multiprocessors for
// N x K distances, and no room for the sums. v03j has them all, but compares each point with each centroid in each
// iteration, though most centroids no longer change, and reads all sums from the L2 cache.
//
// - A centroid whose cluster neither won nor lost a point has the same sum, so the same bits, and so has its distance
//   to each point. A point's label a was proven against such a centroid j: d_j (1 - share) > d_a + least, with computed
//   distances (tiny/proven_nearest.cuh). If the distance d_a' to the point's own centroid is now not above d_a, then
//   the same holds with d_a' in its place, and j is still farther than a, and than any centroid nearer than a. So the
//   point is compared with the changed centroids alone, and its own. If d_a grew, or if the bound had not proven the
//   label, the point is compared with all.
// - A lane keeps up to seven points in registers; a warp has 8 lanes of points times 4 groups of centroids, so 12 warps
//   divide the list of changed centroids by 48.
// - Each block keeps all sums. Changes are added up in global memory, in three buffers that take turns: an iteration
//   adds to its own and clears the next one, which was last read two iterations ago. So one barrier of the grid is
//   enough, and a block reads back the changed clusters only.
#include "../common/device/grid_barrier.cuh"
#include "../common/device/warp_argmin.cuh"
#include "../common/lloyd/one_launch.cuh"
#include "../common/tiny/point_group.cuh"
#include "../common/tiny/proven_nearest.cuh"
#include "../common/tiny/resident_points.cuh"
#include "../common/tiny/whole_sums.cuh"
#include "../common/update/exact_sums.cuh"

namespace {
using namespace ladder;

constexpr int threads = 384;
constexpr int point_lanes = 8;
constexpr int warp_groups = warp_lanes / point_lanes, groups = threads / warp_lanes * warp_groups;  // of centroids
constexpr int merge_lanes = 4;                                                                      // of a point
constexpr int buffers = 3;
constexpr int wide = 6;  // vectors of a row: takes the registers of several points

using Number = unsigned long long;

__host__ __device__ inline int mask_words(int k) { return (k + warp_lanes - 1) / warp_lanes; }

/// Where a block has what, in bytes of its shared memory.
struct Layout {
  int row;          // numbers: d features and a count
  int rows;         // of a cluster's sums: one for each word
  int entry_pitch;  // points
  bool has_totals;  // else they are in global memory
  size_t points, entries, last, candidate, labels, full, moves, changed, same, mask, counts, totals, end;

  Layout(const Shape& p, int blocks, int words, int vectors, bool has_totals)
      : row(p.d + 1), rows(words), has_totals(has_totals) {
    const size_t most = ladder::blocks(p.n, blocks), ints = sizeof(int);
    entry_pitch = int((most + 23) / 32 * 32 + 8);  // four rows of 8 in different banks
    points = size_t(p.k) * vectors * 16;           // before: k x vectors, the centroids
    entries = points + most * vectors * 16;        // groups x entry_pitch
    last = entries + groups * entry_pitch * (p.element_bytes == 4 ? 12 : 24);
    candidate = last + most * p.element_bytes;
    labels = candidate + most * p.element_bytes;
    full = labels + most * ints;
    moves = full + most * ints;
    changed = moves + most * sizeof(Move);
    same = changed + p.k * ints;
    mask = same + p.k * ints;
    counts = mask + mask_words(p.k) * ints;
    totals = (counts + 2 * ints + 7) / 8 * 8;
    end = totals + (has_totals ? size_t(p.k) * rows * row * sizeof(Number) : 0);
  }
};

/// What the blocks share.
struct Changes {
  Number* sum;        // buffers x k x rows x row
  unsigned* mask;     // buffers x mask_words(k): the clusters that won or lost a point
  unsigned* arrived;  // blocks at barriers since the restart
};

template <class T>
__device__ NearestAndSecond<T> nearer_of(const NearestAndSecond<T>& a, const NearestAndSecond<T>& b) {
  const bool closer = b.distance < a.distance;
  return {closer ? b.distance : a.distance, closer ? b.centroid : a.centroid,
          min(closer ? b.second : a.second, closer ? a.distance : b.distance)};
}

/// Centroids and points of a block, and what each group of centroids has found for each point.
template <class T, int vectors>
struct Scan {
  const Vec16<T>*tile, *copy;
  NearestAndSecond<T>* entries;  // groups x pitch
  int pitch;

  /// Compares `points` points, those of a list or, without one, 0, 1, ..., with the centroids of a list. `add`: to what
  /// these points' entries hold already.
  template <int group, bool add>
  __device__ void compare(const int* point_list, int points, const int* list, int listed) const {
    const int g = threadIdx.x / point_lanes, lane = threadIdx.x % point_lanes;
    for (int begin = 0; begin < points; begin += group * point_lanes) {
      Vec16<T> x[group][vectors];
      NearestAndSecond<T> nearest[group];
#pragma unroll
      for (int r = 0; r < group; ++r) {
        const int i = min(begin + lane + r * point_lanes, points - 1), point = point_list ? point_list[i] : i;
#pragma unroll
        for (int v = 0; v < vectors; ++v) x[r][v] = copy[point * vectors + v];
      }
      int next = g < listed ? list[g] : 0;
#pragma unroll 2
      for (int i = g; i < listed; i += groups) {
        const int j = next;
        Vec16<T> centroid[vectors];
#pragma unroll
        for (int v = 0; v < vectors; ++v) centroid[v] = tile[j * vectors + v];
        next = list[min(i + groups, listed - 1)];
#pragma unroll
        for (int r = 0; r < group; ++r) {
          T distance = 0;
#pragma unroll
          for (int v = 0; v < vectors; ++v) add_squares(distance, x[r][v], centroid[v]);
          nearest[r].insert(distance, j);
        }
      }
#pragma unroll
      for (int r = 0; r < group; ++r) {
        const int i = begin + lane + r * point_lanes;
        if (i >= points) continue;
        auto& entry = entries[g * pitch + (point_list ? point_list[i] : i)];
        entry = add ? nearer_of(entry, nearest[r]) : nearest[r];
      }
    }
    __syncwarp();
  }
};

/// The points of a list with the centroids that did not change.
template <class T, int vectors>
__attribute__((noinline)) __device__ void compare_listed(Scan<T, vectors> scan, const int* point_list, int points,
                                                         const int* list, int listed) {
  if (points > point_lanes)
    scan.template compare < vectors<wide ? 4 : 2, true>(point_list, points, list, listed);
  else
    scan.template compare<1, true>(point_list, points, list, listed);
}

/// Lists of the changed centroids and of the others, ascending, and a copy of the mask. Returns how many changed; all
/// threads of the block.
__device__ int list_changed(int* changed, int* same, unsigned* mask, const unsigned* changes, int k) {
  const int lane = threadIdx.x % warp_lanes, warp = threadIdx.x / warp_lanes, words = mask_words(k);
  int before = 0;
  for (int begin = 0; begin < words; begin += warp_lanes) {
    const unsigned word = begin + lane < words ? __ldcg(&changes[begin + lane]) : 0;
    for (int w = warp; w < min(words - begin, warp_lanes); w += threads / warp_lanes) {
      const unsigned bits = __shfl_sync(all_lanes, word, w);
      const int at = before + warp_add(lane < w ? __popc(word) : 0) + __popc(bits & ((1u << lane) - 1)),
                j = (begin + w) * warp_lanes + lane;
      if (lane == 0) mask[begin + w] = bits;
      if (j >= k) continue;
      if (bits >> lane & 1)
        changed[at] = j;
      else
        same[j - at] = j;
    }
    before += warp_add(__popc(word));
  }
  return before;
}

/// `totals`: the sums of all clusters between two launches, k x rows x row; `more`: for each block the same, where
/// shared memory has no room. 2^lane_bits lanes, more than d, share a row of numbers. A lane compares `group` points.
template <class T, int vectors, int group>
__global__ void __launch_bounds__(threads, 1)
    solve_kernel(const T* x, T* c, int32_t* label, Number* totals, Number* more, Changes changes, FixedPoint format,
                 Iterations run, Layout layout, int lane_bits, int n, int k, int d) {
  const int first = share_begin(n, blockIdx.x, gridDim.x), count = share_begin(n, blockIdx.x + 1, gridDim.x) - first;
  const int thread = threadIdx.x, row = layout.row, rows = layout.rows, numbers = k * rows * row;
  char* const shared = dynamic_shared<char>();
  auto* const tile = reinterpret_cast<Vec16<T>*>(shared);
  auto* const copy = reinterpret_cast<Vec16<T>*>(shared + layout.points);
  auto* const last = reinterpret_cast<T*>(shared + layout.last);            // the distance that proved the label, or -1
  auto* const candidate = reinterpret_cast<T*>(shared + layout.candidate);  // of a centroid that is not compared again
  auto* const labels = reinterpret_cast<int*>(shared + layout.labels);
  auto* const full = reinterpret_cast<int*>(shared + layout.full);
  auto* const moves = reinterpret_cast<Move*>(shared + layout.moves);
  auto* const changed_list = reinterpret_cast<int*>(shared + layout.changed);
  auto* const same_list = reinterpret_cast<int*>(shared + layout.same);
  auto* const mask = reinterpret_cast<unsigned*>(shared + layout.mask);
  int *const move_count = reinterpret_cast<int*>(shared + layout.counts), *const full_count = move_count + 1;
  Number* const total =
      layout.has_totals ? reinterpret_cast<Number*>(shared + layout.totals) : more + size_t(blockIdx.x) * numbers;
  const Scan<T, vectors> scan{tile, copy, reinterpret_cast<NearestAndSecond<T>*>(shared + layout.entries),
                              layout.entry_pitch};
  const ResidentPoints<T> points{copy, d, vectors};
  const Centroids<T> centroids{reinterpret_cast<const T*>(tile), vectors * Vec16<T>::size};
  const int lanes = 1 << lane_bits, f = thread & (lanes - 1);  // f: a feature, or d for the count
  const int my_row = thread >> lane_bits, rows_at_once = threads >> lane_bits;
  const double scale = 1 / format.unit;
  for (int e = thread; e < count * vectors; e += threads) copy[e] = {};
  for (int e = thread; e < k * vectors; e += threads) tile[e] = {};
  for (int e = thread; e < numbers; e += threads) total[e] = run.done > 0 ? totals[e] : 0;
  for (int j = thread; j < k; j += threads) changed_list[j] = j;  // of the first iteration
  for (int i = thread; i < count; i += threads) {
    labels[i] = run.done > 0 ? label[first + i] : -1;  // -1: in no sums
    last[i] = candidate[i] = std::numeric_limits<T>::infinity();
  }
  if (thread == 0) *move_count = *full_count = 0;
  __syncthreads();
  copy_rows<threads>(copy, x + size_t(first) * d, count, d, row_vectors(d, sizeof(T)), vectors);
  copy_rows<threads>(tile, c, k, d, row_vectors(d, sizeof(T)), vectors);
  __syncthreads();

  int changed_here = k, full_here = 0;
  for (int it = 0; it < run.most; ++it) {
    const int buffer = (run.done + it) % buffers, next = (run.done + it + 1) % buffers;
    Number* const change = changes.sum + size_t(buffer) * numbers;
    unsigned* const change_mask = changes.mask + buffer * mask_words(k);
    scan.template compare<group, false>(nullptr, count, changed_list, changed_here);
    if (full_here > 0) compare_listed(scan, full, full_here, same_list, k - changed_here);
    __syncthreads();
    if (thread == 0) *full_count = 0;
    for (int begin = 0; begin < count; begin += threads / merge_lanes) {
      const int i = min(begin + thread / merge_lanes, count - 1), lane = thread % merge_lanes;
      NearestAndSecond<T> entry[groups / merge_lanes], found;
#pragma unroll
      for (int g = 0; g < groups; g += merge_lanes) entry[g / merge_lanes] = scan.entries[(g + lane) * scan.pitch + i];
      const bool valid = begin + thread / merge_lanes == i;  // else the last point again
      if (valid && lane == 0) found = {candidate[i], labels[i]};
#pragma unroll
      for (int g = 0; g < groups; g += merge_lanes) found = nearer_of(found, entry[g / merge_lanes]);
      found = nearest_of_lanes(found, merge_lanes);
      if (!valid) found = {T(0), 0};  // nothing to settle
      const int j = settle(found, points, i, merge_lanes, centroids, k);
      if (lane > 0 || !valid) continue;
      last[i] = Rounding<T>(d).above(found.second, found.distance) ? min(last[i], found.distance) : T(-1);
      if (labels[i] == j) continue;
      moves[atomicAdd(move_count, 1)] = {i, labels[i], j};
      labels[i] = j;
    }
    for (int e = blockIdx.x * threads + thread; e < numbers; e += gridDim.x * threads)
      changes.sum[size_t(next) * numbers + e] = 0;
    for (int w = thread; w < mask_words(k) && blockIdx.x == gridDim.x - 1; w += threads)
      changes.mask[next * mask_words(k) + w] = 0;
    __syncthreads();
    const int moved = *move_count;
    for (int i = my_row; i < moved && f <= d; i += rows_at_once) {
      const Move move = moves[i];
      const auto add = [&](int w, long long value) {
        atomicAdd(&change[(move.to * rows + w) * row + f], Number(value));
        if (move.from >= 0) atomicAdd(&change[(move.from * rows + w) * row + f], Number(-value));
      };
      if (f < d) {
        for_words(points.row(move.point)[f], format, scale, add);
      } else {
        add(0, 1);
        atomicOr(&change_mask[move.to / warp_lanes], 1u << move.to % warp_lanes);
        if (move.from >= 0) atomicOr(&change_mask[move.from / warp_lanes], 1u << move.from % warp_lanes);
      }
    }
    if (thread == 0 && moved > 0) atomicAdd(&run.changed[it], Number(moved));
    grid_barrier(changes.arrived, unsigned(run.done + it + 1) * gridDim.x);

    const auto changed = int64_t(__ldcg(&run.changed[it]));
    changed_here = list_changed(changed_list, same_list, mask, change_mask, k);
    if (thread == 0) *move_count = 0;
    __syncthreads();
    constexpr int in_flight = 4;
    for (int begin = 0; begin < changed_here; begin += in_flight * rows_at_once) {
      SumWords sum[in_flight];
#pragma unroll
      for (int u = 0; u < in_flight; ++u) {
        const int i = begin + u * rows_at_once + my_row;
#pragma unroll
        for (int w = 0; w < FixedPoint::most_words; ++w)
          if (w < rows && i < changed_here && f <= d)
            sum[u].of[w] = __ldcg(&change[(changed_list[i] * rows + w) * row + f]);
      }
#pragma unroll
      for (int u = 0; u < in_flight; ++u) {
        const int i = begin + u * rows_at_once + my_row;
        const int j = changed_list[min(i, changed_here - 1)];
        const bool valid = i < changed_here && f <= d;
#pragma unroll
        for (int w = 0; w < FixedPoint::most_words; ++w)
          if (w < rows && valid) sum[u].of[w] = total[(j * rows + w) * row + f] += sum[u].of[w];
        const int of_cluster = __shfl_sync(all_lanes, int(sum[u].of[0]), d, lanes);
        if (valid && f < d && of_cluster > 0)  // a centroid without points stays
          reinterpret_cast<T*>(tile + j * vectors)[f] = short_mean<T>(sum[u], of_cluster, format);
      }
    }
    __syncthreads();
    if (run.stop.reached(run.done + it + 1, changed, n)) break;
    for (int i = thread; i < count; i += threads) {
      const int j = labels[i];
      T distance = last[i];
      const bool moved_centroid = mask[j / warp_lanes] >> j % warp_lanes & 1;
      if (moved_centroid) {
        distance = 0;
#pragma unroll
        for (int v = 0; v < vectors; ++v) add_squares(distance, copy[i * vectors + v], tile[j * vectors + v]);
      }
      const bool open = last[i] < 0 || distance > last[i];
      // Its own centroid is among those compared, or its distance is the same as before.
      candidate[i] = open || moved_centroid ? std::numeric_limits<T>::infinity() : distance;
      if (!open) continue;
      last[i] = std::numeric_limits<T>::infinity();
      full[atomicAdd(full_count, 1)] = i;
    }
    __syncthreads();
    full_here = *full_count;
  }

  for (int i = thread; i < count; i += threads) label[first + i] = labels[i];
  if (blockIdx.x > 0) return;
  for (int e = thread; e < numbers; e += threads) totals[e] = total[e];
  for (int e = thread; e < k * d; e += threads) c[e] = centroids[e / d][e % d];
}

template <class T>
struct Workspace {
  OneLaunch launches;
  ExactSums sums;            // of which the format is used
  Number* totals = nullptr;  // k x most_words x (d + 1)
  Number* more = nullptr;    // for each block, where shared memory has no room
  Changes changes{};
};

/// All multiprocessors, or as many as have enough to do between two barriers.
int grid_size(const Shape& p, const Device& device) {
  constexpr int64_t enough = 8192;  // multiply-adds
  const int64_t worth = std::min(int64_t(p.n), int64_t(p.n) * p.k * p.d / enough);
  return int(std::clamp(worth, int64_t(1), int64_t(device.multiprocessors)));
}

/// Vectors of a row that there is a kernel for.
int kernel_vectors(const Shape& p) {
  const int vectors = row_vectors(p.d, p.element_bytes);
  return vectors <= 4 ? vectors : vectors <= wide ? wide : 8;
}

size_t numbers_of(const Shape& p) { return size_t(p.k) * FixedPoint::most_words * (p.d + 1); }

Layout layout_of(const Shape& p, const Device& device, int words, bool has_totals = true) {
  return Layout(p, grid_size(p, device), words, kernel_vectors(p), has_totals);
}

template <class T>
void prepare(Run<T, Workspace<T>>& s) {
  prepare_pinned(s);
  prepare_one_launch(s);
  const size_t numbers = numbers_of(s.problem);
  s.ws.sums.extremes = s.template device<Extremes>(1);
  s.ws.totals = s.template device<Number>(numbers);
  s.ws.changes = {s.template device<Number>(buffers * numbers), s.template device<unsigned>(buffers * mask_words(s.k)),
                  s.template device<unsigned>(1)};
  if (layout_of(s.problem, s.device_info, FixedPoint::most_words).end > s.device_info.shared_bytes_optin)
    s.ws.more = s.template device<Number>(grid_size(s.problem, s.device_info) * numbers);
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
  const Changes& changes = s.ws.changes;
  const auto clear = [&](void* memory, size_t bytes, const char* what) {
    check(cudaMemsetAsync(memory, 0, bytes, s.stream), what);
  };
  clear(changes.sum, buffers * numbers_of(s.problem) * sizeof(Number), "clearing the changes");
  clear(changes.mask, buffers * mask_words(s.k) * sizeof(unsigned), "clearing the changed clusters");
  clear(changes.arrived, sizeof(unsigned), "clearing the barrier");
}

template <class T>
void start(Run<T, Workspace<T>>& s, const Iterations& run) {
  const int grid = grid_size(s.problem, s.device_info), points = blocks(s.n, grid), words = s.ws.sums.format.words;
  Layout layout = layout_of(s.problem, s.device_info, words);
  if (layout.end > s.device_info.shared_bytes_optin) layout = layout_of(s.problem, s.device_info, words, false);
  const int lane_bits = int(std::bit_width(unsigned(s.d)));
  int group = 1;
  while (group < 4 && group * point_lanes < points) group *= 2;
  if (group * point_lanes < points) group = 7;
  dispatch<1, 2, 3, 4, wide, 8>(kernel_vectors(s.problem), [&]<int vectors>() {
    dispatch<1, 2, 4, 7>(group, [&]<int group>() {
      constexpr int most = vectors >= wide ? 2 : vectors * sizeof(T) > 12 ? 4 : 7;  // more take too many registers
      launch_cooperative(solve_kernel<T, vectors, std::min(group, most)>, grid, threads, layout.end, s.stream, s.x, s.c,
                         s.label, s.ws.totals, s.ws.more, s.ws.changes, s.ws.sums.format, run, layout, lane_bits, s.n,
                         s.k, s.d);
    });
  });
}

std::string refuse(const Shape& p, const Device& device, const Axes&) {
  const int most_features = p.element_bytes == 4 ? 31 : 16;
  if (p.d > most_features)
    return std::to_string(p.d) + " features are more than the " + std::to_string(most_features) +
           " that a thread keeps in registers: take v03j_short_division";
  const size_t bytes = layout_of(p, device, 1, false).end;
  if (bytes <= device.shared_bytes_optin) return "";
  return "a block needs " + std::to_string(bytes) + " bytes of shared memory for its points and " +
         std::to_string(p.k) + " centroids and has " + std::to_string(device.shared_bytes_optin) +
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
        .id = "v03l_changed_centroids", .base = "v03k_cluster_messages",
        .idea = "a point whose centroid came no farther away is compared with the changed centroids only",
        .expect =
            "A larger step: lists of centroids and points, and a kernel for the grid. wine_k900 on an H200, in cycles "
            "of an iteration: all 900 centroids, a warp's share of 19 times 210 instructions, 3 warps of a scheduler: "
            "12,000 for a full comparison; counted on the host, 21 % of the centroids change on average, and with the "
            "points that need all a third of the pairs is left: 4,000; merging what 48 groups found 700; changes and "
            "the barrier 2,600; two round trips to L2, 1,500; means of 190 centroids 900; the rest 600: 10,300, or 5.2 "
            "us. 20 us of launch and read-back, 12 us of the first iteration over 14: 7.5 to 8.5 us in place of 20.9",
        .shows = "solve", .source = "this project", .arithmetic = {.form = Arithmetic::Form::exact},
        .reads_labels = true, .prunes = true, .refuse = refuse, .f32 = phases<float>, .f64 = phases<double>)
