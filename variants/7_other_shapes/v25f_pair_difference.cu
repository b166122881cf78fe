// v25f: one sum for two candidates. Nearly all points that v25e's bounds leave open have two candidates, and for each
// of them a warp computes a distance in double, one after the other: 300 instructions, most of them waits for one
// another. Here all lanes add up the difference of the two squared distances, one sum and one reduction over the warp,
// next to a float that bounds its rounding error. Points that this does not decide go v25e's way, as do those with more
// candidates.
//
// for cuda: 90a
#include "../common/few_clusters/two_candidates.cuh"
#include "../common/lloyd/phases.cuh"

namespace {
using namespace ladder;

template <class T>
using Workspace = BulkRows<T>;

template <class T, int clusters, bool in_registers>
__global__ void __launch_bounds__(32 * most_warps(clusters, in_registers), 1)
    fused_kernel(const T* __restrict__ x, const T* __restrict__ c, Fp16Rows centroid,
                 const CentroidBound* __restrict__ centroid_bounds, Frame<T> frame, const float* __restrict__ weight,
                 int32_t* __restrict__ label, double* sum, int* sum_count, RefineCounters* refine_counters, int n,
                 int k, int d) {
  constexpr int columns = columns_of(clusters);
  const Sizes<T> size(d, columns);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  const PointUnit<T> unit(frame);
  T* const tiles = dynamic_shared<T>();                      // warps x 32 x pitch
  T* const centre = tiles + warps * tile_rows * size.pitch;  // steps x 16, in the unit of the halves
  auto* const bound = reinterpret_cast<CentroidBound*>(centre + size.steps * mma_depth);  // columns
  auto* const barriers = reinterpret_cast<uint64_t*>(bound + columns);                    // warps
  auto* halves = reinterpret_cast<const uint2*>(centroid.part[0]);                        // columns x half_pitch
  const int half_pitch = in_registers ? size.half_pitch : 2 * centroid.pitch;
  for (int f = threadIdx.x; f < size.steps * mma_depth; f += blockDim.x)
    centre[f] = f < d ? frame.centre[f] * unit.scale : T(0);
  for (int j = threadIdx.x; j < columns; j += blockDim.x) bound[j] = centroid_bounds[j];
  if constexpr (in_registers) {
    auto* const near = reinterpret_cast<uint2*>(barriers + warps);
    for (int e = threadIdx.x; e < columns * 4 * size.steps; e += blockDim.x) {
      const int j = e / (4 * size.steps), w = e % (4 * size.steps);
      near[j * half_pitch + w] = halves[2 * j * centroid.pitch + w];
    }
    halves = near;
  }
  __syncthreads();
  T* const tile = tiles + warp * tile_rows * size.pitch;
  [[maybe_unused]] RegisterSums<in_registers ? clusters : 1> sums;
  int count[2] = {}, rechecked = 0, against_many = 0;
  const int step = gridDim.x * warps * tile_rows;  // far below 2^31, as n is: most_tiles
  int first = (blockIdx.x * warps + warp) * tile_rows;
  const float factor = float(scalbn(1.0, -unit.exponent));
  BulkBuffer buffer(barriers + warp);
  start_copy(buffer, tile, x, first, n, size.pitch);
  for (; first < n; first += step) {
    const PointBound y{factor, weight[first / tile_rows]};
    buffer.wait();
    __syncwarp();  // the zeros of start_copy are visible
    float product[2][columns / mma_columns][4] = {};
    multiply<T, columns>(tile, centre, halves, half_pitch, product, size, unit);
    const bool valid = first + lane < n;
    const Mask<columns> possible = candidates<columns>(product, bound, y, k), open = valid ? possible : 1;
    int nearest = lowest(open);
    // The points with several candidates, one after another: all lanes compare their exact distances.
    for (unsigned rest = __ballot_sync(all_lanes, (open & (open - 1)) != 0); rest != 0; rest &= rest - 1) {
      const int row = __ffs(rest) - 1;
      const Mask<columns> several = __shfl_sync(all_lanes, open, row);
      const Mask<columns> others = several & (several - 1);
      const bool many = (others & (others - 1)) != 0;
      ++rechecked, against_many += many;
      const T* const point = tile + row * size.pitch;
      int best = many ? -1 : nearer_of_two(lowest(several), lowest(others), point, c, d);
      if (best < 0) best = exact_nearest(several, point, c, d);
      if (lane == row) nearest = best;
    }
    if (valid) label[first + lane] = nearest;
    if constexpr (in_registers)
      sums.add(tile, valid ? nearest : -1, count, size);
    else
      add_points(tile, valid ? nearest : -1, sum, count, k, d, size);
    start_copy(buffer, tile, x, first + step, n, size.pitch);
  }
  for (int e = 0; e < 2; ++e)
    if (count[e] > 0) atomicAdd(&sum_count[lane + 32 * e], count[e]);
  if (lane == 0 && rechecked > 0) {
    atomicAdd(&refine_counters->pairs, rechecked - against_many);
    atomicAdd(&refine_counters->brute_force, against_many);
  }
  if constexpr (in_registers) {
    // Each warp's sums to its tile, k x width; then the block's, feature by feature.
    __syncwarp();  // no lane reads points any more
    if (lane < size.quads) {
#pragma unroll
      for (int j = 0; j < clusters; ++j)
        for (int e = 0; e < 4 && j < k; ++e) tile[j * size.width + 4 * lane + e] = sums.of[j][e];
    }
    __syncthreads();
    for (int e = threadIdx.x; e < k * d; e += blockDim.x) {
      double total = 0;
      for (int w = 0; w < warps; ++w) total += double(tiles[w * tile_rows * size.pitch + e / d * size.width + e % d]);
      if (total != 0) atomicAdd(&sum[e], total);
    }
  }
}

template <class T>
void restart(Run<T, Workspace<T>>& s) {
  restart_rows(s);
  reset_undecided(s);
}

template <class T>
void iterate(Run<T, Workspace<T>>& s) {
  const auto& certified = s.ws.certified;
  RefineCounters* const refine_counters = next_refine_counters(s);
  quantize_centroids(s);
  clear_sums(s);
  const auto pass = [&]<int clusters, bool in_registers>() {
    const Sizes<T> size(s.d, columns_of(clusters));
    const size_t block_bytes = size.block_bytes(in_registers);
    const int warps = std::min<int>(most_warps(clusters, in_registers),
                                    (s.device_info.shared_bytes_optin - block_bytes) / size.warp_bytes());
    const int grid = std::min(s.device_info.multiprocessors, blocks(s.n, tile_rows * warps));
    const int64_t most_rows = int64_t(grid) * warps * tile_rows * most_tiles;
    for (int64_t first = 0; first < s.n; first += most_rows)
      launch(fused_kernel<T, clusters, in_registers>, grid, 32 * warps, block_bytes + warps * size.warp_bytes(),
             s.stream, s.ws.rows + first * size.pitch, s.c, certified.c, certified.centroid, certified.frame,
             s.ws.weight + first / tile_rows, s.label + first, s.ws.sums.sum, s.ws.sums.count, refine_counters,
             int(std::min(most_rows, s.n - first)), s.k, s.d);
  };
  dispatch<8, 12, 16, 32, 64>(clusters_of(s.k), [&]<int clusters>() {
    if constexpr (sizeof(T) == 4 && clusters <= 16) {
      if (s.d <= most_features_of_sums) return pass.template operator()<clusters, true>();
    }
    pass.template operator()<clusters, false>();
  });
  divide(s);
}

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare_bulk_rows<T, Workspace<T>>,
                                         .upload = upload_bulk_rows<T, Workspace<T>>,
                                         .restart = restart<T>,
                                         .iterate = iterate<T>,
                                         .download = download_refined<T>};
}  // namespace

LADDER_VARIANT(
        .id = "v25f_pair_difference", .base = "v25e_double_first",
        .idea = "two candidates are compared by one sum, the difference of their squared distances",
        .expect =
            "v25e's kernel takes 981 us on blobs30 and issues 1,460 to 1,590 instructions for 32 points. 0.5 to 1 of "
            "them has two candidates, which took 300 instructions and take 110: 100 to 190 less for a tile, a tenth. "
            "Its warps wait for data in 28 % of the samples, which stays: 0.93 to 0.97 ms",
        .shows = "iteration", .counter = "dadd", .source = "this project: docs/certificate.md",
        .arithmetic = {.form = Arithmetic::Form::exact, .sum_roundoff = 0, .operands = "fp16"},
        .refuse = refuse_few_clusters<Sizes>, .f32 = phases<float>, .f64 = phases<double>)
