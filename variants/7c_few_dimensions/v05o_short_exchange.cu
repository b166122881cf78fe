// v05o: a shorter way between two iterations. An atomic of 64 bits in shared memory is a loop, and warps that add to
// the same word go round it again; v05n's means wait for a barrier behind the sums, and a thread computes all features
// of a centroid one after the other. Here two atomics of 32 bits, which the hardware has, add a word and its carry, and
// a thread for each coordinate keeps its sum, reads how it changed, and computes the mean: one barrier less.
#include "../common/boxes/box_per_warp.cuh"
#include "../common/device/grid_barrier.cuh"

namespace {
using namespace ladder;

/// A word of 64 bits in shared memory that atomics of 32 bits add to. Complete after the next barrier.
struct alignas(8) SplitWord {
  unsigned low, high;
  __device__ void add(long long value) {
    const auto part = unsigned(value), before = atomicAdd(&low, part);
    const unsigned rest = unsigned(value >> 32) + unsigned(before + part < part);  // with the carry
    if (rest != 0) atomicAdd(&high, rest);
  }
  __device__ unsigned long long value() const { return static_cast<unsigned long long>(high) << 32 | low; }
};

/// In shared memory, as registers are few.
struct SolveState {
  unsigned long long moved;  // labels that the iteration changed
  Stop stop;
  int64_t n;
};

/// Of a coordinate of a centroid: the words of its sum, and the number of points.
constexpr int kept_words = FixedPoint::most_words + 1;

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
  auto* const state = dynamic_shared<SolveState>();
  auto* const block_sum = reinterpret_cast<SplitWord*>(state + 1);                 // entries
  auto* const kept = reinterpret_cast<unsigned long long*>(block_sum + entries);   // k x d x kept_words
  auto* const digits = reinterpret_cast<long long*>(kept + s.k * d * kept_words);  // last - first boxes
  T* const c = reinterpret_cast<T*>(digits + (last - first) * box_words);          // k x d
  auto* const narrow = reinterpret_cast<NarrowCentroid<d>*>(c + s.k * d);          // k
  auto* const bounds = reinterpret_cast<NarrowHalves<d>*>(narrow + s.k) + warp;    // a box for each warp
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
  for (int e = threadIdx.x; e < s.k * d * kept_words; e += blockDim.x) kept[e] = last_sum[e];
  for (int e = threadIdx.x; e < entries; e += blockDim.x) block_sum[e] = {};
  if (threadIdx.x == 0) *state = {0, s.stop, s.n};
  __syncthreads();
  for (int done = s.progress->done;;) {
    unsigned long long* const sum = s.sum + size_t(done % OneLaunch::buffers) * entries;
    unsigned long long* const next = s.sum + size_t((done + 1) % OneLaunch::buffers) * entries;
    if (__any_sync(all_lanes, valid != 0)) {  // a box; `end` needs a register
      const auto put = [&](int j, long long part) {
        if (lane <= values) block_sum[j * (values + 1) + lane].add(part);
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
      changed = warp_add(changed);
      if (lane == 0 && changed > 0) block_sum[entries - 1].add(changed);
    }
    __syncthreads();
    for (int e = threadIdx.x; e < entries; e += blockDim.x) {
      const unsigned long long part = block_sum[e].value();
      if (part != 0) atomicAdd(&sum[e], part), block_sum[e] = {};
      if (blockIdx.x == 0) next[e] = 0;
    }
    grid_barrier(&s.progress->arrived, unsigned(done + 1) * gridDim.x);
    constexpr int centroids = warp_lanes / d;  // of a warp: a lane for each coordinate
    for (int j0 = warp * centroids; j0 < s.k; j0 += int(blockDim.x) / warp_lanes * centroids) {
      const int j = j0 + lane / d, f = lane % d;
      const bool exists = lane < centroids * d && j < s.k;
      float x = 0;
      if (exists) {
        const unsigned long long* const change = sum + j * (values + 1);
        unsigned long long* const of_cluster = kept + (j * d + f) * kept_words;
        SumWords words;
#pragma unroll  // all loads are on their way before the first is used
        for (int w = 0; w < FixedPoint::most_words; ++w)
          words.of[w] = __ldcg(change + f * s.format.words + min(w, s.format.words - 1));
        const int count = int(of_cluster[kept_words - 1] += __ldcg(change + values));
#pragma unroll
        for (int w = 0; w < FixedPoint::most_words; ++w) of_cluster[w] = words.of[w] += of_cluster[w];
        if (count > 0) c[j * d + f] = mean_of<T>(words, count, s.format);
        double origin = 0;
#pragma unroll
        for (int g = 0; g < d; ++g) origin = g == f ? frame.origin[g] : origin;
        narrow[j].x[f] = x = float((double(c[j * d + f]) - origin) * frame.scale);
      }
      float size = 0;
      for (int g = 0; g < d; ++g) size = fmaxf(size, fabsf(__shfl_sync(all_lanes, x, lane / d * d + g)));
      if (exists && f == 0) narrow[j].size = size;
    }
    if (threadIdx.x == blockDim.x - 1) state->moved = __ldcg(sum + entries - 1);
    __syncthreads();
    const bool ended = state->stop.reached(++done, int64_t(state->moved), state->n);
    if (blockIdx.x == 0 && threadIdx.x == 0) {
      s.progress->changed[(done - 1) % kept_iterations] = state->moved;
      s.progress->done = done, s.progress->ended = ended;
    }
    if (ended || done % kept_iterations == 0) break;
  }
  for (int e = threadIdx.x; e < s.k * d && blockIdx.x == 0; e += blockDim.x) s.c[e] = c[e];
  for (int e = threadIdx.x; e < s.k * d * kept_words && blockIdx.x == 0; e += blockDim.x) last_sum[e] = kept[e];
  if (lane == 0 && end > 0) s.box_label[box] = before;
  for (int q = 0; q < points_per_lane; ++q)
    if (valid >> q & 1) s.label[begin + q * warp_lanes + lane] = label.of(q);
}

template <class T>
using Workspace = KeptBoxes<T>;

template <class T>
void prepare(Run<T, Workspace<T>>& s) {
  prepare_kept_boxes(s, s.k * s.d * kept_words);
}

/// Shared memory for a centroid beside its coordinates: in float, and its sums, with the one that counts the changes.
size_t beside(int d) { return (d + 1) * sizeof(float) + d * kept_words * sizeof(unsigned long long); }

/// Of a block, beside centroids, their sums and the state.
size_t box_bytes(int d, int words) {
  return (d * words * (box_points + 1) + 1) * sizeof(long long) + (2 * (2 * d + 2) + 1) * sizeof(float);
}

template <class T>
void solve(Run<T, Workspace<T>>& s) {
  const FixedPoint& format = s.ws.sums.format;
  const size_t kept_bytes = s.k * s.d * kept_words * sizeof *s.ws.last_sum;
  check(cudaMemsetAsync(s.ws.last_sum, 0, kept_bytes, s.stream), "clearing the clusters' sums");
  const int boxes = boxes_of(s.n), grid = std::min(s.device_info.multiprocessors, blocks(boxes, least_boxes));
  dispatch<1, 2, 3>(s.d, [&]<int d>() {
    dispatch<few_rounds, most_rounds>(rounds_of(s.k), [&]<int rounds>() {
      const auto start = [&](const Solve<T, d>& arguments, size_t bytes) {
        launch_cooperative(solve_kernel<T, d, rounds>, grid, warps_of(d, rounds) * warp_lanes,
                           bytes + sizeof(SolveState) + blocks(boxes, grid) * box_bytes(d, format.words), s.stream,
                           arguments, NarrowFrame<d>(s.ws.range), static_cast<const NarrowHalves<d>*>(s.ws.halves),
                           s.ws.last_sum);
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
  const size_t tables = centroid_bytes(p, beside(p.d)) +
                        (p.k * (FixedPoint::most_words * p.d + 1) + 2) * sizeof(unsigned long long) +
                        sizeof(SolveState);
  const size_t room = device.shared_bytes_optin > tables ? device.shared_bytes_optin - tables : 0;
  const int fit = std::min(warps_of(p.d, rounds_of(p.k)), int(room / box_bytes(p.d, FixedPoint::most_words)));
  if (blocks(boxes, grid) <= fit) return "";
  return "each block keeps its points on the chip, " + std::to_string(fit * box_points) + " of them, and these are " +
         std::to_string(p.n) + " on " + std::to_string(grid) + " multiprocessors" + instead;
}

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare<T>,
                                         .upload = upload_kept_boxes<T, Workspace<T>>,
                                         .restart = restart_rows<T>,
                                         .assign = assign_boxes<T, Workspace<T>>,
                                         .update = update_boxes<T, Workspace<T>>,
                                         .solve = solve<T>,
                                         .download = download_spatial<T>};
}  // namespace

LADDER_VARIANT(.id = "v05o_short_exchange", .base = "v05n_box_per_warp",
               .idea = "sums by native atomics of 32 bits, and a thread for each coordinate of the means",
               .expect =
                   "points2d_k_100 on an H200: means of two features side by side 700 cycles in place of 1,500; one "
                   "barrier of 1,024 threads less, 100; an atomic without a loop 60 in place of 300, more where many "
                   "warps have changes to count: 1,100 cycles, or 0.5 us",
               .shows = "solve", .source = "this project", .arithmetic = {.form = Arithmetic::Form::exact},
               .prunes = true, .refuse = refuse, .f32 = phases<float>, .f64 = phases<double>)
