// v25a: few clusters. v25 writes the points as halves to memory, reads them for the products, and reads the points
// again for the sums; with K up to 64 these reads are the time. Here a point is read once per iteration, as it was
// uploaded. A warp copies 32 points to shared memory, converts them to halves on their way into the fragments of the
// product, finds the centroids that v25's bounds leave, compares these in double-double where there are several, and
// adds the points to the sums of their clusters. All points have one unit, so that a tile of 32 needs one number for
// its bounds: the largest weight of its rows, computed at upload.
#include <cuda_pipeline.h>

#include "../common/device/exact_order.cuh"
#include "../common/few_clusters/point_tile.cuh"
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
  size_t warp_bytes(int k) const {
    return sizeof(double) * k * width + sizeof(T) * tile_rows * pitch + sizeof(float) * tile_rows * (columns + 1);
  }
  size_t block_bytes() const {
    return columns * (sizeof(CentroidBound) + half_pitch * sizeof(uint2)) + sizeof(T) * steps * mma_depth;
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

/// Products of the tile's 32 points and all centroids to scores, 32 x (columns + 1). A step's 16 features are taken in
/// another order than their own, the same for both operands: those of a lane are neighbours.
template <class T, int columns>
__device__ void multiply(const T* tile, const T* centre, const uint2* halves, float* scores, const Sizes<T>& size,
                         const PointUnit<T>& unit) {
  const int lane = threadIdx.x % 32, g = lane / 4, q = lane % 4;
  for (int m = 0; m < tile_rows; m += mma_rows) {
    const T* const row = tile + (m + fragment_row(g)) * size.pitch;
    float product[columns / mma_columns][4] = {};
    for (int step = 0; step < size.steps; ++step) {
      const int f = step * mma_depth + 4 * q;
      FragmentA a{};
      if (f < size.width) {
        const auto& m4 = *reinterpret_cast<const Quad<T>*>(centre + f);
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const auto x4 = *reinterpret_cast<const Quad<T>*>(row + e * 8 * size.pitch + f);
#pragma unroll
          for (int p = 0; p < 2; ++p) {
            const __half2 pair = __floats2half2_rn(unit(x4.feature[2 * p], m4.feature[2 * p]),
                                                   unit(x4.feature[2 * p + 1], m4.feature[2 * p + 1]));
            a.r[2 * p + e] =
                uint32_t(__half_as_ushort(__low2half(pair))) | uint32_t(__half_as_ushort(__high2half(pair))) << 16;
          }
        }
      }
#pragma unroll
      for (int b = 0; b < columns / mma_columns; ++b) {
        const uint2 pair = halves[(b * mma_columns + g) * size.half_pitch + 4 * step + q];
        mma(product[b], a, FragmentB{{pair.x, pair.y}});
      }
    }
#pragma unroll
    for (int b = 0; b < columns / mma_columns; ++b) {
#pragma unroll
      for (int e = 0; e < 4; ++e)
        scores[(m + fragment_row(g) + e / 2 * 8) * (columns + 1) + b * mma_columns + 2 * q + e % 2] = product[b][e];
    }
  }
}

/// The centroids of this lane's point that may be nearest, a bit each. `score`: products, replaced by upper bounds.
__device__ inline unsigned long long candidates(float* score, const CentroidBound* bound, PointBound y, int k) {
  float lower = -std::numeric_limits<float>::infinity();
  for (int j = 0; j < k; ++j) {
    score[j] = upper_bound(score[j], y, bound[j]);
    lower = fmaxf(lower, lower_bound(score[j], y, bound[j]));
  }
  unsigned long long open = 0;
  for (int j = 0; j < k; ++j) open |= static_cast<unsigned long long>(score[j] >= lower) << j;
  return open != 0 ? open : ~0ull >> (64 - k);  // none: the bounds are no numbers
}

/// Adds the tile's points to the warp's sums (k x width) and counts (those of cluster j in lane j % 32).
template <class T>
__device__ void add_points(const T* tile, int label, double* sums, int (&count)[2], int k, const Sizes<T>& size) {
  const int lane = threadIdx.x % 32;
  for (int j = 0; j < k; ++j) {
    const unsigned members = __ballot_sync(all_lanes, label == j);
    if (members == 0) continue;
    count[0] += lane == j ? __popc(members) : 0;  // no dynamic index: the two stay in registers
    count[1] += lane + 32 == j ? __popc(members) : 0;
    for (int v = lane; v < size.quads; v += 32) {
      double part[4] = {};
      for (unsigned rest = members; rest != 0; rest &= rest - 1) {
        const auto x4 = *reinterpret_cast<const Quad<T>*>(tile + (__ffs(rest) - 1) * size.pitch + 4 * v);
#pragma unroll
        for (int e = 0; e < 4; ++e) part[e] += double(x4.feature[e]);
      }
#pragma unroll
      for (int e = 0; e < 4; ++e) sums[j * size.width + 4 * v + e] += part[e];
    }
  }
}

template <class T, int columns>
__global__ void fused_kernel(const T* __restrict__ x, const T* __restrict__ c, Fp16Rows centroid,
                             const CentroidBound* __restrict__ centroid_bounds, Frame<T> frame,
                             const float* __restrict__ weight, int32_t* __restrict__ label, double* sum, int* sum_count,
                             RefineCounters* refine_counters, int n, int k, int d) {
  const Sizes<T> size(d, columns);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  const PointUnit<T> unit(frame);
  double* const sums = dynamic_shared<double>();                         // warps x k x width
  T* const tiles = reinterpret_cast<T*>(sums + warps * k * size.width);  // warps x 32 x pitch
  T* const centre = tiles + warps * tile_rows * size.pitch;              // steps x 16, in the unit of the halves
  auto* const bound = reinterpret_cast<CentroidBound*>(centre + size.steps * mma_depth);  // columns
  auto* const halves = reinterpret_cast<uint2*>(bound + columns);                         // columns x half_pitch
  float* const scores = reinterpret_cast<float*>(halves + columns * size.half_pitch);     // warps x 32 x (columns + 1)
  for (int e = threadIdx.x; e < warps * k * size.width; e += blockDim.x) sums[e] = 0;
  for (int e = threadIdx.x; e < warps * tile_rows * size.pitch; e += blockDim.x) tiles[e] = 0;
  for (int f = threadIdx.x; f < size.steps * mma_depth; f += blockDim.x)
    centre[f] = f < d ? frame.centre[f] * unit.scale : T(0);
  for (int j = threadIdx.x; j < columns; j += blockDim.x) bound[j] = centroid_bounds[j];
  for (int e = threadIdx.x; e < columns * 4 * size.steps; e += blockDim.x) {
    const int j = e / (4 * size.steps), w = e % (4 * size.steps);
    halves[j * size.half_pitch + w] = reinterpret_cast<const uint2*>(centroid.part[0] + int64_t(j) * centroid.pitch)[w];
  }
  __syncthreads();
  T* const tile = tiles + warp * tile_rows * size.pitch;
  float* const score = scores + warp * tile_rows * (columns + 1);
  int count[2] = {}, rechecked = 0, against_many = 0;
  const int64_t step = int64_t(gridDim.x) * warps * tile_rows;
  int64_t first = (int64_t(blockIdx.x) * warps + warp) * tile_rows;
  start_copy(tile, x, first, n, d, size.pitch);
  for (; first < n; first += step) {
    __pipeline_wait_prior(0);
    __syncwarp();
    multiply<T, columns>(tile, centre, halves, score, size, unit);
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
    add_points(tile, valid ? nearest : -1, sums + warp * k * size.width, count, k, size);
    __syncwarp();  // the tile is free for the next points
    start_copy(tile, x, first + step, n, d, size.pitch);
  }
  for (int e = 0; e < 2; ++e)
    if (count[e] > 0) atomicAdd(&sum_count[lane + 32 * e], count[e]);
  if (lane == 0 && rechecked > 0) {
    atomicAdd(&refine_counters->pairs, rechecked - against_many);
    atomicAdd(&refine_counters->brute_force, against_many);
  }
  __syncthreads();
  for (int e = threadIdx.x; e < k * d; e += blockDim.x) {
    double total = 0;
    for (int w = 0; w < warps; ++w) total += sums[(w * k + e / d) * size.width + e % d];
    if (total != 0) atomicAdd(&sum[e], total);
  }
}

inline int columns_of(int k) { return k <= 8 ? 8 : k <= 16 ? 16 : k <= 32 ? 32 : most_clusters; }

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
  dispatch<8, 16, 32, 64>(columns_of(s.k), [&]<int columns>() {
    const Sizes<T> size(s.d, columns);
    const int warps = std::min<int>(12, (s.device_info.shared_bytes_optin - size.block_bytes()) / size.warp_bytes(s.k));
    const int grid = std::min(s.device_info.multiprocessors, blocks(s.n, tile_rows * warps));
    launch(fused_kernel<T, columns>, grid, 32 * warps, size.block_bytes() + warps * size.warp_bytes(s.k), s.stream, s.x,
           s.c, certified.c, certified.centroid, certified.frame, s.ws.weight, s.label, s.ws.sums.sum, s.ws.sums.count,
           refine_counters, s.n, s.k, s.d);
  });
  divide(s);
}

std::string refuse(const Shape& p, const Device& device, const Axes&) {
  if (p.k > most_clusters)
    return "it is for few clusters: K is " + std::to_string(p.k) + ", at most " + std::to_string(most_clusters) +
           " are taken; v46_graph_loop takes any number";
  const Sizes<float> narrow(p.d, columns_of(p.k));
  const Sizes<double> wide(p.d, columns_of(p.k));
  const size_t bytes =
      p.element_bytes == 4 ? narrow.block_bytes() + narrow.warp_bytes(p.k) : wide.block_bytes() + wide.warp_bytes(p.k);
  if (bytes > device.shared_bytes_optin)
    return "a warp keeps 32 points and the sums of all clusters in shared memory: " + std::to_string(bytes) +
           " bytes for K = " + std::to_string(p.k) + " and D = " + std::to_string(p.d) + ", a block has " +
           std::to_string(device.shared_bytes_optin);
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
        .id = "v25a_fused_certified", .base = "v25_refine",
        .idea = "few clusters: exact labels and sums in one kernel that reads each point once",
        .expect =
            "blobs30 is 4.0 GB of points: one read at the 4.65 TB/s that bulk loads reach, 0.86 ms on an H200. A "
            "warp needs some 900 instructions for 32 points (200 convert, 28 multiply, 160 bounds, 450 sums), "
            "half of what the loads leave time for: 0.88 to 0.95 ms an iteration. The update of its own, and the "
            "second and third read of the points, are gone. A larger step: assignment, certificate and sums "
            "meet in one kernel",
        .shows = "iteration", .counter = "dram_percent", .source = "this project: docs/certificate.md",
        .arithmetic = {.form = Arithmetic::Form::exact, .operands = "fp16"}, .refuse = refuse, .f32 = phases<float>,
        .f64 = phases<double>)
