// The kernels of bound_columns.cuh: rows to halves and bound columns, and the argmax of the products.
//
// for cuda: 90a
#include "bound_columns.cuh"

namespace ladder {
namespace {

/// One row, by a warp: its features as quantize_words() writes them to place(word), then columns(lengths), then zeros.
template <class Place, class Value, class Columns>
__device__ void bound_column_row(const Place& place, int words, int d, const Value& value, const Columns& columns) {
  const auto word_at = [&](int, int word) -> __half2& { return place(word); };
  const QuantizationError row = quantize_words<1>(word_at, words, d, short_exponent(d), value);
  __syncwarp();  // the words of the columns have been written
  if (threadIdx.x % 32 != 0) return;
  const WideColumns last = columns(wide_lengths(row, 2 * words));
  for (int e = 0; e < wide_columns; ++e) reinterpret_cast<__half*>(&place((d + e) / 2))[(d + e) % 2] = last.of[e];
}

/// Where quantize_kernel puts a point.
struct PointColumns {
  uint4* halves;
  int steps;
  template <class Value>
  __device__ void operator()(int64_t row, int, const Value& value, int d) const {
    const auto place = [&](int word) -> __half2& {
      return reinterpret_cast<__half2*>(halves)[a_fragment_offset(row, word, steps)];
    };
    bound_column_row(place, steps * mma_depth / 2, d, value, columns_of_point);
  }
};

/// Where it puts a centroid.
template <int columns>
struct CentroidColumns {
  unsigned char* tiles;
  int steps;
  template <class Value>
  __device__ void operator()(int64_t row, int count, const Value& value, int d) const {
    unsigned char* const tile = tiles + row / columns * MainloopSm90<columns, NoFacts>::tile_bytes(steps);
    const auto place = [&](int word) -> __half2& {
      return reinterpret_cast<__half2*>(tile)[b_smem_offset<columns>(int(row % columns), word)];
    };
    double square = 0;
    for (int f = threadIdx.x % 32; row < count && f < d; f += 32) square += value(f) * value(f);
    const double whole = scalbn(sqrt(warp_sum(square)), short_exponent(d));
    const bool near = row < count && whole < far_length;
    bound_column_row(
        place, steps * mma_depth / 2, d, [&](int f) { return near ? value(f) : 0.0; },
        [&](WideLengths z) {
          if (row >= count) return columns_of_padding();
          if (!near) z.whole = far_length;
          return columns_of_centroid(z, accumulation(steps * mma_depth));
        });
  }
};

#ifdef __CUDACC__
/// A lower bound of the score of a row and a centroid whose upper bound is at least `upper`. row: of the operands x.
template <int columns>
__device__ float lower_of_pair(float upper, const uint4* x, const unsigned char* c, int64_t row, int j, int steps,
                               int d, float accumulation) {
  const auto* const point = reinterpret_cast<const __half*>(x);
  const auto* const centroid =
      reinterpret_cast<const __half*>(c + j / columns * MainloopSm90<columns, NoFacts>::tile_bytes(steps));
  WideColumns y, z;
  for (int e = 0; e < wide_columns; ++e) {
    const int word = (d + e) / 2, half = (d + e) % 2;
    y.of[e] = point[a_fragment_offset(row, word, steps) * 2 + half];
    z.of[e] = centroid[b_smem_offset<columns>(j % columns, word) * 2 + half];
  }
  return lower_of_columns(upper, y, z, accumulation);
}

/// Labels of the rows in the list. The epilogue keeps the two largest bounds of each row without a branch; at the end
/// the four threads that share a row have up to eight candidates for it.
template <int columns, int k_block, bool streamed>
__global__ void __cluster_dims__(cluster_size, 1, 1) __launch_bounds__(MainloopSm90<columns, NoFacts>::block, 1)
    argmax_kernel(const uint4* __restrict__ x, const unsigned char* __restrict__ c, int d, float accumulation,
                  RowList list, int32_t* __restrict__ label, CandidateRows undecided, RefineCounters* refine_counters,
                  int n, int k, int steps) {
  using Mainloop = MainloopSm90<columns, NoFacts>;
  constexpr float none = -std::numeric_limits<float>::infinity();
  constexpr int thread_columns = columns / 4;  // of a tile: a thread has products of two rows with them
  static_assert(thread_columns <= 1 << index_bits);
  const auto element = [](int column) { return column / 2 * 4 + column % 2; };  // of the first row; + 2: of the second
  const int thread = threadIdx.x, lane = thread % 32;
  RowSlot* const slots =
      reinterpret_cast<RowSlot*>(dynamic_shared<unsigned char>() + Mainloop::Ring::bytes);  // 2 x readers
  // Loaded twice, which saves a register.
  const auto length = [&] { return list.length ? __ldg(list.length) : n; };
  // ~index_mask, but not as a constant: lop3 takes one immediate operand, and the column is one already.
  const unsigned bound_mask = steps > 0 ? ~index_mask : 0;
  const auto slot = [&](int r) -> RowSlot& { return slots[r * Mainloop::readers + thread]; };
  Top2 top2[2];

  const auto prologue = [&](int64_t) {
    for (int r = 0; r < 2; ++r) top2[r] = {};
  };
  const auto epilogue = [&](int first, NoFacts, float(&product)[columns / 2]) {
    float one[2] = {none, none}, two[2] = {none, none};
#pragma unroll
    for (int column = 0; column < thread_columns; ++column) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const float bound = pack_index(product[element(column) + 2 * r], unsigned(column), bound_mask);
        two[r] = fmaxf(two[r], fminf(one[r], bound));
        one[r] = fmaxf(one[r], bound);
      }
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) top2[r].insert(one[r], two[r], first);
  };
  const auto finish = [&](int64_t row) {
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
      const RowSlot* const quad = quad_slot<Mainloop::readers>(slots);
      const Top3 merged = merge_quad(quad);
      const int64_t index = row + thread % warpgroup_threads / 32 * 16 + lane;
      if (index < length()) {
        const float lower =
            lower_of_pair<columns>(lower_of(merged.first), x, c, index, merged.first_index, steps, d, accumulation);
        const int i = list.rows ? list.rows[index] : int(index);
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
  };
  Mainloop::template multiply<k_block, streamed>(x, c, length(), k, steps, prologue, epilogue, finish);
}
#endif

}  // namespace

template <class T>
void EpilogueBoundColumns::quantize_points(const T* points, const Frame<T>& frame, const WarpgroupData& rows, int count,
                                           int64_t padded, int d, cudaStream_t stream) {
  quantize(points, frame, PointColumns{rows.x, rows.shape.steps}, nullptr, count, padded, d, stream);
}
template <class T>
void EpilogueBoundColumns::quantize_centroids(const T* c, const Frame<T>& frame, const WarpgroupData& rows,
                                              const int* length, int k, int d, cudaStream_t stream) {
  dispatch<128, 168>(rows.shape.columns, [&]<int columns>() {
    quantize(c, frame, CentroidColumns<columns>{rows.c, rows.shape.steps}, length, k,
             int64_t(blocks(k, columns)) * columns, d, stream);
  });
}

template void EpilogueBoundColumns::quantize_points(const float*, const Frame<float>&, const WarpgroupData&, int,
                                                    int64_t, int, cudaStream_t);
template void EpilogueBoundColumns::quantize_points(const double*, const Frame<double>&, const WarpgroupData&, int,
                                                    int64_t, int, cudaStream_t);
template void EpilogueBoundColumns::quantize_centroids(const float*, const Frame<float>&, const WarpgroupData&,
                                                       const int*, int, int, cudaStream_t);
template void EpilogueBoundColumns::quantize_centroids(const double*, const Frame<double>&, const WarpgroupData&,
                                                       const int*, int, int, cudaStream_t);

void launch_assign_bound_columns(const AssignBoundColumns& p, cudaStream_t stream) {
#ifdef __CUDACC__
  const int steps = p.operands.shape.steps;
  dispatch_plan(plan_mainloop(p.k, p.d + wide_columns), [&]<int columns, int k_block, bool streamed>() {
    using Mainloop = MainloopSm90<columns, NoFacts>;
    launch(argmax_kernel<columns, k_block, streamed>, Mainloop::grid(p.n, p.multiprocessors), Mainloop::block,
           Mainloop::Ring::bytes + 2 * Mainloop::readers * sizeof(RowSlot), stream, p.operands.x, p.operands.c, p.d,
           float(accumulation(steps * mma_depth) * (1 + 0x1p-20)), p.list, p.label, p.undecided, p.refine_counters, p.n,
           p.k, steps);
  });
#else
  static_cast<void>(p), static_cast<void>(stream);  // the CPU device is refused
#endif
}

}  // namespace ladder
