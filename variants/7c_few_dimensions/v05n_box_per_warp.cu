// v05n: one box for each warp, for the whole run. v05m's 16 warps take two boxes each, one after the other, and read
// points, bounds and labels of a box again in each iteration; the rounds over the centroids have a bound that the
// compiler does not know. Here 32 warps keep a box each: its points in float and its labels in registers, which leaves
// 64 for a thread; its coordinates as whole numbers in shared memory, so that a sum over points that moved adds what is
// there. Up to 256 centroids are tested in four or eight rounds that are unrolled.
#ifdef __CUDACC__
#include <cuda/atomic>
#endif

#include "../common/boxes/box_halves.cuh"
#include "../common/boxes/box_phases.cuh"
#include "../common/boxes/narrow_distances.cuh"
#include "../common/boxes/one_launch.cuh"
#include "../common/boxes/spatial_order.cuh"

namespace {
using namespace ladder;

template <int d>
struct NarrowHalves {
  NarrowBox<d> first, second;
  int split;  ///< 0: `first` is the whole box
  __device__ float size() const { return split ? fmaxf(first.size, second.size) : first.size; }
};

/// A warp per box.
template <class T, int d>
__global__ void narrow_halves_kernel(const T* x, NarrowFrame<d> frame, NarrowHalves<d>* halves, int n) {
  const int lane = threadIdx.x % warp_lanes, box = (blockIdx.x * blockDim.x + threadIdx.x) / warp_lanes;
  const int begin = box * box_points, end = min(begin + box_points, n);
  if (begin >= n) return;
  double gap = 0;
  int cut = end;
  for (int i = begin + 1 + lane; i < end; i += warp_lanes) {
    double apart = 0;
    for (int f = 0; f < d; ++f) apart += fabs(double(x[size_t(f) * n + i]) - double(x[size_t(f) * n + i - 1]));
    if (apart > gap) gap = apart, cut = i;
  }
  warp_argmax(gap, cut);
  const Box<d> whole = bounds_of<T, d>(x, begin, end, n);
  const Box<d> first = bounds_of<T, d>(x, begin, cut, n), second = bounds_of<T, d>(x, cut, end, n);
  const bool split = cut < end && sides(first) + sides(second) <= 0.5 * sides(whole);
  const NarrowHalves<d> made{NarrowBox<d>(frame, split ? first : whole), NarrowBox<d>(frame, second), split};
  if (lane == 0) halves[box] = made;
}

/// All threads of the grid, after `arrivals` blocks have arrived since the run began.
__device__ void grid_barrier([[maybe_unused]] unsigned* arrived, [[maybe_unused]] unsigned arrivals) {
#ifdef __CUDACC__
  __syncthreads();
  if (threadIdx.x == 0) {
    const cuda::atomic_ref<unsigned, cuda::thread_scope_device> count(*arrived);
    count.fetch_add(1, cuda::memory_order_release);
    while (int(count.load(cuda::memory_order_acquire) - arrivals) < 0) continue;
  }
  __syncthreads();
#else
  cooperative_groups::this_grid().sync();  // the CPU device: its threads must not poll
#endif
}

/// A box's coordinates as whole numbers, for a warp: word w of feature f of point i is digit[(w x d + f) x 128 + i].
template <int d>
struct WholeNumbers {
  long long* digit;
  template <class T>
  __device__ void keep(const T* x, int pitch, int end, const FixedPoint& format) const {
    for (int i = threadIdx.x % warp_lanes; i < end; i += warp_lanes)
      for (int f = 0; f < d; ++f)
        balanced_digits(double(x[size_t(f) * pitch + i]), format,
                        [&](int w, long long value) { digit[(w * d + f) * box_points + i] = value; });
  }
  /// A point as it was: from the top word down a partial sum is the coordinate, rounded to whole units of that word. It
  /// has no more digits than the coordinate, so nothing is rounded here.
  template <class T>
  __device__ void point(T (&x)[d], int i, const FixedPoint& format) const {
    for (int f = 0; f < d; ++f) {
      double value = 0;
      for (int w = format.words - 1; w >= 0; --w)
        value = __fma_rn(value, power_of_two(format.bits), double(digit[(w * d + f) * box_points + i]));
      x[f] = T(value * format.unit);
    }
  }
  /// One warp, as sum_members().
  __device__ long long sum(unsigned members, const FixedPoint& format) const {
    const int lane = threadIdx.x % warp_lanes;
    const int count = __reduce_add_sync(all_lanes, __popc(members));
    long long part = lane == BoxSums::values(format, d) ? count : 0;
    for (int w = 0; w < format.words; ++w) {
#pragma unroll
      for (int f = 0; f < d; ++f) {
        long long word = 0;
#pragma unroll
        for (int q = 0; q < points_per_lane; ++q)
          if (members >> q & 1) word += digit[(w * d + f) * box_points + q * warp_lanes + lane];
        word = warp_sum_wide(word);
        if (lane == f * format.words + w) part = word;
      }
    }
    return part;
  }
};

/// The labels of a lane's points, a byte for each.
struct PackedLabels {
  static constexpr int bits = 8;
  unsigned all = 0;
  __device__ int of(int q) const { return int(all >> (q * bits) & ((1u << bits) - 1)); }
  __device__ void set(int q, int label) {
    all = (all & ~(((1u << bits) - 1) << (q * bits))) | unsigned(label) << (q * bits);
  }
  __device__ static PackedLabels same(int label) { return {unsigned(label) * 0x01010101u}; }
};

/// One warp: for each pair of a former and a new label among the points with a bit in `changed`: put(label, part) with
/// the lane's part of their sum and, unless they had no label, put(former, -part).
template <int d, class Put>
__device__ void move_by_label(const WholeNumbers<d>& points, PackedLabels from, PackedLabels to, bool unlabelled,
                              unsigned changed, const FixedPoint& format, const Put& put) {
  const auto pair_of = [&](int q) { return from.of(q) | to.of(q) << PackedLabels::bits; };
  for (unsigned lanes; (lanes = __ballot_sync(all_lanes, changed != 0)) != 0;) {
    const int mine = changed != 0 ? pair_of(__ffs(int(changed)) - 1) : 0;
    const int pair = __shfl_sync(all_lanes, mine, __ffs(int(lanes)) - 1);
    unsigned members = 0;
#pragma unroll
    for (int q = 0; q < points_per_lane; ++q) members |= unsigned(pair_of(q) == pair) << q;
    members &= changed, changed ^= members;
    const long long part = points.sum(members, format);
    put(pair >> PackedLabels::bits, part);
    if (!unlabelled) put(pair & ((1 << PackedLabels::bits) - 1), -part);
  }
}

/// One warp: a centroid near the box's centre, as near_centre().
template <int rounds, int d>
__device__ int near_in_rounds(const NarrowBox<d>& box, const NarrowCentroid<d>* c, int k) {
  unsigned nearest = ~0u;
  int best = 0;
#pragma unroll
  for (int r = 0; r < rounds; ++r) {
    const int j = min(r * warp_lanes + int(threadIdx.x % warp_lanes), k - 1);
    float distance = 0;
    for (int f = 0; f < d; ++f) {
      const float difference = 0.5f * (box.low[f] + box.high[f]) - c[j].x[f];
      distance += difference * difference;
    }
    if (__float_as_uint(distance) < nearest) nearest = __float_as_uint(distance), best = j;
  }
  const unsigned holders = __ballot_sync(all_lanes, nearest == __reduce_min_sync(all_lanes, nearest));
  return __shfl_sync(all_lanes, best, __ffs(int(holders)) - 1);
}

/// The centroids that may be nearest to a point of a box, of `rounds` times 32.
template <int rounds>
struct Survivors {
  unsigned mask[rounds];
  template <int d>
  __device__ Survivors(const NarrowHalves<d>& box, const NarrowCentroid<d>* c, int k) {
    unsigned kept = tested(box.first, c, k);
    if (box.split) kept |= tested(box.second, c, k);
#pragma unroll
    for (int r = 0; r < rounds; ++r) mask[r] = __ballot_sync(all_lanes, kept >> r & 1);
  }
  /// One warp: bit r says whether the lane's centroid of round r is left. No branches: the rounds overlap.
  template <int d>
  __device__ static unsigned tested(const NarrowBox<d>& box, const NarrowCentroid<d>* c, int k) {
    const NarrowTests<d> tests{box, c, near_in_rounds<rounds>(box, c, k)};
    unsigned kept = 0;
#pragma unroll
    for (int r = 0; r < rounds; ++r) {
      const int j = r * warp_lanes + int(threadIdx.x % warp_lanes);
      kept |= unsigned(tests.keeps(min(j, k - 1)) & (j < k)) << r;
    }
    return kept;
  }
  /// The only one, or several_centroids.
  __device__ int only() const {
    int count = 0, found = 0;
#pragma unroll
    for (int r = 0; r < rounds; ++r) {
      count += __popc(mask[r]);
      if (mask[r] != 0) found = r * warp_lanes + __ffs(int(mask[r])) - 1;
    }
    return count == 1 ? found : several_centroids;
  }
  template <class Visit>
  __device__ void each(const Visit& visit) const {
#pragma unroll
    for (int r = 0; r < rounds; ++r)
      for (unsigned rest = mask[r]; rest != 0; rest &= rest - 1) visit(r * warp_lanes + __ffs(int(rest)) - 1);
  }
};

constexpr int least_boxes = 4, few_rounds = 4, most_rounds = 8;

/// Of a block: a thread has 64 registers, 80 or 128.
constexpr int warps_of(int d, int rounds) { return rounds > few_rounds ? 16 : d < most_dimensions ? 32 : 24; }
int rounds_of(int k) { return k <= few_rounds * warp_lanes ? few_rounds : most_rounds; }

template <class T, int d, int rounds>
__global__ void __launch_bounds__(warps_of(d, rounds) * warp_lanes, 1)
    solve_kernel(Solve<T, d> s, NarrowFrame<d> frame, const NarrowHalves<d>* halves, unsigned long long* last_sum) {
  const int lane = threadIdx.x % warp_lanes, warp = threadIdx.x / warp_lanes;
  const int values = BoxSums::values(s.format, d), entries = sum_entries(s.format, s.k, d);
  const int box_words = values * box_points + values + 1;  // of a box: its coordinates, and its total
  const int64_t boxes = (s.n + box_points - 1) / box_points;
  const int first = int(boxes * blockIdx.x / gridDim.x), last = int(boxes * (blockIdx.x + 1) / gridDim.x);
  const int box = first + warp, begin = box * box_points;  // this warp's
  const int end = box < last ? min(box_points, s.n - begin) : 0;
  auto* const block_sum = dynamic_shared<unsigned long long>();                  // entries
  auto* const kept = block_sum + entries;                                        // entries: the clusters' sums
  auto* const digits = reinterpret_cast<long long*>(kept + entries);             // last - first boxes
  T* const c = reinterpret_cast<T*>(digits + (last - first) * box_words);        // k x d
  auto* const narrow = reinterpret_cast<NarrowCentroid<d>*>(c + s.k * d);        // k
  auto* const bounds = reinterpret_cast<NarrowHalves<d>*>(narrow + s.k) + warp;  // a box for each warp
  const WholeNumbers<d> numbers{digits + warp * box_words};
  long long* const total = numbers.digit + values * box_points + min(lane, values);
  const unsigned valid = valid_points(0, end);
  NarrowPoints<d> points{};
  int before = no_centroid;
  PackedLabels label;
  if (end > 0) {
    points.load(frame, s.x + begin, end, s.n);
    numbers.keep(s.x + begin, s.n, end, s.format);
    before = s.box_label[box];
    if (lane <= values) *total = static_cast<long long>(s.total[size_t(box) * (values + 1) + lane]);
    if (lane == 0) *bounds = halves[box];
    label = before >= 0 ? PackedLabels::same(before) : label;
    for (int q = 0; q < points_per_lane && before == several_centroids; ++q)
      if (valid >> q & 1) label.set(q, s.label[begin + q * warp_lanes + lane]);
  }
  for (int j = threadIdx.x; j < s.k; j += blockDim.x) {
    for (int f = 0; f < d; ++f) c[j * d + f] = s.c[j * d + f];
    narrow[j] = frame(c + j * d);
  }
  for (int e = threadIdx.x; e < entries; e += blockDim.x) kept[e] = last_sum[e], block_sum[e] = 0;
  __syncthreads();
  for (int done = s.progress->done;;) {
    unsigned long long* const sum = s.sum + size_t(done % OneLaunch::buffers) * entries;
    unsigned long long* const next = s.sum + size_t((done + 1) % OneLaunch::buffers) * entries;
    if (end > 0) {
      const auto put = [&](int j, long long part) {
        if (lane <= values) atomicAdd(&block_sum[j * (values + 1) + lane], static_cast<unsigned long long>(part));
      };
      const Survivors<rounds> survivors(*bounds, narrow, s.k);
      const int only = survivors.only();
      PackedLabels labels = PackedLabels::same(max(only, 0));
      int changed = 0;
      if (only < 0) {
        NarrowLabels<d> nearest;
        survivors.each([&](int j) { nearest.compare(points, narrow[j], j); });
#pragma unroll
        for (int q = 0; q < points_per_lane; ++q) labels.set(q, nearest.nearest[q].label);
        settle<T, d>(
            nearest.uncertain(bounds->size()) & valid, c, s.k, [&](T(&x)[d], int i) { numbers.point(x, i, s.format); },
            [&](int q, int found) { labels.set(q, found); });
      }
      if (only >= 0 && before != several_centroids) {
        if (only != before) {
          changed = __popc(valid);
          put(only, *total);
          if (before >= 0) put(before, -*total);
        }
      } else {
        unsigned moved = 0;
#pragma unroll
        for (int q = 0; q < points_per_lane; ++q)
          moved |= unsigned(before == no_centroid || label.of(q) != labels.of(q)) << q;
        moved &= valid, changed = __popc(moved);
        move_by_label(numbers, label, labels, before == no_centroid, moved, s.format, put);
      }
      before = only, label = labels;
      changed = __reduce_add_sync(all_lanes, changed);
      if (lane == 0 && changed > 0) atomicAdd(&block_sum[entries - 1], static_cast<unsigned long long>(changed));
    }
    __syncthreads();
    for (int e = threadIdx.x; e < entries; e += blockDim.x) {
      if (block_sum[e] != 0) atomicAdd(&sum[e], block_sum[e]);
      block_sum[e] = 0;
    }
    for (int e = blockIdx.x * blockDim.x + threadIdx.x; e < entries; e += gridDim.x * blockDim.x) next[e] = 0;
    grid_barrier(&s.progress->arrived, unsigned(done + 1) * gridDim.x);
    for (int e = threadIdx.x; e < entries; e += blockDim.x)
      kept[e] = __ldcg(sum + e) + (e < entries - 1 ? kept[e] : 0);  // the last one counts the changes of an iteration
    __syncthreads();
    for (int j = threadIdx.x; j < s.k; j += blockDim.x) {
      const unsigned long long* const of_cluster = kept + j * (values + 1);
      const int count = int(of_cluster[values]);
      if (count == 0) continue;
      for (int f = 0; f < d; ++f)
        c[j * d + f] = mean_of<T>(SumWords(of_cluster + f * s.format.words, 1, s.format), count, s.format);
      narrow[j] = frame(c + j * d);
    }
    const auto moved = kept[entries - 1];
    const bool ended = s.stop.reached(++done, int64_t(moved), s.n);
    if (blockIdx.x == 0 && threadIdx.x == 0) {
      s.progress->changed[(done - 1) % kept_iterations] = moved;
      s.progress->done = done, s.progress->ended = ended;
    }
    __syncthreads();
    if (ended || done % kept_iterations == 0) break;
  }
  for (int e = threadIdx.x; e < s.k * d && blockIdx.x == 0; e += blockDim.x) s.c[e] = c[e];
  for (int e = threadIdx.x; e < entries && blockIdx.x == 0; e += blockDim.x) last_sum[e] = kept[e];
  if (lane == 0 && end > 0) s.box_label[box] = before;
  for (int q = 0; q < points_per_lane; ++q)
    if (valid >> q & 1) s.label[begin + q * warp_lanes + lane] = label.of(q);
}

/// Of the clusters' sums, whatever their format.
int most_entries(int k, int d) { return k * (FixedPoint::most_words * d + 1) + 1; }

template <class T>
struct Workspace {
  Rows<T> rows;
  SpatialOrder order;
  Boxes boxes;
  int* box_label = nullptr;  // boxes
  BoxSums sums;
  OneLaunch one_launch;
  void* halves = nullptr;                         // NarrowHalves<d> of each box
  unsigned long long* last_sum = nullptr;         // entries: what a launch leaves for the next
  unsigned long long range[2 * most_dimensions];  // SpatialOrder::range, on the host
};

template <class T>
void prepare(Run<T, Workspace<T>>& s) {
  prepare_pinned(s);
  s.ws.rows.points = s.template device<T>(size_t(s.n) * s.d);
  prepare_spatial(s);
  prepare_boxes(s);
  prepare_box_sums(s);
  prepare_one_launch(s);
  dispatch<1, 2, 3>(s.d, [&]<int d>() { s.ws.halves = s.template device<NarrowHalves<d>>(boxes_of(s.n)); });
  s.ws.last_sum = s.template device<unsigned long long>(most_entries(s.k, s.d));
  s.ws.box_label = s.template device<int>(boxes_of(s.n));
}

template <class T>
void upload(Run<T, Workspace<T>>& s) {
  upload_spatial(s);
  find_bounds(s);
  fetch_order_range(s);
  find_totals(s);  // waits for the range, too
  dispatch<1, 2, 3>(s.d, [&]<int d>() {
    launch(narrow_halves_kernel<T, d>, blocks(boxes_of(s.n), warps_per_block), warps_per_block * warp_lanes, 0,
           s.stream, s.x, NarrowFrame<d>(s.ws.range), static_cast<NarrowHalves<d>*>(s.ws.halves), s.n);
  });
}

/// Shared memory for a centroid beside its coordinates: in float, and its sums, with the one that counts the changes.
size_t beside(int d) { return (d + 1) * sizeof(float) + most_entries(1, d) * sizeof(unsigned long long); }

/// Of a block, beside centroids and their sums.
size_t box_bytes(int d, int words) {
  return (d * words * (box_points + 1) + 1) * sizeof(long long) + (2 * (2 * d + 2) + 1) * sizeof(float);
}

template <class T>
void solve(Run<T, Workspace<T>>& s) {
  const FixedPoint& format = s.ws.sums.format;
  const size_t kept_bytes = shared_sum_bytes(format, s.problem);
  check(cudaMemsetAsync(s.ws.last_sum, 0, kept_bytes, s.stream), "clearing the clusters' sums");
  const int boxes = boxes_of(s.n), grid = std::min(s.device_info.multiprocessors, blocks(boxes, least_boxes));
  dispatch<1, 2, 3>(s.d, [&]<int d>() {
    dispatch<few_rounds, most_rounds>(rounds_of(s.k), [&]<int rounds>() {
      const auto start = [&](const Solve<T, d>& arguments, size_t bytes) {
        launch_cooperative(solve_kernel<T, d, rounds>, grid, warps_of(d, rounds) * warp_lanes,
                           bytes + blocks(boxes, grid) * box_bytes(d, format.words), s.stream, arguments,
                           NarrowFrame<d>(s.ws.range), static_cast<const NarrowHalves<d>*>(s.ws.halves), s.ws.last_sum);
      };
      solve_in_one_launch<d>(s, start, beside(s.d));
    });
  });
}

std::string refuse(const Shape& p, const Device& device, const Axes&) {
  if (const std::string why = refuse_dimensions(p); !why.empty()) return why;
  const std::string instead = ": take v05m_narrow_distances";
  constexpr int most = most_rounds * warp_lanes;
  if (p.k > most)
    return "tests at most " + std::to_string(most) + " centroids, these are " + std::to_string(p.k) + instead;
  const int boxes = boxes_of(p.n), grid = std::min(device.multiprocessors, blocks(boxes, least_boxes));
  const size_t tables = centroid_bytes(p, beside(p.d)) + (most_entries(p.k, p.d) + 1) * sizeof(unsigned long long);
  const size_t room = device.shared_bytes_optin > tables ? device.shared_bytes_optin - tables : 0;
  const int fit = std::min(warps_of(p.d, rounds_of(p.k)), int(room / box_bytes(p.d, FixedPoint::most_words)));
  if (blocks(boxes, grid) <= fit) return "";
  return "each block keeps its points on the chip, " + std::to_string(fit * box_points) + " of them, and these are " +
         std::to_string(p.n) + " on " + std::to_string(grid) + " multiprocessors" + instead;
}

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare<T>,
                                         .upload = upload<T>,
                                         .restart = restart_rows<T>,
                                         .assign = assign_boxes<T, Workspace<T>>,
                                         .update = update_boxes<T, Workspace<T>>,
                                         .solve = solve<T>,
                                         .download = download_spatial<T>};
}  // namespace

LADDER_VARIANT(
        .id = "v05n_box_per_warp", .base = "v05m_narrow_distances",
        .idea = "a warp keeps one box for the whole run: points and labels in registers, coordinates as whole numbers",
        .expect =
            "points2d_k_100 on an H200, cycles between two iterations: tests 190 instructions for a box, of 8 warps "
            "that share a scheduler, 1,500; 3 to 8 centroids left 300 to 800; a pair of labels that points moved "
            "between 400, and its atomics 300; barrier, with the way there and back, 3,000; means 1,500; in all 8,000, "
            "or 4 us. Counts of earlier rungs were low by a third to a half: 5 to 7 us, from 9 to 10",
        .shows = "solve", .source = "this project", .arithmetic = {.form = Arithmetic::Form::exact}, .prunes = true,
        .refuse = refuse, .f32 = phases<float>, .f64 = phases<double>)
