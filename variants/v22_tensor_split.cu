// v22: the products on the tensor cores, which multiply halves some fifteen times as fast as v12b's units multiply
// floats. A half has 11 bits where a float has 24, so a value goes as two of them, x = high + low 2^-11, and
//   x.c = high.high + (high.low + low.high) 2^-11 + something below 2^-22 |x| |c|, which is left out:
// three products for one, with an error like float's. Tensor cores cut their sums where float units round them; the two
// small products are therefore added up by themselves. Halves end at 65504 and lose bits below 2^-14: each point and
// each centroid is scaled by a power of two of its own, exact, and undone in the distance. (Below 2^-57, where a
// float's squares are about to vanish, too, rows keep fewer bits: parts/halves.cuh.)
#include "parts/features.cuh"
#include "parts/norms.cuh"
#include "parts/square_range.cuh"
#include "parts/tensor_tiles.cuh"
#include "parts/update_lanes.cuh"

namespace {
using namespace ladder;

using Tile = TensorTile<2>;

struct Split {
  HalfRows x, c;
  float *x_factor = nullptr, *c_factor = nullptr;  // what undoes the scales
};

/// One warp per row. A row from `count` on is all zeros.
__global__ void split_kernel(const float* rows, HalfRows halves, float* factor, int count, int64_t padded, int d) {
  const int64_t i = (blockIdx.x * int64_t(blockDim.x) + threadIdx.x) / 32;
  if (i >= padded) return;  // a whole warp at a time
  const Rounded row =
      halve_row<2>(halves, i, d, [&](int f) { return i < count ? double(rows[size_t(i) * d + f]) : 0.0; });
  if (threadIdx.x % 32 == 0) factor[i] = scalbnf(1.0f, -row.exponent);
}

void split(State<float>& s, const float* rows, const HalfRows& halves, float* factor, int count, int64_t padded) {
  launch(split_kernel, blocks(padded * 32, 256), 256, 0, s.stream, rows, halves, factor, count, padded, s.d);
}

__global__ void __launch_bounds__(Tile::block, 1)
    assign_kernel(HalfRows x, HalfRows c, const float* __restrict__ x_factor, const float* __restrict__ c_factor,
                  const float* __restrict__ norm, int32_t* __restrict__ label, int n, int k, int d) {
  const Tile tile;
  const int begin = blockIdx.x * Tile::rows;
  float nearest[Tile::own_rows], factor[Tile::own_rows];
  int best[Tile::own_rows] = {};
  for (int r = 0; r < Tile::own_rows; ++r) {
    nearest[r] = std::numeric_limits<float>::infinity();
    factor[r] = 2 * x_factor[begin + tile.row(r)];
  }
  tile.multiply(x, c, n, k, d, [&](int first, const Tile::Products& product) {
    for (int f = 0; f < Tile::column_fragments; ++f) {
      for (int e = 0; e < 2; ++e) {
        const int j = first + tile.column(f, e);
        if (j >= k) break;
        const float square = norm[j], scale = c_factor[j];
        for (int r = 0; r < Tile::own_rows; ++r) {
          const float distance = square - factor[r] * scale * product[r / 2][f][r % 2 * 2 + e];  // less |x|^2
          if (distance < nearest[r]) nearest[r] = distance, best[r] = j;
        }
      }
    }
  });
  // The lanes that share a row: the least of their distances, at equal ones the lower centroid.
  float* const distances = dynamic_shared<float>();                                       // sharers x rows
  int* const centroids = reinterpret_cast<int*>(distances + Tile::sharers * Tile::rows);  // sharers x rows
  for (int r = 0; r < Tile::own_rows; ++r) {
    distances[tile.sharer() * Tile::rows + tile.row(r)] = nearest[r];
    centroids[tile.sharer() * Tile::rows + tile.row(r)] = best[r];
  }
  __syncthreads();
  const int row = threadIdx.x;
  if (row >= Tile::rows || begin + row >= n) return;
  float least = distances[row];
  int winner = centroids[row];
  for (int e = Tile::rows + row; e < Tile::sharers * Tile::rows; e += Tile::rows) {
    if (distances[e] < least || (distances[e] == least && centroids[e] < winner))
      least = distances[e], winner = centroids[e];
  }
  label[begin + row] = winner;
}

template <class T>
struct Own {
  Beyond overflow;
  Norms<T> norms;
  Rows<T> rows;
  Split split;
  Sums sums;
};

void prepare(Run<float, Own<float>>& s) {
  prepare_norms(s);
  prepare_square_range(s);
  auto& own = s.own.split;
  const int64_t points = Tile::padded_rows(s.n), centroids = Tile::padded_columns(s.k);
  own = {take_half_rows(s, 2, points, s.d), take_half_rows(s, 2, centroids, s.d), s.device<float>(points),
         s.device<float>(centroids)};
}

void upload(Run<float, Own<float>>& s) {
  upload_features(s);
  refuse_square_range(s);
  const auto& own = s.own.split;
  split(s, s.own.rows.points, own.x, own.x_factor, s.n, Tile::padded_rows(s.n));
}

void assign(Run<float, Own<float>>& s) {
  const auto& own = s.own.split;
  compute_norms(s);
  split(s, s.c, own.c, own.c_factor, s.k, Tile::padded_columns(s.k));
  launch(assign_kernel, blocks(s.n, Tile::rows), Tile::block, Tile::bytes, s.stream, own.x, own.c, own.x_factor,
         own.c_factor, norms(s), s.label, s.n, s.k, s.d);
}

std::string refuse(const Shape& p, const Device& device, const Axes&) {
  if (p.element_bytes == 8) return "two halves hold 22 bits of a value, a double has 53";
  return refuse_tensor_tiles<2>(device);
}

constexpr Phases<float, Own<float>> phases{.prepare = prepare,
                                           .upload = upload,
                                           .restart = restart_rows<float>,
                                           .assign = assign,
                                           .update = update_any<float, Layout::features>,
                                           .download = download_rows<float>};
}  // namespace

// Of a row's largest value, 22 bits are kept, and of others what lies above its last one. A step of 16 features cuts a
// sum by at most 20 units of 2^-23 (certificate.cuh), the roundoff allows for 64; that a zero or a subnormal half
// counts as 2^-14 there is nothing beside a row's largest half, 2^13 or more.
LADDER_VARIANT(.id = "v22_tensor_split", .base = "v12b_both_tiles",
               .idea = "products on the tensor cores, a float as two halves",
               .expect =
                   "three products at some 600 TFLOP/s (mma.sync) instead of one at 50: 4 times as fast where K and D "
                   "are large, and an error like float's; nothing where K or D is small, for tiles are 128 x 128 x 16. "
                   "A larger step: tensor cores have their own layout of operands, and halves their own range",
               .shows = "assign", .counter = "tensor_percent",
               .source = "H. Ootomo and R. Yokota, Recovering single precision accuracy from Tensor Cores, 2022",
               .arithmetic = {.form = Arithmetic::Form::expanded,
                              .distance_roundoff = 0x1p-21,
                              .input_roundoff = 0x1p-21},
               .refuse = refuse, .f32 = phases)
