// v25b: sums in registers. v25a keeps the sums of each warp as doubles in shared memory: 8 KB a warp for K = 10 and
// D = 100, so that only 9 warps fit; and 32 points take 1,000 instructions to be converted to double, added, and added
// to shared memory. Here a lane keeps the sums of four features of all clusters as floats in registers, 540
// instructions, and 15 warps fit. A float adds up at most 8,192 points, those of a warp in one launch; then the block
// adds its warps' sums in double. More than 16 clusters or 128 features have no room in registers: their sums are added
// in global memory and the centroids' halves stay there, so that K up to 64 and D up to 1,024 are taken.
#include <cuda_pipeline.h>

#include "../common/device/exact_order.cuh"
#include "../common/few_clusters/register_sums.cuh"
#include "../common/few_clusters/shared_scores.cuh"
#include "../common/lloyd/phases.cuh"

namespace {
using namespace ladder;

template <class T>
struct Workspace {
  Sums sums;
  certified::Certified<T> certified;  // of the centroids; the points have no halves in memory
  UndecidedRows refinement;           // the counters
  float* weight = nullptr;            // of each tile of 32 points: the largest PointBound::weight
};

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
  size_t warp_bytes() const { return sizeof(T) * tile_rows * pitch + sizeof(float) * tile_rows * (columns + 1); }
  /// `halves`: those of the centroids are in shared memory, too.
  size_t block_bytes(bool halves) const {
    return columns * (sizeof(CentroidBound) + halves * half_pitch * sizeof(uint2)) + sizeof(T) * steps * mma_depth;
  }
};

/// Starts the copies of the rows first .. first + 31 of x, as far as there are n, and commits them.
template <class T>
__device__ void start_copy(T* tile, const T* x, int64_t first, int n, int d, int pitch) {
  const int width = d * sizeof(T) % 16 == 0 ? 16 / sizeof(T) : 1;
  for (int64_t i = first; i < min(int64_t(n), first + tile_rows); ++i, tile += pitch) {
    for (int f = threadIdx.x % 32 * width; f < d; f += 32 * width) {
      if (width == 1)
        __pipeline_memcpy_async(tile + f, x + i * d + f, sizeof(T));
      else
        __pipeline_memcpy_async(tile + f, x + i * d + f, 16);
    }
  }
  __pipeline_commit();
}

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
  float* const scores = reinterpret_cast<float*>(bound + columns);                        // warps x 32 x (columns + 1)
  auto* halves = reinterpret_cast<const uint2*>(centroid.part[0]);                        // columns x half_pitch
  const int half_pitch = in_registers ? size.half_pitch : 2 * centroid.pitch;
  for (int e = threadIdx.x; e < warps * tile_rows * size.pitch; e += blockDim.x) tiles[e] = 0;
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
  start_copy(tile, x, first, n, d, size.pitch);
  for (; first < n; first += step) {
    __pipeline_wait_prior(0);
    __syncwarp();
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
    __syncwarp();  // the tile is free for the next points
    start_copy(tile, x, first + step, n, d, size.pitch);
  }
  for (int e = 0; e < 2; ++e)
    if (count[e] > 0) atomicAdd(&sum_count[lane + 32 * e], count[e]);
  if (lane == 0 && rechecked > 0) {
    atomicAdd(&refine_counters->pairs, rechecked - against_many);
    atomicAdd(&refine_counters->brute_force, against_many);
  }
  if constexpr (in_registers) {
    // Each warp's sums to its tile, k x width; then the block's, feature by feature.
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
void prepare(Run<T, Workspace<T>>& s) {
  prepare_sums(s);
  auto& certified = s.ws.certified;
  const int64_t columns = certified::Tile::padded_columns(s.k);
  certified.c = allocate_fp16_rows(s, 1, columns, s.d);
  certified.centroid = s.template device<CentroidBound>(columns);
  certified.frame = {s.template device<T>(s.d), s.template device<int>(1)};
  s.ws.refinement.refine_counters = s.template device<RefineCounters>(counted);
  s.ws.refinement.refine_counters_host = s.template pinned<RefineCounters>(counted);
  s.ws.weight = s.template device<float>(blocks(s.n, tile_rows));
}

template <class T>
void upload(Run<T, Workspace<T>>& s) {
  upload_rows(s);
  fit_frame(s, s.x, s.ws.certified.frame, s.n, s.d);
  check(cudaMemsetAsync(s.ws.weight, 0, blocks(s.n, tile_rows) * sizeof(float), s.stream), "clearing the weights");
  launch(weight_kernel<T>, blocks(int64_t(s.n) * 32, 256), 256, 0, s.stream, s.x, s.ws.certified.frame, s.ws.weight,
         s.n, s.d);
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
             s.stream, s.x + first * s.d, s.c, certified.c, certified.centroid, certified.frame,
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

std::string refuse(const Shape& p, const Device& device, const Axes&) {
  if (p.k > most_clusters)
    return "it is for few clusters: K is " + std::to_string(p.k) + ", at most " + std::to_string(most_clusters) +
           " are taken; v46_graph_loop takes any number";
  const Sizes<float> narrow(p.d, columns_of(clusters_of(p.k)));
  const Sizes<double> wide(p.d, columns_of(clusters_of(p.k)));
  const size_t bytes = p.element_bytes == 4 ? narrow.block_bytes(false) + narrow.warp_bytes()
                                            : wide.block_bytes(false) + wide.warp_bytes();
  if (bytes > device.shared_bytes_optin)
    return "a warp keeps 32 points in shared memory: " + std::to_string(bytes) +
           " bytes for D = " + std::to_string(p.d) + ", a block has " + std::to_string(device.shared_bytes_optin);
  return refuse_certified(p, device);
}

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare<T>,
                                         .upload = upload<T>,
                                         .restart = restart<T>,
                                         .iterate = iterate<T>,
                                         .download = download_refined<T>};
}  // namespace

LADDER_VARIANT(
        .id = "v25b_register_sums", .base = "v25a_fused_certified",
        .idea = "sums of up to 16 clusters as floats in registers: a fifth fewer instructions, 15 warps in place of 9",
        .expect =
            "v25a takes 4,280 instructions for 32 points of blobs30 (counted), of which each of its 9 warps "
            "starts one in 6.3 cycles: 3.6 ms on an H200. Here they are 3,430 (SASS: copies 1,060, products 680, "
            "double-double 560, sums 540, bounds 390, other 200) and 15 warps. At the same pace, and 2,500 cycles "
            "of waiting for a tile, a tile takes 1,600 cycles of its multiprocessor: 1.9 ms; more warps compete "
            "for issue slots, so 1.9 to 2.3 ms. A larger step: sums, their place and what fits in shared memory "
            "change together",
        .shows = "iteration", .counter = "dadd", .source = "this project: docs/certificate.md",
        .arithmetic = {.form = Arithmetic::Form::exact, .sum_roundoff = 0, .operands = "fp16"}, .refuse = refuse,
        .f32 = phases<float>, .f64 = phases<double>)
