// v25c: bulk copies. v25b's warp copies row by row, 16 bytes a lane: 1,060 instructions for a tile, a third of all, and
// bank conflicts, as a row of 400 bytes is not a whole number of 128. Here the rows lie in global memory as they do in
// a tile, padded to an odd number of 16 bytes, so that one bulk copy of one lane brings all 32 points
// (device/bulk_buffer.cuh). Rows of 100 floats need no padding.
//
// for cuda: 90a
#include "../common/device/exact_order.cuh"
#include "../common/few_clusters/bulk_rows.cuh"
#include "../common/few_clusters/shared_scores.cuh"
#include "../common/lloyd/phases.cuh"

namespace {
using namespace ladder;

template <class T>
using Workspace = BulkRows<T>;

/// Sizes in shared memory. Rows of points are padded so that eight rows lie 16 bytes apart modulo the 128 of all banks,
/// rows of centroids so that four rows of halves do.
template <class T>
struct Sizes {
  int quads, width, pitch, steps, half_pitch, columns;
  __host__ __device__ Sizes(int d, int columns)
      : quads((d + 3) / 4),
        width(4 * quads),
        pitch(sizeof(T) == 4 ? 4 * (quads | 1) : width + 2),
        steps((d + mma_depth - 1) / mma_depth),
        half_pitch(4 * (steps | 1)),
        columns(columns) {}
  size_t warp_bytes() const {
    return sizeof(T) * tile_rows * pitch + sizeof(uint64_t) + sizeof(float) * tile_rows * (columns + 1);
  }
  /// `halves`: those of the centroids are in shared memory, too.
  size_t block_bytes(bool halves) const {
    return columns * (sizeof(CentroidBound) + halves * half_pitch * sizeof(uint2)) + sizeof(T) * steps * mma_depth;
  }
};

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
  float* const scores = reinterpret_cast<float*>(barriers + warps);                       // warps x 32 x (columns + 1)
  auto* halves = reinterpret_cast<const uint2*>(centroid.part[0]);                        // columns x half_pitch
  const int half_pitch = in_registers ? size.half_pitch : 2 * centroid.pitch;
  for (int f = threadIdx.x; f < size.steps * mma_depth; f += blockDim.x)
    centre[f] = f < d ? frame.centre[f] * unit.scale : T(0);
  for (int j = threadIdx.x; j < columns; j += blockDim.x) bound[j] = centroid_bounds[j];
  if constexpr (in_registers) {
    auto* const near = reinterpret_cast<uint2*>(scores + warps * tile_rows * (columns + 1));
    for (int e = threadIdx.x; e < columns * 4 * size.steps; e += blockDim.x) {
      const int j = e / (4 * size.steps), w = e % (4 * size.steps);
      near[j * half_pitch + w] = halves[2 * j * centroid.pitch + w];
    }
    halves = near;
  }
  __syncthreads();
  T* const tile = tiles + warp * tile_rows * size.pitch;
  float* const score = scores + warp * tile_rows * (columns + 1);
  [[maybe_unused]] RegisterSums<in_registers ? clusters : 1> sums;
  int count[2] = {}, rechecked = 0, against_many = 0;
  const int step = gridDim.x * warps * tile_rows;  // far below 2^31, as n is: most_tiles
  int first = (blockIdx.x * warps + warp) * tile_rows;
  BulkBuffer buffer(barriers + warp);
  start_copy(buffer, tile, x, first, n, size.pitch);
  for (; first < n; first += step) {
    buffer.wait();
    __syncwarp();  // the zeros of start_copy are visible
    multiply<T, columns>(tile, centre, halves, half_pitch, score, size, unit);
    __syncwarp();
    const PointBound y{float(scalbn(1.0, -unit.exponent)), weight[first / tile_rows]};
    const bool valid = first + lane < n;
    const unsigned long long open = valid ? candidates(score + lane * (columns + 1), bound, y, k) : 1;
    int nearest = __ffsll(static_cast<long long>(open)) - 1;
    // The points with several candidates, one after another: all lanes compare their exact distances.
    for (unsigned rest = __ballot_sync(all_lanes, (open & (open - 1)) != 0); rest != 0; rest &= rest - 1) {
      const int row = __ffs(rest) - 1;
      unsigned long long several = __shfl_sync(all_lanes, open, row);
      ++rechecked, against_many += __popcll(several) > 2;
      Exact best;
      for (; several != 0; several &= several - 1) {
        const int j = __ffsll(static_cast<long long>(several)) - 1;
        const Exact exact{exact_warp_sum(exact_distance(tile + row * size.pitch, c + int64_t(j) * d, d, lane, 32)), j};
        if (nearer<32>(exact, best, tile + row * size.pitch, c, d)) best = exact;
      }
      if (lane == row) nearest = best.centroid;
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
        .id = "v25c_bulk_rows", .base = "v25b_register_sums",
        .idea = "one bulk copy of one lane brings 32 points; rows are padded in global memory",
        .expect =
            "2,430 instructions for 32 points of blobs30 in place of 3,430: the loop over rows is gone. A warp "
            "that starts one in 6.3 cycles, as v25a did, and waits 2,500 cycles for its tile makes 1,190 cycles a "
            "tile with 15 warps: 1.4 to 1.7 ms an iteration on an H200. The 177 extra turns that copies of a tile "
            "took for bank conflicts go, too. Where D is small, padding costs bytes: 8 floats become 12",
        .shows = "iteration", .counter = "bank_conflicts_load", .source = "this project: docs/certificate.md",
        .arithmetic = {.form = Arithmetic::Form::exact, .sum_roundoff = 0, .operands = "fp16"},
        .refuse = refuse_few_clusters<Sizes>, .f32 = phases<float>, .f64 = phases<double>)
