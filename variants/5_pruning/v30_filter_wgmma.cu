// v27: v27's algorithm by the instructions of v23. Its short rows, 2 to 8 steps of a product, are multiplied by whole
// warpgroups, three or four of which share the tensor cores without taking turns (gemm/narrow_mainloop_sm90.cuh); while
// one half of a tile of 64 x 128 products is under way, they look at the other, of which nearly all that is asked is
// one bit: is any product without its sign? Rows that few directions do not decide go v24's way: they are gathered,
// and its kernel takes them as if there were no others. Labels cost less than anything else now, so the update is
// v25's, of what has moved.
//
// for cuda: 90a
#include "../common/certified/gathered_rows.cuh"
#include "../common/update/incremental.cuh"

// After them, as in the base: so that ladder diff shows what changed, not what moved.
#include "../common/pruning/filter_sm90.cuh"

namespace {
using namespace ladder;

template <class T>
struct Workspace {
  Rows<T> rows;
  WarpgroupOperands<T> warpgroup;
  Refinement refinement;
  CandidateRows undecided;
  Gathered gathered;
  IncrementalSums incremental;
  ProjectionFilter filter;
};

template <class T>
void prepare(Run<T, Workspace<T>>& s) {
  prepare_pinned(s);
  s.ws.rows.points = s.x;
  prepare_sm90<T, EpilogueBoundColumns>(s);
  prepare_incremental(s);
  prepare_gathered(s, wants_filter(s));
  if (wants_filter(s)) prepare_filter(s, s.axis("width"), s.axis("width") == by_pilot);
}

template <class T>
void upload(Run<T, Workspace<T>>& s) {
  upload_rows(s);
  quantize_points_sm90<EpilogueBoundColumns>(s);
  if (s.ws.filter.directions.at) project_points(s, s.ws.warpgroup.view, s.axis("width"));
  choose_format(s, s.x);
  upload_gathered(s);
}

template <class T>
void assign(Run<T, Workspace<T>>& s) {
  const auto& few = s.ws.filter;
  if (few.width == 0) return assign_all(s);
  RefineCounters* const refine_counters = next_refine_counters(s);
  FilterCounters* const contest = next_filter_counters(s, refine_counters);
  assign_filtered<FilterSm90>(s, s.ws.warpgroup.view, contest, refine_counters);
  assign_gathered(s, few.left, &contest->listed, refine_counters);
}

template <class T>
void update(Run<T, Workspace<T>>& s) {
  update_incremental(s, s.x);
}

std::string refuse(const Shape& p, const Device& device, const Axes& axes) {
  const std::string why = refuse_width(p, axes);
  return why.empty() ? refuse_sm90(p, device) : why;
}

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare<T>,
                                         .upload = upload<T>,
                                         .restart = restart_filtered<T>,
                                         .assign = assign<T>,
                                         .update = update<T>,
                                         .download = download_filtered<T>};
}  // namespace

LADDER_VARIANT(
        .id = "v30_filter_wgmma", .base = "v29_rank_selection",
        .idea = "the contest by products of warpgroups, looked at in halves of a tile; left rows gathered for v24's",
        .expect =
            "v27's labels at kmcuda on an H200 are 4.95 ms: a guess of 0.42 and a contest of 0.99 by mma.sync, 1.2 for "
            "left rows by v19's kernel. Warpgroups multiply twice as fast, and a look at a tile is one instruction for "
            "each product: 0.25 and 0.35; left rows 0.5. What remains is exact distances. A larger step: all of the "
            "kernels' ways to their operands are others, as in v23",
        .shows = "assign", .source = "this project; the ring and the products are v23_multicast's",
        .arithmetic = {.form = Arithmetic::Form::exact}, .devices = {DeviceKind::cuda},
        .axes = {{"width", {by_pilot, 0, 32, 48, 64, 96, 128}, by_pilot}}, .prunes = true, .refuse = refuse,
        .f32 = phases<float>, .f64 = phases<double>)
