// v26b: v26's algorithm by the instructions of v24. Its short rows, 2 to 8 steps of a product, are multiplied by whole
// warpgroups, three or four of which share the tensor cores without taking turns (parts/warpgroup_narrow.cuh); while
// one half of a tile of 64 x 128 products is under way, they look at the other, of which nearly all that is asked is
// one bit: is any product without its sign? Rows that few directions do not decide go v24c's way: they are gathered,
// and its kernel takes them as if there were no others. Labels cost less than anything else now, so the update is
// v25's, of what has moved.
//
// for cuda: 90a
#include "parts/gathered_rows.cuh"
#include "parts/update_moved.cuh"

// After them, as in the base: so that ladder diff shows what changed, not what moved.
#include "parts/warpgroup_contest.cuh"

namespace {
using namespace ladder;

template <class T>
struct Own {
  Rows<T> rows;
  CertifiedInGroups<T> warpgroup;
  Recheck refinement;
  Undecided undecided;
  Gathered gathered;
  MovedSums incremental;
  Few filter;
};

template <class T>
void prepare(Run<T, Own<T>>& s) {
  prepare_pinned(s);
  s.own.rows.points = s.x;
  prepare_in_groups<T, ByBoundColumns>(s);
  prepare_moved(s);
  prepare_gathered(s, wants_few(s));
  if (wants_few(s)) prepare_few(s, s.axis("width"), s.axis("width") == by_pilot);
}

template <class T>
void upload(Run<T, Own<T>>& s) {
  upload_rows(s);
  halve_points_in_groups<ByBoundColumns>(s);
  if (s.own.filter.directions.at) project_points(s, s.own.warpgroup.view, s.axis("width"));
  choose_format(s, s.x);
  upload_gathered(s);
}

template <class T>
void assign(Run<T, Own<T>>& s) {
  const auto& few = s.own.filter;
  if (few.width == 0) return assign_all(s);
  Doubts* const doubts = next_doubts(s);
  Contest* const contest = contest_of(s, doubts);
  assign_by_few<ByWarpgroups>(s, s.own.warpgroup.view, contest, doubts);
  assign_gathered(s, few.left, &contest->listed, doubts);
}

template <class T>
void update(Run<T, Own<T>>& s) {
  update_moved(s, s.x);
}

std::string refuse(const Shape& p, const Device& device, const Axes& axes) {
  const std::string why = refuse_width(p, axes);
  return why.empty() ? refuse_in_groups(p, device) : why;
}

template <class T>
constexpr Phases<T, Own<T>> phases{.prepare = prepare<T>,
                                   .upload = upload<T>,
                                   .restart = restart_contested<T>,
                                   .assign = assign<T>,
                                   .update = update<T>,
                                   .download = download_contested<T>};
}  // namespace

LADDER_VARIANT(
        .id = "v26b_warpgroups", .base = "v26_projected",
        .idea = "the contest by products of warpgroups, looked at in halves of a tile; left rows gathered for v24c's",
        .expect =
            "v26's labels at kmcuda on an H200 are 4.95 ms: a guess of 0.42 and a contest of 0.99 by mma.sync, 1.2 for "
            "left rows by v23's kernel. Warpgroups multiply twice as fast, and a look at a tile is one instruction for "
            "each product: 0.25 and 0.35; left rows 0.5. What remains is exact distances. A larger step: all of the "
            "kernels' ways to their operands are others, as in v24",
        .shows = "assign", .source = "this project; the ring and the products are v24_wgmma's",
        .arithmetic = {.form = Arithmetic::Form::exact}, .devices = {DeviceKind::cuda},
        .axes = {{"width", {by_pilot, 0, 32, 48, 64, 96, 128}, by_pilot}}, .prunes = true, .refuse = refuse,
        .f32 = phases<float>, .f64 = phases<double>)
