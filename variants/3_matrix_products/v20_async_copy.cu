// v20: in v19 a step passes through registers, 16 of a thread's 250, and its stores wait for its loads. An asynchronous
// copy (cp.async) goes from global to shared memory without a register. The two buffers become the stages of a ring:
// one is multiplied while the other is filled.
#include <cuda_pipeline.h>

#include "../../harness/contract/lesson.hpp"
#include "../common/device/warp_argmin.cuh"
#include "../common/gemm/sgemm_tile.cuh"
#include "../common/update/choose_update.cuh"

namespace {
using namespace ladder;

constexpr int stages = 2;

template <class T, int TM, int block>
__global__ void __launch_bounds__(block, MicroTile<T, TM, block>::resident)
    assign_kernel(const Vec16<T>* __restrict__ x, const Vec16<T>* __restrict__ c, const T* __restrict__ norm,
                  int32_t* __restrict__ label, int n, int k, int steps) {
  using Tile = MicroTile<T, TM, block>;
  constexpr int TN = Tile::centroids, size = Tile::size;
  constexpr int point_pieces = step * Tile::point_pieces, centroid_pieces = step * Tile::centroid_pieces;
  Vec16<T>* const points = dynamic_shared<Vec16<T>>();         // stages x point_pieces
  Vec16<T>* const centroids = points + stages * point_pieces;  // stages x centroid_pieces
  __shared__ T lowest[Tile::wide_points];
  __shared__ int32_t winner[Tile::wide_points];
  const Tile tile;
  x += size_t(blockIdx.x) * steps * point_pieces + threadIdx.x;
  c += threadIdx.x;
  const Vec16<T>*next_point = x, *next_centroid = c;  // what this thread copies in the next step
  const Vec16<T>* const end = c + size_t((k - 1) / Tile::wide_centroids + 1) * steps * centroid_pieces;
  int loading = 0;  // of the tile's steps
  const auto load = [&](int to) {
    for (int q = 0; q < point_pieces / block; ++q)
      __pipeline_memcpy_async(&points[to * point_pieces + threadIdx.x + q * block], next_point + q * block, 16);
    for (int q = 0; q < centroid_pieces / block; ++q)
      __pipeline_memcpy_async(&centroids[to * centroid_pieces + threadIdx.x + q * block], next_centroid + q * block,
                              16);
    __pipeline_commit();
    // The next step: of these centroids, of the next ones, or, where there are none, one that is not used.
    loading = loading + 1 < steps ? loading + 1 : 0;
    next_point = loading > 0 ? next_point + point_pieces : x;
    next_centroid = next_centroid + centroid_pieces != end ? next_centroid + centroid_pieces : c;
  };
  Vec16<T> frag_x[2][TM / size], frag_c[2][TN / size];  // fragments of a feature, and of the next one
  const auto fetch = [&](int from, int u) {
    for (int e = 0; e < TM / size; ++e)
      frag_x[u % 2][e] = points[from * point_pieces + u * Tile::point_pieces + e * Tile::rows + tile.row];
    for (int e = 0; e < TN / size; ++e)
      frag_c[u % 2][e] = centroids[from * centroid_pieces + u * Tile::centroid_pieces + e * tile_columns + tile.column];
  };

  T nearest[TM];
  int best[TM] = {};
  for (int a = 0; a < TM; ++a) nearest[a] = std::numeric_limits<T>::infinity();
  for (int stage = 0; stage < stages - 1; ++stage) load(stage);
  __pipeline_wait_prior(stages - 2);
  __syncthreads();  // the first step is visible
  fetch(0, 0);
  int now = 0;  // the stage that is multiplied
  for (int first = 0; first < k; first += Tile::wide_centroids) {
    T product[TM][TN] = {};
    for (int done = 0; done < steps; ++done) {
      load(now > 0 ? now - 1 : stages - 1);  // into the stage of the step before, which is free
#pragma unroll
      for (int u = 0; u < step; ++u) {
        if (u == step - 1) {
          now = now + 1 < stages ? now + 1 : 0;
          __pipeline_wait_prior(stages - 2);
          __syncthreads();  // this stage is full, and the one before is free
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
  __pipeline_wait_prior(0);  // copies in flight write to the block's memory
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
      const size_t bytes = stages * step * (tiles.wide_points + tiles.wide_centroids) * sizeof(T);
      launch(assign_kernel<T, points, block>, blocks(s.n, tiles.wide_points), block, bytes, s.stream,
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

LADDER_VARIANT(.id = "v20_async_copy", .base = "v19_fragment_prefetch",
               .idea = "steps copied to shared memory by cp.async, without registers between",
               .expect =
                   "the instructions that stored a step go, 1 in 60 of kmcuda's; but a copy has one step's time, some "
                   "1,000 multiply-adds of a thread, which is about what global memory takes: within 2 % of v19 there, "
                   "and a loss where tiles are small",
               .shows = "assign", .counter = "instructions_per_cycle",
               .source = "NVIDIA, CUDA C++ Programming Guide, Asynchronous Data Copies",
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
              .ask = "The copies no longer pass through registers. Why is that worth no more than some per cent?",
              .answer =
                  "A thread copies 16 numbers of a step, four at a time, and does 1,024 multiply-adds with the "
                  "step: loading and storing them was 1 instruction in 60. What cp.async could hide, v19 had "
                  "hidden already.")
