// v27: bounds from a few directions in place of all features. Points that lie near a subspace of some dozen dimensions,
// as most real ones do, are told apart there: x = P^T P x + rest, so x.c <= Px.Pc + |rest x| |rest c|, and a short row
// of halves, a tenth of v19's, holds all that a rigorous bound of every score needs (pruning/projection_bound.cuh;
// proofs in docs/certificate.md). First the greatest bound of each row gives a guess; its exact distance is known from
// one look at the point; then the same products again, that distance among them, so that their sign alone says which
// other centroids may be as near. Most rows have none: their guess is proven. The others' few are compared exactly.
// Rows with too many go the way of v19 and v25: all of them where points fill all directions alike. Which and how many
// directions is found on the device when the points arrive.
#include "../common/certified/assign_sm80.cuh"
#include "../common/update/incremental.cuh"

// After them, as in the base: so that ladder diff shows what changed, not what moved.
#include "../common/pruning/filter.cuh"

namespace {
using namespace ladder;

template <class T>
struct Workspace {
  Rows<T> rows;
  certified::Certified<T> certified;
  Refinement refinement;
  IncrementalSums incremental;
  ProjectionFilter filter;
};

template <class T>
void prepare(Run<T, Workspace<T>>& s) {
  prepare_pinned(s);
  s.ws.rows.points = s.x;
  prepare_certified(s);
  prepare_incremental(s);
  if (wants_filter(s)) prepare_filter(s, s.axis("width"), s.axis("width") == by_pilot);
}

template <class T>
void upload(Run<T, Workspace<T>>& s) {
  upload_rows(s);
  quantize_points(s);
  if (s.ws.filter.directions.at) project_points(s, s.ws.certified.view, s.axis("width"));
  choose_format(s, s.x);
}

template <class T>
void assign(Run<T, Workspace<T>>& s) {
  const auto& few = s.ws.filter;
  if (few.width == 0) return assign_certified(s);
  RefineCounters* const refine_counters = next_refine_counters(s);
  FilterCounters* const contest = next_filter_counters(s, refine_counters);
  assign_filtered(s, s.ws.certified.view, contest, refine_counters);
  assign_listed(s, few.left, &contest->listed, refine_counters);
}

template <class T>
void update(Run<T, Workspace<T>>& s) {
  update_incremental(s, s.x);
}

std::string refuse(const Shape& p, const Device& device, const Axes& axes) {
  const std::string why = refuse_width(p, axes);
  return why.empty() ? refuse_certified(p, device) : why;
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
        .id = "v29_rank_selection", .base = "v25_incremental_update",
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
