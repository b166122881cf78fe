// An argmax without branches over the bounds of a tile, and its certificate. A bound carries its column in its low
// bits, so that minimum and maximum alone find the two largest of a tile. Four threads share a row: at the end it has
// up to eight candidates, and those that the bounds do not exclude are compared in double (certified/candidates.cuh).
// v30_packed_argmax introduces it.
#pragma once
#include <bit>

#include "../certified/assign_sm90.cuh"
#include "../certified/candidates.cuh"

namespace ladder {

// ---- an index in a bound's low bits

/// Low bits of a bound that hold an index instead: the bound changes by less than 2^-17 of itself.
constexpr int index_bits = 6;
constexpr unsigned index_mask = (1u << index_bits) - 1;

/// The bound with an index in its low bits. `bound_mask`: ~index_mask.
__host__ __device__ inline float pack_index(float bound, unsigned index, unsigned bound_mask) {
  return std::bit_cast<float>((std::bit_cast<unsigned>(bound) & bound_mask) | index);
}
__host__ __device__ inline int unpack_index(float packed) { return int(std::bit_cast<unsigned>(packed) & index_mask); }
/// Not below, and not above, the bound that was packed.
__host__ __device__ inline float upper_of(float packed) { return fmaf(fabsf(packed), 0x1p-16f, packed); }
__host__ __device__ inline float lower_of(float packed) { return fmaf(fabsf(packed), -0x1p-16f, packed); }

/// The two largest bounds of a row over all tiles, with the first columns of their tiles. `third` is not below any
/// other bound, except others of the tile of both: those are not above the second.
struct Top2 {
  float first = -std::numeric_limits<float>::infinity(), second = first, third = first;
  int first_index = 0, second_index = 0;

  /// The two largest of a tile, one >= two. Minimum, maximum and selections: no branch.
  __host__ __device__ void insert(float one, float two, int index) {
    const float lower = fminf(first, one), upper = fmaxf(second, two);  // the new second is one of these
    const int lower_index = one > first ? first_index : index, upper_index = two > second ? index : second_index;
    first_index = one > first ? index : first_index;
    second_index = lower >= upper ? lower_index : upper_index;
    first = fmaxf(first, one);
    third = fmaxf(third, fminf(lower, upper));
    second = fmaxf(lower, upper);
  }
  /// Not below any bound but the two.
  __host__ __device__ float rest() const { return first_index == second_index ? second : third; }
};

/// Rows that are not proven, with all centroids that may be nearest: rows[0 .. RefineCounters::candidate_rows).
struct CandidateRows {
  Candidates candidates;
  int* rows = nullptr;                       // n
  UndecidedPair* undecided_pairs = nullptr;  // n: rows with more, as in UndecidedRows
};

#ifdef __CUDACC__
/// Keeps the Top2 of a thread's two rows over all tiles. Called by whole warps; `threads` consumer threads of a block.
template <int columns, int threads>
struct Top2Epilogue {
  static constexpr size_t bytes = 2 * threads * sizeof(RowSlot);
  static constexpr int thread_columns = columns / 4;  // of a tile: a thread has bounds of two rows with them
  static_assert(thread_columns <= 1 << index_bits);
  /// The element of the first row with the thread's column `column`; that of the second row is 2 further.
  static __device__ constexpr int element(int column) { return column / 2 * 4 + column % 2; }

  RowSlot* slots;       // `bytes` bytes of shared memory
  unsigned bound_mask;  // ~index_mask, but not as a constant: lop3 takes one immediate operand, and the column is one
  Top2 top2[2];

  __device__ RowSlot& slot(int r) const { return slots[r * threads + threadIdx.x]; }

  /// Before the first tile of 64 points.
  __device__ void clear() {
    for (int r = 0; r < 2; ++r) top2[r] = {};
  }

  /// A tile of the centroids first .. first + columns - 1: of element e of the products, the upper bound is upper(e).
  template <class Upper>
  __device__ void operator()(int first, const Upper& upper) {
    constexpr float none = -std::numeric_limits<float>::infinity();
    float one[2] = {none, none}, two[2] = {none, none};
#pragma unroll
    for (int column = 0; column < thread_columns; ++column) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const float bound = pack_index(upper(element(column) + 2 * r), unsigned(column), bound_mask);
        two[r] = fmaxf(two[r], fminf(one[r], bound));
        one[r] = fmaxf(one[r], bound);
      }
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) top2[r].insert(one[r], two[r], first);
  }

  /// After the last tile: stores the labels of proven rows and lists the others. Of the 64 rows from `row` on, those
  /// below length(); number(row): the number of the point. lower_bound(upper, row, j): a lower bound of the score of a
  /// row and a centroid, from an upper bound.
  template <class Length, class Number, class Lower>
  __device__ void finish(int64_t row, const Length& length, const Number& number, const Lower& lower_bound,
                         int32_t* label, const CandidateRows& undecided, RefineCounters* refine_counters, int n) const {
    const int thread = threadIdx.x, lane = thread % 32;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const Top2& kept = top2[r];
      const auto centroid = [&](int first, float bound) {
        return first + accumulator_column(thread, element(unpack_index(bound)));
      };
      Top3& top3 = slot(r).top3 = {};
      top3.insert(kept.first, centroid(kept.first_index, kept.first));
      top3.insert(kept.second, centroid(kept.second_index, kept.second));
      top3.third = fmaxf(top3.third, kept.rest());
    }
    __syncwarp();
    if (lane < 16) {
      const RowSlot* const quad = quad_slot<threads>(slots);
      const Top3 merged = merge_quad(quad);
      const int64_t index = row + thread % warpgroup_threads / 32 * 16 + lane;
      if (index < length()) {
        const float lower = lower_bound(lower_of(merged.first), index, merged.first_index);
        const int i = number(index);
        float rest = Top3::none;
        for (int e = 0; e < 4; ++e) rest = fmaxf(rest, quad[e].top3.third);
        if (upper_of(merged.second) < lower) {
          label[i] = merged.first_index;
        } else if (upper_of(rest) < lower) {
          const Candidates& candidates = undecided.candidates;
          int found = 0;
          const auto add = [&](float bound, int j) {
            if (j != merged.first_index && upper_of(bound) >= lower)
              candidates.list[int64_t(i) * most_candidates + found++] = j;
          };
#pragma unroll 1
          for (int e = 0; e < 4; ++e) {
            const Top3& part = quad[e].top3;
            add(part.first, part.first_index), add(part.second, part.second_index);
          }
          candidates.guess[i] = merged.first_index, candidates.found[i] = found;
          undecided.rows[atomicAdd(&refine_counters->candidate_rows, 1)] = i;
        } else {
          undecided.undecided_pairs[n - 1 - atomicAdd(&refine_counters->brute_force, 1)] = {i, 0, 0};
        }
      }
    }
    __syncwarp();  // all have read the slots: the next rows may overwrite them
  }
};
#endif

// ---- host side

/// Memory for rows with candidates; W::refinement is prepared by the caller.
template <class T, class W>
void prepare_candidate_rows(Run<T, W>& s) {
  s.ws.undecided = {allocate_candidates(s, s.n), s.template device<int>(s.n), s.ws.refinement.undecided_pairs};
}

/// Labels of the rows that the bounds did not prove.
template <class T, class W>
void refine_candidates(Run<T, W>& s, RefineCounters* refine_counters) {
  launch(compare_kernel<T, StoreLabel>, std::min(blocks(s.n, 8), 8 * s.device_info.multiprocessors), 256, 0, s.stream,
         s.ws.rows.points, s.c, s.ws.undecided.candidates, s.ws.undecided.rows, &refine_counters->candidate_rows,
         StoreLabel{s.label}, s.d);
  refine(s, refine_counters);
}

}  // namespace ladder
