// v22: products on the tensor cores, which multiply halves some fifteen times as fast as v20's units multiply floats.
// The ring of cp.async stages stays; what a stage feeds is mma.sync instead of FFMA (gemm/mainloop_sm80.cuh), and v20's
// argmin is its epilogue. A half has 11 bits where a float has 24, so each value goes as two halves,
// x = high + low 2^-11, and
//   x.c = high.high + (high.low + low.high) 2^-11 + a rest below 2^-22 |x| |c|, which is dropped:
// three products for one, with an error like that of float. Tensor cores truncate their sums where float units round
// them; the two small products therefore have an accumulator of their operands. Halves end at 65504 and lose bits below
// 2^-14: each point and each centroid is scaled by its own power of two, which is exact, and undone in the distance.
// (Below 2^-57, where a float's squares are about to underflow, too, rows keep fewer bits: gemm/fp16_rows.cuh.)
#include "../../harness/contract/lesson.hpp"
#include "../common/gemm/mainloop_sm80.cuh"
#include "../common/lloyd/feature_major.cuh"
#include "../common/lloyd/norms.cuh"
#include "../common/lloyd/overflow_check.cuh"
#include "../common/update/choose_update.cuh"

namespace {
using namespace ladder;

using Tile = MainloopSm80<2>;

struct Split {
  Fp16Rows x, c;
  float *x_factor = nullptr, *c_factor = nullptr;  // inverse scales
};

/// One warp per row. Rows from `count` on are zeros.
__global__ void split_kernel(const float* rows, Fp16Rows halves, float* factor, int count, int64_t padded, int d) {
  const int64_t i = (blockIdx.x * int64_t(blockDim.x) + threadIdx.x) / 32;
  if (i >= padded) return;  // a whole warp at a time
  const QuantizationError row =
      quantize_row<2>(halves, i, d, [&](int f) { return i < count ? double(rows[size_t(i) * d + f]) : 0.0; });
  if (threadIdx.x % 32 == 0) factor[i] = scalbnf(1.0f, -row.exponent);
}

void split(State<float>& s, const float* rows, const Fp16Rows& halves, float* factor, int count, int64_t padded) {
  launch(split_kernel, blocks(padded * 32, 256), 256, 0, s.stream, rows, halves, factor, count, padded, s.d);
}

__global__ void __launch_bounds__(Tile::block, 1)
    assign_kernel(Fp16Rows x, Fp16Rows c, const float* __restrict__ x_factor, const float* __restrict__ c_factor,
                  const float* __restrict__ norm, int32_t* __restrict__ label, int n, int k, int d) {
  const Tile tile;
  const int begin = blockIdx.x * Tile::rows;
  float nearest[Tile::lane_rows], factor[Tile::lane_rows];
  int best[Tile::lane_rows] = {};
  for (int r = 0; r < Tile::lane_rows; ++r) {
    nearest[r] = std::numeric_limits<float>::infinity();
    factor[r] = 2 * x_factor[begin + tile.row(r)];
  }
  tile.multiply(x, c, n, k, d, [&](int first, const Tile::Products& product) {
    for (int f = 0; f < Tile::column_fragments; ++f) {
      for (int e = 0; e < 2; ++e) {
        const int j = first + tile.column(f, e);
        if (j >= k) break;
        const float square = norm[j], scale = c_factor[j];
        for (int r = 0; r < Tile::lane_rows; ++r) {
          const float distance = square - factor[r] * scale * product[r / 2][f][r % 2 * 2 + e];  // less |x|^2
          if (distance < nearest[r]) nearest[r] = distance, best[r] = j;
        }
      }
    }
  });
  // Argmin over the lanes that share a row; ties go to the lower centroid.
  float* const distances = dynamic_shared<float>();                                       // sharers x rows
  int* const centroids = reinterpret_cast<int*>(distances + Tile::sharers * Tile::rows);  // sharers x rows
  for (int r = 0; r < Tile::lane_rows; ++r) {
    distances[tile.sharer() * Tile::rows + tile.row(r)] = nearest[r];
    centroids[tile.sharer() * Tile::rows + tile.row(r)] = best[r];
  }
  __syncthreads();
  const int row = threadIdx.x;
  if (row >= Tile::rows || begin + row >= n) return;
  float lowest = distances[row];
  int winner = centroids[row];
  for (int e = Tile::rows + row; e < Tile::sharers * Tile::rows; e += Tile::rows) {
    if (distances[e] < lowest || (distances[e] == lowest && centroids[e] < winner))
      lowest = distances[e], winner = centroids[e];
  }
  label[begin + row] = winner;
}

template <class T>
struct Workspace {
  OverflowCheck overflow;
  Norms<T> norms;
  Rows<T> rows;
  Split split;
  Sums sums;
};

void prepare(Run<float, Workspace<float>>& s) {
  prepare_norms(s);
  prepare_square_range(s);
  auto& operands = s.ws.split;
  const int64_t points = Tile::padded_rows(s.n), centroids = Tile::padded_columns(s.k);
  operands = {allocate_fp16_rows(s, 2, points, s.d), allocate_fp16_rows(s, 2, centroids, s.d), s.device<float>(points),
              s.device<float>(centroids)};
}

void upload(Run<float, Workspace<float>>& s) {
  upload_features(s);
  refuse_square_range(s);
  const auto& operands = s.ws.split;
  split(s, s.ws.rows.points, operands.x, operands.x_factor, s.n, Tile::padded_rows(s.n));
}

void assign(Run<float, Workspace<float>>& s) {
  const auto& operands = s.ws.split;
  compute_norms(s);
  split(s, s.c, operands.c, operands.c_factor, s.k, Tile::padded_columns(s.k));
  launch(assign_kernel, blocks(s.n, Tile::rows), Tile::block, Tile::bytes, s.stream, operands.x, operands.c,
         operands.x_factor, operands.c_factor, norms(s), s.label, s.n, s.k, s.d);
}

std::string refuse(const Shape& p, const Device& device, const Axes&) {
  if (p.element_bytes == 8) return "two halves hold 22 bits of a value, a double has 53";
  return refuse_tensor_tiles<2>(device);
}

constexpr Phases<float, Workspace<float>> phases{.prepare = prepare,
                                                 .upload = upload,
                                                 .restart = restart_rows<float>,
                                                 .assign = assign,
                                                 .update = update_any<float, Layout::features>,
                                                 .download = download_rows<float>};
}  // namespace

// A row keeps 22 bits of its largest value, and of smaller ones the bits above the same last place. A step of 16
// features truncates a sum by at most 20 units of 2^-23 (gemm/mma_sm80.cuh); the roundoff allows for 64. A zero
// or subnormal half, which counts as 2^-14 there, is negligible beside a row's largest half, 2^13 or more.
LADDER_VARIANT(.id = "v22_tensor_split", .base = "v21_three_stages",
               .idea = "products on the tensor cores, a float as two halves",
               .expect =
                   "three products at some 600 TFLOP/s (mma.sync) instead of one at 50: 4 times as fast where K and D "
                   "are large, and an error like float's; no gain where K or D is small, because tiles are 128 x 128 x "
                   "16. A larger step: tensor cores prescribe the layout of their operands, and halves their range",
               .shows = "assign", .counter = "tensor_percent",
               .source = "H. Ootomo and R. Yokota, Recovering single precision accuracy from Tensor Cores, 2022",
               .arithmetic = {.form = Arithmetic::Form::expanded,
                              .distance_roundoff = 0x1p-21,
                              .input_roundoff = 0x1p-21,
                              .operands = "fp16"},
               .refuse = refuse, .f32 = phases)

LADDER_LESSON(
        .predict = {{"tensor_flop", "3 * 2 * N * K * D"},
                    {"shared_bytes", "reserved + 3 * 2 * (128 + 128) * 64"},
                    {"load_requests",
                     "ceil(N / 128) * ceil(K / 128) * ceil(D / 32) * 64 + ceil(N / 128) * ceil(K / 128) * 8 * 32"},
                    {"occupancy_theoretical_percent", "occupancy(256, registers, shared_bytes)"}},
        .ask =
            "Each block reads its points for each of 40 tiles of centroids, and device memory delivers "
            "them little more than once. Why not 40 times, as in v21?",
        .answer =
            "Of 132 blocks at work, one per multiprocessor, 128 rows of 416 features in two halves are 28 "
            "MB: L2 holds all of them until the block is done. v21 had twice as many blocks, 55 MB, which "
            "is more than L2.")
