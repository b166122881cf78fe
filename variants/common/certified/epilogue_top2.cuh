// The certified assignment by the products of warpgroups (warpgroup_assign.cuh), with a look at a tile that takes as
// long whatever is in it. Of its products with a tile, a thread keeps the two greatest bounds of each of its rows, by
// minimum and maximum alone: which column has one stands in the bound's own last bits. So there is no branch, and while
// a warpgroup looks, the other one multiplies for longer than that. v24_top2_epilogue introduces it.
#pragma once
#include <bit>

#include "assign_sm90.cuh"
#include "candidates.cuh"

namespace ladder {

// ---- a number in a bound's last bits

/// Bounds that lose so many of their last bits: they are off by less than 2^-17 of themselves.
constexpr int index_bits = 6;
constexpr unsigned index_mask = (1u << index_bits) - 1;

/// The bound, with a number in place of its last bits. `others`: ~index_mask.
__host__ __device__ inline float pack_index(float bound, unsigned number, unsigned others) {
  return std::bit_cast<float>((std::bit_cast<unsigned>(bound) & others) | number);
}
__host__ __device__ inline int unpack_index(float pack_index) {
  return int(std::bit_cast<unsigned>(pack_index) & index_mask);
}
/// Not below, and not above, a bound whose last bits are a number.
__host__ __device__ inline float upper_of(float pack_index) { return fmaf(fabsf(pack_index), 0x1p-16f, pack_index); }
__host__ __device__ inline float lower_of(float pack_index) { return fmaf(fabsf(pack_index), -0x1p-16f, pack_index); }

/// The two greatest of all that were seen, tile by tile, and where; `third` is not below any other, but for others of
/// the tile that both are from: these are not above the second.
struct Top2 {
  float first = -std::numeric_limits<float>::infinity(), second = first, third = first;
  int first_index = 0, second_index = 0;

  /// The two greatest of a tile, one >= two.
  __host__ __device__ void see(float one, float two, int at) {
    const float lower = fminf(first, one), upper = fmaxf(second, two);  // the second of all is one of these
    const int lower_at = one > first ? first_index : at, upper_at = two > second ? at : second_index;
    first_index = one > first ? at : first_index;
    second_index = lower >= upper ? lower_at : upper_at;
    first = fmaxf(first, one);
    third = fmaxf(third, fminf(lower, upper));
    second = fmaxf(lower, upper);
  }
  /// Not below any but the two.
  __host__ __device__ float others() const { return first_index == second_index ? second : third; }
};

/// Rows that are not proven, but of which all that may be nearest are known: rows[0 .. Doubts::few).
struct CandidateRows {
  Candidates candidates;
  int* rows = nullptr;                       // n
  UndecidedPair* undecided_pairs = nullptr;  // n: of the others, as they are in Recheck
};

#ifdef __CUDACC__
/// Where a product becomes a bound in the look at it, by what stands beside it.
struct SeparateBounds {
  using Facts = CentroidBound;
  const PointBound* point;
  /// Not above the score of row `row` and centroid j, whose upper bound is at least `upper`.
  template <class Tile>
  __device__ float lower(float upper, const uint4*, const unsigned char* c, int64_t row, int j, int steps) const {
    const unsigned char* const tile = c + j / Tile::width * Tile::tile_bytes(steps);
    const auto* const centroid = reinterpret_cast<const CentroidBound*>(tile + steps * step_bytes<Tile::width>);
    return lower_bound(upper, point[row], centroid[j % Tile::width]);
  }
};

/// As assign_sm90_kernel, but that a row may have as many candidates as the threads that share it have kept.
/// `Bounds`: SeparateBounds, or FoldedBounds (bound_columns.cuh).
template <class Bounds, int columns, int k_block, bool streamed, bool listed>
__global__ void __cluster_dims__(cluster_size, 1, 1) __launch_bounds__(MainloopSm90<columns>::block, 1)
    assign_top2_kernel(const uint4* __restrict__ x, const unsigned char* __restrict__ c, Bounds bounds, RowList list,
                       int32_t* __restrict__ label, CandidateRows undecided, RefineCounters* refine_counters, int n,
                       int k, int steps) {
  using Tile = MainloopSm90<columns, typename Bounds::Facts>;
  constexpr float nothing = -std::numeric_limits<float>::infinity();
  constexpr int own_columns = columns / 4;  // of a tile: a thread has products of two rows with them
  static_assert(own_columns <= 1 << index_bits);
  const auto element = [](int column) { return column / 2 * 4 + column % 2; };  // of the first row; + 2: of the second
  const int thread = threadIdx.x, lane = thread % 32;
  RowSlot* const kept = reinterpret_cast<RowSlot*>(dynamic_shared<unsigned char>() + Tile::Ring::bytes);  // 2 x readers
  const auto length = [&] { return listed ? __ldg(list.length) : n; };  // asked for twice: few registers are free
  // ~index_mask, which the compiler must not know: an instruction takes one constant, and the column is a second.
  const unsigned bound_bits = steps > 0 ? ~index_mask : 0;
  const auto own = [&](int r) -> RowSlot& { return kept[r * Tile::readers + thread]; };
  Top2 greatest[2];

  const auto begin = [&](int64_t row) {  // of the warpgroup
    for (int r = 0; r < 2; ++r) {
      if constexpr (Tile::with_facts)
        own(r).point = bounds.point[row + accumulator_row(thread % warpgroup_threads, 2 * r)];
      greatest[r] = {};
    }
  };
  const auto look = [&](int first, const auto& facts, float(&product)[columns / 2]) {
    [[maybe_unused]] PointBound y[2];
    if constexpr (Tile::with_facts) y[0] = own(0).point, y[1] = own(1).point;
    float one[2] = {nothing, nothing}, two[2] = {nothing, nothing};
#pragma unroll
    for (int column = 0; column < own_columns; ++column) {
      [[maybe_unused]] CentroidBound z;
      if constexpr (Tile::with_facts) z = facts[accumulator_column(thread, element(column))];
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        float bound = product[element(column) + 2 * r];
        if constexpr (Tile::with_facts) bound = upper_bound(bound, y[r], z);
        bound = pack_index(bound, unsigned(column), bound_bits);
        two[r] = fmaxf(two[r], fminf(one[r], bound));
        one[r] = fmaxf(one[r], bound);
      }
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) greatest[r].see(one[r], two[r], first);
  };
  const auto end = [&](int64_t row) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const Top2& seen = greatest[r];
      const auto at = [&](int first, float bound) {
        return first + accumulator_column(thread, element(unpack_index(bound)));
      };
      Top3& top3 = own(r).top3 = {};
      top3.see(seen.first, at(seen.first_index, seen.first));
      top3.see(seen.second, at(seen.second_index, seen.second));
      top3.third = fmaxf(top3.third, seen.others());
    }
    __syncwarp();
    if (lane < 16) {
      const RowSlot* const heard = quad_slot<Tile>(kept);
      const Top3 all = merge_quad(heard);
      const int64_t at = row + thread % warpgroup_threads / 32 * 16 + lane;
      if (at < length()) {
        const float least = bounds.template lower<Tile>(lower_of(all.first), x, c, at, all.first_index, steps);
        const int i = listed && list.rows ? list.rows[at] : int(at);
        float others = Top3::none;
        for (int e = 0; e < 4; ++e) others = fmaxf(others, heard[e].top3.third);
        if (upper_of(all.second) < least) {
          label[i] = all.first_index;
        } else if (upper_of(others) < least) {
          const Candidates& candidates = undecided.candidates;
          int found = 0;
          const auto add = [&](float bound, int j) {
            if (j != all.first_index && upper_of(bound) >= least)
              candidates.list[int64_t(i) * most_candidates + found++] = j;
          };
#pragma unroll 1
          for (int e = 0; e < 4; ++e) {
            const Top3& own = heard[e].top3;
            add(own.first, own.first_index), add(own.second, own.second_index);
          }
          candidates.guess[i] = all.first_index, candidates.found[i] = found;
          undecided.rows[atomicAdd(&refine_counters->few, 1)] = i;
        } else {
          undecided.undecided_pairs[n - 1 - atomicAdd(&refine_counters->brute_force, 1)] = {i, 0, 0};
        }
      }
    }
    __syncwarp();  // nobody reads them any more: the next rows' may come
  };
  Tile::template multiply<k_block, streamed>(x, c, length(), k, steps, begin, look, end);
}
#endif

// ---- the host's side

/// The rows that two greatest bounds do not prove: where they are kept, and who decides them.
struct CandidateLists {
  template <class T, class W>
  static void prepare(Run<T, W>& s) {
    s.ws.undecided = {allocate_candidates(s, s.n), s.template device<int>(s.n), s.ws.refinement.undecided_pairs};
  }
  template <class T, class W>
  static const CandidateRows& list(Run<T, W>& s) {
    return s.ws.undecided;
  }
  template <class T, class W>
  static void decide(Run<T, W>& s, RefineCounters* refine_counters) {
    const auto& own = s.ws.undecided;
    launch(compare_kernel<T, StoreLabel>, std::min(blocks(s.n, 8), 8 * s.device_info.multiprocessors), 256, 0, s.stream,
           s.ws.rows.points, s.c, own.candidates, own.rows, &refine_counters->few, StoreLabel{s.label}, s.d);
    refine(s, refine_counters);
  }
};

struct EpilogueTop2 : SeparateFacts, CandidateLists {
#ifdef __CUDACC__
  template <int columns, int k_block, bool streamed, bool listed>
  static constexpr auto kernel = assign_top2_kernel<SeparateBounds, columns, k_block, streamed, listed>;
  template <class T>
  static SeparateBounds bounds(const State<T>&, const WarpgroupData& rows) {
    return {rows.point};
  }
#endif
};

}  // namespace ladder
