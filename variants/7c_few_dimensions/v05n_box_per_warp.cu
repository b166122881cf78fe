// v05n: one box for each warp, for the whole run. v05m's 16 warps take two boxes each, one after the other, and read
// points, bounds and labels of a box again in each iteration; the rounds over the centroids have a bound that the
// compiler does not know. Here 32 warps keep a box each: its points in float and its labels in registers, which leaves
// 64 for a thread; its coordinates as whole numbers in shared memory, so that a sum over points that moved adds what is
// there. Up to 256 centroids are tested in four or eight rounds that are unrolled.
#include "../common/boxes/box_per_warp.cuh"
#include "../common/device/grid_barrier.cuh"

namespace {
using namespace ladder;

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
      changed = warp_add(changed);
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
using Workspace = KeptBoxes<T>;

template <class T>
void prepare(Run<T, Workspace<T>>& s) {
  prepare_kept_boxes(s, most_entries(s.k, s.d));
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
                                         .upload = upload_kept_boxes<T, Workspace<T>>,
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
