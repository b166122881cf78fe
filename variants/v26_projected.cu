// v26: bounds from a few directions in place of all features. Points that lie near a subspace of some dozen dimensions,
// as most real ones do, are told apart there: x = P^T P x + rest, so x.c <= Px.Pc + |rest x| |rest c|, and a short row
// of halves, a tenth of v23's, holds all that a rigorous bound of every score needs (parts/projected.cuh; proofs in
// docs/certificate.md). First the greatest bound of each row gives a guess; its exact distance is known from one look
// at the point; then the same products again, begun with that distance, so that their sign alone says which other
// centroids may be as near. Most rows have none: their guess is proven. The others' few are compared exactly. Rows with
// too many go v23's way, whose kernels follow below: all of them where points fill all directions alike. Which and how
// many directions is found on the device when the points arrive.
#include "parts/features.cuh"
#include "parts/narrow_tiles.cuh"
#include "parts/pilot.cuh"
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
  int moved;       ///< rows with another label than in the iteration before
  int contested;   ///< rows with a few candidates in few directions
  int candidates;  ///< of these rows, beside their guesses
  int left;        ///< rows with too many: those that go v23's way
  int pairs;       ///< of these, rows with two candidates: doubtful[0 .. pairs)
  int scans;       ///< and with more: the last ones of the list
};
constexpr int counted = 1024;  ///< iterations of a solve whose counts are kept
constexpr int many_moved = 8;  ///< if more than one point in so many has moved, labels are poor guesses

/// What the way by few directions keeps.
struct Few {
  int width = 0;  // halves of a short row; 0: points fill all directions alike, all go v23's way
  Subspace subspace;
  Directions directions;
  uint4 *x = nullptr, *c = nullptr;  // short rows, whole tiles of them
  double* square = nullptr;          // n: squared lengths of points, in the unit of short rows
  float* start = nullptr;            // n: what a row's products begin with
  int* contested = nullptr;          // n: rows that are
  Candidates candidates;
  int* previous = nullptr;  // n: labels of the iteration before, at first -1
  Pilot pilot;
};

template <class T>
struct Certified {
  HalfRows x, c;
  View<T> view;
  CertainPoint* point = nullptr;        // n, padded to whole tiles
  CertainCentroid* centroid = nullptr;  // k, padded to whole tiles
  Doubtful* doubtful = nullptr;         // n: pairs from the front, scans from the back
  Doubts* doubts = nullptr;             // counted: those of iteration i since the restart are at i
  Doubts* doubts_host = nullptr;        // page-locked
  int* left = nullptr;                  // n: rows that go v23's way
  int done = 0;                         // iterations since the restart
  int told = 0;                         // how many of them State::counters has
};

// ---- by few directions

/// Rows that are `left` before any has been looked at.
__global__ void begin_kernel(Doubts* doubts, int left) {
  *doubts = {};
  doubts->left = left;
}

/// The centroid with the greatest bound, or nearly: the last bits of a bound hold a column.
/// Where few points moved the last time, `before`, their labels are as good.
template <int width>
__global__ void __launch_bounds__(NarrowTile<width>::block, NarrowTile<width>::resident)
    guess_kernel(const uint4* __restrict__ x, const uint4* __restrict__ c, const Doubts* before, int* guess, int n,
                 int k) {
  using Tile = NarrowTile<width>;
  if (before && before->moved < n / many_moved) return;
  const Tile tile;
  const typename Tile::Start start = {};
  float greatest[Tile::own_rows];
  int at[Tile::own_rows] = {};
  for (float& bound : greatest) bound = -std::numeric_limits<float>::infinity();
  tile.multiply(x, c, k, start, [&](int first, typename Tile::Products& product) {
#pragma unroll
    for (int r = 0; r < Tile::own_rows; ++r) {
      float here = -std::numeric_limits<float>::infinity();
#pragma unroll
      for (int e = 0; e < 2 * Tile::column_fragments; ++e) {
        const unsigned bits = __float_as_uint(product[r / 2][e / 2][r % 2 * 2 + e % 2]);
        here = fmaxf(here, __uint_as_float((bits & ~15u) | unsigned(e)));
      }
      if (here > greatest[r]) greatest[r] = here, at[r] = first;
    }
  });
  for (int r = 0; r < Tile::own_rows; ++r) {
    const int e = int(__float_as_uint(greatest[r]) & 15u);
    int j = at[r] + tile.column(e / 2, e % 2);
    for (int lanes = 1; lanes < 4; lanes *= 2) {  // four lanes share a row
      const float bound = __shfl_xor_sync(0xffffffffu, greatest[r], lanes);
      const int other = __shfl_xor_sync(0xffffffffu, j, lanes);
      if (bound > greatest[r] || (bound == greatest[r] && other < j)) greatest[r] = bound, j = other;
    }
    const int64_t i = int64_t(blockIdx.x) * Tile::rows + tile.row(r);
    if (tile.lane % 4 == 0 && i < n) guess[i] = min(j, k - 1);
  }
}

/// The exact distance of each point to its guess, a warp for each; from it, what the point's products begin with.
template <class T>
__global__ void start_kernel(const T* __restrict__ x, const T* __restrict__ c, View<T> view, const int* guess,
                             const double* square, float* start, int width, int n, int d) {
  const int64_t i = (blockIdx.x * int64_t(blockDim.x) + threadIdx.x) / 32;
  if (i >= n) return;  // a whole warp at a time
  const double distance = distance_of_warp(x + i * d, c + int64_t(guess[i]) * d, d);
  if (threadIdx.x % 32 == 0)
    start[i] = threshold(square[i], scalbn(distance, 2 * (view.exponent() + short_exponent(d))), width);
}

/// Which other centroids may be as near as the guess: those whose product is not below 0. A row without any has its
/// label.
template <int width>
__global__ void __launch_bounds__(NarrowTile<width>::block, NarrowTile<width>::resident)
    contest_kernel(const uint4* __restrict__ x, const uint4* __restrict__ c, const float* __restrict__ start_of,
                   Candidates candidates, int* contested, int* left, Doubts* doubts, int32_t* __restrict__ label, int n,
                   int k) {
  using Tile = NarrowTile<width>;
  constexpr float closed = -0x1p120f;                                    // no product gets from there to 0
  int* const found = dynamic_shared<int>() + Tile::bytes / sizeof(int);  // rows: others that may be as near
  int* const guess = found + Tile::rows;                                 // rows
  const Tile tile;
  const int64_t begin = int64_t(blockIdx.x) * Tile::rows, i = begin + threadIdx.x;
  static_assert(Tile::rows == Tile::block);
  found[threadIdx.x] = 0;
  guess[threadIdx.x] = i < n ? candidates.guess[i] : 0;
  __syncthreads();
  typename Tile::Start start;
  for (int r = 0; r < Tile::own_rows; ++r) {
    const int64_t row = begin + tile.row(r);
    for (int e = 0; e < 2; ++e) start[r / 2][r % 2 * 2 + e] = row < n ? start_of[row] : closed;
  }
  tile.multiply(x, c, k, start, [&](int first, typename Tile::Products& product) {
    unsigned below = 0xffffffffu;  // its sign: that of all products together
    for (int m = 0; m < Tile::row_fragments; ++m)
      for (int f = 0; f < Tile::column_fragments; ++f)
        for (int e = 0; e < 4; ++e) below &= __float_as_uint(product[m][f][e]);
    if (!__any_sync(0xffffffffu, int(below) >= 0)) return;
#pragma unroll  // who is asked for by number must be a register
    for (int r = 0; r < Tile::own_rows; ++r) {
      unsigned reached = 0;
#pragma unroll
      for (int e = 0; e < 2 * Tile::column_fragments; ++e)
        reached |= (~__float_as_uint(product[r / 2][e / 2][r % 2 * 2 + e % 2]) >> 31) << e;
      for (; reached != 0; reached &= reached - 1) {
        const int e = __ffs(int(reached)) - 1, j = first + tile.column(e / 2, e % 2), row = tile.row(r);
        if (j >= k || j == guess[row]) continue;
        const int place = atomicAdd(&found[row], 1);
        if (place < most_candidates)
          candidates.list[(begin + row) * most_candidates + place] = j;
        else
          start[r / 2][r % 2 * 2] = start[r / 2][r % 2 * 2 + 1] = closed;  // this row is left: no more of them
      }
    }
  });
  if (i >= n) return;
  const int others = found[threadIdx.x];
  if (others == 0) {
    label[i] = guess[threadIdx.x];
  } else if (others <= most_candidates) {
    candidates.found[i] = others;
    contested[atomicAdd(&doubts->contested, 1)] = int(i);
    atomicAdd(&doubts->candidates, others);
  } else {
    left[atomicAdd(&doubts->left, 1)] = int(i);
  }
}

/// The labels are the next iteration's guesses.
__global__ void remember_kernel(const int32_t* __restrict__ label, int* guess, int* previous, Doubts* doubts, int n) {
  const int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  const bool moved = i < n && previous[i] != label[i];
  if (i < n) guess[i] = previous[i] = label[i];
  const unsigned lanes = __ballot_sync(0xffffffffu, moved);
  if (threadIdx.x % 32 == 0 && lanes != 0) atomicAdd(&doubts->moved, __popc(lanes));
}

// ---- v23's way

/// One warp per point, and per row of the last tile that has none.
template <class T>
__global__ void halve_points_kernel(const T* rows, View<T> view, HalfRows halves, CertainPoint* point, int n,
                                    int64_t padded, int d) {
  const int64_t i = (blockIdx.x * int64_t(blockDim.x) + threadIdx.x) / 32;
  if (i >= padded) return;  // a whole warp at a time
  const Rounded row = halve_row<1>(halves, i, d, [&](int f) { return i < n ? view(rows, i, f, d) : 0.0; });
  if (threadIdx.x % 32 == 0) point[i] = certain_point(row, d);
}

/// One warp per centroid, and per row of the last tile that has none; where rows need them.
template <class T>
__global__ void halve_centroids_kernel(const T* c, View<T> view, HalfRows halves, CertainCentroid* centroid,
                                       const Doubts* doubts, int k, int64_t padded, int d) {
  const int64_t j = (blockIdx.x * int64_t(blockDim.x) + threadIdx.x) / 32;
  if (j >= padded || doubts->left == 0) return;  // a whole warp at a time
  const Rounded row = halve_row<1>(halves, j, d, [&](int f) { return j < k ? view(c, j, f, d) : 0.0; });
  if (threadIdx.x % 32 == 0) centroid[j] = j < k ? certain_centroid(row, d) : no_centroid();
}

__global__ void __launch_bounds__(Tile::block, 1)
    assign_kernel(HalfRows x, HalfRows c, const CertainPoint* __restrict__ point,
                  const CertainCentroid* __restrict__ centroid, const int* __restrict__ rows,
                  int32_t* __restrict__ label, Doubtful* doubtful, Doubts* doubts, int n, int k, int d) {
  constexpr float nothing = -std::numeric_limits<float>::infinity();  // below Leaders::none: it is never seen
  const Tile tile;
  const int left = doubts->left;
  const auto row_at = [&](int i) { return rows[min(i, left - 1)]; };
  // As many blocks as run at a time: often there is nothing left, and blocks that only end take their time, too.
  for (int part = blockIdx.x; part < (left + Tile::rows - 1) / Tile::rows; part += gridDim.x) {
    const int begin = part * Tile::rows;
    __syncthreads();  // nobody reads what was heard of the rows before any more
    Leaders leaders[Tile::own_rows];
    tile.multiply(begin, row_at, x, c, left, k, d, [&](int first, Tile::Products& product) {
      // Four lanes of the warp share a row: what one of them knows, all know.
      for (int r = 0; r < Tile::own_rows; ++r) {
        float& least = leaders[r].least;
        for (int step = 1; step < 4; step *= 2) least = fmaxf(least, __shfl_xor_sync(0xffffffffu, least, step));
      }
      // Every bound, and the greatest of each row: hardly a tile after the first few has one that counts.
      CertainPoint own[Tile::own_rows];  // read anew for each tile: products take all registers
      float greatest[Tile::own_rows];
      for (int r = 0; r < Tile::own_rows; ++r) {
        own[r] = point[row_at(begin + tile.row(r))];
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
    const int row = threadIdx.x;
    if (row >= Tile::rows || begin + row >= left) continue;
    const int i = rows[begin + row];
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

// ---- phases

constexpr int by_pilot = -1;  // axis "width"

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
  own.left = s.template device<int>(s.n);
  auto& few = s.template own<Few>();
  int width = s.axis("width");
  if (width == by_pilot) {
    if (!worth_a_pilot(s.k, s.d))
      width = 0;
    else
      few.pilot = take_pilot(s), width = widest;
  }
  if (width == 0) return;
  few.subspace = take_subspace(s, s.n, s.d);
  few.directions = take_directions(s, s.d);
  const int chunks = width / 8;
  few.x = s.template device<uint4>(NarrowTile<widest>::padded_rows(s.n) * chunks);
  few.c = s.template device<uint4>(NarrowTile<widest>::padded_columns(s.k) * chunks);
  few.square = s.template device<double>(s.n);
  few.start = s.template device<float>(s.n);
  few.contested = s.template device<int>(s.n);
  few.candidates = take_candidates(s, s.n);
  few.previous = s.template device<int>(s.n);
}

/// All rows are left.
__global__ void all_left_kernel(int* left, int n) {
  const int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (i < n) left[i] = int(i);
}

/// Calls body.template operator()<width>() for the width of short rows.
template <class F>
void with_width(const Few& few, const F& body) {
  dispatch<32, 48, 64, 96, 128>(few.width, body);
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
  auto& few = s.template own<Few>();
  if (few.directions.at) find_directions(s.stream, rows, own.view, few.subspace, few.directions, s.n, s.d);
  few.width = !few.directions.at ? 0
              : few.pilot.counts ? choose_width(s, rows, own.view, few.directions, few.pilot, s.n, s.k, s.d)
                                 : s.axis("width");
  if (few.width == 0) {
    launch(all_left_kernel, blocks(s.n, 256), 256, 0, s.stream, own.left, s.n);
    return;
  }
  with_width(few, [&]<int width>() {
    const int64_t all = NarrowTile<width>::padded_rows(s.n);
    project<width>(s.stream, rows, own.view, few.directions, {.count = s.n}, all, s.d,
                   KeepPoints<width>{few.x, few.square, few.directions.defect, s.n, all, s.d});
  });
}

template <class T>
void restart(State<T>& s) {
  restart_rows(s);
  auto& own = s.template own<Certified<T>>();
  own.done = own.told = 0;
  const auto& few = s.template own<Few>();
  if (few.width > 0) check(cudaMemsetAsync(few.previous, 0xff, s.n * sizeof(int), s.stream), "forgetting the labels");
}

template <class T>
void assign_by_few(State<T>& s, Doubts* doubts, const Doubts* before) {
  const auto& own = s.template own<Certified<T>>();
  const auto& few = s.template own<Few>();
  const T* rows = s.template own<Rows<T>>().points;
  with_width(few, [&]<int width>() {
    using Narrow = NarrowTile<width>;
    const int64_t padded = Narrow::padded_columns(s.k);
    project<width>(s.stream, s.c, own.view, few.directions, {.count = s.k}, padded, s.d,
                   KeepCentroids<width>{few.c, few.directions.defect, s.k, padded, s.d});
    launch(guess_kernel<width>, blocks(s.n, Narrow::rows), Narrow::block, Narrow::bytes, s.stream, few.x, few.c, before,
           few.candidates.guess, s.n, s.k);
    launch(start_kernel<T>, blocks(int64_t(s.n) * 32, 256), 256, 0, s.stream, rows, s.c, own.view, few.candidates.guess,
           few.square, few.start, width, s.n, s.d);
    launch(contest_kernel<width>, blocks(s.n, Narrow::rows), Narrow::block,
           Narrow::bytes + 2 * Narrow::rows * sizeof(int), s.stream, few.x, few.c, few.start, few.candidates,
           few.contested, own.left, doubts, s.label, s.n, s.k);
  });
  launch(compare_kernel<T>, std::min(blocks(s.n, 8), 8 * s.device_info.multiprocessors), 256, 0, s.stream, rows, s.c,
         few.candidates, few.contested, &doubts->contested, s.label, s.d);
}

template <class T>
void assign(State<T>& s) {
  auto& own = s.template own<Certified<T>>();
  Doubts* doubts = own.doubts + std::min(own.done, counted - 1);
  const Doubts* const before = own.done++ > 0 ? doubts - 1 : nullptr;
  const bool by_few = s.template own<Few>().width > 0;
  launch(begin_kernel, 1, 1, 0, s.stream, doubts, by_few ? 0 : s.n);
  if (by_few) assign_by_few(s, doubts, before);
  const int64_t padded = Tile::padded_columns(s.k);
  launch(halve_centroids_kernel<T>, blocks(padded * 32, 256), 256, 0, s.stream, s.c, own.view, own.c, own.centroid,
         doubts, s.k, padded, s.d);
  launch(assign_kernel, std::min(blocks(s.n, Tile::rows), s.device_info.multiprocessors), Tile::block, Tile::bytes,
         s.stream, own.x, own.c, own.point, own.centroid, own.left, s.label, own.doubtful, doubts, s.n, s.k, s.d);
  launch(recheck_kernel<T>, std::min(blocks(s.n, 8), 4 * s.device_info.multiprocessors), 256, 0, s.stream,
         s.template own<Rows<T>>().points, s.c, s.label, own.doubtful, doubts, s.n, s.k, s.d);
  if (by_few)
    launch(remember_kernel, blocks(s.n, 256), 256, 0, s.stream, s.label, s.template own<Few>().candidates.guess,
           s.template own<Few>().previous, doubts, s.n);
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
    s.counters["halves of a short row"].push_back(s.template own<Few>().width);
    s.counters["rows compared"].push_back(doubts.contested);
    s.counters["candidates compared"].push_back(doubts.candidates);
    s.counters["rows of all features"].push_back(doubts.left);
    s.counters["rows rechecked"].push_back(doubts.pairs + doubts.scans);
    s.counters["rows rechecked against all"].push_back(doubts.scans);
  }
}

std::string refuse(const Shape& p, const Device& device, const Axes& axes) {
  if (axes["width"] > 0 && p.d > most_projected)
    return "bounds in a few directions are proven for " + std::to_string(most_projected) +
           " features at most, here are " + std::to_string(p.d) + ": --axis width=0 does without";
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

LADDER_VARIANT(
        .id = "v26_projected", .base = "v23_certified",
        .idea = "rigorous bounds from a few principal directions; exact distances only for who they leave",
        .expect =
            "products of 32 to 128 columns in place of D, twice while many points move, else once, and one look at "
            "each point: 0.5 to 0.8 ms at kmcuda on an H200, an eighth of v23's labels, if its points lie near 30 "
            "dimensions, as embeddings do; v23's time where they fill all, and a few milliseconds of upload more. The "
            "update is v23's, and then takes most of an iteration. A new algorithm: v23's kernels remain for the rows "
            "that are left",
        .shows = "assign", .source = "this project: docs/certificate.md",
        .arithmetic = {.form = Arithmetic::Form::exact},
        .axes = {{"width", {by_pilot, 0, 32, 48, 64, 96, 128}, by_pilot}}, .prunes = true, .refuse = refuse,
        .f32 = phases<float>, .f64 = phases<double>)
