// v25h: points that fp16 holds stay fp16. Embeddings are often kept as halves: as floats they are twice the bytes, and
// v25g is limited by reading them. Here the upload narrows each coordinate to a half and refuses points that would
// change by it; the kernel widens it again in a register, so that everything behind it, labels among it, is as before.
//
// for cuda: 90a
#include "../common/few_clusters/one_finish.cuh"
#include "../common/few_clusters/two_candidates.cuh"
#include "../common/lloyd/phases.cuh"

namespace {
using namespace ladder;

template <class T>
struct Workspace : BulkRows<T, __half> {
  unsigned long long* changed = nullptr;  // coordinates that no half equals
  unsigned long long* host = nullptr;
};

/// A warp has its 32 points as halves, and one of them as floats where it has several candidates.
template <class T>
struct HalfSizes : Sizes<T, __half> {
  using Sizes<T, __half>::Sizes;
  size_t warp_bytes() const { return Sizes<T, __half>::warp_bytes() + sizeof(T) * this->width; }
};

__global__ void narrow_kernel(const float* x, __half* rows, unsigned long long* changed, int64_t values, int d,
                              int pitch) {
  const int64_t e = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (e >= values) return;
  const __half half = __float2half_rn(x[e]);
  rows[e / d * pitch + e % d] = half;
  if (widen(half) != x[e]) atomicAdd(changed, 1ull);
}

template <class T, int clusters, bool in_registers>
__global__ void __launch_bounds__(32 * most_warps(clusters, in_registers), 1)
    fused_kernel(const __half* __restrict__ x, const T* __restrict__ c, Fp16Rows centroid,
                 const CentroidBound* __restrict__ centroid_bounds, Frame<T> frame, const float* __restrict__ weight,
                 int32_t* __restrict__ label, double* sum, int* sum_count, RefineCounters* refine_counters, int n,
                 int k, int d) {
  constexpr int columns = columns_of(clusters);
  const HalfSizes<T> size(d, columns);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  const PointUnit<T> unit(frame);
  __half* const tiles = dynamic_shared<__half>();  // warps x 32 x pitch
  T* const centre =
      reinterpret_cast<T*>(tiles + warps * tile_rows * size.pitch);  // steps x 16, in the unit of the halves
  auto* const bound = reinterpret_cast<CentroidBound*>(centre + size.steps * mma_depth);  // columns
  auto* const barriers = reinterpret_cast<uint64_t*>(bound + columns);                    // warps
  T* const point = reinterpret_cast<T*>(barriers + warps) + warp * size.width;            // warps x width: widened
  auto* halves = reinterpret_cast<const uint2*>(centroid.part[0]);                        // columns x half_pitch
  const int half_pitch = in_registers ? size.half_pitch : 2 * centroid.pitch;
  for (int f = threadIdx.x; f < size.steps * mma_depth; f += blockDim.x)
    centre[f] = f < d ? frame.centre[f] * unit.scale : T(0);
  for (int j = threadIdx.x; j < columns; j += blockDim.x) bound[j] = centroid_bounds[j];
  if constexpr (in_registers) {
    auto* const near = reinterpret_cast<uint2*>(point + (warps - warp) * size.width);
    for (int e = threadIdx.x; e < columns * 4 * size.steps; e += blockDim.x) {
      const int j = e / (4 * size.steps), w = e % (4 * size.steps);
      near[j * half_pitch + w] = halves[2 * j * centroid.pitch + w];
    }
    halves = near;
  }
  __syncthreads();
  __half* const tile = tiles + warp * tile_rows * size.pitch;
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
    const Mask<columns> possible = candidates<columns, __half>(product, bound, y, k), open = valid ? possible : 1;
    int nearest = lowest(open);
    // The points with several candidates, one after another: all lanes compare their exact distances.
    for (unsigned rest = __ballot_sync(all_lanes, (open & (open - 1)) != 0); rest != 0; rest &= rest - 1) {
      const int row = __ffs(rest) - 1;
      const Mask<columns> several = __shfl_sync(all_lanes, open, row);
      const Mask<columns> others = several & (several - 1);
      const bool many = (others & (others - 1)) != 0;
      ++rechecked, against_many += many;
      for (int f = lane; f < d; f += 32) point[f] = widen(tile[row * size.pitch + f]);
      __syncwarp();
      int best = many ? -1 : nearer_of_two(lowest(several), lowest(others), point, c, d);
      if (best < 0) best = exact_nearest(several, point, c, d);
      if (lane == row) nearest = best;
      __syncwarp();  // no lane reads the point any more
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
    auto* const floats = reinterpret_cast<T*>(tile);
    if (lane < size.quads) {
#pragma unroll
      for (int j = 0; j < clusters; ++j)
        for (int e = 0; e < 4 && j < k; ++e) floats[j * size.width + 4 * lane + e] = sums.of[j][e];
    }
    __syncthreads();
    for (int e = threadIdx.x; e < k * d; e += blockDim.x) {
      double total = 0;
      for (int w = 0; w < warps; ++w)
        total += double(reinterpret_cast<T*>(tiles + w * tile_rows * size.pitch)[e / d * size.width + e % d]);
      if (total != 0) atomicAdd(&sum[e], total);
    }
  }
}

template <class T>
void prepare(Run<T, Workspace<T>>& s) {
  prepare_bulk_rows(s);
  s.ws.changed = s.template device<unsigned long long>(1);
  s.ws.host = s.template pinned<unsigned long long>(1);
}

template <class T>
void upload(Run<T, Workspace<T>>& s) {
  const int pitch = bulk_pitch<__half>(s.d);
  const int64_t values = int64_t(s.n) * s.d;
  upload_rows(s);
  check(cudaMemsetAsync(s.ws.rows, 0, size_t(s.n) * pitch * sizeof(__half), s.stream), "clearing the rows");
  check(cudaMemsetAsync(s.ws.changed, 0, sizeof *s.ws.changed, s.stream), "clearing a count");
  launch(narrow_kernel, blocks(values, 256), 256, 0, s.stream, s.x, s.ws.rows, s.ws.changed, values, s.d, pitch);
  measure_points(s, s.x, s.d);
  check(cudaMemcpyAsync(s.ws.host, s.ws.changed, sizeof *s.ws.changed, cudaMemcpyDeviceToHost, s.stream), "counting");
  check(cudaStreamSynchronize(s.stream), "counting");
  if (*s.ws.host > 0)
    throw Refusal("it keeps points as fp16, which would change " + std::to_string(*s.ws.host) + " of " +
                  std::to_string(values) + " coordinates; v25g_one_finish takes them as floats");
}

template <class T, class W>
void pass_over_points(Run<T, W>& s) {
  const auto& certified = s.ws.certified;
  RefineCounters* const refine_counters = next_refine_counters(s);
  const auto pass = [&]<int clusters, bool in_registers>() {
    const HalfSizes<T> size(s.d, columns_of(clusters));
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
  finish_pass(s);
}

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare<T>,
                                         .upload = upload<T>,
                                         .restart = restart_passes<T, Workspace<T>>,
                                         .iterate = pass_over_points<T, Workspace<T>>,
                                         .download = download_refined<T>};
}  // namespace

LADDER_VARIANT(
        .id = "v25h_half_rows", .base = "v25g_one_finish",
        .idea = "points that fp16 holds stay fp16: half the bytes of an iteration",
        .expect =
            "10,000,000 x 100 halves are 2.08 GB in rows of 208 bytes: 0.45 ms at the 4.65 TB/s that v25g reaches, in "
            "place of 0.86. In v25e, whose loop this is, instructions start in half of the cycles of 0.98 ms, and some "
            "240 more for 32 points are one for each value that is widened, 112 in the product and 128 in the sums. So "
            "instructions are the limit now: 0.6 to 0.7 ms on halves30. Measured on an H100: 16.1 ms for ten "
            "iterations, v25g 15.6. From the second iteration on halves30 leaves 0.98 million points "
            "undecided, most of them among all ten centroids, and blobs30_00 at most 0.31, among a few: exact "
            "comparisons set the time, not the bytes",
        .shows = "iteration", .source = "this project",
        .arithmetic = {.form = Arithmetic::Form::exact, .sum_roundoff = 0, .operands = "fp16"},
        .refuse = refuse_few_clusters<HalfSizes>, .f32 = phases<float>)
