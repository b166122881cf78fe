// v23: one product of halves instead of v22's three, and labels that are those of the exact minimum all the same. What
// a product of halves can be off by is known, pair by pair: |y - yh| |z| + |yh| |z - zh| and the tensor core's cuts
// (parts/certificate.cuh; proofs in docs/certificate.md). So each product gives two bounds of a centroid's score. Where
// only one centroid's upper bound reaches the best lower bound, the label is proven. The other rows, one in a hundred,
// go to a list; a second kernel compares their last two candidates to 100 bits, or, where there are three or more, all
// centroids in double. Points are seen from their middle, where coordinates, and with them the bounds, are smallest.
#include "parts/centre.cuh"
#include "parts/features.cuh"
#include "parts/probe.cuh"
#include "parts/tensor_tiles.cuh"
#include "parts/update_lanes.cuh"

namespace {
using namespace ladder;

using Tile = TensorTile<1>;

/// A row whose label is not proven, and its two candidates.
struct Doubtful {
  int row, first, second;
};

/// Of one iteration.
struct Doubts {
  int pairs;  ///< rows with two candidates: doubtful[0 .. pairs)
  int scans;  ///< rows with more: the last ones of the list
};
constexpr int counted = 1024;  ///< iterations of a solve whose counts are kept

template <class T>
struct Certified {
  HalfRows x, c;
  View<T> view;
  CertainPoint* point = nullptr;        // n, padded to whole tiles
  CertainCentroid* centroid = nullptr;  // k, padded to whole tiles
  Doubtful* doubtful = nullptr;         // n: pairs from the front, scans from the back
  Doubts* doubts = nullptr;             // counted: those of iteration i since the restart are at i
  Doubts* doubts_host = nullptr;        // page-locked
  int done = 0;                         // iterations since the restart
  int told = 0;                         // how many of them State::counters has
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
  if (all.proven()) {
    label[i] = all.first_at;
  } else if (all.pair()) {
    doubtful[atomicAdd(&doubts->pairs, 1)] = {i, all.first_at, all.second_at};
  } else {
    doubtful[n - 1 - atomicAdd(&doubts->scans, 1)] = {i, 0, 0};
  }
}

/// The exact labels of the rows in the list: a warp compares the two candidates of a row; where there are more, a
/// block goes through all centroids.
template <class T>
__global__ void recheck_kernel(const T* __restrict__ x, const T* __restrict__ c, int32_t* __restrict__ label,
                               const Doubtful* doubtful, const Doubts* doubts, int n, int k, int d) {
  const int lane = threadIdx.x % 32, warps = blockDim.x / 32;
  for (int at = blockIdx.x * warps + threadIdx.x / 32; at < doubts->pairs; at += gridDim.x * warps) {
    const Doubtful it = doubtful[at];
    const auto exact = [&](int j) {
      return Exact{exact_sum_of_warp(exact_distance(x + size_t(it.row) * d, c + size_t(j) * d, d, lane, 32)), j};
    };
    const Exact first = exact(it.first), second = exact(it.second);
    if (lane == 0) label[it.row] = nearer(first, second) ? it.first : it.second;
  }
  __shared__ Exact found[256];
  for (int at = blockIdx.x; at < doubts->scans; at += gridDim.x) {
    const int row = doubtful[n - 1 - at].row;
    const T* const own = x + size_t(row) * d;
    Exact best;
    for (int j = threadIdx.x; j < k; j += blockDim.x) {
      double distance = 0;
      for (int f = 0; f < d; ++f) {
        const double diff = double(own[f]) - double(c[size_t(j) * d + f]);
        distance += diff * diff;
      }
      // A sum of d squares is off by less than d + 8 roundings: what is farther by more than twice that is farther.
      if (distance * (1 - (d + 8) * 0x1p-51) > best.distance.high) continue;
      const Exact here{exact_distance(own, c + size_t(j) * d, d, 0, 1), j};
      if (nearer(here, best)) best = here;
    }
    found[threadIdx.x] = best;
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
      __syncthreads();
      if (int(threadIdx.x) < half && nearer(found[threadIdx.x + half], found[threadIdx.x]))
        found[threadIdx.x] = found[threadIdx.x + half];
    }
    if (threadIdx.x == 0) label[row] = found[0].centroid;
    __syncthreads();  // the next row's may come
  }
}

template <class T>
void prepare(State<T>& s) {
  prepare_features(s);
  auto& own = s.template own<Certified<T>>();
  const int64_t points = Tile::padded_rows(s.n), centroids = Tile::padded_columns(s.k);
  own.x = take_half_rows(s, 1, points, s.d);
  own.c = take_half_rows(s, 1, centroids, s.d);
  own.view = {s.template device<T>(s.d), s.template device<int>(1)};
  own.point = s.template device<CertainPoint>(points);
  own.centroid = s.template device<CertainCentroid>(centroids);
  own.doubtful = s.template device<Doubtful>(s.n);
  own.doubts = s.template device<Doubts>(counted);
  own.doubts_host = s.template pinned<Doubts>(counted);
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
void restart(State<T>& s) {
  restart_rows(s);
  auto& own = s.template own<Certified<T>>();
  own.done = own.told = 0;
}

template <class T>
void assign(State<T>& s) {
  auto& own = s.template own<Certified<T>>();
  Doubts* doubts = own.doubts + std::min(own.done++, counted - 1);
  const int64_t padded = Tile::padded_columns(s.k);
  launch(halve_centroids_kernel<T>, blocks(padded * 32, 256), 256, 0, s.stream, s.c, own.view, own.c, own.centroid,
         doubts, s.k, padded, s.d);
  launch(assign_kernel, blocks(s.n, Tile::rows), Tile::block, Tile::bytes, s.stream, own.x, own.c, own.point,
         own.centroid, s.label, own.doubtful, doubts, s.n, s.k, s.d);
  launch(recheck_kernel<T>, std::min(blocks(s.n, 8), 4 * s.device_info.multiprocessors), 256, 0, s.stream,
         s.template own<Rows<T>>().points, s.c, s.label, own.doubtful, doubts, s.n, s.k, s.d);
}

/// What the iterations since the last download counted comes down with their result: no iteration waits for it.
template <class T>
void download(State<T>& s) {
  auto& own = s.template own<Certified<T>>();
  check(cudaMemcpyAsync(own.doubts_host, own.doubts, std::min(own.done, counted) * sizeof(Doubts),
                        cudaMemcpyDeviceToHost, s.stream),
        "downloading the counts");
  download_rows(s);
  for (; own.told < std::min(own.done, counted); ++own.told) {
    const Doubts& doubts = own.doubts_host[own.told];
    s.counters["rows rechecked"].push_back(doubts.pairs + doubts.scans);
    s.counters["rows rechecked against all"].push_back(doubts.scans);
  }
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
                           .restart = restart<T>,
                           .assign = assign<T>,
                           .update = update_any<T, Layout::features>,
                           .download = download<T>};
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
