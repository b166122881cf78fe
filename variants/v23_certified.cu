// v23: one product of halves instead of v22's three, and labels that are those of the exact minimum all the same. What
// a product of halves can be off by is known, pair by pair: |y - yh| |z| + |yh| |z - zh| and the tensor core's cuts
// (parts/certificate.cuh; proofs in docs/certificate.md). So each product gives two bounds of a centroid's score. Where
// only one centroid's upper bound reaches the best lower bound, the label is proven. The other rows, one in a hundred,
// go to a list; a second kernel compares their last two candidates to 100 bits, or, where there are three or more, all
// centroids in double. Points are seen from their middle, where coordinates, and with them the bounds, are smallest.
#include "parts/centre.cuh"
#include "parts/probe.cuh"
#include "parts/recheck.cuh"
#include "parts/tensor_tiles.cuh"
#include "parts/update_lanes.cuh"

namespace {
using namespace ladder;

using Tile = TensorTile<1>;

template <class T>
struct Certified {
  HalfRows x, c;
  View<T> view;
  CertainPoint* point = nullptr;        // n, padded to whole tiles
  CertainCentroid* centroid = nullptr;  // k, padded to whole tiles
};

/// One warp per point, and per row of the last tile that has none.
template <class T>
__global__ void halve_points_kernel(const T* rows, View<T> view, HalfRows halves, CertainPoint* point, int n,
                                    int64_t padded, int d) {
  const int64_t i = (blockIdx.x * int64_t(blockDim.x) + threadIdx.x) / 32;
  if (i >= padded) return;  // a whole warp at a time
  const Rounded row = halve_row<1>(halves, i, d, [&](int f) { return i < n ? view(rows, i, f, d) : 0.0; });
  if (threadIdx.x % 32 == 0) point[i] = certain_point(row, d);
}

/// One warp per centroid, and per row of the last tile that has none. The first thread clears the counts.
template <class T>
__global__ void halve_centroids_kernel(const T* c, View<T> view, HalfRows halves, CertainCentroid* centroid,
                                       Doubts* doubts, int k, int64_t padded, int d) {
  const int64_t j = (blockIdx.x * int64_t(blockDim.x) + threadIdx.x) / 32;
  if (j >= padded) return;  // a whole warp at a time
  if (j == 0 && threadIdx.x == 0) *doubts = {};
  const Rounded row = halve_row<1>(halves, j, d, [&](int f) { return j < k ? view(c, j, f, d) : 0.0; });
  if (threadIdx.x % 32 == 0) centroid[j] = j < k ? certain_centroid(row, d) : no_centroid();
}

__global__ void __launch_bounds__(Tile::block, 1)
    assign_kernel(HalfRows x, HalfRows c, const CertainPoint* __restrict__ point,
                  const CertainCentroid* __restrict__ centroid, int32_t* __restrict__ label, Doubtful* doubtful,
                  Doubts* doubts, int n, int k, int d) {
  constexpr float nothing = -std::numeric_limits<float>::infinity();  // below Leaders::none: it is never seen
  const Tile tile;
  const int begin = blockIdx.x * Tile::rows;
  Leaders leaders[Tile::own_rows];
  tile.multiply(x, c, n, k, d, [&](int first, Tile::Products& product) {
    for (int r = 0; r < Tile::own_rows; ++r) {  // four lanes of the warp share a row: what one of them knows, all know
      float& least = leaders[r].least;
      for (int step = 1; step < 4; step *= 2) least = fmaxf(least, __shfl_xor_sync(0xffffffffu, least, step));
    }
    // Every bound, and the greatest of each row: hardly a tile after the first few has one that counts.
    CertainPoint own[Tile::own_rows];  // read anew for each tile: products take all registers
    float greatest[Tile::own_rows];
    for (int r = 0; r < Tile::own_rows; ++r) {
      own[r] = point[begin + tile.row(r)];
      greatest[r] = nothing;
    }
    for (int f = 0; f < Tile::column_fragments; ++f) {
      for (int e = 0; e < 2; ++e) {
        const CertainCentroid z = centroid[first + tile.column(f, e)];
        for (int r = 0; r < Tile::own_rows; ++r) {
          float& bound = product[r / 2][f][r % 2 * 2 + e];
          bound = upper_bound(bound, own[r], z);
          greatest[r] = fmaxf(greatest[r], bound);
        }
      }
    }
#pragma unroll  // as all loops over products: who is asked for by number must be a register
    for (int r = 0; r < Tile::own_rows; ++r) {
      while (greatest[r] >= leaders[r].least) {
        int at = -1;  // the column that has it; of several, the first
        float next = nothing;
#pragma unroll
        for (int f = 0; f < Tile::column_fragments; ++f) {
          for (int e = 0; e < 2; ++e) {
            float& bound = product[r / 2][f][r % 2 * 2 + e];
            const bool found = at < 0 && bound == greatest[r];
            if (found) at = first + tile.column(f, e), bound = nothing;
            next = fmaxf(next, bound);
          }
        }
        leaders[r].see(greatest[r], at);
        leaders[r].least = fmaxf(leaders[r].least, lower_bound(greatest[r], own[r], centroid[at]));
        greatest[r] = next;
      }
    }
  });
  // The lanes that share a row: one thread hears them all, and decides.
  Leaders* const heard = dynamic_shared<Leaders>();  // sharers x rows
  for (int r = 0; r < Tile::own_rows; ++r) heard[tile.sharer() * Tile::rows + tile.row(r)] = leaders[r];
  __syncthreads();
  const int row = threadIdx.x, i = begin + row;
  if (row >= Tile::rows || i >= n) return;
  Leaders all = heard[row];
  for (int e = 1; e < Tile::sharers; ++e) all.merge(heard[e * Tile::rows + row]);
  decide(i, all, label, doubtful, doubts, n);
}

template <class T>
void prepare(State<T>& s) {
  prepare_features(s);
  prepare_recheck(s);
  auto& own = s.template own<Certified<T>>();
  const int64_t points = Tile::padded_rows(s.n), centroids = Tile::padded_columns(s.k);
  own.x = take_half_rows(s, 1, points, s.d);
  own.c = take_half_rows(s, 1, centroids, s.d);
  own.view = {s.template device<T>(s.d), s.template device<int>(1)};
  own.point = s.template device<CertainPoint>(points);
  own.centroid = s.template device<CertainCentroid>(centroids);
}

template <class T>
void upload(State<T>& s) {
  upload_features(s);
  const auto& own = s.template own<Certified<T>>();
  const T* rows = s.template own<Rows<T>>().points;
  look(s, rows, own.view);
  const int64_t padded = Tile::padded_rows(s.n);
  launch(halve_points_kernel<T>, blocks(padded * 32, 256), 256, 0, s.stream, rows, own.view, own.x, own.point, s.n,
         padded, s.d);
}

template <class T>
void assign(State<T>& s) {
  const auto& own = s.template own<Certified<T>>();
  Doubts* doubts = next_doubts(s);
  const int64_t padded = Tile::padded_columns(s.k);
  launch(halve_centroids_kernel<T>, blocks(padded * 32, 256), 256, 0, s.stream, s.c, own.view, own.c, own.centroid,
         doubts, s.k, padded, s.d);
  launch(assign_kernel, blocks(s.n, Tile::rows), Tile::block, Tile::bytes, s.stream, own.x, own.c, own.point,
         own.centroid, s.label, s.template own<Recheck>().doubtful, doubts, s.n, s.k, s.d);
  recheck(s, doubts);
}

std::string refuse(const Shape& p, const Device& device, const Axes&) {
  if (p.d > most_features)
    return "its bounds are proven for up to " + std::to_string(most_features) + " features, these points have " +
           std::to_string(p.d);
  const std::string why = refuse_tensor_tiles<1>(device);
  return why.empty() ? refuse_accumulator(device) : why;
}

template <class T>
constexpr Phases<T> phases{.prepare = prepare<T>,
                           .upload = upload<T>,
                           .restart = restart_recheck<T>,
                           .assign = assign<T>,
                           .update = update_any<T, Layout::features>,
                           .download = download_recheck<T>};
}  // namespace

LADDER_VARIANT(.id = "v23_certified", .base = "v22_tensor_split",
               .idea = "one product of halves; a bound proves the label, or the row is rechecked exactly",
               .expect =
                   "a third of v22's products: 2.5 to 3 times as fast where K and D are large, and exact; 1 row in 100 "
                   "is rechecked, more where clusters overlap in few dimensions. Where many centroids are equally near "
                   "(duplicates), rechecks cost more than products. A new algorithm: bounds, list and recheck have no "
                   "counterpart in v22",
               .shows = "assign", .counter = "tensor_percent", .source = "this project: docs/certificate.md",
               .arithmetic = {.form = Arithmetic::Form::exact}, .refuse = refuse, .f32 = phases<float>,
               .f64 = phases<double>)
