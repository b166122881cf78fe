// v26: bounds from a few directions in place of all features. Points that lie near a subspace of some dozen dimensions,
// as most real ones do, are told apart there: x = P^T P x + rest, so x.c <= Px.Pc + |rest x| |rest c|, and a short row
// of halves, a tenth of v23's, holds all that a rigorous bound of every score needs (parts/projected.cuh; proofs in
// docs/certificate.md). First the greatest bound of each row gives a guess; its exact distance is known from one look
// at the point; then the same products again, that distance among them, so that their sign alone says which other
// centroids may be as near. Most rows have none: their guess is proven. The others' few are compared exactly. Rows with
// too many go the way of v23 and v25: all of them where points fill all directions alike. Which and how many directions
// is found on the device when the points arrive.
#include "parts/assign_certified.cuh"
#include "parts/update_moved.cuh"

// After them, as in the base: so that ladder diff shows what changed, not what moved.
#include "parts/contest.cuh"

namespace {
using namespace ladder;

template <class T>
struct Own {
  Rows<T> rows;
  certified::Certified<T> certified;
  Recheck refinement;
  MovedSums incremental;
  Few filter;
};

template <class T>
void prepare(Run<T, Own<T>>& s) {
  prepare_pinned(s);
  s.own.rows.points = s.x;
  prepare_certified(s);
  prepare_moved(s);
  if (wants_few(s)) prepare_few(s, s.axis("width"), s.axis("width") == by_pilot);
}

template <class T>
void upload(Run<T, Own<T>>& s) {
  upload_rows(s);
  halve_points(s);
  if (s.own.filter.directions.at) project_points(s, s.own.certified.view, s.axis("width"));
  choose_format(s, s.x);
}

template <class T>
void assign(Run<T, Own<T>>& s) {
  const auto& few = s.own.filter;
  if (few.width == 0) return assign_certified(s);
  Doubts* const doubts = next_doubts(s);
  Contest* const contest = contest_of(s, doubts);
  assign_by_few(s, s.own.certified.view, contest, doubts);
  assign_listed(s, few.left, &contest->listed, doubts);
}

template <class T>
void update(Run<T, Own<T>>& s) {
  update_moved(s, s.x);
}

std::string refuse(const Shape& p, const Device& device, const Axes& axes) {
  const std::string why = refuse_width(p, axes);
  return why.empty() ? refuse_certified(p, device) : why;
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
        .id = "v26_projected", .base = "v25_delta_update",
        .idea = "rigorous bounds from a few principal directions; exact distances only for who they leave",
        .expect =
            "products of 32 to 128 columns in place of D, twice while many points move, else once, and one look at "
            "each point: 0.5 to 0.8 ms at kmcuda on an H200, an eighth of v25's labels, if its points lie near 30 "
            "dimensions, as embeddings do; v25's time where they fill all, and a few milliseconds of upload more. A "
            "new algorithm: v25's assignment remains for the rows that are left",
        .shows = "assign", .source = "this project: docs/certificate.md",
        .arithmetic = {.form = Arithmetic::Form::exact},
        .axes = {{"width", {by_pilot, 0, 32, 48, 64, 96, 128}, by_pilot}}, .prunes = true, .refuse = refuse,
        .f32 = phases<float>, .f64 = phases<double>)
