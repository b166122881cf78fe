// v24: the same products, bounds and rechecks as v23, by the instructions that Hopper's tensor cores reach their speed
// with: products of a whole warpgroup (parts/wgmma.cuh). 64 points are an operand in registers, and stay there while
// all centroids pass by; where a point has too many features for that, they are read again for each tile of centroids,
// a few steps ahead of their products. Centroids come through a ring of bulk copies that one warp keeps full, each of
// them to two blocks at once (parts/bulk_ring.cuh). Two warpgroups take turns: while one multiplies, the other works
// out the bounds of its last tile. All this is compute capability 9.0 and nothing else.
// for cuda: 90a
#include "parts/centre.cuh"
#include "parts/probe_wgmma.cuh"
#include "parts/recheck.cuh"
#include "parts/update_lanes.cuh"
#include "parts/warpgroup_tiles.cuh"

namespace {
using namespace ladder;

template <class T>
struct Certified {
  WarpgroupPlan plan;
  uint4* x = nullptr;          // point_place()
  unsigned char* c = nullptr;  // tile by tile: centroid_place(), and behind it the tile's CertainCentroids
  View<T> view;
  CertainPoint* point = nullptr;  // n, padded to whole tiles
};

/// One warp per point, and per row of the last tile that has none.
template <class T>
__global__ void halve_points_kernel(const T* rows, View<T> view, uint4* halves, CertainPoint* point, int n,
                                    int64_t padded, int steps, int d) {
  const int64_t i = (blockIdx.x * int64_t(blockDim.x) + threadIdx.x) / 32;
  if (i >= padded) return;  // a whole warp at a time
  const auto place = [&](int, int word) -> __half2& {
    return reinterpret_cast<__half2*>(halves)[point_place(i, word, steps)];
  };
  const Rounded row =
      halve_words<1>(place, steps * mma_depth / 2, d, [&](int f) { return i < n ? view(rows, i, f, d) : 0.0; });
  if (threadIdx.x % 32 == 0) point[i] = certain_point(row, steps * mma_depth);
}

/// One warp per centroid, and per row of the last tile that has none. The first thread clears the counts. Steps that
/// hold nothing but zeros are multiplied, too: the bounds allow for them.
template <class T, int columns>
__global__ void halve_centroids_kernel(const T* c, View<T> view, unsigned char* tiles, Doubts* doubts, int k,
                                       int64_t padded, int steps, int d) {
  const int64_t j = (blockIdx.x * int64_t(blockDim.x) + threadIdx.x) / 32;
  if (j >= padded) return;  // a whole warp at a time
  if (j == 0 && threadIdx.x == 0) *doubts = {};
  const int column = int(j % columns);
  unsigned char* const tile = tiles + j / columns * WarpgroupTile<columns>::tile_bytes(steps);
  const auto place = [&](int, int word) -> __half2& {
    return reinterpret_cast<__half2*>(tile)[centroid_place<columns>(column, word)];
  };
  const Rounded row =
      halve_words<1>(place, steps * mma_depth / 2, d, [&](int f) { return j < k ? view(c, j, f, d) : 0.0; });
  if (threadIdx.x % 32 == 0) {
    auto* const centroids = reinterpret_cast<CertainCentroid*>(tile + steps * step_bytes<columns>);
    centroids[column] = j < k ? certain_centroid(row, steps * mma_depth) : no_centroid();
  }
}

#ifdef __CUDACC__
/// What a thread keeps in shared memory of one of its two rows: hardly a tile after the first few asks for it.
struct alignas(16) Kept {
  CertainPoint point;
  Leaders leaders;
};

template <int columns, int window, bool streamed>
__global__ void __cluster_dims__(ring_blocks, 1, 1) __launch_bounds__(WarpgroupTile<columns>::block, 1)
    assign_kernel(const uint4* __restrict__ x, const unsigned char* __restrict__ c,
                  const CertainPoint* __restrict__ point, int32_t* __restrict__ label, Doubtful* doubtful,
                  Doubts* doubts, int n, int k, int steps) {
  using Tile = WarpgroupTile<columns>;
  constexpr float nothing = -std::numeric_limits<float>::infinity();  // below Leaders::none: it is never seen
  constexpr int own_columns = columns / 4;  // of a tile: a thread has products of two rows with them
  const auto element = [](int column) { return column / 2 * 4 + column % 2; };  // of the first row; + 2: of the second
  const int thread = threadIdx.x, lane = thread % 32;
  Kept* const kept = reinterpret_cast<Kept*>(dynamic_shared<unsigned char>() + Tile::Ring::bytes);  // 2 x readers
  const auto own = [&](int r) -> Kept& { return kept[r * Tile::readers + thread]; };
  float least[2];

  const auto begin = [&](int64_t row) {  // of the warpgroup
    for (int r = 0; r < 2; ++r) {
      own(r) = {point[row + held_row(thread % group_threads, 2 * r)], {}};
      least[r] = Leaders::none;
    }
  };
  const auto look = [&](int first, const CertainCentroid* centroid, float(&product)[columns / 2]) {
    float greatest[2];
    CertainPoint y[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {  // four lanes of the warp share a row: what one of them knows, all know
      for (int step = 1; step < 4; step *= 2) least[r] = fmaxf(least[r], __shfl_xor_sync(0xffffffffu, least[r], step));
      y[r] = own(r).point;
      greatest[r] = nothing;
    }
#pragma unroll
    for (int column = 0; column < own_columns; ++column) {
      const CertainCentroid z = centroid[held_column(thread, element(column))];
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        float& bound = product[element(column) + 2 * r];
        bound = upper_bound(bound, y[r], z);
        greatest[r] = fmaxf(greatest[r], bound);
      }
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      while (greatest[r] >= least[r]) {
        int found_at = -1;  // which of its columns has it; of several, the first
        float next = nothing;
#pragma unroll
        for (int column = 0; column < own_columns; ++column) {
          float& bound = product[element(column) + 2 * r];
          const bool found = found_at < 0 && bound == greatest[r];
          if (found) found_at = column, bound = nothing;
          next = fmaxf(next, bound);
        }
        const int at = held_column(thread, element(found_at));
        Leaders& leaders = own(r).leaders;
        leaders.see(greatest[r], first + at);
        leaders.least = fmaxf(leaders.least, lower_bound(greatest[r], y[r], centroid[at]));
        least[r] = fmaxf(least[r], leaders.least);
        greatest[r] = next;
      }
    }
  };
  const auto end = [&](int64_t row) {
    __syncwarp();
    if (lane < 16) {  // a row of the warp for each of these lanes: four lanes have seen its centroids
      const Kept* const heard = &kept[lane / 8 * Tile::readers + thread / 32 * 32 + lane % 8 * 4];
      Leaders all = heard[0].leaders;
#pragma unroll 1  // few registers are free
      for (int e = 1; e < 4; ++e) all.merge(heard[e].leaders);
      const int64_t i = row + thread % group_threads / 32 * 16 + lane;
      if (i < n) decide(int(i), all, label, doubtful, doubts, n);
    }
    __syncwarp();  // nobody reads them any more: the next rows' may come
  };
  Tile::template multiply<window, streamed>(x, c, n, k, steps, begin, look, end);
}

void multiply(Resources& s, const WarpgroupPlan& plan, const uint4* x, const unsigned char* c,
              const CertainPoint* point, int32_t* label, Doubtful* doubtful, Doubts* doubts, const Shape& p) {
  with_kernel(plan, [&]<int columns, int window, bool streamed>() {
    using Tile = WarpgroupTile<columns>;
    const int blocks_at_once = s.device_info.multiprocessors / ring_blocks * ring_blocks;
    const int grid = int(std::min<int64_t>(blocks_at_once, Tile::padded_rows(p.n) / Tile::rows));
    launch(assign_kernel<columns, window, streamed>, grid, Tile::block,
           Tile::Ring::bytes + 2 * Tile::readers * sizeof(Kept), s.stream, x, c, point, label, doubtful, doubts, p.n,
           p.k, plan.steps);
  });
}
#else
/// The CPU device is refused.
void multiply(Resources&, const WarpgroupPlan&, const uint4*, const unsigned char*, const CertainPoint*, int32_t*,
              Doubtful*, Doubts*, const Shape&) {}
#endif

template <class T>
void prepare(State<T>& s) {
  prepare_features(s);
  prepare_recheck(s);
  auto& own = s.template own<Certified<T>>();
  own.plan = plan_warpgroups(s.k, s.d);
  const int steps = own.plan.steps;
  dispatch<128, 168>(own.plan.columns, [&]<int columns>() {
    using Tile = WarpgroupTile<columns>;
    const int64_t points = Tile::padded_rows(s.n);
    own.x = s.template device<uint4>(size_t(points) * steps * mma_depth / 8);
    own.c = s.template device<unsigned char>(Tile::padded_columns(s.k) / columns * Tile::tile_bytes(steps));
    own.point = s.template device<CertainPoint>(points);
  });
  own.view = {s.template device<T>(s.d), s.template device<int>(1)};
}

template <class T>
void upload(State<T>& s) {
  upload_features(s);
  const auto& own = s.template own<Certified<T>>();
  const T* rows = s.template own<Rows<T>>().points;
  look(s, rows, own.view);
  const int64_t padded = WarpgroupTile<128>::padded_rows(s.n);
  launch(halve_points_kernel<T>, blocks(padded * 32, 256), 256, 0, s.stream, rows, own.view, own.x, own.point, s.n,
         padded, own.plan.steps, s.d);
}

template <class T>
void assign(State<T>& s) {
  const auto& own = s.template own<Certified<T>>();
  Doubts* doubts = next_doubts(s);
  dispatch<128, 168>(own.plan.columns, [&]<int columns>() {
    const int64_t padded = WarpgroupTile<columns>::padded_columns(s.k);
    launch(halve_centroids_kernel<T, columns>, blocks(padded * 32, 256), 256, 0, s.stream, s.c, own.view, own.c, doubts,
           s.k, padded, own.plan.steps, s.d);
  });
  multiply(s, own.plan, own.x, own.c, own.point, s.label, s.template own<Recheck>().doubtful, doubts, s.problem);
  recheck(s, doubts);
}

std::string refuse(const Shape& p, const Device& device, const Axes&) {
  if (p.d > most_features)
    return "its bounds are proven for up to " + std::to_string(most_features) + " features, these points have " +
           std::to_string(p.d);
  const std::string why = refuse_warpgroups(device);
  return why.empty() ? refuse_group_accumulator() : why;
}

template <class T>
constexpr Phases<T> phases{.prepare = prepare<T>,
                           .upload = upload<T>,
                           .restart = restart_recheck<T>,
                           .assign = assign<T>,
                           .update = update_any<T, Layout::features>,
                           .download = download_recheck<T>};
}  // namespace

LADDER_VARIANT(.id = "v24_wgmma", .base = "v23_certified",
               .idea = "products of warpgroups: points in registers, centroids in a ring of bulk copies, two in turn",
               .expect =
                   "the same products at some 750 TFLOP/s instead of 300: 2 to 2.5 times as fast where K and D are "
                   "large; at D = 32 the bounds take longer than the products, and it is no faster. A larger step: all "
                   "of the kernel's ways to its operands are others",
               .shows = "assign",
               .source =
                   "NVIDIA's CUTLASS, kernels with ping-pong warpgroups; J. Shah and others, FlashAttention-3, 2024",
               .arithmetic = {.form = Arithmetic::Form::exact}, .devices = {DeviceKind::cuda}, .refuse = refuse,
               .f32 = phases<float>, .f64 = phases<double>)
