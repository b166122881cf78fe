// v05m: distances of points in float. v05l compares the points of a box that several centroids may be nearest to in
// double, at half the rate, and a lane that finds two centroids too near each other to tell compares its point with all
// K alone, while 31 lanes wait. Here the points are compared in float, with a margin for what it rounds, and the few
// points within it by the whole warp in double: a lane for every 32nd centroid.
#include "../common/boxes/box_phases.cuh"
#include "../common/boxes/narrow_distances.cuh"
#include "../common/boxes/resident_boxes.cuh"
#include "../common/device/grid_barrier.cuh"

namespace {
using namespace ladder;

/// One warp: for each pair of a former and a new label among the points with a bit in `changed`, subtracts the lane's
/// part of their sum (sum_members()) from the one and adds it to the other.
template <class T, int d, class Put>
__device__ void move_by_label(const BoxPoints<T, d>& points, const int (&from)[points_per_lane],
                              const int (&to)[points_per_lane], unsigned changed, const FixedPoint& format,
                              const Put& put) {
  for (unsigned lanes; (lanes = __ballot_sync(all_lanes, changed != 0)) != 0;) {
    int former = 0, label = 0;
#pragma unroll
    for (int q = 0; q < points_per_lane; ++q)
      if (changed >> q & 1) former = from[q], label = to[q];
    const int source = __ffs(int(lanes)) - 1;
    former = __shfl_sync(all_lanes, former, source), label = __shfl_sync(all_lanes, label, source);
    unsigned members = 0;
#pragma unroll
    for (int q = 0; q < points_per_lane; ++q) members |= unsigned(from[q] == former && to[q] == label) << q;
    members &= changed, changed ^= members;
    const long long part = sum_members(points, members, format);
    put(label, part);
    if (former != no_centroid) put(former, -part);
  }
}

/// Of a block: with more of them a thread has too few registers.
template <int d>
constexpr int solve_threads = d < 3 ? 512 : 384;

template <class T, int d>
__global__ void __launch_bounds__(solve_threads<d>, 1)
    solve_kernel(Solve<T, d> s, int capacity, NarrowFrame<d> frame, const NarrowHalves<d>* halves,
                 unsigned long long* last_sum) {
  const int lane = threadIdx.x % warp_lanes, warp = threadIdx.x / warp_lanes, warps = blockDim.x / warp_lanes;
  const int values = BoxSums::values(s.format, d), entries = sum_entries(s.format, s.k, d);
  const int64_t boxes = (s.n + box_points - 1) / box_points;
  const int first = int(boxes * blockIdx.x / gridDim.x), last = int(boxes * (blockIdx.x + 1) / gridDim.x);
  auto* const resident = dynamic_shared<ResidentBox<T, d, NarrowHalves<d>>>();         // capacity
  auto* const block_sum = reinterpret_cast<unsigned long long*>(resident + capacity);  // entries, if they fit
  auto* const kept = block_sum + (s.shared_sums ? entries : 0);                        // entries: the clusters' sums
  T* const c = reinterpret_cast<T*>(kept + entries);                                   // k x d
  auto* const narrow = reinterpret_cast<NarrowCentroid<d>*>(c + s.k * d);              // k
  using Place = BoxPlace<T, d, NarrowHalves<d>>;
  const auto place_of = [&](int box) {
    return box - first < capacity ? Place(resident[box - first]) : Place(s, halves, box, values);
  };
  for (int box = first + warp; box < min(last, first + capacity); box += warps)
    copy_in(resident[box - first], Place(s, halves, box, values), min(box_points, s.n - box * box_points), values);
  for (int j = threadIdx.x; j < s.k; j += blockDim.x) {
    for (int f = 0; f < d; ++f) c[j * d + f] = s.c[j * d + f];
    narrow[j] = frame(c + j * d);
  }
  for (int e = threadIdx.x; e < entries; e += blockDim.x) {
    kept[e] = last_sum[e];
    if (s.shared_sums) block_sum[e] = 0;
  }
  __syncthreads();
  for (int done = s.progress->done;;) {
    unsigned long long* const sum = s.sum + size_t(done % OneLaunch::buffers) * entries;
    unsigned long long* const next = s.sum + size_t((done + 1) % OneLaunch::buffers) * entries;
    unsigned long long* const added = s.shared_sums ? block_sum : sum;
    int changed = 0;
    for (int box = first + warp; box < last; box += warps) {
      const auto place = place_of(box);
      const int end = min(box_points, s.n - box * box_points), before = *place.only;
      const NarrowHalves<d>& box_of = *place.bounds;
      HalvesTests<d> tests{{box_of.first, narrow}, {box_of.second, narrow}, box_of.split != 0};
      NarrowPoints<d> narrow_points{};
      NarrowLabels<d> nearest;
      const int only = for_survivors(
          tests, s.k, [&] { narrow_points.load(frame, place.x, end, place.pitch); },
          [&](int j) { nearest.compare(narrow_points, narrow[j], j); });
      const unsigned valid = valid_points(0, end);
      int labels[points_per_lane];
#pragma unroll
      for (int q = 0; q < points_per_lane; ++q) labels[q] = only >= 0 ? only : nearest.nearest[q].label;
      if (only < 0)
        settle<T, d>(
            nearest.uncertain(narrow_points.size) & valid, c, s.k,
            [&](T(&x)[d], int i) {
              for (int f = 0; f < d; ++f) x[f] = place.x[size_t(f) * place.pitch + i];
            },
            [&](int which, int label) {
#pragma unroll  // no dynamic index: the labels stay in registers
              for (int q = 0; q < points_per_lane; ++q) labels[q] = q == which ? label : labels[q];
            });
      const auto put = [&](int j, long long part) {
        if (lane <= values) atomicAdd(&added[size_t(j) * (values + 1) + lane], static_cast<unsigned long long>(part));
      };
      if (only >= 0 && only == before) continue;
      if (only >= 0 && before != several_centroids) {
        const auto total = lane <= values ? static_cast<long long>(place.total[lane]) : 0;
        put(only, total);
        if (before >= 0) put(before, -total);
        changed += __popc(valid);
      } else {
        int former[points_per_lane];
        unsigned moved = 0;
#pragma unroll
        for (int q = 0; q < points_per_lane; ++q) {
          const bool exists = valid >> q & 1;
          int32_t& label = place.label[q * warp_lanes + lane];
          former[q] = before != several_centroids || !exists ? before : label;
          moved |= unsigned(exists && former[q] != labels[q]) << q;
          if (exists) label = labels[q];
        }
        changed += __popc(moved);
        if (__any_sync(all_lanes, moved != 0)) {
          BoxPoints<T, d> points;
          points.load(place.x, 0, end, place.pitch);
          move_by_label(points, former, labels, moved, s.format, put);
        }
      }
      __syncwarp();  // all lanes have read `before`
      if (lane == 0) *place.only = only;
    }
    changed = warp_sum(changed);
    if (lane == 0 && changed > 0) atomicAdd(&added[entries - 1], static_cast<unsigned long long>(changed));
    __syncthreads();
    for (int e = threadIdx.x; e < entries && s.shared_sums; e += blockDim.x) {
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
  for (int box = first + warp; box < last; box += warps) {
    const auto place = place_of(box);
    const int begin = box * box_points, end = min(begin + box_points, s.n), only = *place.only;
    if (lane == 0) s.box_label[box] = only;
    for (int i = begin + lane; i < end; i += warp_lanes) s.label[i] = only >= 0 ? only : place.label[i - begin];
  }
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

template <class T>
void solve(Run<T, Workspace<T>>& s) {
  constexpr int least_boxes = 4;  // of a block
  const size_t kept_bytes = shared_sum_bytes(s.ws.sums.format, s.problem);
  check(cudaMemsetAsync(s.ws.last_sum, 0, kept_bytes, s.stream), "clearing the clusters' sums");
  dispatch<1, 2, 3>(s.d, [&]<int d>() {
    const auto start = [&](const Solve<T, d>& arguments, size_t bytes) {
      const int grid = std::min(s.device_info.multiprocessors, blocks(boxes_of(s.n), least_boxes));
      const int room = int((s.device_info.shared_bytes_optin - bytes) / sizeof(ResidentBox<T, d, NarrowHalves<d>>));
      const int capacity = std::min(room, blocks(boxes_of(s.n), grid));
      launch_cooperative(solve_kernel<T, d>, grid, solve_threads<d>,
                         bytes + capacity * sizeof(ResidentBox<T, d, NarrowHalves<d>>), s.stream, arguments, capacity,
                         NarrowFrame<d>(s.ws.range), static_cast<const NarrowHalves<d>*>(s.ws.halves), s.ws.last_sum);
    };
    solve_in_one_launch<d>(s, start, beside(s.d));
  });
}

std::string refuse(const Shape& p, const Device& device, const Axes&) {
  return refuse_one_launch(p, device, beside(p.d));
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

LADDER_VARIANT(.id = "v05m_narrow_distances", .base = "v05l_kept_boxes",
               .idea = "distances of points in float; where two are too near to tell, the warp compares in double",
               .expect =
                   "points2d_k_100 on an H200: in every second iteration one of 500,000 points lies within 2^-20 of a "
                   "bisector, and a lane of v05l takes 100 distances of 80 cycles for it, all blocks waiting: 4,000 "
                   "cycles of 21,000 on average. In float some 70 points an iteration are near, 500 cycles each for a "
                   "warp of its own. A centroid that is left takes 52 instructions for 128 points, not 68: 200 cycles. "
                   "10.7 us become 9 to 10. Measured: 8.0 us, more than was counted; not profiled",
               .shows = "solve", .source = "this project", .arithmetic = {.form = Arithmetic::Form::exact},
               .prunes = true, .refuse = refuse, .f32 = phases<float>, .f64 = phases<double>)
