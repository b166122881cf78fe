// v23: v22 multiplies halves three times to keep 22 bits of a value. Here one product keeps 11: labels are
// approximate. The rounding error of a product is relative to |x| |c|, so points and centroids first move into a frame
// around the points' mean (lloyd/frame.cuh), where both are as short as a shift can make them. Distances do not change.
// Nothing but the tensor core itself now adds error beside the rounding to halves, and how exactly it adds is not
// documented. The rung states an assumption (gemm/mma_sm80.cuh) and tests it on the device before it runs
// (gemm/accumulator_probe.cuh). Doubles are taken, too: they are rounded once, in the frame.
#include "../../harness/contract/lesson.hpp"
#include "../common/gemm/accumulator_probe.cuh"
#include "../common/gemm/mainloop_sm80.cuh"
#include "../common/lloyd/feature_major.cuh"
#include "../common/lloyd/frame.cuh"
#include "../common/update/choose_update.cuh"

namespace {
using namespace ladder;

using Tile = MainloopSm80<1>;

struct Halves {
  Fp16Rows x, c;
  float *x_factor = nullptr, *c_factor = nullptr;  // inverse scales
  float* norm = nullptr;                           // k: |c|^2 in the frame
};

/// Where quantize_kernel puts a row.
struct Target {
  Fp16Rows halves;
  float* factor;
  float* norm;  // centroids: the squared length in the frame; points: null
  template <class Value>
  __device__ void operator()(int64_t row, int count, const Value& value, int d) const {
    const QuantizationError error = quantize_row<1>(halves, row, d, value);
    if (threadIdx.x % 32 != 0) return;
    const double unit = scalbn(1.0, -error.exponent), square = error.whole * unit * unit;
    const bool far = !(square < 0x1p100);  // a centroid beyond all points: its distance counts as infinite
    factor[row] = far ? 0 : float(unit);
    if (norm && row < count) norm[row] = far ? std::numeric_limits<float>::infinity() : float(square);
  }
};

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
  Frame<T> frame;
  Rows<T> rows;
  Halves halves;
  Sums sums;
};

template <class T>
void prepare(Run<T, Workspace<T>>& s) {
  prepare_features(s);
  s.ws.frame = {s.template device<T>(s.d), s.template device<int>(1)};
  const int64_t points = Tile::padded_rows(s.n), centroids = Tile::padded_columns(s.k);
  s.ws.halves = {allocate_fp16_rows(s, 1, points, s.d), allocate_fp16_rows(s, 1, centroids, s.d),
                 s.template device<float>(points), s.template device<float>(centroids), s.template device<float>(s.k)};
}

template <class T>
void upload(Run<T, Workspace<T>>& s) {
  upload_features(s);
  const auto& halves = s.ws.halves;
  fit_frame(s, s.ws.rows.points, s.ws.frame, s.n, s.d);
  quantize(s.ws.rows.points, s.ws.frame, Target{halves.x, halves.x_factor, nullptr}, nullptr, s.n,
           Tile::padded_rows(s.n), s.d, s.stream);
}

template <class T>
void assign(Run<T, Workspace<T>>& s) {
  const auto& halves = s.ws.halves;
  quantize(s.c, s.ws.frame, Target{halves.c, halves.c_factor, halves.norm}, nullptr, s.k, Tile::padded_columns(s.k),
           s.d, s.stream);
  launch(assign_kernel, blocks(s.n, Tile::rows), Tile::block, Tile::bytes, s.stream, halves.x, halves.c,
         halves.x_factor, halves.c_factor, halves.norm, s.label, s.n, s.k, s.d);
}

std::string refuse(const Shape&, const Device& device, const Axes&) {
  const std::string why = refuse_tensor_tiles<1>(device);
  return why.empty() ? refuse_accumulator(device) : why;
}

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare<T>,
                                         .upload = upload<T>,
                                         .restart = restart_rows<T>,
                                         .assign = assign<T>,
                                         .update = update_any<T, Layout::features>,
                                         .download = download_rows<T>};
}  // namespace

// A half rounds a value by up to 2^-11 of it. A step of 16 features truncates a sum by at most 20 units of 2^-23, which
// the probe tests; the roundoff allows for 64. Validation's bound takes the mean of all points for the centre, which
// here is the mean of up to 1,024 of them.
LADDER_VARIANT(.id = "v23_half_product", .base = "v22_tensor_split",
               .idea = "one product of halves around the points' mean; labels are approximate",
               .expect =
                   "a third of v22's products: N K D = 6.12e11 multiply-adds at kmcuda take 2.0 ms at 600 TFLOP/s, "
                   "three of them 6.1. The other half of v22's 12.1 ms feeds the tensor cores; tiles are twice as "
                   "wide here and half as many bytes, so 12.1 becomes 4 to 5 ms. Labels "
                   "differ where two distances are closer than the rounding, some 2^-11 |x| |c| / sqrt(D): v24 will "
                   "have to recheck 1 row in 100 there, and fewer than that are wrong. A larger step: the probe of "
                   "the tensor core's sums",
               .shows = "assign", .counter = "tensor_percent", .source = "this project: docs/certificate.md",
               .arithmetic = {.form = Arithmetic::Form::expanded,
                              .distance_roundoff = 0x1p-21,
                              .input_roundoff = 0x1p-11,
                              .operands = "fp16",
                              .centred = true},
               .refuse = refuse, .f32 = phases<float>, .f64 = phases<double>)

LADDER_LESSON(.predict = {{"tensor_flop", "2 * N * K * D"},
                          {"shared_bytes", "reserved + 4 * (128 + 256) * 64"},
                          {"load_requests", "ceil(N / 128) * ceil(K / 256) * (ceil(D / 32) * 48 + 8 * 64)"},
                          {"occupancy_theoretical_percent", "occupancy(256, 255, shared_bytes)"}},
              .ask = "A third of the products. Why can the time not fall to a third?",
              .answer =
                  "The tensor cores were busy for about half of v22's time. The rest feeds them, and of bytes "
                  "there are half as many, not a third: one half per value instead of two, in tiles that are "
                  "twice as wide.")
