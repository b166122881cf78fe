// Labels by one product of halves and bounds, doubtful rows rechecked: those of all points, or of a list of them.
// v19_refine introduces it; v25_incremental_update and v29_rank_selection keep it.
#pragma once
#include "../gemm/mainloop_sm80.cuh"
#include "../lloyd/phases.cuh"
#include "accumulator_probe.cuh"
#include "frame.cuh"
#include "refine.cuh"

namespace ladder {
namespace certified {

using Tile = MainloopSm80<1>;

template <class T>
struct Certified {
  Fp16Rows x, c;
  Frame<T> view;
  PointBound* point = nullptr;        // n, padded to whole tiles
  CentroidBound* centroid = nullptr;  // k, padded to whole tiles
};

/// One warp per point, and per row of the last tile that has none.
template <class T>
__global__ void quantize_points_kernel(const T* rows, Frame<T> view, Fp16Rows halves, PointBound* point, int n,
                                       int64_t padded, int d) {
  const int64_t i = (blockIdx.x * int64_t(blockDim.x) + threadIdx.x) / 32;
  if (i >= padded) return;  // a whole warp at a time
  const QuantizationError row = quantize_row<1>(halves, i, d, [&](int f) { return i < n ? view(rows, i, f, d) : 0.0; });
  if (threadIdx.x % 32 == 0) point[i] = point_bound(row, d);
}

/// One warp per centroid, and per row of the last tile that has none; unless a list of no rows asks for them.
template <class T>
__global__ void quantize_centroids_kernel(const T* c, Frame<T> view, Fp16Rows halves, CentroidBound* centroid,
                                          const int* length, int k, int64_t padded, int d) {
  const int64_t j = (blockIdx.x * int64_t(blockDim.x) + threadIdx.x) / 32;
  if (j >= padded || (length && *length == 0)) return;  // a whole warp at a time
  const QuantizationError row = quantize_row<1>(halves, j, d, [&](int f) { return j < k ? view(c, j, f, d) : 0.0; });
  if (threadIdx.x % 32 == 0) centroid[j] = j < k ? centroid_bound(row, d) : padding_centroid();
}

/// A tile of the rows that are asked for, from the `begin`-th of `count` on; the i-th is row_at(i).
template <class RowAt>
__device__ void assign_tile(int begin, int count, const RowAt& row_at, const Fp16Rows& x, const Fp16Rows& c,
                            const PointBound* __restrict__ point, const CentroidBound* __restrict__ centroid,
                            int32_t* __restrict__ label, UndecidedPair* undecided_pairs,
                            RefineCounters* refine_counters, int n, int k, int d) {
  constexpr float nothing = -std::numeric_limits<float>::infinity();  // below Leaders::none: it is never seen
  const Tile tile;
  Top3 top3[Tile::own_rows];
  tile.multiply(begin, row_at, x, c, count, k, d, [&](int first, Tile::Products& product) {
    // Four lanes of the warp share a row: what one of them knows, all know.
    for (int r = 0; r < Tile::own_rows; ++r) {
      float& least = top3[r].least;
      for (int step = 1; step < 4; step *= 2) least = fmaxf(least, __shfl_xor_sync(0xffffffffu, least, step));
    }
    // Every bound, and the greatest of each row: hardly a tile after the first few has one that counts.
    PointBound own[Tile::own_rows];  // read anew for each tile: products take all registers
    float greatest[Tile::own_rows];
    for (int r = 0; r < Tile::own_rows; ++r) {
      own[r] = point[row_at(begin + tile.row(r))];
      greatest[r] = nothing;
    }
    for (int f = 0; f < Tile::column_fragments; ++f) {
      for (int e = 0; e < 2; ++e) {
        const CentroidBound z = centroid[first + tile.column(f, e)];
        for (int r = 0; r < Tile::own_rows; ++r) {
          float& bound = product[r / 2][f][r % 2 * 2 + e];
          bound = upper_bound(bound, own[r], z);
          greatest[r] = fmaxf(greatest[r], bound);
        }
      }
    }
#pragma unroll  // as all loops over products: who is asked for by number must be a register
    for (int r = 0; r < Tile::own_rows; ++r) {
      while (greatest[r] >= top3[r].least) {
        int at = -1;  // the column that has it; of several, the first
        float next = nothing;
#pragma unroll
        for (int f = 0; f < Tile::column_fragments; ++f) {
          for (int e = 0; e < 2; ++e) {
            float& bound = product[r / 2][f][r % 2 * 2 + e];
            const bool found = at < 0 && bound == greatest[r];
            if (found) at = first + tile.column(f, e), bound = nothing;
            next = fmaxf(next, bound);
          }
        }
        top3[r].see(greatest[r], at);
        top3[r].least = fmaxf(top3[r].least, lower_bound(greatest[r], own[r], centroid[at]));
        greatest[r] = next;
      }
    }
  });
  // The lanes that share a row: one thread hears them all, and decides.
  Top3* const heard = dynamic_shared<Top3>();  // sharers x rows
  for (int r = 0; r < Tile::own_rows; ++r) heard[tile.sharer() * Tile::rows + tile.row(r)] = top3[r];
  __syncthreads();
  const int row = threadIdx.x;
  if (row >= Tile::rows || begin + row >= count) return;
  Top3 all = heard[row];
  for (int e = 1; e < Tile::sharers; ++e) all.merge(heard[e * Tile::rows + row]);
  decide(row_at(begin + row), all, label, undecided_pairs, refine_counters, n);
}

[[maybe_unused]] static __global__ void __launch_bounds__(Tile::block, 1)
    assign_kernel(Fp16Rows x, Fp16Rows c, const PointBound* __restrict__ point,
                  const CentroidBound* __restrict__ centroid, int32_t* __restrict__ label,
                  UndecidedPair* undecided_pairs, RefineCounters* refine_counters, int n, int k, int d) {
  assign_tile(blockIdx.x * Tile::rows, n, Tile::InOrder(), x, c, point, centroid, label, undecided_pairs,
              refine_counters, n, k, d);
}

/// The rows list[0 .. *length).
[[maybe_unused]] static __global__ void __launch_bounds__(Tile::block, 1)
    assign_listed_kernel(const int* __restrict__ list, const int* length, Fp16Rows x, Fp16Rows c,
                         const PointBound* __restrict__ point, const CentroidBound* __restrict__ centroid,
                         int32_t* __restrict__ label, UndecidedPair* undecided_pairs, RefineCounters* refine_counters,
                         int n, int k, int d) {
  const int count = *length;
  const auto row_at = [&](int i) { return list[min(i, count - 1)]; };
  for (int part = blockIdx.x; part < (count + Tile::rows - 1) / Tile::rows; part += gridDim.x) {
    __syncthreads();  // nobody reads what was heard of the rows before any more
    assign_tile(part * Tile::rows, count, row_at, x, c, point, centroid, label, undecided_pairs, refine_counters, n, k,
                d);
  }
}

}  // namespace certified

// ---- the host's side

/// Also what the recheck needs.
template <class T, class W>
void prepare_certified(Run<T, W>& s) {
  using namespace certified;
  prepare_refinement(s);
  auto& own = s.ws.certified;
  const int64_t points = Tile::padded_rows(s.n), centroids = Tile::padded_columns(s.k);
  own.x = allocate_fp16_rows(s, 1, points, s.d);
  own.c = allocate_fp16_rows(s, 1, centroids, s.d);
  own.view = {s.template device<T>(s.d), s.template device<int>(1)};
  own.point = s.template device<PointBound>(points);
  own.centroid = s.template device<CentroidBound>(centroids);
}

/// These of the points, Rows::points, are there, and the view is chosen.
template <class T, class W>
void quantize_rows(Run<T, W>& s, const RowRange& range) {
  using namespace certified;
  const auto& own = s.ws.certified;
  const T* rows = s.ws.rows.points + size_t(range.first) * s.d;
  Fp16Rows halves = own.x;
  halves.part[0] += size_t(range.first) * halves.pitch;
  const int64_t padded = range.padded(Tile::padded_rows(s.n), s.n);
  launch(quantize_points_kernel<T>, blocks(padded * 32, 256), 256, 0, s.stream, rows, own.view, halves,
         own.point + range.first, range.count, padded, s.d);
}

/// The points, Rows::points, are there.
template <class T, class W>
void quantize_points(Run<T, W>& s) {
  look(s, s.ws.rows.points, s.ws.certified.view, s.n, s.d);
  quantize_rows(s, all_rows(s));
}

/// `length`: of a list of rows that they are for; null: all rows.
template <class T, class W>
void quantize_centroids(Run<T, W>& s, const int* length = nullptr) {
  using namespace certified;
  const auto& own = s.ws.certified;
  const int64_t padded = Tile::padded_columns(s.k);
  launch(quantize_centroids_kernel<T>, blocks(padded * 32, 256), 256, 0, s.stream, s.c, own.view, own.c, own.centroid,
         length, s.k, padded, s.d);
}

template <class T, class W>
void assign_certified(Run<T, W>& s) {
  using namespace certified;
  const auto& own = s.ws.certified;
  RefineCounters* const refine_counters = next_refine_counters(s);
  quantize_centroids(s);
  launch(assign_kernel, blocks(s.n, Tile::rows), Tile::block, Tile::bytes, s.stream, own.x, own.c, own.point,
         own.centroid, s.label, s.ws.refinement.undecided_pairs, refine_counters, s.n, s.k, s.d);
  refine(s, refine_counters);
}

/// Labels of the rows list[0 .. *length), and of those that `doubts` knows already.
template <class T, class W>
void assign_listed(Run<T, W>& s, const int* list, const int* length, RefineCounters* refine_counters) {
  using namespace certified;
  const auto& own = s.ws.certified;
  quantize_centroids(s, length);
  // As many blocks as run at a time: often the list is empty, and blocks that only end take their time, too.
  const int grid = std::min(blocks(s.n, Tile::rows), s.device_info.multiprocessors);
  launch(assign_listed_kernel, grid, Tile::block, Tile::bytes, s.stream, list, length, own.x, own.c, own.point,
         own.centroid, s.label, s.ws.refinement.undecided_pairs, refine_counters, s.n, s.k, s.d);
  refine(s, refine_counters);
}

inline std::string refuse_certified(const Shape& p, const Device& device) {
  if (p.d > most_features)
    return "its bounds are proven for up to " + std::to_string(most_features) + " features, these points have " +
           std::to_string(p.d);
  const std::string why = refuse_tensor_tiles<1>(device);
  return why.empty() ? refuse_accumulator(device) : why;
}

}  // namespace ladder
