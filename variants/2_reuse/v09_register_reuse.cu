// v09: a thread loads each coordinate of its point once per tile, into a register: the loop over features moves outside
// the loop over the tile's centroids, and the distances to all of them grow together. v08 loads the coordinate again
// for each centroid, from L1 at best. (L1 and shared memory are split by the driver from here on: no `carveout` axis.)
#include "../../harness/contract/lesson.hpp"
#include "../common/lloyd/smem_tile.cuh"
#include "../common/update/choose_update.cuh"

namespace {
using namespace ladder;

template <class T, int tile>
__global__ void assign_kernel(const T* x, const T* c, int32_t* label, int n, int k, int d, int width) {
  T* centroids = dynamic_shared<T>();  // width x tile
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  const int i = min(row, n - 1);  // threads without a point take the last one: all must reach the barriers
  T nearest = std::numeric_limits<T>::infinity();
  int best = 0;
  for (int first = 0; first < k; first += tile) {
    T distance[tile] = {};
    for (int from = 0; from < d; from += width) {
      const int features = min(width, d - from);
      stage_tile<tile>(centroids, c, first, from, features, k, d);
      for (int f = 0; f < features; ++f) {
        const T coordinate = x[size_t(from + f) * n + i];
        for (int t = 0; t < tile; ++t) {
          const T diff = coordinate - centroids[f * tile_pitch<tile> + t];
          distance[t] += diff * diff;
        }
      }
    }
    for (int t = 0; t < tile; ++t) {
      if (first + t < k && distance[t] < nearest) nearest = distance[t], best = first + t;
    }
  }
  if (row < n) label[row] = best;
}

template <class T>
struct Workspace {
  Rows<T> rows;
  Sums sums;
};

template <class T>
void assign(State<T>& s) {
  dispatch<4, 8, 16>(s.axis("tile"), [&]<int tile>() {
    const int width = tile_width<tile, T>(s.d);
    launch(assign_kernel<T, tile>, blocks(s.n, 256), 256, tile_bytes<tile, T>(width), s.stream, s.x, s.c, s.label, s.n,
           s.k, s.d, width);
  });
}

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare_features<T>,
                                         .upload = upload_features<T>,
                                         .restart = restart_rows<T>,
                                         .assign = assign<T>,
                                         .update = update_any<T, Layout::features>,
                                         .download = download_rows<T>};
}  // namespace

LADDER_VARIANT(.id = "v09_register_reuse", .base = "v08_shared_tiles",
               .idea = "a coordinate is loaded once per tile, into a register",
               .expect =
                   "C2075: +1.5 %, with v10's step; loads from global memory per multiply-add fall from 1 to 1 / tile, "
                   "those from shared memory stay 1: faster where K x D is large, and a larger tile is better",
               .shows = "assign", .counter = "load_requests", .source = "002 r1.3", .axes = {{"tile", {4, 8, 16}, 16}},
               .f32 = phases<float>, .f64 = phases<double>)

LADDER_LESSON(.predict = {{"multiply_adds", "ceil(N / 256) * 256 * ceil(K / tile) * tile * D"},
                          {"additions", "multiply_adds"},
                          {"load_requests", "multiply_adds / 32 * (1 / tile + 1 / 256)"},
                          {"sectors_per_load", "B"},
                          {"dram_bytes", "from_dram(N * D * B, ceil(K / tile))"},
                          {"shared_bytes", "reserved + min(D, floor(16384 / ((tile + 4) * B))) * (tile + 4) * B"},
                          {"occupancy_theoretical_percent", "occupancy(256, registers, shared_bytes)"}},
              .ask =
                  "Which of the two terms of 1/16 + 1/256 loads per multiply-add would a larger block make "
                  "smaller, and which a larger tile?",
              .answer =
                  "1/16 is the coordinate, loaded once per tile of 16 centroids: a larger tile. 1/256 is the "
                  "tile, which 256 threads load together and use 256 times: a larger block. The first is 16 "
                  "times the second, so the tile is what to enlarge.")
