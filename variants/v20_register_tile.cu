// v20: what v12b leaves to be done on the way to the fastest matrix products, all of it in the main loop, where 64 or
// 128 multiply-adds of a thread should be all there is. There v12b tests whether features, points and centroids exist,
// turns centroids as it stores them, and waits in each feature for 16 numbers from shared memory. Here points and
// centroids lie in memory as they are multiplied, in tiles with zeros beyond the last (centroids are copied there once
// per iteration), so a step is copied by loads and stores of 16 bytes without a test; a thread has 16 x 8 products, for
// which it reads 24 numbers, so that shared memory has 1.3 times the time it had; the numbers of the next feature come
// while those of this one are multiplied; and the first step of the next centroids comes with the last of these.
#include "parts/tiles.cuh"
#include "parts/update_lanes.cuh"

namespace {
using namespace ladder;

template <class T, int each, int block>
__global__ void __launch_bounds__(block, MicroTile<T, each, block>::resident)
    assign_kernel(const Piece<T>* __restrict__ x, const Piece<T>* __restrict__ c, const T* __restrict__ norm,
                  int32_t* __restrict__ label, int n, int k, int steps) {
  using Tile = MicroTile<T, each, block>;
  constexpr int others = Tile::centroids, size = Tile::size;
  constexpr int point_pieces = step * Tile::point_pieces, centroid_pieces = step * Tile::centroid_pieces;
  __shared__ Piece<T> points[2][point_pieces], centroids[2][centroid_pieces];
  __shared__ T least[Tile::wide_points];
  __shared__ int32_t winner[Tile::wide_points];
  const Tile mine;
  x += size_t(blockIdx.x) * steps * point_pieces + threadIdx.x;
  c += threadIdx.x;
  const Piece<T>*next_point = x, *next_centroid = c;
  Piece<T> point[point_pieces / block], centroid[centroid_pieces / block];  // what this thread copies in a step
  const auto load = [&] {
    for (int q = 0; q < point_pieces / block; ++q) point[q] = next_point[q * block];
    for (int q = 0; q < centroid_pieces / block; ++q) centroid[q] = next_centroid[q * block];
  };
  const auto store = [&](int to) {
    for (int q = 0; q < point_pieces / block; ++q) points[to][threadIdx.x + q * block] = point[q];
    for (int q = 0; q < centroid_pieces / block; ++q) centroids[to][threadIdx.x + q * block] = centroid[q];
  };
  Piece<T> own[2][each / size], other[2][others / size];  // of a feature, and of the next one
  const auto fetch = [&](int from, int u) {
    for (int e = 0; e < each / size; ++e)
      own[u % 2][e] = points[from][u * Tile::point_pieces + e * Tile::rows + mine.row];
    for (int e = 0; e < others / size; ++e)
      other[u % 2][e] = centroids[from][u * Tile::centroid_pieces + e * tile_columns + mine.column];
  };

  T nearest[each];
  int best[each] = {};
  for (int a = 0; a < each; ++a) nearest[a] = std::numeric_limits<T>::infinity();
  load();
  store(0);
  __syncthreads();  // the first step's features are there
  fetch(0, 0);
  int now = 0;
  for (int first = 0; first < k; first += Tile::wide_centroids) {
    T product[each][others] = {};
    for (int done = 1; done <= steps; ++done) {
      // The next step: of these centroids, of the next ones, or, where there are none, one that nobody looks at.
      next_point = done < steps ? next_point + point_pieces : x;
      next_centroid = done < steps || first + Tile::wide_centroids < k ? next_centroid + centroid_pieces : c;
      load();
#pragma unroll
      for (int u = 0; u < step; ++u) {
        if (u == step - 1) {
          now ^= 1;
          store(now);
          __syncthreads();  // this buffer is full, and nobody reads the other any more
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
      launch(assign_kernel<T, points, block>, blocks(s.n, tiles.wide_points), block, 0, s.stream,
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

LADDER_VARIANT(
        .id = "v20_register_tile", .base = "v12b_both_tiles",
        .idea = "a main loop of multiply-adds: tiles without tests, 16 x 8 products, features fetched ahead",
        .expect =
            "of the 31.0 ms that v12b takes for kmcuda's labels on an H200, multiply-adds are 24.7; of the rest, "
            "waits and tests, most goes: 26.5 ms, ahead of v18_cublas, which takes 27.5. Where K is below 128 or "
            "D below 8, zeros are multiplied. "
            "A larger step: how data lie, and who multiplies what, change together",
        .shows = "assign", .counter = "load_requests",
        .source = "NVIDIA's CUTLASS, Efficient GEMM; S. Gray, maxas SGEMM, 2014",
        .arithmetic = {.form = Arithmetic::Form::expanded},
        .axes = {{"points", {8, 16}, 16}, {"block", {128, 256}, 128}}, .f32 = phases<float>, .f64 = phases<double>)
