// v33: only points that moved are added and subtracted. The base adds up all N x D coordinates in every update, though
// after a few iterations hardly a point changes its cluster. Here the sums are kept: a point that moved is subtracted
// from one and added to another. The base's sums are exact, so what was added can be taken away again and nothing of it
// remains; sums of doubles would collect the rounding of each step. Where most points moved, which the device finds
// out, all are summed anew.
//
// for cuda: 90a
#include "../common/pruning/full_dimension.cuh"
#include "../common/update/incremental.cuh"

namespace {
using namespace ladder;

template <class T>
struct Workspace : FullDimension<T> {
  IncrementalSums sums;
};

template <class T>
void prepare(Run<T, Workspace<T>>& s) {
  prepare_full_dimension(s);
  prepare_incremental(s);
}

template <class T>
void upload(Run<T, Workspace<T>>& s) {
  upload_rows(s);
  quantize_full_dimension(s);
  choose_format(s, s.x);
}

template <class T>
void restart(Run<T, Workspace<T>>& s) {
  restart_refinement(s);
  restart_incremental(s);
}

template <class T>
void assign(Run<T, Workspace<T>>& s) {
  assign_full_dimension(s);
}

template <class T>
void update(Run<T, Workspace<T>>& s) {
  update_incremental(s, s.x);
}

template <class T>
void download(Run<T, Workspace<T>>& s) {
  fetch_move_counters(s);
  download_refined(s);
  report_moves(s);
}

std::string refuse(const Shape& p, const Device& device, const Axes&) { return refuse_full_dimension(p, device); }

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare<T>,
                                         .upload = upload<T>,
                                         .restart = restart<T>,
                                         .assign = assign<T>,
                                         .update = update<T>,
                                         .download = download<T>};
}  // namespace

LADDER_VARIANT(.id = "v33_incremental_update", .base = "v32_reproducible_sums",
               .idea = "exact sums are kept; only points whose label changed are added and subtracted",
               .expect =
                   "the base adds 122 million values in every update at kmcuda on an H200, some 1 ms; with 1 % of the "
                   "points moving a fiftieth of that many additions and subtractions remain: 0.05 ms. The first "
                   "update, the one that is timed by itself, sums all points: the base's time. A new algorithm: sums "
                   "are kept, not made",
               .shows = "solve", .counter = "global_atomics", .source = "this project",
               .arithmetic = {.form = Arithmetic::Form::exact, .operands = "fp16"}, .refuse = refuse,
               .f32 = phases<float>, .f64 = phases<double>)
