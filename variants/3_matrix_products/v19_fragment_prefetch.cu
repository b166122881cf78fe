// v19: the fragments of the next feature are read from shared memory while this one is multiplied. In v18 a feature's
// 128 multiply-adds wait for its 24 numbers, some 30 cycles; with fragments double-buffered in registers the load is
// issued 128 instructions before its use. A step's barrier moves in front of its last feature, whose successor lies in
// the other buffer. The products of a feature are taken in serpentine order: consecutive ones share an operand, which
// the operand cache holds, so that fewer of them wait for a register bank.
#include "../../harness/contract/lesson.hpp"
#include "../common/device/warp_argmin.cuh"
#include "../common/gemm/sgemm_tile.cuh"
#include "../common/update/choose_update.cuh"

namespace {
using namespace ladder;

template <class T, int TM, int block>
__global__ void __launch_bounds__(block, MicroTile<T, TM, block>::resident)
    assign_kernel(const Vec16<T>* __restrict__ x, const Vec16<T>* __restrict__ c, const T* __restrict__ norm,
                  int32_t* __restrict__ label, int n, int k, int steps) {
  using Tile = MicroTile<T, TM, block>;
  constexpr int TN = Tile::centroids, size = Tile::size;
  constexpr int point_pieces = step * Tile::point_pieces, centroid_pieces = step * Tile::centroid_pieces;
  __shared__ Vec16<T> points[2][point_pieces], centroids[2][centroid_pieces];
  __shared__ T lowest[Tile::wide_points];
  __shared__ int32_t winner[Tile::wide_points];
  const Tile tile;
  x += size_t(blockIdx.x) * steps * point_pieces + threadIdx.x;
  c += threadIdx.x;
  const Vec16<T>*next_point = x, *next_centroid = c;
  Vec16<T> point[point_pieces / block], centroid[centroid_pieces / block];  // what this thread copies in a step
  const auto load = [&] {
    for (int q = 0; q < point_pieces / block; ++q) point[q] = next_point[q * block];
    for (int q = 0; q < centroid_pieces / block; ++q) centroid[q] = next_centroid[q * block];
  };
  const auto store = [&](int to) {
    for (int q = 0; q < point_pieces / block; ++q) points[to][threadIdx.x + q * block] = point[q];
    for (int q = 0; q < centroid_pieces / block; ++q) centroids[to][threadIdx.x + q * block] = centroid[q];
  };
  Vec16<T> frag_x[2][TM / size], frag_c[2][TN / size];  // fragments of a feature, and of the next one
  const auto fetch = [&](int from, int u) {
    for (int e = 0; e < TM / size; ++e)
      frag_x[u % 2][e] = points[from][u * Tile::point_pieces + e * Tile::rows + tile.row];
    for (int e = 0; e < TN / size; ++e)
      frag_c[u % 2][e] = centroids[from][u * Tile::centroid_pieces + e * tile_columns + tile.column];
  };

  T nearest[TM];
  int best[TM] = {};
  for (int a = 0; a < TM; ++a) nearest[a] = std::numeric_limits<T>::infinity();
  load();
  store(0);
  __syncthreads();  // the first step is visible
  fetch(0, 0);
  int now = 0;
  for (int first = 0; first < k; first += Tile::wide_centroids) {
    T product[TM][TN] = {};
    for (int done = 1; done <= steps; ++done) {
      // The next step: of these centroids, of the next ones, or, where there are none, one that is not used.
      next_point = done < steps ? next_point + point_pieces : x;
      next_centroid = done < steps || first + Tile::wide_centroids < k ? next_centroid + centroid_pieces : c;
      load();
#pragma unroll
      for (int u = 0; u < step; ++u) {
        if (u == step - 1) {
          now ^= 1;
          store(now);
          __syncthreads();  // this buffer is full, and all have read the other
        }
        fetch(now, (u + 1) % step);
        for (int a = 0; a < TM; ++a) {
          for (int e = 0; e < TN; ++e) {
            // Serpentine order: consecutive products share an operand, which the operand cache holds.
            const int b = a % 2 == 0 ? e : TN - 1 - e;
            product[a][b] += frag_x[u % 2][a / size].feature[a % size] * frag_c[u % 2][b / size].feature[b % size];
          }
        }
      }
    }
    for (int b = 0; b < TN; ++b) {
      const int j = first + tile.centroid(b);  // places grow with b
      const T square = j < k ? norm[j] : std::numeric_limits<T>::infinity();
      for (int a = 0; a < TM; ++a) {
        const T distance = square - 2 * product[a][b];  // without |x|^2: it may be negative
        if (distance < nearest[a]) nearest[a] = distance, best[a] = j;
      }
    }
  }
  // Argmin over the 16 threads of a row, which hold the same points; ties go to the lower centroid. Eight of them are
  // lanes of one warp, eight of its neighbour.
  for (int a = 0; a < TM; ++a) {
    warp_argmin<16, 2>(nearest[a], best[a]);
    if (tile.column == 8) lowest[tile.point(a)] = nearest[a], winner[tile.point(a)] = best[a];
  }
  __syncthreads();  // the neighbour's results are visible
  if (tile.column > 0) return;
  for (int a = 0; a < TM; ++a) {
    const T distance = lowest[tile.point(a)];
    const int j = winner[tile.point(a)];
    if (distance < nearest[a] || (distance == nearest[a] && j < best[a])) best[a] = j;
    const int64_t i = int64_t(blockIdx.x) * Tile::wide_points + tile.point(a);
    if (i < n) label[i] = best[a];
  }
}

template <class T>
struct Workspace {
  OverflowCheck overflow;
  Norms<T> norms;
  Rows<T> rows;
  Sums sums;
  PackedOperands<T> tiles;
};

template <class T>
void assign(Run<T, Workspace<T>>& s) {
  compute_norms(s);
  tile_centroids(s);
  const auto& tiles = s.ws.tiles;
  dispatch<8, 16>(tiles.points, [&]<int points>() {
    dispatch<128, 256>(tiles.block, [&]<int block>() {
      launch(assign_kernel<T, points, block>, blocks(s.n, tiles.wide_points), block, 0, s.stream,
             reinterpret_cast<const Vec16<T>*>(tiles.x), reinterpret_cast<const Vec16<T>*>(tiles.c), norms(s), s.label,
             s.n, s.k, tiles.steps);
    });
  });
}

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare_tiles<T>,
                                         .upload = upload_tiles<T>,
                                         .restart = restart_rows<T>,
                                         .assign = assign<T>,
                                         .update = update_any<T, Layout::features>,
                                         .download = download_rows<T>};
}  // namespace

LADDER_VARIANT(.id = "v19_fragment_prefetch", .base = "v18_register_tile",
               .idea = "fragments of the next feature are read while this one is multiplied",
               .expect =
                   "of v18's 28 to 29 ms for kmcuda's labels on an H200, 24.7 are multiply-adds; the wait for "
                   "fragments goes: 26.5 ms, ahead of v13b_cublas, which takes 27.5. Nothing where the points are too "
                   "few to fill the device",
               .shows = "assign", .counter = "instructions_per_cycle",
               .source = "NVIDIA's CUTLASS, Efficient GEMM; S. Gray, maxas SGEMM, 2014",
               .arithmetic = {.form = Arithmetic::Form::expanded},
               .axes = {{"points", {8, 16}, 16}, {"block", {128, 256}, 128}}, .f32 = phases<float>,
               .f64 = phases<double>)

LADDER_LESSON(.predict = {{"busy", "floor(N / (points * block / 16) / multiprocessors)"},
                          {"wide", "min(points, 8 + 8 * busy) * block / 16"},
                          {"tiles", "ceil(N / wide) * ceil(K / 128)"},
                          {"multiply_adds", "tiles * wide * 128 * ceil(D / 8) * 8"},
                          {"load_requests", "tiles * (ceil(D / 8) * (wide + 128) / 16 + block / 4)"},
                          {"sectors_per_load", "16"},
                          {"dram_bytes", "from_dram(N * D * B, ceil(K / 128))"},
                          {"shared_bytes", "reserved + 2 * 8 * (wide + 128) * B + wide * (B + 4)"},
                          {"occupancy_theoretical_percent", "occupancy(block, registers, shared_bytes)"}},
              .ask =
                  "Occupancy is 12.5 %, and the multiprocessors are busy for most of the time. What covers the "
                  "latency?",
              .answer =
                  "The thread itself: 128 multiply-adds of a feature are independent, and the next feature's "
                  "fragments are read meanwhile. Instructions in flight come from one warp's own stream where "
                  "others need 64 warps.")
