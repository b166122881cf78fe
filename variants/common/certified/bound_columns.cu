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

/// Where quantize_kernel puts a point. Coordinates that halves cannot hold are cut: the row stays an outlier row.
struct PointColumns {
  uint4* halves;
  int steps;
  template <class Value>
  __device__ void operator()(int64_t row, int, const Value& value, int d) const {
    const auto place = [&](int word) -> __half2& {
      return reinterpret_cast<__half2*>(halves)[a_fragment_offset(row, word, steps)];
    };
    const double most = scalbn(2.0, longest - short_exponent(d));  // twice the longest length
    const auto cut = [&](int f) { return fmin(fmax(value(f), -most), most); };
    bound_column_row(place, steps * mma_depth / 2, d, cut, columns_of_point);
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
    // With room for what columns_of_centroid() adds to the length: it finds far what is far here, and nothing else.
    const bool near = row < count && whole * (1 + 4 * of_doubles) < far_length;
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

/// Labels of the rows in the list: the products are the bounds.
template <int columns, int k_block, bool streamed>
__global__ void __cluster_dims__(cluster_size, 1, 1) __launch_bounds__(MainloopSm90<columns, NoFacts>::block, 1)
    argmax_kernel(const uint4* __restrict__ x, const unsigned char* __restrict__ c, int d, float accumulation,
                  RowList list, int32_t* __restrict__ label, CandidateRows undecided, RefineCounters* refine_counters,
                  int n, int k, int steps) {
  using Mainloop = MainloopSm90<columns, NoFacts>;
  // Loaded twice, which saves a register.
  const auto length = [&] { return list.length ? __ldg(list.length) : n; };
  Top2Epilogue<columns, Mainloop::readers> epilogue{
      reinterpret_cast<RowSlot*>(dynamic_shared<unsigned char>() + Mainloop::Ring::bytes), steps > 0 ? ~index_mask : 0};
  const auto number = [&](int64_t row) { return list.rows ? list.rows[row] : int(row); };
  const auto lower = [&](float upper, int64_t row, int j) {
    return lower_of_pair<columns>(upper, x, c, row, j, steps, d, accumulation);
  };
  Mainloop::template multiply<k_block, streamed>(
      x, c, length(), k, steps, [&](int64_t) { epilogue.clear(); },
      [&](int first, NoFacts, float(&product)[columns / 2]) { epilogue(first, [&](int e) { return product[e]; }); },
      [&](int64_t row) { epilogue.finish(row, length, number, lower, label, undecided, refine_counters, n); });
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
           Mainloop::Ring::bytes + Top2Epilogue<columns, Mainloop::readers>::bytes, stream, p.operands.x, p.operands.c,
           p.d, float(accumulation(steps * mma_depth) * (1 + 0x1p-20)), p.list, p.label, p.undecided, p.refine_counters,
           p.n, p.k, steps);
  });
#else
  static_cast<void>(p), static_cast<void>(stream);  // the CPU device is refused
#endif
}

}  // namespace ladder
