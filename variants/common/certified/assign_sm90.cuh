// The certified assignment by the products of warpgroups (warpgroup_tiles.cuh): every product's bounds, the rows that
// they prove, and a list of the others. v23_multicast introduces it.
#pragma once
#include "../gemm/mainloop_sm90.cuh"
#include "../lloyd/phases.cuh"
#include "accumulator_probe_sm90.cuh"
#include "frame.cuh"
#include "refine.cuh"

namespace ladder {

/// Points and centroids as the products take them.
struct WarpgroupData {
  MainloopPlan plan;
  uint4* x = nullptr;           // a_fragment_offset(); n, padded to whole tiles
  PointBound* point = nullptr;  // likewise, where bounds are beside the products
  unsigned char* c = nullptr;   // tile by tile: b_smem_offset(), and behind it the tile's facts, where it has any
  /// Those of the points from `first` on, a multiple of warpgroup_rows.
  WarpgroupData from(int first) const {
    WarpgroupData rows = *this;
    rows.x += size_t(first) * plan.steps * mma_depth / 8;
    if (point) rows.point += first;
    return rows;
  }
};

/// One warp per point, and per row of the last tile that has none.
template <class T>
__global__ void quantize_points_sm90_kernel(const T* rows, Frame<T> view, uint4* halves, PointBound* point, int n,
                                            int64_t padded, int steps, int d) {
  const int64_t i = (blockIdx.x * int64_t(blockDim.x) + threadIdx.x) / 32;
  if (i >= padded) return;  // a whole warp at a time
  const auto place = [&](int, int word) -> __half2& {
    return reinterpret_cast<__half2*>(halves)[a_fragment_offset(i, word, steps)];
  };
  const QuantizationError row =
      quantize_words<1>(place, steps * mma_depth / 2, d, [&](int f) { return i < n ? view(rows, i, f, d) : 0.0; });
  if (threadIdx.x % 32 == 0) point[i] = point_bound(row, steps * mma_depth);
}

/// One warp per centroid, and per row of the last tile that has none. Steps that hold nothing but zeros are multiplied,
/// too: the bounds allow for them. Nothing where a list of no rows asks for them.
template <class T, int columns>
__global__ void quantize_centroids_sm90_kernel(const T* c, Frame<T> view, unsigned char* tiles, const int* length,
                                               int k, int64_t padded, int steps, int d) {
  const int64_t j = (blockIdx.x * int64_t(blockDim.x) + threadIdx.x) / 32;
  if (j >= padded || (length && *length == 0)) return;  // a whole warp at a time
  const int column = int(j % columns);
  unsigned char* const tile = tiles + j / columns * MainloopSm90<columns>::tile_bytes(steps);
  const auto place = [&](int, int word) -> __half2& {
    return reinterpret_cast<__half2*>(tile)[b_smem_offset<columns>(column, word)];
  };
  const QuantizationError row =
      quantize_words<1>(place, steps * mma_depth / 2, d, [&](int f) { return j < k ? view(c, j, f, d) : 0.0; });
  if (threadIdx.x % 32 == 0) {
    auto* const centroids = reinterpret_cast<CentroidBound*>(tile + steps * step_bytes<columns>);
    centroids[column] = j < k ? centroid_bound(row, steps * mma_depth) : padding_centroid();
  }
}

/// Rows of the points: rows[0 .. *length); where `rows` is null, the first *length.
struct RowList {
  const int *rows = nullptr, *length = nullptr;
};

#ifdef __CUDACC__
/// What a thread keeps in shared memory of one of its two rows: hardly a tile after the first few asks for it.
struct alignas(16) RowSlot {
  PointBound point;
  Top3 top3;
};

/// At the end of a warp's 16 rows, by one of 16 lanes for each row: where the four threads that share the row keep it.
template <class Tile>
__device__ const RowSlot* quad_slot(const RowSlot* kept) {
  const int thread = threadIdx.x, lane = thread % 32;
  return &kept[lane / 8 * Tile::readers + thread / 32 * 32 + lane % 8 * 4];
}
/// What they have heard together.
__device__ inline Top3 merge_quad(const RowSlot* kept) {
  Top3 all = kept[0].top3;
#pragma unroll 1  // few registers are free
  for (int e = 1; e < 4; ++e) all.merge(kept[e].top3);
  return all;
}

/// Labels of points 0 .. n - 1, or of those that are `listed`: x and point are then theirs, in the list's order. What a
/// tile's products may say is looked for among those that reach what is known already.
template <int columns, int k_block, bool streamed, bool listed>
__global__ void __cluster_dims__(cluster_size, 1, 1) __launch_bounds__(MainloopSm90<columns>::block, 1)
    assign_sm90_kernel(const uint4* __restrict__ x, const unsigned char* __restrict__ c,
                       const PointBound* __restrict__ point, RowList list, int32_t* __restrict__ label,
                       UndecidedPair* undecided_pairs, RefineCounters* refine_counters, int n, int k, int steps) {
  using Tile = MainloopSm90<columns>;
  constexpr float nothing = -std::numeric_limits<float>::infinity();  // below Leaders::none: it is never seen
  constexpr int own_columns = columns / 4;  // of a tile: a thread has products of two rows with them
  const auto element = [](int column) { return column / 2 * 4 + column % 2; };  // of the first row; + 2: of the second
  const int thread = threadIdx.x, lane = thread % 32;
  RowSlot* const kept = reinterpret_cast<RowSlot*>(dynamic_shared<unsigned char>() + Tile::Ring::bytes);  // 2 x readers
  const auto own = [&](int r) -> RowSlot& { return kept[r * Tile::readers + thread]; };
  const auto length = [&] { return listed ? __ldg(list.length) : n; };  // asked for twice: few registers are free
  float least[2];

  const auto begin = [&](int64_t row) {  // of the warpgroup
    for (int r = 0; r < 2; ++r) {
      own(r) = {point[row + accumulator_row(thread % warpgroup_threads, 2 * r)], {}};
      least[r] = Top3::none;
    }
  };
  const auto look = [&](int first, const CentroidBound* centroid, float(&product)[columns / 2]) {
    float greatest[2];
    PointBound y[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {  // four lanes of the warp share a row: what one of them knows, all know
      for (int step = 1; step < 4; step *= 2) least[r] = fmaxf(least[r], __shfl_xor_sync(0xffffffffu, least[r], step));
      y[r] = own(r).point;
      greatest[r] = nothing;
    }
#pragma unroll
    for (int column = 0; column < own_columns; ++column) {
      const CentroidBound z = centroid[accumulator_column(thread, element(column))];
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
        const int at = accumulator_column(thread, element(found_at));
        Top3& top3 = own(r).top3;
        top3.see(greatest[r], first + at);
        top3.least = fmaxf(top3.least, lower_bound(greatest[r], y[r], centroid[at]));
        least[r] = fmaxf(least[r], top3.least);
        greatest[r] = next;
      }
    }
  };
  const auto end = [&](int64_t row) {
    __syncwarp();
    if (lane < 16) {
      const Top3 all = merge_quad(quad_slot<Tile>(kept));
      const int64_t i = row + thread % warpgroup_threads / 32 * 16 + lane;
      if (i < length())
        decide(listed && list.rows ? list.rows[i] : int(i), all, label, undecided_pairs, refine_counters, n);
    }
    __syncwarp();  // nobody reads them any more: the next rows' may come
  };
  Tile::template multiply<k_block, streamed>(x, c, length(), k, steps, begin, look, end);
}
#endif

// ---- the host's side

/// What a bound needs besides a product stands beside it.
struct SeparateFacts {
  using Facts = CentroidBound;
  static constexpr int more_features = 0;  // of a row of the product
  /// Of `count` of the points, `rows` the first, up to `padded`, which are not there.
  template <class T, class W>
  static void quantize_points(Run<T, W>& s, const T* points, const Frame<T>& view, const WarpgroupData& rows, int count,
                              int64_t padded) {
    launch(quantize_points_sm90_kernel<T>, blocks(padded * 32, 256), 256, 0, s.stream, points, view, rows.x, rows.point,
           count, padded, rows.plan.steps, s.d);
  }
  template <int columns, class T, class W>
  static void quantize_centroids(Run<T, W>& s, const Frame<T>& view, const WarpgroupData& rows, const int* length) {
    const int64_t padded = MainloopSm90<columns>::padded_columns(s.k);
    launch(quantize_centroids_sm90_kernel<T, columns>, blocks(padded * 32, 256), 256, 0, s.stream, s.c, view, rows.c,
           length, s.k, padded, rows.plan.steps, s.d);
  }
  template <class T>
  static const PointBound* bounds(const State<T>&, const WarpgroupData& rows) {
    return rows.point;
  }
};

/// Who looks at products: its kernel, where it keeps the rows that it does not prove, and who decides those.
struct EpilogueTop3 : SeparateFacts {
#ifdef __CUDACC__
  template <int columns, int k_block, bool streamed, bool listed>
  static constexpr auto kernel = assign_sm90_kernel<columns, k_block, streamed, listed>;
#endif
  template <class T, class W>
  static void prepare(Run<T, W>&) {}
  template <class T, class W>
  static UndecidedPair* list(Run<T, W>& s) {
    return s.ws.refinement.undecided_pairs;
  }
  template <class T, class W>
  static void decide(Run<T, W>& s, RefineCounters* refine_counters) {
    refine(s, refine_counters);
  }
};

template <class T>
struct WarpgroupOperands {
  WarpgroupData rows;
  Frame<T> view;
};

/// Also what the recheck needs.
template <class T, class By = EpilogueTop3, class W>
void prepare_sm90(Run<T, W>& s) {
  prepare_refinement(s);
  By::prepare(s);
  auto& own = s.ws.warpgroup;
  own.rows.plan = plan_mainloop(s.k, s.d + By::more_features);
  const int steps = own.rows.plan.steps;
  dispatch<128, 168>(own.rows.plan.columns, [&]<int columns>() {
    using Tile = MainloopSm90<columns, typename By::Facts>;
    const int64_t points = Tile::padded_rows(s.n);
    own.rows.x = s.template device<uint4>(size_t(points) * steps * mma_depth / 8);
    own.rows.c = s.template device<unsigned char>(Tile::padded_columns(s.k) / columns * Tile::tile_bytes(steps));
    if constexpr (Tile::with_facts) own.rows.point = s.template device<PointBound>(points);
  });
  own.view = {s.template device<T>(s.d), s.template device<int>(1)};
}

/// These of the points, Rows::points, are there, and the view is chosen.
template <class By = EpilogueTop3, class T, class W>
void quantize_rows_sm90(Run<T, W>& s, const RowRange& range) {
  static_assert(RowRange::alignment % warpgroup_rows == 0);
  const auto& own = s.ws.warpgroup;
  const T* rows = s.ws.rows.points + size_t(range.first) * s.d;
  By::quantize_points(s, rows, own.view, own.rows.from(range.first), range.count,
                      range.padded(MainloopSm90<128>::padded_rows(s.n), s.n));
}

/// The points, Rows::points, are there.
template <class By = EpilogueTop3, class T, class W>
void quantize_points_sm90(Run<T, W>& s) {
  look(s, s.ws.rows.points, s.ws.warpgroup.view, s.n, s.d);
  quantize_rows_sm90<By>(s, all_rows(s));
}

#ifdef __CUDACC__
/// Labels of all points, or of those that are `listed`, which `rows` has then; those that `doubts` counts already are
/// decided, too.
template <class By, bool listed, class T, class W>
void multiply_sm90(Run<T, W>& s, const WarpgroupData& rows, const RowList& list, RefineCounters* refine_counters) {
  dispatch<128, 168>(rows.plan.columns, [&]<int columns>() {
    By::template quantize_centroids<columns>(s, s.ws.warpgroup.view, rows, list.length);
  });
  with_kernel(rows.plan, [&]<int columns, int k_block, bool streamed>() {
    using Tile = MainloopSm90<columns, typename By::Facts>;
    const int blocks_at_once = s.device_info.multiprocessors / cluster_size * cluster_size;
    const int grid = int(std::min<int64_t>(blocks_at_once, Tile::padded_rows(s.n) / Tile::rows));
    launch(By::template kernel<columns, k_block, streamed, listed>, grid, Tile::block,
           Tile::Ring::bytes + 2 * Tile::readers * sizeof(RowSlot), s.stream, rows.x, rows.c, By::bounds(s, rows), list,
           s.label, By::list(s), refine_counters, s.n, s.k, rows.plan.steps);
  });
  By::decide(s, refine_counters);
}
#else
/// The CPU device is refused.
template <class By, bool listed, class T, class W>
void multiply_sm90(Run<T, W>&, const WarpgroupData&, const RowList&, RefineCounters*) {}
#endif

template <class T, class By = EpilogueTop3, class W>
void assign_sm90(Run<T, W>& s) {
  RefineCounters* const refine_counters = next_refine_counters(s);
  multiply_sm90<By, false>(s, s.ws.warpgroup.rows, {}, refine_counters);
}

inline std::string refuse_sm90(const Shape& p, const Device& device) {
  if (p.d > most_features)
    return "its bounds are proven for up to " + std::to_string(most_features) + " features, these points have " +
           std::to_string(p.d);
  const std::string why = refuse_warpgroups(device);
  return why.empty() ? refuse_group_accumulator() : why;
}

}  // namespace ladder
