// v21: copies that need no thread. In v20 what a step brings passes through registers, 16 of some 250 of a thread,
// and its stores wait for its loads. An asynchronous copy (cp.async) goes from global to shared memory by itself, so
// that several steps can be on their way: three stages form a ring, one of which is multiplied.
#include <cuda_pipeline.h>

#include "parts/tiles.cuh"
#include "parts/update_lanes.cuh"

namespace {
using namespace ladder;

constexpr int stages = 3;  // a step takes longer than its copies: with two of them on their way nobody waits

template <class T, int each, int block>
__global__ void __launch_bounds__(block, MicroTile<T, each, block>::resident)
    assign_kernel(const Piece<T>* __restrict__ x, const Piece<T>* __restrict__ c, const T* __restrict__ norm,
                  int32_t* __restrict__ label, int n, int k, int steps) {
  using Tile = MicroTile<T, each, block>;
  constexpr int others = Tile::centroids, size = Tile::size;
  constexpr int point_pieces = step * Tile::point_pieces, centroid_pieces = step * Tile::centroid_pieces;
  Piece<T>* const points = dynamic_shared<Piece<T>>();         // stages x point_pieces
  Piece<T>* const centroids = points + stages * point_pieces;  // stages x centroid_pieces
  __shared__ T least[Tile::wide_points];
  __shared__ int32_t winner[Tile::wide_points];
  const Tile mine;
  x += size_t(blockIdx.x) * steps * point_pieces + threadIdx.x;
  c += threadIdx.x;
  const Piece<T>*next_point = x, *next_centroid = c;  // what this thread copies in the next step
  const Piece<T>* const end = c + size_t((k - 1) / Tile::wide_centroids + 1) * steps * centroid_pieces;
  int loading = 0;  // of the tile's steps
  const auto load = [&](int to) {
    for (int q = 0; q < point_pieces / block; ++q)
      __pipeline_memcpy_async(&points[to * point_pieces + threadIdx.x + q * block], next_point + q * block, 16);
    for (int q = 0; q < centroid_pieces / block; ++q)
      __pipeline_memcpy_async(&centroids[to * centroid_pieces + threadIdx.x + q * block], next_centroid + q * block,
                              16);
    __pipeline_commit();
    // The next step: of these centroids, of the next ones, or, where there are none, one that nobody looks at.
    loading = loading + 1 < steps ? loading + 1 : 0;
    next_point = loading > 0 ? next_point + point_pieces : x;
    next_centroid = next_centroid + centroid_pieces != end ? next_centroid + centroid_pieces : c;
  };
  Piece<T> own[2][each / size], other[2][others / size];  // of a feature, and of the next one
  const auto fetch = [&](int from, int u) {
    for (int e = 0; e < each / size; ++e)
      own[u % 2][e] = points[from * point_pieces + u * Tile::point_pieces + e * Tile::rows + mine.row];
    for (int e = 0; e < others / size; ++e)
      other[u % 2][e] = centroids[from * centroid_pieces + u * Tile::centroid_pieces + e * tile_columns + mine.column];
  };

  T nearest[each];
  int best[each] = {};
  for (int a = 0; a < each; ++a) nearest[a] = std::numeric_limits<T>::infinity();
  for (int stage = 0; stage < stages - 1; ++stage) load(stage);
  __pipeline_wait_prior(stages - 2);
  __syncthreads();  // the first step's features are there
  fetch(0, 0);
  int now = 0;  // the stage that is multiplied
  for (int first = 0; first < k; first += Tile::wide_centroids) {
    T product[each][others] = {};
    for (int done = 0; done < steps; ++done) {
      load(now > 0 ? now - 1 : stages - 1);  // where the step before was: nobody reads it any more
#pragma unroll
      for (int u = 0; u < step; ++u) {
        if (u == step - 1) {
          now = now + 1 < stages ? now + 1 : 0;
          __pipeline_wait_prior(stages - 2);
          __syncthreads();  // this stage is full, and the one before is free
        }
        fetch(now, (u + 1) % step);
        for (int a = 0; a < each; ++a) {
          for (int turn = 0; turn < others; ++turn) {
            // There and back: a product shares a number with the one before, which is at hand, not in a register.
            const int b = a % 2 == 0 ? turn : others - 1 - turn;
            product[a][b] += own[u % 2][a / size].feature[a % size] * other[u % 2][b / size].feature[b % size];
          }
        }
      }
    }
    for (int b = 0; b < others; ++b) {
      const int j = first + mine.centroid(b);  // places grow with b
      const T square = j < k ? norm[j] : std::numeric_limits<T>::infinity();
      for (int a = 0; a < each; ++a) {
        const T distance = square - 2 * product[a][b];  // less |x|^2: it may be below 0
        if (distance < nearest[a]) nearest[a] = distance, best[a] = j;
      }
    }
  }
  __pipeline_wait_prior(0);  // what is still on its way needs the block's memory
  // The 16 threads of a row hold the same points: the least of their distances, at equal ones the lower centroid. Eight
  // of them are lanes of one warp, the others of its neighbour.
  const auto take = [&](int a, T distance, int j) {
    if (distance < nearest[a] || (distance == nearest[a] && j < best[a])) nearest[a] = distance, best[a] = j;
  };
  for (int a = 0; a < each; ++a) {
    for (int lanes = 2; lanes < 16; lanes *= 2) {
      const T distance = __shfl_xor_sync(0xffffffffu, nearest[a], lanes);
      const int j = __shfl_xor_sync(0xffffffffu, best[a], lanes);
      take(a, distance, j);
    }
    if (mine.column == 8) least[mine.point(a)] = nearest[a], winner[mine.point(a)] = best[a];
  }
  __syncthreads();  // the neighbours' are there
  if (mine.column > 0) return;
  for (int a = 0; a < each; ++a) {
    take(a, least[mine.point(a)], winner[mine.point(a)]);
    const int64_t i = int64_t(blockIdx.x) * Tile::wide_points + mine.point(a);
    if (i < n) label[i] = best[a];
  }
}

template <class T>
struct Own {
  Beyond overflow;
  Norms<T> norms;
  Rows<T> rows;
  Sums sums;
  Tiles<T> tiles;
};

template <class T>
void assign(Run<T, Own<T>>& s) {
  compute_norms(s);
  tile_centroids(s);
  const auto& tiles = s.own.tiles;
  dispatch<8, 16>(tiles.points, [&]<int points>() {
    dispatch<128, 256>(tiles.block, [&]<int block>() {
      const size_t bytes = stages * step * (tiles.wide_points + tiles.wide_centroids) * sizeof(T);
      launch(assign_kernel<T, points, block>, blocks(s.n, tiles.wide_points), block, bytes, s.stream,
             reinterpret_cast<const Piece<T>*>(tiles.x), reinterpret_cast<const Piece<T>*>(tiles.c), norms(s), s.label,
             s.n, s.k, tiles.steps);
    });
  });
}

template <class T>
constexpr Phases<T, Own<T>> phases{.prepare = prepare_tiles<T>,
                                   .upload = upload_tiles<T>,
                                   .restart = restart_rows<T>,
                                   .assign = assign<T>,
                                   .update = update_any<T, Layout::features>,
                                   .download = download_rows<T>};
}  // namespace

LADDER_VARIANT(.id = "v21_async_copy", .base = "v20_register_tile",
               .idea = "steps copied to shared memory by cp.async, into a ring of three stages",
               .expect =
                   "v20 waits for loads where half a step is shorter than global memory takes; registers that held "
                   "them hold numbers fetched ahead: some percent, more where tiles are small and D is large",
               .shows = "assign", .counter = "instructions_per_cycle",
               .source = "NVIDIA, CUDA C++ Programming Guide, Asynchronous Data Copies",
               .arithmetic = {.form = Arithmetic::Form::expanded},
               .axes = {{"points", {8, 16}, 16}, {"block", {128, 256}, 128}}, .f32 = phases<float>,
               .f64 = phases<double>)
