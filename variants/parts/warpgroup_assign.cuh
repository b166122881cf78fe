// The certified assignment by the products of warpgroups (warpgroup_tiles.cuh): every product's bounds, the rows that
// they prove, and a list of the others. v24_wgmma introduces it.
#pragma once
#include "centre.cuh"
#include "probe_wgmma.cuh"
#include "recheck.cuh"
#include "row_range.cuh"
#include "warpgroup_tiles.cuh"

namespace ladder {

/// Points and centroids as the products take them.
struct WarpgroupRows {
  WarpgroupPlan plan;
  uint4* x = nullptr;             // point_place(); n, padded to whole tiles
  CertainPoint* point = nullptr;  // likewise, where bounds are beside the products
  unsigned char* c = nullptr;     // tile by tile: centroid_place(), and behind it the tile's facts, where it has any
  /// Those of the points from `first` on, a multiple of group_rows.
  WarpgroupRows from(int first) const {
    WarpgroupRows rows = *this;
    rows.x += size_t(first) * plan.steps * mma_depth / 8;
    if (point) rows.point += first;
    return rows;
  }
};

/// One warp per point, and per row of the last tile that has none.
template <class T>
__global__ void halve_group_points_kernel(const T* rows, View<T> view, uint4* halves, CertainPoint* point, int n,
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

/// One warp per centroid, and per row of the last tile that has none. Steps that hold nothing but zeros are multiplied,
/// too: the bounds allow for them. Nothing where a list of no rows asks for them.
template <class T, int columns>
__global__ void halve_group_centroids_kernel(const T* c, View<T> view, unsigned char* tiles, const int* length, int k,
                                             int64_t padded, int steps, int d) {
  const int64_t j = (blockIdx.x * int64_t(blockDim.x) + threadIdx.x) / 32;
  if (j >= padded || (length && *length == 0)) return;  // a whole warp at a time
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

/// Rows of the points: rows[0 .. *length); where `rows` is null, the first *length.
struct RowList {
  const int *rows = nullptr, *length = nullptr;
};

#ifdef __CUDACC__
/// What a thread keeps in shared memory of one of its two rows: hardly a tile after the first few asks for it.
struct alignas(16) Kept {
  CertainPoint point;
  Leaders leaders;
};

/// At the end of a warp's 16 rows, by one of 16 lanes for each row: where the four threads that share the row keep it.
template <class Tile>
__device__ const Kept* kept_of_row(const Kept* kept) {
  const int thread = threadIdx.x, lane = thread % 32;
  return &kept[lane / 8 * Tile::readers + thread / 32 * 32 + lane % 8 * 4];
}
/// What they have heard together.
__device__ inline Leaders heard_by_four(const Kept* kept) {
  Leaders all = kept[0].leaders;
#pragma unroll 1  // few registers are free
  for (int e = 1; e < 4; ++e) all.merge(kept[e].leaders);
  return all;
}

/// Labels of points 0 .. n - 1, or of those that are `listed`: x and point are then theirs, in the list's order. What a
/// tile's products may say is looked for among those that reach what is known already.
template <int columns, int window, bool streamed, bool listed>
__global__ void __cluster_dims__(ring_blocks, 1, 1) __launch_bounds__(WarpgroupTile<columns>::block, 1)
    assign_in_groups_kernel(const uint4* __restrict__ x, const unsigned char* __restrict__ c,
                            const CertainPoint* __restrict__ point, RowList list, int32_t* __restrict__ label,
                            Doubtful* doubtful, Doubts* doubts, int n, int k, int steps) {
  using Tile = WarpgroupTile<columns>;
  constexpr float nothing = -std::numeric_limits<float>::infinity();  // below Leaders::none: it is never seen
  constexpr int own_columns = columns / 4;  // of a tile: a thread has products of two rows with them
  const auto element = [](int column) { return column / 2 * 4 + column % 2; };  // of the first row; + 2: of the second
  const int thread = threadIdx.x, lane = thread % 32;
  Kept* const kept = reinterpret_cast<Kept*>(dynamic_shared<unsigned char>() + Tile::Ring::bytes);  // 2 x readers
  const auto own = [&](int r) -> Kept& { return kept[r * Tile::readers + thread]; };
  const auto length = [&] { return listed ? __ldg(list.length) : n; };  // asked for twice: few registers are free
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
    if (lane < 16) {
      const Leaders all = heard_by_four(kept_of_row<Tile>(kept));
      const int64_t i = row + thread % group_threads / 32 * 16 + lane;
      if (i < length()) decide(listed && list.rows ? list.rows[i] : int(i), all, label, doubtful, doubts, n);
    }
    __syncwarp();  // nobody reads them any more: the next rows' may come
  };
  Tile::template multiply<window, streamed>(x, c, length(), k, steps, begin, look, end);
}
#endif

// ---- the host's side

/// What a bound needs besides a product stands beside it.
struct FactsBeside {
  using Facts = CertainCentroid;
  static constexpr int more_features = 0;  // of a row of the product
  /// Of `count` of the points, `rows` the first, up to `padded`, which are not there.
  template <class T, class Own>
  static void halve_points(Run<T, Own>& s, const T* points, const View<T>& view, const WarpgroupRows& rows, int count,
                           int64_t padded) {
    launch(halve_group_points_kernel<T>, blocks(padded * 32, 256), 256, 0, s.stream, points, view, rows.x, rows.point,
           count, padded, rows.plan.steps, s.d);
  }
  template <int columns, class T, class Own>
  static void halve_centroids(Run<T, Own>& s, const View<T>& view, const WarpgroupRows& rows, const int* length) {
    const int64_t padded = WarpgroupTile<columns>::padded_columns(s.k);
    launch(halve_group_centroids_kernel<T, columns>, blocks(padded * 32, 256), 256, 0, s.stream, s.c, view, rows.c,
           length, s.k, padded, rows.plan.steps, s.d);
  }
  template <class T>
  static const CertainPoint* bounds(const State<T>&, const WarpgroupRows& rows) {
    return rows.point;
  }
};

/// Who looks at products: its kernel, where it keeps the rows that it does not prove, and who decides those.
struct ByGreatest : FactsBeside {
#ifdef __CUDACC__
  template <int columns, int window, bool streamed, bool listed>
  static constexpr auto kernel = assign_in_groups_kernel<columns, window, streamed, listed>;
#endif
  template <class T, class Own>
  static void prepare(Run<T, Own>&) {}
  template <class T, class Own>
  static Doubtful* list(Run<T, Own>& s) {
    return s.own.refinement.doubtful;
  }
  template <class T, class Own>
  static void decide(Run<T, Own>& s, Doubts* doubts) {
    recheck(s, doubts);
  }
};

template <class T>
struct CertifiedInGroups {
  WarpgroupRows rows;
  View<T> view;
};

/// Also what the recheck needs.
template <class T, class By = ByGreatest, class Own>
void prepare_in_groups(Run<T, Own>& s) {
  prepare_recheck(s);
  By::prepare(s);
  auto& own = s.own.warpgroup;
  own.rows.plan = plan_warpgroups(s.k, s.d + By::more_features);
  const int steps = own.rows.plan.steps;
  dispatch<128, 168>(own.rows.plan.columns, [&]<int columns>() {
    using Tile = WarpgroupTile<columns, typename By::Facts>;
    const int64_t points = Tile::padded_rows(s.n);
    own.rows.x = s.template device<uint4>(size_t(points) * steps * mma_depth / 8);
    own.rows.c = s.template device<unsigned char>(Tile::padded_columns(s.k) / columns * Tile::tile_bytes(steps));
    if constexpr (Tile::with_facts) own.rows.point = s.template device<CertainPoint>(points);
  });
  own.view = {s.template device<T>(s.d), s.template device<int>(1)};
}

/// These of the points, Rows::points, are there, and the view is chosen.
template <class By = ByGreatest, class T, class Own>
void halve_rows_in_groups(Run<T, Own>& s, const RowRange& range) {
  static_assert(RowRange::alignment % group_rows == 0);
  const auto& own = s.own.warpgroup;
  const T* rows = s.own.rows.points + size_t(range.first) * s.d;
  By::halve_points(s, rows, own.view, own.rows.from(range.first), range.count,
                   range.padded(WarpgroupTile<128>::padded_rows(s.n), s.n));
}

/// The points, Rows::points, are there.
template <class By = ByGreatest, class T, class Own>
void halve_points_in_groups(Run<T, Own>& s) {
  look(s, s.own.rows.points, s.own.warpgroup.view, s.n, s.d);
  halve_rows_in_groups<By>(s, all_rows(s));
}

#ifdef __CUDACC__
/// Labels of all points, or of those that are `listed`, which `rows` has then; those that `doubts` counts already are
/// decided, too.
template <class By, bool listed, class T, class Own>
void multiply_in_groups(Run<T, Own>& s, const WarpgroupRows& rows, const RowList& list, Doubts* doubts) {
  dispatch<128, 168>(rows.plan.columns, [&]<int columns>() {
    By::template halve_centroids<columns>(s, s.own.warpgroup.view, rows, list.length);
  });
  with_kernel(rows.plan, [&]<int columns, int window, bool streamed>() {
    using Tile = WarpgroupTile<columns, typename By::Facts>;
    const int blocks_at_once = s.device_info.multiprocessors / ring_blocks * ring_blocks;
    const int grid = int(std::min<int64_t>(blocks_at_once, Tile::padded_rows(s.n) / Tile::rows));
    launch(By::template kernel<columns, window, streamed, listed>, grid, Tile::block,
           Tile::Ring::bytes + 2 * Tile::readers * sizeof(Kept), s.stream, rows.x, rows.c, By::bounds(s, rows), list,
           s.label, By::list(s), doubts, s.n, s.k, rows.plan.steps);
  });
  By::decide(s, doubts);
}
#else
/// The CPU device is refused.
template <class By, bool listed, class T, class Own>
void multiply_in_groups(Run<T, Own>&, const WarpgroupRows&, const RowList&, Doubts*) {}
#endif

template <class T, class By = ByGreatest, class Own>
void assign_in_groups(Run<T, Own>& s) {
  Doubts* const doubts = next_doubts(s);
  multiply_in_groups<By, false>(s, s.own.warpgroup.rows, {}, doubts);
}

inline std::string refuse_in_groups(const Shape& p, const Device& device) {
  if (p.d > most_features)
    return "its bounds are proven for up to " + std::to_string(most_features) + " features, these points have " +
           std::to_string(p.d);
  const std::string why = refuse_warpgroups(device);
  return why.empty() ? refuse_group_accumulator() : why;
}

}  // namespace ladder
