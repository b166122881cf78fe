// v25g: one launch an iteration. Around v25f's kernel the host launches four small ones, which clear the sums, turn
// centroids into halves, and divide: 20 us of an iteration's 1,000, most of them gaps. Here the block that ends last
// does all three: it takes the sums, stores the means and their halves and bounds for the next iteration, and leaves
// zeros.
//
// for cuda: 90a
#include "../common/certified/assign_sm80.cuh"
#include "../common/device/bulk_buffer.cuh"
#include "../common/device/double_double.cuh"
#include "../common/lloyd/phases.cuh"

namespace {
using namespace ladder;

constexpr int most_clusters = 64;
constexpr int columns_of(int clusters) { return (clusters + mma_columns - 1) / mma_columns * mma_columns; }
constexpr int tile_rows = 32;
constexpr int most_features_of_sums = 128;  // four a lane
constexpr int most_tiles = 256;             // that a warp adds up in float
/// Whose registers suffice.
constexpr int most_warps(int clusters, bool in_registers) { return !in_registers ? 8 : clusters <= 12 ? 16 : 12; }
constexpr int half_exponent = 14;  // coordinates below 1 in the frame make halves below 2^14

template <class T>
struct Workspace {
  T* rows = nullptr;  // the points, n x Sizes::pitch
  Sums sums;
  certified::Certified<T> certified;  // of the centroids; the points have no halves in memory
  UndecidedRows refinement;           // the counters
  unsigned* ended = nullptr;          // blocks of a launch
  float* weight = nullptr;            // of each tile of 32 points: the largest PointBound::weight
};

/// The unit of the points' halves: value = coordinate x 2^exponent - centre x 2^exponent, rounded to a half. The same
/// operations at upload, where the error is measured, and in the product.
template <class T>
struct PointUnit {
  int frame;     // the exponent of the frame's scale
  int exponent;  // of the halves beside the frame
  T scale;
  __device__ explicit PointUnit(const Frame<T>& f) : frame(f.exponent()) {
    const int most = sizeof(T) == 4 ? 100 : 900;  // the scale of smaller points would overflow: they keep fewer bits
    exponent = half_exponent + min(frame, most) - frame;
    scale = T(scalbn(1.0, frame + exponent));
  }
  /// `centre` is multiplied by the scale already.
  __device__ float operator()(T x, T centre) const {
    if constexpr (sizeof(T) == 4)
      return __fmaf_rn(x, scale, -centre);
    else
      return float(__fma_rn(x, scale, -centre));
  }
};

/// A warp per point: the largest weight of each tile.
template <class T>
__global__ void weight_kernel(const T* x, Frame<T> frame, float* weight, int n, int d) {
  const int64_t row = (blockIdx.x * int64_t(blockDim.x) + threadIdx.x) / 32;
  if (row >= n) return;  // a whole warp at a time
  const PointUnit<T> unit(frame);
  QuantizationError error{unit.exponent, 0, 0, 0};
  for (int f = threadIdx.x % 32; f < d; f += 32) {
    const double value = scalbn(frame(x, row, f, d), unit.exponent);
    const double half = double(__half2float(__float2half_rn(unit(x[row * d + f], frame.centre[f] * unit.scale))));
    error.whole += value * value, error.kept += half * half, error.lost += (value - half) * (value - half);
  }
  error.whole = warp_sum(error.whole), error.kept = warp_sum(error.kept), error.lost = warp_sum(error.lost);
  // Weights are positive: their bits are in the order of their values.
  if (threadIdx.x % 32 == 0)
    atomicMax(reinterpret_cast<int*>(weight + row / tile_rows), __float_as_int(point_bound(error, d).weight));
}

template <class T>
struct alignas(16) Quad {
  T feature[4];
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
  size_t warp_bytes() const { return sizeof(T) * tile_rows * pitch + sizeof(uint64_t); }
  /// `halves`: those of the centroids are in shared memory, too.
  size_t block_bytes(bool halves) const {
    return columns * (sizeof(CentroidBound) + halves * half_pitch * sizeof(uint2)) + sizeof(T) * steps * mma_depth;
  }
};

/// Starts the copy of the rows first .. first + 31 of x; those behind the last row become zeros.
template <class T>
__device__ void start_copy(BulkBuffer& buffer, T* tile, const T* x, int first, int n, int pitch) {
  if (first >= n) return;
  const int values = min(tile_rows, n - first) * pitch;
  buffer.start(tile, x + int64_t(first) * pitch, values * int(sizeof(T)));
  for (int e = values + threadIdx.x % 32; e < tile_rows * pitch; e += 32) tile[e] = 0;
}

/// Row g of a fragment is row fragment_row(g) of its 16: eight lanes, which read the rows of two neighbouring g, then
/// reach all banks.
__device__ inline int fragment_row(int g) { return g % 2 * 4 + g / 2; }

/// Products of the tile's 32 points and all centroids: product[m][b] is the fragment of the rows 16 m + fragment_row(g)
/// and + 8. A step's 16 features are taken in another order than their own, the same for both operands: those of a lane
/// are neighbours.
template <class T, int columns>
__device__ void multiply(const T* tile, const T* centre, const uint2* halves, int half_pitch,
                         float (&product)[2][columns / mma_columns][4], const Sizes<T>& size,
                         const PointUnit<T>& unit) {
  const int g = threadIdx.x % 32 / 4, q = threadIdx.x % 4;
  const T* const row = tile + fragment_row(g) * size.pitch + 4 * q;
  const uint2* const column = halves + g * half_pitch + q;
  const auto take = [&](int step, bool inside) {
    const auto m4 = *reinterpret_cast<const Quad<T>*>(centre + step * mma_depth + 4 * q);
    FragmentA a[2] = {};
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      if (!inside) continue;  // zeros behind the last feature
      const auto x4 = *reinterpret_cast<const Quad<T>*>(row + r * 8 * size.pitch + step * mma_depth);
#pragma unroll
      for (int p = 0; p < 2; ++p) {
        const __half2 pair = __floats2half2_rn(unit(x4.feature[2 * p], m4.feature[2 * p]),
                                               unit(x4.feature[2 * p + 1], m4.feature[2 * p + 1]));
        a[r / 2].r[2 * p + r % 2] =
            uint32_t(__half_as_ushort(__low2half(pair))) | uint32_t(__half_as_ushort(__high2half(pair))) << 16;
      }
    }
#pragma unroll
    for (int b = 0; b < columns / mma_columns; ++b) {
      const uint2 pair = column[b * mma_columns * half_pitch + 4 * step];
      for (int m = 0; m < 2; ++m) mma(product[m][b], a[m], FragmentB{{pair.x, pair.y}});
    }
  };
  const int whole = size.width / mma_depth;
  for (int step = 0; step < whole; ++step) take(step, true);
  if (whole < size.steps) take(whole, whole * mma_depth + 4 * q < size.width);
}

/// A bit for each centroid.
template <int columns>
using Mask = std::conditional_t<(columns > 32), unsigned long long, unsigned>;
__device__ inline int lowest(unsigned mask) { return __ffs(int(mask)) - 1; }
__device__ inline int lowest(unsigned long long mask) { return __ffsll(static_cast<long long>(mask)) - 1; }

/// The centroids that may be nearest to point `lane` of the tile. Replaces the products by upper bounds.
template <int columns>
__device__ Mask<columns> candidates(float (&product)[2][columns / mma_columns][4], const CentroidBound* bound,
                                    PointBound y, int k) {
  const int lane = threadIdx.x % 32, q = lane % 4;
  float lower[4];  // of the rows 8 r + fragment_row(g)
  Mask<columns> open[4] = {};
#pragma unroll
  for (float& value : lower) value = -std::numeric_limits<float>::infinity();
#pragma unroll
  for (int e = 0; e < columns / 4; ++e) {
    const CentroidBound z = bound[e / 2 * mma_columns + 2 * q + e % 2];
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      float& upper = product[r / 2][e / 2][r % 2 * 2 + e % 2];
      upper = upper_bound(upper, y, z);
      lower[r] = fmaxf(lower[r], lower_bound(upper, y, z));
    }
  }
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    lower[r] = warp_max<4>(lower[r]);
#pragma unroll
    for (int e = 0; e < columns / 4; ++e)
      open[r] |= Mask<columns>(product[r / 2][e / 2][r % 2 * 2 + e % 2] >= lower[r]) << (e / 2 * mma_columns + e % 2);
    open[r] = warp_reduce<4>(open[r] << 2 * q, [](auto a, auto b) { return a | b; });
  }
  // All four lanes of a g have the masks of its four rows: lane q gives that of row 8 q + fragment_row(g).
  const Mask<columns> given = q == 0 ? open[0] : q == 1 ? open[1] : q == 2 ? open[2] : open[3];
  const int g = lane % 4 * 2 + lane % 8 / 4;  // fragment_row(g) == lane % 8
  const Mask<columns> all = ~Mask<columns>(0) >> (8 * sizeof(Mask<columns>) - k);
  const Mask<columns> mask = __shfl_sync(all_lanes, given, 4 * g + lane / 8) & all;
  return mask != 0 ? mask : all;  // none: the bounds are no numbers
}

/// The sums of four features, 4 lane .. 4 lane + 3, of all clusters.
template <int clusters>
struct RegisterSums {
  float of[clusters][4] = {};
  /// Adds the tile's points, and counts them as add_points does.
  __device__ void add(const float* tile, int label, int (&count)[2], const Sizes<float>& size) {
    const int lane = threadIdx.x % 32;
    const float* const features = tile + 4 * min(lane, size.quads - 1);
#pragma unroll
    for (int j = 0; j < clusters; ++j) {
      unsigned rest = __ballot_sync(all_lanes, label == j);
      if (lane == j) count[0] += __popc(rest);
      while (rest != 0) {
        const int row = 31 - __clz(int(rest));
        rest ^= 1u << row;
        const auto x4 = *reinterpret_cast<const Quad<float>*>(features + row * size.pitch);
#pragma unroll
        for (int e = 0; e < 4; ++e) of[j][e] += x4.feature[e];
      }
    }
  }
};

/// Adds the tile's points to `sum` (k x d) in global memory and to `count` (that of cluster j in lane j % 32).
template <class T>
__device__ void add_points(const T* tile, int label, double* sum, int (&count)[2], int k, int d, const Sizes<T>& size) {
  const int lane = threadIdx.x % 32;
  for (int j = 0; j < k; ++j) {
    const unsigned members = __ballot_sync(all_lanes, label == j);
    if (members == 0) continue;
    count[0] += lane == j ? __popc(members) : 0;  // no dynamic index: the two stay in registers
    count[1] += lane + 32 == j ? __popc(members) : 0;
    for (int f = lane; f < d; f += 32) {
      double part = 0;
      for (unsigned rest = members; rest != 0; rest &= rest - 1)
        part += double(tile[(__ffs(rest) - 1) * size.pitch + f]);
      atomicAdd(&sum[j * d + f], part);
    }
  }
}

/// Of two centroids, the one that is nearer to a point; -1 where rounding may have exchanged them. By a warp.
template <class T>
__device__ int nearer_of_two(int first, int second, const T* point, const T* c, int d) {
  const int lane = threadIdx.x % 32;
  const T *const a = c + int64_t(first) * d, *const b = c + int64_t(second) * d;
  double difference = 0;
  float squares = 0;
  const auto add = [&](int f) {
    const T x = point[f], x_a = a[f], x_b = b[f];
    const double from_a = double(x) - double(x_a), from_b = double(x) - double(x_b);
    difference += from_a * from_a - from_b * from_b;
    const float near_a = float(from_a), near_b = float(from_b);
    squares += near_a * near_a + near_b * near_b;
  };
#pragma unroll 2
  for (int f = lane; f < d; f += 32) add(f);
  difference = warp_sum(difference);
  // A lane adds (d + 31) / 32 terms, and the warp five times: each sum and each term is off by less than 2^-52 of all
  // squares, of which 32 times the largest lane's are an upper bound, beside what underflows in float.
  const float most = 64 * warp_max(squares);
  const double error = (d + 16) * 0x1p-51 * double(most) + 0x1p-120 * d;
  return !(fabs(difference) > error) ? -1 : difference < 0 ? first : second;
}

/// Of `several` centroids, a bit each, the one that is nearest to a point. By a warp.
template <class T, class Mask>
__attribute__((noinline)) __device__ int exact_nearest(Mask several, const T* point, const T* c, int d) {
  const int lane = threadIdx.x % 32;
  double nearest = std::numeric_limits<double>::infinity(), second = nearest;
  int best = 0;
  for (Mask rest = several; rest != 0; rest &= rest - 1) {
    const int j = lowest(rest);
    double distance = 0;
#pragma unroll 1  // rare, and registers are few
    for (int f = lane; f < d; f += 32) {
      const double diff = double(point[f]) - double(c[int64_t(j) * d + f]);
      distance += diff * diff;
    }
    distance = warp_sum(distance);
    second = min(second, max(nearest, distance));
    if (distance < nearest) nearest = distance, best = j;
  }
  // Each is off by less than (d + 8) 2^-53 of itself, beside squares that underflow.
  if (second * (1 - (d + 8) * 0x1p-51) > nearest + 0x1p-1000) return best;
  Exact exact_best;
  for (; several != 0; several &= several - 1) {
    const int j = lowest(several);
    const Exact exact{exact_warp_sum(exact_distance(point, c + int64_t(j) * d, d, lane, 32)), j};
    if (nearer(exact, exact_best)) exact_best = exact;
  }
  return exact_best.centroid;
}

/// What the last block of an iteration does.
template <class T>
struct Finish {
  T* c;
  double* sum;
  int* count;
  unsigned* ended;  // blocks; 0 between launches
  bool here;        // more launches follow in this iteration: not yet
  certified::CentroidRows target;
};

/// All threads of each block, after their sums: the block that ends last computes the new centroids, with halves and
/// bounds, and clears the sums. A centroid without points stays.
template <class T>
__attribute__((noinline)) __device__ void finish_iteration(const Finish<T>& to, const Frame<T>& frame, int k, int d) {
  __shared__ bool last;
  __threadfence();  // this block's sums are visible before its end is counted,
  __syncthreads();
  if (threadIdx.x == 0) last = atomicAdd(to.ended, 1u) + 1 == gridDim.x;
  __syncthreads();
  if (!last) return;
  __threadfence();  // and the last block reads all sums after the count
  const int lane = threadIdx.x % 32;
  for (int j = threadIdx.x / 32; j < k; j += blockDim.x / 32) {
    const int count = __ldcg(to.count + j);
    if (count == 0) continue;
    for (int f = lane; f < d; f += 32) {
      const int e = j * d + f;
      to.c[e] = T(__ldcg(to.sum + e) / count), to.sum[e] = 0;
    }
    __syncwarp();  // all features are there, and the count is read
    if (lane == 0) to.count[j] = 0;
    to.target(
        j, k, [&](int f) { return frame(to.c, j, f, d); }, d);
  }
  if (threadIdx.x == 0) *to.ended = 0;
}

template <class T, int clusters, bool in_registers>
__global__ void __launch_bounds__(32 * most_warps(clusters, in_registers), 1)
    fused_kernel(const T* __restrict__ x, Frame<T> frame, const float* __restrict__ weight, int32_t* __restrict__ label,
                 Finish<T> finish, RefineCounters* refine_counters, int n, int k, int d) {
  constexpr int columns = columns_of(clusters);
  const Sizes<T> size(d, columns);
  const T* const c = finish.c;
  double* const sum = finish.sum;
  const Fp16Rows& centroid = finish.target.halves;
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
  for (int j = threadIdx.x; j < columns; j += blockDim.x) bound[j] = finish.target.bound[j];
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
    if (count[e] > 0) atomicAdd(&finish.count[lane + 32 * e], count[e]);
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
  if (finish.here) finish_iteration(finish, frame, k, d);
}

/// The sizes that the kernel is compiled for.
inline int clusters_of(int k) { return k <= 8 ? 8 : k <= 12 ? 12 : k <= 16 ? 16 : k <= 32 ? 32 : most_clusters; }

template <class T>
void prepare(Run<T, Workspace<T>>& s) {
  const int pitch = Sizes<T>(s.d, 8).pitch;
  prepare_sums(s);
  s.ws.rows = pitch == s.d ? s.x : s.template device<T>(size_t(s.n) * pitch);
  auto& certified = s.ws.certified;
  const int64_t columns = certified::Tile::padded_columns(s.k);
  certified.c = allocate_fp16_rows(s, 1, columns, s.d);
  certified.centroid = s.template device<CentroidBound>(columns);
  certified.frame = {s.template device<T>(pitch), s.template device<int>(1)};
  s.ws.refinement.refine_counters = s.template device<RefineCounters>(counted);
  s.ws.refinement.refine_counters_host = s.template pinned<RefineCounters>(counted);
  s.ws.ended = s.template device<unsigned>(1);
  s.ws.weight = s.template device<float>(blocks(s.n, tile_rows));
}

template <class T>
void upload(Run<T, Workspace<T>>& s) {
  const int pitch = Sizes<T>(s.d, 8).pitch;
  if (pitch != s.d)
    check(cudaMemsetAsync(s.ws.rows, 0, size_t(s.n) * pitch * sizeof(T), s.stream), "clearing the rows");
  check(cudaMemcpy2DAsync(s.ws.rows, pitch * sizeof(T), s.points, s.d * sizeof(T), s.d * sizeof(T), s.n,
                          cudaMemcpyHostToDevice, s.stream),
        "uploading the points");
  fit_frame(s, s.ws.rows, s.ws.certified.frame, s.n, pitch);  // the padding is zero in every frame
  check(cudaMemsetAsync(s.ws.weight, 0, blocks(s.n, tile_rows) * sizeof(float), s.stream), "clearing the weights");
  launch(weight_kernel<T>, blocks(int64_t(s.n) * 32, 256), 256, 0, s.stream, s.ws.rows, s.ws.certified.frame,
         s.ws.weight, s.n, pitch);
}

template <class T>
void restart(Run<T, Workspace<T>>& s) {
  restart_rows(s);
  reset_undecided(s);
  quantize_centroids(s);
  clear_sums(s);
  check(cudaMemsetAsync(s.ws.ended, 0, sizeof *s.ws.ended, s.stream), "clearing a count");
}

template <class T>
void iterate(Run<T, Workspace<T>>& s) {
  const auto& certified = s.ws.certified;
  RefineCounters* const refine_counters = next_refine_counters(s);
  const auto pass = [&]<int clusters, bool in_registers>() {
    const Sizes<T> size(s.d, columns_of(clusters));
    const size_t block_bytes = size.block_bytes(in_registers);
    const int warps = std::min<int>(most_warps(clusters, in_registers),
                                    (s.device_info.shared_bytes_optin - block_bytes) / size.warp_bytes());
    const int grid = std::min(s.device_info.multiprocessors, blocks(s.n, tile_rows * warps));
    const int64_t most_rows = int64_t(grid) * warps * tile_rows * most_tiles;
    for (int64_t first = 0; first < s.n; first += most_rows) {
      const Finish<T> finish{
          s.c, s.ws.sums.sum, s.ws.sums.count, s.ws.ended, first + most_rows >= s.n, {certified.c, certified.centroid}};
      launch(fused_kernel<T, clusters, in_registers>, grid, 32 * warps, block_bytes + warps * size.warp_bytes(),
             s.stream, s.ws.rows + first * size.pitch, certified.frame, s.ws.weight + first / tile_rows,
             s.label + first, finish, refine_counters, int(std::min(most_rows, s.n - first)), s.k, s.d);
    }
  };
  dispatch<8, 12, 16, 32, 64>(clusters_of(s.k), [&]<int clusters>() {
    if constexpr (sizeof(T) == 4 && clusters <= 16) {
      if (s.d <= most_features_of_sums) return pass.template operator()<clusters, true>();
    }
    pass.template operator()<clusters, false>();
  });
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
  const std::string why = refuse_bulk_copies(device);
  return why.empty() ? refuse_certified(p, device) : why;
}

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare<T>,
                                         .upload = upload<T>,
                                         .restart = restart<T>,
                                         .iterate = iterate<T>,
                                         .download = download_refined<T>};
}  // namespace

LADDER_VARIANT(
        .id = "v25g_last_block", .base = "v25f_pair_difference",
        .idea = "the block that ends last computes the means and their halves: one launch an iteration",
        .expect =
            "two clearings, the halves and the division are four launches of 2.6 to 5.6 us with gaps between them, 20 "
            "us of v25e's 1,000 on blobs30; the last block takes 4 us for a hundred sums a warp, in double, and the "
            "gap before the next launch stays: 15 us less, 1.5 %",
        .shows = "iteration", .counter = "dram_percent", .source = "this project",
        .arithmetic = {.form = Arithmetic::Form::exact, .sum_roundoff = 0}, .refuse = refuse, .f32 = phases<float>,
        .f64 = phases<double>)
