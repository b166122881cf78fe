// v26b: v26's algorithm by the instructions of v24. Its short rows, 2 to 8 steps of a product, are multiplied by whole
// warpgroups, three or four of which share the tensor cores without taking turns (parts/warpgroup_narrow.cuh); products
// begin with a row's threshold, so that what is asked of nearly every tile of 64 x 128 products is one bit: the signs
// of all of a warp's. Rows that few directions do not decide go v24's way: they are gathered, and its kernel takes them
// as if there were no others. Labels cost less than anything else now, so the update is v25's, of what has moved.
// for cuda: 90a
#include "parts/gathered_rows.cuh"
#include "parts/pilot.cuh"
#include "parts/probe_wgmma.cuh"
#include "parts/update_moved.cuh"
#include "parts/warpgroup_contest.cuh"

namespace {
using namespace ladder;

/// Of one iteration.
struct Contests {
  int moved;       ///< rows with another label than in the iteration before
  int contested;   ///< rows with a few candidates in few directions
  int candidates;  ///< of these rows, beside their guesses
  int left;        ///< rows with too many: those that go v24's way
};
constexpr int many_moved = 8;  ///< if more than one point in so many has moved, labels are poor guesses

/// What the way by few directions keeps.
struct Few {
  int width = 0;  // halves of a short row; 0: points fill all directions alike, all go v24's way
  Subspace subspace;
  Directions directions;
  uint4* x = nullptr;          // n short rows
  unsigned char* c = nullptr;  // NarrowGroups::place()
  double* square = nullptr;    // n: squared lengths of points, in the unit of short rows
  float* start = nullptr;      // n: what a row's products begin with
  int* contested = nullptr;    // n: rows that are
  Candidates candidates;
  int* previous = nullptr;  // n: labels of the iteration before, at first -1
  Pilot pilot;
};

template <class T>
struct Certified {
  WarpgroupRows rows, gathered;
  View<T> view;
  int* left = nullptr;                // n: rows that go v24's way
  Contests* contests = nullptr;       // counted: those of iteration i since the restart are at i
  Contests* contests_host = nullptr;  // page-locked
  int done = 0, told = 0;             // iterations since the restart; how many of them State::counters has
};

/// Rows that are `left` before any has been looked at.
__global__ void begin_kernel(Contests* contests, int left) {
  *contests = {};
  contests->left = left;
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

/// The labels are the next iteration's guesses.
__global__ void remember_kernel(const int32_t* __restrict__ label, int* guess, int* previous, Contests* contests,
                                int n) {
  const int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  const bool moved = i < n && previous[i] != label[i];
  if (i < n) guess[i] = previous[i] = label[i];
  const unsigned lanes = __ballot_sync(0xffffffffu, moved);
  if (threadIdx.x % 32 == 0 && lanes != 0) atomicAdd(&contests->moved, __popc(lanes));
}

// ---- phases

constexpr int by_pilot = -1;  // axis "width"

template <class T>
void prepare(State<T>& s) {
  prepare_features(s);
  prepare_recheck(s);
  prepare_moved(s);
  auto& own = s.template own<Certified<T>>();
  own.rows = take_warpgroup_rows(s);
  own.view = {s.template device<T>(s.d), s.template device<int>(1)};
  own.left = s.template device<int>(s.n);
  own.contests = s.template device<Contests>(counted);
  own.contests_host = s.template pinned<Contests>(counted);
  auto& few = s.template own<Few>();
  int width = s.axis("width");
  if (width == by_pilot) {
    if (!worth_a_pilot(s.k, s.d))
      width = 0;
    else
      few.pilot = take_pilot(s), width = widest;
  }
  if (width == 0) return;
  own.gathered = take_gathered_rows(s, own.rows);
  few.subspace = take_subspace(s, s.n, s.d);
  few.directions = take_directions(s, s.d);
  few.x = s.template device<uint4>(size_t(s.n) * (width / 8));
  few.c = s.template device<unsigned char>(NarrowGroups<widest>::padded_columns(s.k) * width * sizeof(__half));
  few.square = s.template device<double>(s.n);
  few.start = s.template device<float>(s.n);
  few.contested = s.template device<int>(s.n);
  few.candidates = take_candidates(s, s.n);
  few.previous = s.template device<int>(s.n);
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
  choose_format(s, rows);
  look(s, rows, own.view);
  halve_points(s, own.rows, rows, own.view);
  auto& few = s.template own<Few>();
  if (few.directions.at) find_directions(s.stream, rows, own.view, few.subspace, few.directions, s.n, s.d);
  few.width = !few.directions.at ? 0
              : few.pilot.counts ? choose_width(s, rows, own.view, few.directions, few.pilot, s.n, s.k, s.d)
                                 : s.axis("width");
  if (few.width == 0) return;
  with_width(few, [&]<int width>() {
    project<width>(s.stream, rows, own.view, few.directions, {.count = s.n}, s.n, s.d,
                   KeepPoints<width>{few.x, few.square, few.directions.defect, s.n, s.n, s.d});
  });
}

template <class T>
void restart(State<T>& s) {
  restart_recheck(s);
  restart_moved(s);
  auto& own = s.template own<Certified<T>>();
  own.done = own.told = 0;
  const auto& few = s.template own<Few>();
  if (few.width > 0) check(cudaMemsetAsync(few.previous, 0xff, s.n * sizeof(int), s.stream), "forgetting the labels");
}

/// Labels of the rows that few directions decide; a list of the others.
template <class T>
void assign_by_few(State<T>& s, Contests* contests, const Contests* before) {
  const auto& own = s.template own<Certified<T>>();
  const auto& few = s.template own<Few>();
  const T* rows = s.template own<Rows<T>>().points;
#ifdef __CUDACC__  // the CPU device is refused
  with_width(few, [&]<int width>() {
    using Narrow = NarrowGroups<width>;
    const int64_t padded = Narrow::padded_columns(s.k);
    const int grid = Narrow::grid(s.n, s.device_info.multiprocessors);
    project<width>(s.stream, s.c, own.view, few.directions, {.count = s.k}, padded, s.d,
                   KeepCentroidTiles<width>{few.c, few.directions.defect, s.k, padded, s.d});
    launch(guess_in_groups_kernel<width, Contests>, grid, Narrow::block, Narrow::Ring::bytes, s.stream, few.x, few.c,
           Order(), before, s.n / many_moved, guess_bits, few.candidates.guess, s.n, s.k);
    launch(start_kernel<T>, blocks(int64_t(s.n) * 32, 256), 256, 0, s.stream, rows, s.c, own.view, few.candidates.guess,
           few.square, few.start, width, s.n, s.d);
    launch(contest_in_groups_kernel<width, Contests>, grid, Narrow::block, contest_bytes<width>, s.stream, few.x, few.c,
           Order(), few.start, few.candidates, few.contested, own.left, contests, s.label, s.n, s.k);
  });
#endif
  launch(compare_kernel<T>, std::min(blocks(s.n, 8), 8 * s.device_info.multiprocessors), 256, 0, s.stream, rows, s.c,
         few.candidates, few.contested, &contests->contested, s.label, s.d);
}

template <class T>
void assign(State<T>& s) {
  auto& own = s.template own<Certified<T>>();
  Doubts* const doubts = next_doubts(s);
  Contests* const contests = own.contests + std::min(own.done, counted - 1);
  const Contests* const before = own.done++ > 0 ? contests - 1 : nullptr;
  const bool by_few = s.template own<Few>().width > 0;
  launch(begin_kernel, 1, 1, 0, s.stream, contests, by_few ? 0 : s.n);
  if (by_few) assign_by_few(s, contests, before);
  const SomeRows left{by_few ? own.left : nullptr, &contests->left};
  halve_centroids(s, own.rows, own.view, doubts, left.number);
  if (by_few) gather_rows(s, own.rows, left, own.gathered);
  assign_in_groups<true>(s, by_few ? own.gathered : own.rows, s.label, s.template own<Recheck>().doubtful, doubts,
                         s.problem, left);
  recheck(s, doubts);
  if (by_few)
    launch(remember_kernel, blocks(s.n, 256), 256, 0, s.stream, s.label, s.template own<Few>().candidates.guess,
           s.template own<Few>().previous, contests, s.n);
}

template <class T>
void update(State<T>& s) {
  update_moved(s, s.template own<Rows<T>>().points);
}

/// What the iterations since the last download counted comes down with their result: no iteration waits for it.
template <class T>
void download(State<T>& s) {
  auto& own = s.template own<Certified<T>>();
  check(cudaMemcpyAsync(own.contests_host, own.contests, std::min(own.done, counted) * sizeof(Contests),
                        cudaMemcpyDeviceToHost, s.stream),
        "downloading the counts");
  download_recheck(s);
  for (; own.told < std::min(own.done, counted); ++own.told) {
    const Contests& contests = own.contests_host[own.told];
    s.counters["halves of a short row"].push_back(s.template own<Few>().width);
    s.counters["rows compared"].push_back(contests.contested);
    s.counters["candidates compared"].push_back(contests.candidates);
    s.counters["rows of all features"].push_back(contests.left);
  }
}

std::string refuse(const Shape& p, const Device& device, const Axes& axes) {
  if (axes["width"] > 0 && p.d > most_projected)
    return "bounds in a few directions are proven for " + std::to_string(most_projected) +
           " features at most, here are " + std::to_string(p.d) + ": --axis width=0 does without";
  if (p.d > most_features)
    return "its bounds are proven for up to " + std::to_string(most_features) + " features, these points have " +
           std::to_string(p.d);
  const std::string why = refuse_warpgroups(device);
  return why.empty() ? refuse_group_accumulator() : why;
}

template <class T>
constexpr Phases<T> phases{.prepare = prepare<T>,
                           .upload = upload<T>,
                           .restart = restart<T>,
                           .assign = assign<T>,
                           .update = update<T>,
                           .download = download<T>};
}  // namespace

LADDER_VARIANT(
        .id = "v26b_warpgroups", .base = "v26_projected",
        .idea = "the contest by products of warpgroups that begin with the threshold; left rows gathered for v24's",
        .expect =
            "v26's labels at kmcuda on an H200 are 4.95 ms: a guess of 0.42 and a contest of 0.99 by mma.sync, 1.2 for "
            "left rows by v23's kernel. Warpgroups multiply twice as fast, and a look at a tile is one instruction for "
            "two products: 0.25 and 0.35; left rows 0.5. What remains is exact distances. A larger step: all of the "
            "kernels' ways to their operands are others, as in v24",
        .shows = "assign", .source = "this project; the ring and the products are v24_wgmma's",
        .arithmetic = {.form = Arithmetic::Form::exact}, .devices = {DeviceKind::cuda},
        .axes = {{"width", {by_pilot, 0, 32, 48, 64, 96, 128}, by_pilot}}, .prunes = true, .refuse = refuse,
        .f32 = phases<float>, .f64 = phases<double>)
