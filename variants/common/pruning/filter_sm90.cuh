// The contest of v29_rank_selection by the products of warpgroups: which centroid has the greatest bound of a
// row, and which others may be as near. What is asked of most tiles is one bit: whether any product of a warp is not
// below 0. One instruction of a thread, a LOP3, sees to two products. v30_filter_wgmma introduces it.
#pragma once
#include "../gemm/narrow_mainloop_sm90.cuh"
#include "filter.cuh"

namespace ladder {

/// Those of a float that are a bound's; in the others is one of the columns of a thread.
constexpr unsigned guess_bits = ~15u;

#ifdef __CUDACC__
/// Any function of three bits, by its table: what it is of 0xf0, 0xcc and 0xaa. The compiler has been seen to take two
/// instructions for what is one.
template <unsigned table>
__device__ unsigned lop3(unsigned a, unsigned b, unsigned c) {
  unsigned d;
  asm("lop3.b32 %0, %1, %2, %3, %4;" : "=r"(d) : "r"(a), "r"(b), "r"(c), "n"(table));
  return d;
}

/// As max_bound_kernel. `bound_bits`: guess_bits, an argument, for an instruction takes one constant, and with the
/// column's number this would be a second.
template <int width>
__global__ void __cluster_dims__(cluster_size, 1, 1) __launch_bounds__(NarrowMainloopSm90<width>::block, 1)
    max_bound_sm90_kernel(const uint4* __restrict__ x, const unsigned char* __restrict__ c, unsigned bound_bits,
                          int* guess, RowOrder order, int n, int k) {
  using Tile = NarrowMainloopSm90<width>;
  static_assert(Tile::own_columns == ~guess_bits + 1);
  constexpr float nothing = -std::numeric_limits<float>::infinity();
  const int thread = threadIdx.x % warpgroup_threads, lane = thread % 32;
  float greatest[2];
  int at[2];
  const auto begin = [&](int64_t) {
    for (int r = 0; r < 2; ++r) greatest[r] = nothing, at[r] = 0;
  };
  const auto look = [&](int first, typename Tile::Products& product) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float here[2] = {nothing, nothing};  // of even columns, and of odd ones: neither waits for the other
#pragma unroll
      for (int own = 0; own < Tile::own_columns; ++own) {
        const unsigned bits = __float_as_uint(product[Tile::element(own) + 2 * r]);
        here[own % 2] = fmaxf(here[own % 2], __uint_as_float((bits & bound_bits) | unsigned(own)));
      }
      here[0] = fmaxf(here[0], here[1]);
      if (here[0] > greatest[r]) greatest[r] = here[0], at[r] = first;
    }
  };
  const auto end = [&](int64_t first) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      int j = at[r] + Tile::column(thread, __float_as_uint(greatest[r]) & ~bound_bits);
      for (int lanes = 1; lanes < 4; lanes *= 2) {  // four lanes share a row
        const float bound = __shfl_xor_sync(0xffffffffu, greatest[r], lanes);
        const int other = __shfl_xor_sync(0xffffffffu, j, lanes);
        if (bound > greatest[r] || (bound == greatest[r] && other < j)) greatest[r] = bound, j = other;
      }
      const int64_t i = first + accumulator_row(thread, 2 * r);
      if (lane % 4 == 0 && i < n) count_row(order, guess[i] = min(j, k - 1));
    }
  };
  Tile::multiply(
      x, nullptr, c, n, k, [](int i) { return i; }, begin, look, end);
}

/// As filter_kernel.
template <int width, class Part>
__global__ void __cluster_dims__(cluster_size, 1, 1) __launch_bounds__(NarrowMainloopSm90<width>::block, 1)
    filter_sm90_kernel(const uint4* __restrict__ x, const unsigned char* __restrict__ c,
                       const uint32_t* __restrict__ thresholds, Candidates candidates, const int* __restrict__ order,
                       int* candidate_rows, int* left, FilterCounters* contest, int32_t* __restrict__ label, int n,
                       int k, Part part) {
  using Tile = NarrowMainloopSm90<width>;
  order = part.rows(order), n = part.count(n), k = part.columns(k);
  const int thread = threadIdx.x % warpgroup_threads, lane = thread % 32;
  // Of each row of the block, how many others may be as near: of this warp's rows, and of this thread's two.
  int* const found = reinterpret_cast<int*>(dynamic_shared<unsigned char>() + Tile::Ring::bytes) +
                     threadIdx.x / 32 * (warpgroup_rows / 4);
  int* const own_found = found + lane / 4;
  int row[2], guess[2];
  unsigned closed[2];  // all bits: whatever its products are, nobody looks
  const auto begin = [&](int64_t first) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int64_t i = first + accumulator_row(thread, 2 * r);
      row[r] = order[i < n ? i : n - 1];
      closed[r] = i < n ? 0 : ~0u;
      guess[r] = candidates.guess[row[r]];
    }
    if (lane < warpgroup_rows / 4) found[lane] = 0;
    __syncwarp();
  };
  const auto look = [&](int first, typename Tile::Products& product) {
    const auto bits = [&](int r, int own) { return __float_as_uint(product[Tile::element(own) + 2 * r]); };
    unsigned below[2];  // its sign: that of all products of a row together
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      constexpr int last = Tile::own_columns - 1;
      static_assert(last % 2 == 1);
      below[r] = bits(r, 0);
#pragma unroll
      for (int own = 1; own < last; own += 2)
        below[r] = lop3<0xf0 & 0xcc & 0xaa>(below[r], bits(r, own), bits(r, own + 1));
      below[r] = lop3<(0xf0 & 0xcc) | 0xaa>(below[r], bits(r, last), closed[r]);
    }
    if (!__any_sync(0xffffffffu, int(below[0] & below[1]) >= 0)) return;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      if (int(below[r]) < 0) continue;
      unsigned signs = 0;  // bit by bit, of its own columns
#pragma unroll
      for (int own = Tile::own_columns - 1; own >= 0; --own) signs = __funnelshift_l(bits(r, own), signs, 1);
      for (unsigned which = signs ^ ((1u << Tile::own_columns) - 1); which != 0; which &= which - 1) {
        const int j = first + Tile::column(thread, unsigned(__ffs(int(which)) - 1));
        if (j >= k || part.centroid(j) == guess[r]) continue;
        const int place = atomicAdd(&own_found[8 * r], 1);
        if (place < most_candidates)
          candidates.list[int64_t(row[r]) * most_candidates + place] = part.centroid(j);
        else
          closed[r] = ~0u;  // this row is left: no more of them
      }
    }
    __syncwarp();
  };
  const auto end = [&](int64_t first) {
    __syncwarp();  // all are found
    const int64_t i = first + thread / 32 * 16 + lane;
    const bool mine = lane < warpgroup_rows / 4 && i < n;
    const int own = mine ? order[i] : 0, others = mine ? found[lane] : 0;
    const bool few = others > 0 && others <= most_candidates, many = others > most_candidates;
    if (mine && others == 0) label[own] = candidates.guess[own];
    if (__any_sync(0xffffffffu, few)) {
      const int place = warp_compact(&contest->candidate_rows, few);
      const int all = __reduce_add_sync(0xffffffffu, few ? others : 0);
      if (lane == 0) atomicAdd(&contest->candidates, all);
      if (few) candidate_rows[place] = own, candidates.found[own] = others;
    }
    if (__any_sync(0xffffffffu, many)) {
      const int place = warp_compact(&contest->left, many);
      if (many) left[place] = own;
    }
    __syncwarp();  // nobody reads what was found any more: the next rows' may come
  };
  Tile::multiply(
      x, thresholds, c, n, k, [&](int i) { return order[i]; }, begin, look, end);
}
#endif

// ---- the host's side

/// As FilterSm80, by warpgroups: centroids lie in tiles.
template <int width>
struct FilterSm90 {
  using Tile = NarrowMainloopSm90<width>;
  static int64_t padded_columns(int k) { return Tile::padded_columns(k); }
  static int rows_at_once(int multiprocessors) { return multiprocessors / cluster_size * Tile::cluster_rows; }
  /// Of the two terms one is the same for all e, and the other a constant.
  static __device__ int64_t chunk(int j, int e) { return Tile::place(j, 0) / 8 + Tile::place(0, e * 8) / 8; }
  static __device__ uint4 halves(const uint4* c, int j, int e) { return c[chunk(j, e)]; }
  static WriteCentroidTiles<width> keep(const ProjectionFilter& few, int k, int d) {
    return {tiles(few), few.directions.defect, k, padded_columns(k), d, few.centroid_square};
  }
#ifdef __CUDACC__
  static constexpr size_t contest_bytes = Tile::Ring::bytes + Tile::rows * sizeof(int);
  template <class T>
  static void guess(State<T>& s, const ProjectionFilter& few) {
    launch(max_bound_sm90_kernel<width>, Tile::grid(s.n, s.device_info.multiprocessors), Tile::block, Tile::Ring::bytes,
           s.stream, few.x, tiles(few), guess_bits, few.candidates.guess, few.order, s.n, s.k);
  }
  template <class T, class Part = WholeProblem, class W>
  static void contest(Run<T, W>& s, const ProjectionFilter& few, FilterCounters* contest, const Part& part = {}) {
    launch(filter_sm90_kernel<width, Part>, Tile::grid(s.n, s.device_info.multiprocessors), Tile::block, contest_bytes,
           s.stream, few.x, tiles(few), few.threshold, few.candidates, few.order.row, few.candidate_rows, few.left,
           contest, s.label, s.n, s.k, part);
  }
#else
  /// The CPU device is refused.
  template <class T>
  static void guess(State<T>&, const ProjectionFilter&) {}
  template <class T, class Part = WholeProblem, class W>
  static void contest(Run<T, W>&, const ProjectionFilter&, FilterCounters*, const Part& = {}) {}
#endif

 private:
  static unsigned char* tiles(const ProjectionFilter& few) { return reinterpret_cast<unsigned char*>(few.c); }
};

}  // namespace ladder
