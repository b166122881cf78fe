// The certified assignment by the products of warpgroups (warpgroup_assign.cuh), with a look at a tile that takes as
// long whatever is in it. Of its products with a tile, a thread keeps the two greatest bounds of each of its rows, by
// minimum and maximum alone: which column has one stands in the bound's own last bits. So there is no branch, and while
// a warpgroup looks, the other one multiplies for longer than that. v24b_two_greatest introduces it.
#pragma once
#include <bit>

#include "candidates.cuh"
#include "warpgroup_assign.cuh"

namespace ladder {

// ---- a number in a bound's last bits

/// Bounds that lose so many of their last bits: they are off by less than 2^-17 of themselves.
constexpr int number_bits = 6;
constexpr unsigned number_mask = (1u << number_bits) - 1;

/// The bound, with a number in place of its last bits. `others`: ~number_mask.
__host__ __device__ inline float numbered(float bound, unsigned number, unsigned others) {
  return std::bit_cast<float>((std::bit_cast<unsigned>(bound) & others) | number);
}
__host__ __device__ inline int number_of(float numbered) {
  return int(std::bit_cast<unsigned>(numbered) & number_mask);
}
/// Not below, and not above, a bound whose last bits are a number.
__host__ __device__ inline float not_below(float numbered) { return fmaf(fabsf(numbered), 0x1p-16f, numbered); }
__host__ __device__ inline float not_above(float numbered) { return fmaf(fabsf(numbered), -0x1p-16f, numbered); }

/// The two greatest of all that were seen, tile by tile, and where; `third` is not below any other, but for others of
/// the tile that both are from: these are not above the second.
struct TwoGreatest {
  float first = -std::numeric_limits<float>::infinity(), second = first, third = first;
  int first_at = 0, second_at = 0;

  /// The two greatest of a tile, one >= two.
  __host__ __device__ void see(float one, float two, int at) {
    const float lower = fminf(first, one), upper = fmaxf(second, two);  // the second of all is one of these
    const int lower_at = one > first ? first_at : at, upper_at = two > second ? at : second_at;
    first_at = one > first ? at : first_at;
    second_at = lower >= upper ? lower_at : upper_at;
    first = fmaxf(first, one);
    third = fmaxf(third, fminf(lower, upper));
    second = fmaxf(lower, upper);
  }
  /// Not below any but the two.
  __host__ __device__ float others() const { return first_at == second_at ? second : third; }
};

/// Rows that are not proven, but of which all that may be nearest are known: rows[0 .. Doubts::few).
struct Undecided {
  Candidates candidates;
  int* rows = nullptr;           // n
  Doubtful* doubtful = nullptr;  // n: of the others, as they are in Recheck
};

#ifdef __CUDACC__
/// Where a product becomes a bound in the look at it, by what stands beside it.
struct BoundsBeside {
  using Facts = CertainCentroid;
  const CertainPoint* point;
  /// Not above the score of row `row` and centroid j, whose upper bound is at least `upper`.
  template <class Tile>
  __device__ float lower(float upper, const uint4*, const unsigned char* c, int64_t row, int j, int steps) const {
    const unsigned char* const tile = c + j / Tile::width * Tile::tile_bytes(steps);
    const auto* const centroid = reinterpret_cast<const CertainCentroid*>(tile + steps * step_bytes<Tile::width>);
    return lower_bound(upper, point[row], centroid[j % Tile::width]);
  }
};

/// As assign_in_groups_kernel, but that a row may have as many candidates as the threads that share it have kept.
/// `Bounds`: BoundsBeside, or BoundsWithin (bound_columns.cuh).
template <class Bounds, int columns, int window, bool streamed, bool listed>
__global__ void __cluster_dims__(ring_blocks, 1, 1) __launch_bounds__(WarpgroupTile<columns>::block, 1)
    assign_by_two_kernel(const uint4* __restrict__ x, const unsigned char* __restrict__ c, Bounds bounds, RowList list,
                         int32_t* __restrict__ label, Undecided undecided, Doubts* doubts, int n, int k, int steps) {
  using Tile = WarpgroupTile<columns, typename Bounds::Facts>;
  constexpr float nothing = -std::numeric_limits<float>::infinity();
  constexpr int own_columns = columns / 4;  // of a tile: a thread has products of two rows with them
  static_assert(own_columns <= 1 << number_bits);
  const auto element = [](int column) { return column / 2 * 4 + column % 2; };  // of the first row; + 2: of the second
  const int thread = threadIdx.x, lane = thread % 32;
  Kept* const kept = reinterpret_cast<Kept*>(dynamic_shared<unsigned char>() + Tile::Ring::bytes);  // 2 x readers
  const auto length = [&] { return listed ? __ldg(list.length) : n; };  // asked for twice: few registers are free
  // ~number_mask, which the compiler must not know: an instruction takes one constant, and the column is a second.
  const unsigned bound_bits = steps > 0 ? ~number_mask : 0;
  const auto own = [&](int r) -> Kept& { return kept[r * Tile::readers + thread]; };
  TwoGreatest greatest[2];

  const auto begin = [&](int64_t row) {  // of the warpgroup
    for (int r = 0; r < 2; ++r) {
      if constexpr (Tile::with_facts) own(r).point = bounds.point[row + held_row(thread % group_threads, 2 * r)];
      greatest[r] = {};
    }
  };
  const auto look = [&](int first, const auto& facts, float(&product)[columns / 2]) {
    [[maybe_unused]] CertainPoint y[2];
    if constexpr (Tile::with_facts) y[0] = own(0).point, y[1] = own(1).point;
    float one[2] = {nothing, nothing}, two[2] = {nothing, nothing};
#pragma unroll
    for (int column = 0; column < own_columns; ++column) {
      [[maybe_unused]] CertainCentroid z;
      if constexpr (Tile::with_facts) z = facts[held_column(thread, element(column))];
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        float bound = product[element(column) + 2 * r];
        if constexpr (Tile::with_facts) bound = upper_bound(bound, y[r], z);
        bound = numbered(bound, unsigned(column), bound_bits);
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
      const TwoGreatest& seen = greatest[r];
      const auto at = [&](int first, float bound) { return first + held_column(thread, element(number_of(bound))); };
      Leaders& leaders = own(r).leaders = {};
      leaders.see(seen.first, at(seen.first_at, seen.first));
      leaders.see(seen.second, at(seen.second_at, seen.second));
      leaders.third = fmaxf(leaders.third, seen.others());
    }
    __syncwarp();
    if (lane < 16) {
      const Kept* const heard = kept_of_row<Tile>(kept);
      const Leaders all = heard_by_four(heard);
      const int64_t at = row + thread % group_threads / 32 * 16 + lane;
      if (at < length()) {
        const float least = bounds.template lower<Tile>(not_above(all.first), x, c, at, all.first_at, steps);
        const int i = listed && list.rows ? list.rows[at] : int(at);
        float others = Leaders::none;
        for (int e = 0; e < 4; ++e) others = fmaxf(others, heard[e].leaders.third);
        if (not_below(all.second) < least) {
          label[i] = all.first_at;
        } else if (not_below(others) < least) {
          const Candidates& candidates = undecided.candidates;
          int found = 0;
          const auto add = [&](float bound, int j) {
            if (j != all.first_at && not_below(bound) >= least)
              candidates.list[int64_t(i) * most_candidates + found++] = j;
          };
#pragma unroll 1
          for (int e = 0; e < 4; ++e) {
            const Leaders& own = heard[e].leaders;
            add(own.first, own.first_at), add(own.second, own.second_at);
          }
          candidates.guess[i] = all.first_at, candidates.found[i] = found;
          undecided.rows[atomicAdd(&doubts->few, 1)] = i;
        } else {
          undecided.doubtful[n - 1 - atomicAdd(&doubts->scans, 1)] = {i, 0, 0};
        }
      }
    }
    __syncwarp();  // nobody reads them any more: the next rows' may come
  };
  Tile::template multiply<window, streamed>(x, c, length(), k, steps, begin, look, end);
}
#endif

// ---- the host's side

/// The rows that two greatest bounds do not prove: where they are kept, and who decides them.
struct KeptByTwo {
  template <class T, class Own>
  static void prepare(Run<T, Own>& s) {
    s.own.undecided = {take_candidates(s, s.n), s.template device<int>(s.n), s.own.refinement.doubtful};
  }
  template <class T, class Own>
  static const Undecided& list(Run<T, Own>& s) {
    return s.own.undecided;
  }
  template <class T, class Own>
  static void decide(Run<T, Own>& s, Doubts* doubts) {
    const auto& own = s.own.undecided;
    launch(compare_kernel<T, KeepLabel>, std::min(blocks(s.n, 8), 8 * s.device_info.multiprocessors), 256, 0, s.stream,
           s.own.rows.points, s.c, own.candidates, own.rows, &doubts->few, KeepLabel{s.label}, s.d);
    recheck(s, doubts);
  }
};

struct ByTwoGreatest : FactsBeside, KeptByTwo {
#ifdef __CUDACC__
  template <int columns, int window, bool streamed, bool listed>
  static constexpr auto kernel = assign_by_two_kernel<BoundsBeside, columns, window, streamed, listed>;
  template <class T>
  static BoundsBeside bounds(const State<T>&, const WarpgroupRows& rows) {
    return {rows.point};
  }
#endif
};

}  // namespace ladder
